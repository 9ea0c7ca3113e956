//! Conversion of single values to and from columns. A value without a signed 64-bit form is refused
//! by name; an unknown value is null.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::confidence::Level;
use ebb_model::cost::PriceBasis;
use ebb_model::cost_record::CostUse;
use ebb_model::finding::Finding;
use ebb_telemetry::identity::{AccountId, BootId, IdentityError, NodeId, ProbeStart};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::namespaces::{Namespace, Namespaces};
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::step::{MemorySource, PeerScope, StepKind};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use thiserror::Error;

/// An error in one column.
#[derive(Debug, Error)]
#[error("{column} {error}")]
pub struct ColumnError {
    /// The path of the column within the row, such as `detail.gpu.held_ns`.
    pub column: String,
    /// The error in its value.
    pub error: ValueError,
}

/// An error in a value. The text follows the name of the column.
#[derive(Debug, Error)]
pub enum ValueError {
    /// Delta has no unsigned 64-bit type.
    #[error("is {0}, more than the maximum of a signed 64-bit column")]
    TooLarge(u128),
    /// A stored number that no version of this lake writes.
    #[error("is {0}, which is outside its range")]
    OutOfRange(i64),
    /// A word of a later version or of another program.
    #[error("has the unknown value '{0}'")]
    UnknownWord(String),
    /// A value is missing although another column requires it.
    #[error("is null, but another column requires it")]
    Missing,
    /// An invalid name.
    #[error("is not a valid name: {0}")]
    Name(IdentityError),
    /// Not the JSON of a finding.
    #[error("cannot be converted to or from JSON: {0}")]
    Json(serde_json::Error),
}

impl From<ValueError> for ColumnError {
    fn from(error: ValueError) -> Self {
        let column = String::new();
        Self { column, error }
    }
}

impl ColumnError {
    /// The same error, seen from the row that has `column`.
    pub(super) fn within(mut self, column: &str) -> Self {
        let inner = std::mem::replace(&mut self.column, column.to_owned());
        if !inner.is_empty() {
            self.column.push('.');
            self.column.push_str(&inner);
        }
        self
    }
}

/// A value that has one column.
pub(crate) trait Column: Sized {
    /// The form in which it is stored.
    type Stored;
    /// Whether the column is a UTC timestamp in microseconds, which is stored as a number.
    const IS_TIMESTAMP: bool = false;
    /// Whether the column may be null.
    const IS_NULLABLE: bool = false;

    /// Fails if the column cannot hold the value.
    fn put(&self) -> Result<Self::Stored, ColumnError>;
    /// Fails if no value is stored in this way.
    fn get(stored: Self::Stored) -> Result<Self, ColumnError>;
}

pub(super) fn put_column<T: Column>(name: &str, value: &T) -> Result<T::Stored, ColumnError> {
    value.put().map_err(|error| error.within(name))
}

pub(super) fn get_column<T: Column>(name: &str, stored: T::Stored) -> Result<T, ColumnError> {
    T::get(stored).map_err(|error| error.within(name))
}

/// A value that has several columns.
pub(super) trait Parts: Sized {
    /// A tuple with one value for each column.
    type Values;

    fn split(&self) -> Self::Values;
    /// The error contains the index of the value with the error.
    fn join(values: Self::Values) -> Result<Self, (usize, ValueError)>;
}

pub(super) fn join_columns<T: Parts>(names: &[&str], values: T::Values) -> Result<T, ColumnError> {
    T::join(values).map_err(|(index, error)| ColumnError::from(error).within(names[index]))
}

fn put_long(value: impl Into<u128>) -> Result<i64, ValueError> {
    let value = value.into();
    i64::try_from(value).map_err(|_| ValueError::TooLarge(value))
}

fn get_number<T, S: Copy + Into<i64>>(stored: S) -> Result<T, ValueError>
where
    T: TryFrom<S>,
{
    T::try_from(stored).map_err(|_| ValueError::OutOfRange(stored.into()))
}

fn get_share(ppm: i32) -> Result<Share, ValueError> {
    match get_number(ppm)? {
        known if known <= Share::ALL.ppm() => Ok(Share::from_ppm(known)),
        _ => Err(ValueError::OutOfRange(ppm.into())),
    }
}

/// Types of values with the type that stores them, and the conversion to and from it.
macro_rules! stored_as {
    ($($type:ty: $stored:ty, $put:expr, $get:expr;)+) => {$(
        impl Column for $type {
            type Stored = $stored;

            fn put(&self) -> Result<$stored, ColumnError> {
                let put: fn(&Self) -> Result<$stored, ValueError> = $put;
                Ok(put(self)?)
            }

            fn get(stored: $stored) -> Result<Self, ColumnError> {
                let get: fn($stored) -> Result<Self, ValueError> = $get;
                Ok(get(stored)?)
            }
        }
    )+};
}

stored_as! {
    bool: bool, |is| Ok(*is), Ok;
    u8: i32, |n| Ok((*n).into()), get_number;
    u16: i32, |n| Ok((*n).into()), get_number;
    u32: i64, |n| Ok((*n).into()), get_number;
    u64: i64, |n| put_long(*n), get_number;
    Bytes: i64, |bytes| put_long(bytes.0), |n| get_number(n).map(Bytes);
    CpuTime: i64, |time| put_long(time.0), |n| get_number(n).map(CpuTime);
    MilliCores: i64, |cores| put_long(cores.0), |n| get_number(n).map(MilliCores);
    BootClock: i64, |clock| put_long(clock.as_nanos()), |n| get_number(n).map(BootClock::from_nanos);
    Duration: i64, |time| put_long(time.as_nanos()), |n| get_number(n).map(Duration::from_nanos);
    UsdPerHour: i64, |price| Ok(price.0.micros()), |micros| Ok(UsdPerHour::from_micros(micros));
    Usd: i64, |usd| Ok(usd.micros()), |micros| Ok(Usd::from_micros(micros));
    Share: i32, |share| Ok(i32::try_from(share.ppm()).expect("at most a million")), get_share;
    String: String, |text| Ok(text.clone()), Ok;
    NodeId: String, |name| Ok(name.to_string()), |name| NodeId::new(name).map_err(ValueError::Name);
    AccountId: String, |name| Ok(name.to_string()),
        |name| AccountId::new(name).map_err(ValueError::Name);
    BootId: String, |name| Ok(name.to_string()), |name| BootId::new(name).map_err(ValueError::Name);
    ProbeStart: String, |name| Ok(name.to_string()),
        |name| ProbeStart::new(name).map_err(ValueError::Name);
    Finding: String, |finding| serde_json::to_string(finding).map_err(ValueError::Json),
        |json| serde_json::from_str(&json).map_err(ValueError::Json);
}

impl<T: Column> Column for Option<T> {
    type Stored = Option<T::Stored>;
    const IS_TIMESTAMP: bool = T::IS_TIMESTAMP;
    const IS_NULLABLE: bool = true;

    fn put(&self) -> Result<Self::Stored, ColumnError> {
        self.as_ref().map(T::put).transpose()
    }

    fn get(stored: Self::Stored) -> Result<Self, ColumnError> {
        stored.map(T::get).transpose()
    }
}

impl<T: Column> Column for Box<T> {
    type Stored = T::Stored;

    fn put(&self) -> Result<Self::Stored, ColumnError> {
        T::put(self)
    }

    fn get(stored: Self::Stored) -> Result<Self, ColumnError> {
        T::get(stored).map(Self::new)
    }
}

impl<T: Column> Column for Vec<T> {
    type Stored = Vec<T::Stored>;

    fn put(&self) -> Result<Self::Stored, ColumnError> {
        self.iter().map(T::put).collect()
    }

    fn get(stored: Self::Stored) -> Result<Self, ColumnError> {
        stored.into_iter().map(T::get).collect()
    }
}

/// An entry of a map, whose fields are the key and the value.
#[derive(Debug)]
pub(crate) struct Entry<K, V>(pub(super) K, pub(super) V);

impl<K, V> Column for BTreeMap<K, V>
where
    K: Clone + Ord,
    V: Clone,
    Entry<K, V>: Column,
{
    type Stored = Vec<<Entry<K, V> as Column>::Stored>;

    fn put(&self) -> Result<Self::Stored, ColumnError> {
        let entry = |(key, value): (&K, &V)| Entry(key.clone(), value.clone()).put();
        self.iter().map(entry).collect()
    }

    fn get(stored: Self::Stored) -> Result<Self, ColumnError> {
        let entry = |stored| Entry::get(stored).map(|Entry(key, value)| (key, value));
        stored.into_iter().map(entry).collect()
    }
}

impl Column for Namespaces {
    type Stored = Vec<String>;

    fn put(&self) -> Result<Self::Stored, ColumnError> {
        self.kinds().map(|kind| kind.put()).collect()
    }

    fn get(stored: Self::Stored) -> Result<Self, ColumnError> {
        stored.into_iter().map(Namespace::get).collect()
    }
}

/// A time in microseconds since 1970, as lakes store it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Micros(pub(super) i64);

impl Column for Micros {
    type Stored = i64;
    const IS_TIMESTAMP: bool = true;

    fn put(&self) -> Result<i64, ColumnError> {
        Ok(self.0)
    }

    fn get(stored: i64) -> Result<Self, ColumnError> {
        Ok(Self(stored))
    }
}

/// A UTC day, as the time at which it begins.
impl Column for Date {
    type Stored = i64;
    const IS_TIMESTAMP: bool = true;

    fn put(&self) -> Result<i64, ColumnError> {
        let days = i64::from(days_since_1970(*self));
        Ok(days * US_PER_DAY)
    }

    fn get(stored: i64) -> Result<Self, ColumnError> {
        let begin = Timestamp::from_microsecond(stored);
        let begin = begin.map_err(|_| ValueError::OutOfRange(stored))?;
        Ok(begin.to_zoned(TimeZone::UTC).date())
    }
}

/// The number of a UTC day, from 1970-01-01.
pub(super) fn days_since_1970(date: Date) -> i32 {
    let first = Date::constant(1970, 1, 1);
    date.since(first).map_or(0, |span| span.get_days())
}

const NS_PER_US: i128 = 1_000;
const US_PER_DAY: i64 = 86_400_000_000;

/// The microseconds, and the remaining nanoseconds.
impl Parts for Timestamp {
    type Values = (Micros, u16);

    fn split(&self) -> Self::Values {
        let ns = self.as_nanosecond();
        let fits = "a timestamp's range is 20,000 years, which is 2^60 microseconds";
        let us = i64::try_from(ns.div_euclid(NS_PER_US)).expect(fits);
        let submicro_ns = u16::try_from(ns.rem_euclid(NS_PER_US)).expect("below 1,000");
        (Micros(us), submicro_ns)
    }

    fn join((us, submicro_ns): Self::Values) -> Result<Self, (usize, ValueError)> {
        let ns = i128::from(us.0) * NS_PER_US + i128::from(submicro_ns);
        Self::from_nanosecond(ns).map_err(|_| (0, ValueError::OutOfRange(us.0)))
    }
}

/// Days since 1970-01-01, in UTC.
pub(super) fn day(at: Timestamp) -> i32 {
    let (us, _) = at.split();
    i32::try_from(us.0.div_euclid(US_PER_DAY)).expect("20,000 years are 7.3 million days")
}

/// Values that are stored as a word.
macro_rules! words {
    ($($type:ident { $($variant:ident = $word:literal,)+ })*) => {$(
        impl Column for $type {
            type Stored = String;

            fn put(&self) -> Result<String, ColumnError> {
                Ok(match self { $(Self::$variant => $word,)+ }.to_owned())
            }

            fn get(word: String) -> Result<Self, ColumnError> {
                match word.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(ValueError::UnknownWord(word).into()),
                }
            }
        }
    )*};
}

words! {
    Origin {
        Measured = "measured",
        Simulated = "simulated",
    }
    StepKind {
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
    TaskState {
        Running = "running",
        Runnable = "runnable",
        PageFault = "page_fault",
        Disk = "disk",
        RemoteFileSystem = "remote_file_system",
        Network = "network",
        Pipe = "pipe",
        Poll = "poll",
        Timer = "timer",
        Lock = "lock",
        Child = "child",
        Other = "other",
    }
    Namespace {
        Mount = "mount",
        Pid = "pid",
        Network = "network",
        User = "user",
        Uts = "uts",
        Ipc = "ipc",
        Cgroup = "cgroup",
    }
    PeerScope {
        LinkLocal = "link_local",
        Private = "private",
        Public = "public",
    }
    MemorySource {
        CgroupSampled = "cgroup_sampled",
        CgroupPeak = "cgroup_peak",
        ProcessesSampled = "processes_sampled",
        HighWaterAtExit = "high_water_at_exit",
        MaxRssUpperBound = "max_rss_upper_bound",
    }
    CostUse {
        Task = "task",
        FailedTask = "failed_task",
        Unused = "unused",
        Findings = "findings",
        OtherWork = "other_work",
        Idle = "idle",
        Unwatched = "unwatched",
        Elsewhere = "elsewhere",
        Rounding = "rounding",
    }
    Level {
        Low = "low",
        Medium = "medium",
        High = "high",
    }
    PriceBasis {
        Bill = "bill",
        Stated = "stated",
        CommandLine = "command_line",
        ListPrice = "list_price",
        SpotPrice = "spot_price",
        ListPriceAsUpperBound = "list_price_as_upper_bound",
    }
}
