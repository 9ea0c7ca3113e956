//! Conversion of single values to and from columns. A value without a signed 64-bit form is refused
//! by name; an unknown value is null.

use std::time::Duration;

use ebb_telemetry::identity::{BootId, IdentityError, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::namespaces::Namespace;
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::step::{MemorySource, StepKind};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::Share;
use jiff::Timestamp;
use thiserror::Error;

/// An error in one value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ColumnError {
    /// Delta has no unsigned 64-bit type.
    #[error("{column} is {value}, more than the maximum of a signed 64-bit column")]
    TooLarge {
        /// The column.
        column: &'static str,
        /// The value.
        value: u128,
    },
    /// A stored number that no version of this lake writes.
    #[error("{column} is {value}, which is outside its range")]
    OutOfRange {
        /// The column.
        column: &'static str,
        /// The value.
        value: i64,
    },
    /// A word of a later version or of another program.
    #[error("{column} has the unknown value '{word}'")]
    UnknownWord {
        /// The column.
        column: &'static str,
        /// The word.
        word: String,
    },
    /// A value is missing although another column requires it.
    #[error("{column} is null, but another column requires it")]
    Missing {
        /// The column.
        column: &'static str,
    },
    /// An invalid name.
    #[error("{column} is not a valid name")]
    Name {
        /// The column.
        column: &'static str,
        /// The cause.
        source: IdentityError,
    },
}

type Column<T> = Result<T, ColumnError>;

pub(super) fn put(column: &'static str, value: u64) -> Column<i64> {
    i64::try_from(value).map_err(|_| ColumnError::TooLarge {
        column,
        value: u128::from(value),
    })
}

pub(super) fn put_some(column: &'static str, value: Option<u64>) -> Column<Option<i64>> {
    value.map(|v| put(column, v)).transpose()
}

pub(super) fn get(column: &'static str, value: i64) -> Column<u64> {
    u64::try_from(value).map_err(|_| ColumnError::OutOfRange { column, value })
}

pub(super) fn get_some(column: &'static str, value: Option<i64>) -> Column<Option<u64>> {
    value.map(|v| get(column, v)).transpose()
}

pub(super) fn put_clock(column: &'static str, clock: BootClock) -> Column<i64> {
    put(column, clock.as_nanos())
}

pub(super) fn get_clock(column: &'static str, value: i64) -> Column<BootClock> {
    get(column, value).map(BootClock::from_nanos)
}

pub(super) fn put_time(column: &'static str, time: Duration) -> Column<i64> {
    let value = time.as_nanos();
    i64::try_from(value).map_err(|_| ColumnError::TooLarge { column, value })
}

pub(super) fn get_time(column: &'static str, value: i64) -> Column<Duration> {
    get(column, value).map(Duration::from_nanos)
}

pub(super) fn put_span(column: &'static str, span: Option<Duration>) -> Column<Option<i64>> {
    span.map(|span| put_time(column, span)).transpose()
}

pub(super) fn get_span(column: &'static str, value: Option<i64>) -> Column<Option<Duration>> {
    value.map(|value| get_time(column, value)).transpose()
}

pub(super) fn put_share(share: Option<Share>) -> Option<i32> {
    // At most a million, so it always fits.
    share.and_then(|s| i32::try_from(s.ppm()).ok())
}

pub(super) fn get_share(column: &'static str, value: Option<i32>) -> Column<Option<Share>> {
    let share = |v: i32| match u32::try_from(v) {
        Ok(ppm) if ppm <= Share::ALL.ppm() => Ok(Share::from_ppm(ppm)),
        _ => Err(ColumnError::OutOfRange {
            column,
            value: i64::from(v),
        }),
    };
    value.map(share).transpose()
}

/// A number of a small type, from a column of a larger one.
pub(super) fn get_small<T, N>(column: &'static str, value: N) -> Column<T>
where
    T: TryFrom<N>,
    N: Copy + Into<i64>,
{
    T::try_from(value).map_err(|_| ColumnError::OutOfRange {
        column,
        value: value.into(),
    })
}

/// A time in microseconds, as lakes store it, and the remaining nanoseconds.
pub(super) struct Instant {
    pub(super) us: i64,
    pub(super) submicro_ns: i32,
}

const NS_PER_US: i128 = 1_000;
const US_PER_DAY: i64 = 86_400_000_000;

impl Instant {
    pub(super) fn of(at: Timestamp) -> Self {
        let ns = at.as_nanosecond();
        let fits = "a timestamp's range is 20,000 years, which is 2^60 microseconds";
        Self {
            us: i64::try_from(ns.div_euclid(NS_PER_US)).expect(fits),
            submicro_ns: i32::try_from(ns.rem_euclid(NS_PER_US)).expect("below 1,000"),
        }
    }

    pub(super) fn at(&self, column: &'static str) -> Column<Timestamp> {
        let ns = i128::from(self.us) * NS_PER_US + i128::from(self.submicro_ns);
        Timestamp::from_nanosecond(ns).map_err(|_| ColumnError::OutOfRange {
            column,
            value: self.us,
        })
    }

    /// Days since 1970-01-01, in UTC.
    pub(super) fn day(&self) -> i32 {
        i32::try_from(self.us.div_euclid(US_PER_DAY)).expect("20,000 years are 7.3 million days")
    }
}

macro_rules! names {
    ($($get:ident: $type:ident;)*) => {$(
        pub(super) fn $get(column: &'static str, name: String) -> Column<$type> {
            $type::new(name).map_err(|source| ColumnError::Name { column, source })
        }
    )*};
}

names! {
    get_node: NodeId;
    get_boot: BootId;
    get_probe_start: ProbeStart;
}

macro_rules! words {
    ($($put:ident, $get:ident: $type:ident { $($variant:ident = $word:literal,)+ })*) => {$(
        pub(super) fn $put(value: $type) -> String {
            match value { $($type::$variant => $word,)+ }.to_owned()
        }

        pub(super) fn $get(column: &'static str, word: &str) -> Column<$type> {
            match word {
                $($word => Ok($type::$variant),)+
                other => Err(ColumnError::UnknownWord { column, word: other.to_owned() }),
            }
        }
    )*};
}

words! {
    put_origin, get_origin: Origin {
        Measured = "measured",
        Simulated = "simulated",
    }
    put_kind, get_kind: StepKind {
        EcsTask = "ecs_task",
        Pod = "pod",
        Container = "container",
        SlurmJob = "slurm_job",
        NextflowTask = "nextflow_task",
        SnakemakeJob = "snakemake_job",
        Session = "session",
        Service = "service",
        Tree = "tree",
    }
    put_state, get_state: TaskState {
        Running = "running",
        Runnable = "runnable",
        PageFault = "page_fault",
        Disk = "disk",
        Network = "network",
        Pipe = "pipe",
        Poll = "poll",
        Timer = "timer",
        Lock = "lock",
        Child = "child",
        Other = "other",
    }
    put_namespace, get_namespace: Namespace {
        Mount = "mount",
        Pid = "pid",
        Network = "network",
        User = "user",
        Uts = "uts",
        Ipc = "ipc",
        Cgroup = "cgroup",
    }
    put_source, get_source: MemorySource {
        CgroupSampled = "cgroup_sampled",
        CgroupPeak = "cgroup_peak",
        ProcessesSampled = "processes_sampled",
        HighWaterAtExit = "high_water_at_exit",
        MaxRssUpperBound = "max_rss_upper_bound",
    }
}
