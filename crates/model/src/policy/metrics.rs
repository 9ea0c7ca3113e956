//! How nodes without a probe are evaluated on metrics, and what requesting metrics may cost.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_telemetry::units::Share;
use serde::{Deserialize, Serialize};

/// How nodes without a probe are evaluated on metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MetricsPolicy {
    /// Seconds without activity in its metrics before a node is called idle: six hours. A
    /// sample of five minutes hides short work, so more of them are required than with a probe.
    pub idle_after_seconds: u64,
    /// Seconds without activity before a node is called idle if it worked earlier in its
    /// metrics: a day, so that every hour of the day was seen idle.
    pub worked_before_seconds: u64,
    /// The chance that a node in use misses so many of its working days, in parts per million,
    /// below which it is called idle although it paused for longer before: 1 %. After a week
    /// without a miss that takes two days, because one may be a holiday.
    pub missed_days_ppm: u32,
    /// Seconds without activity before a node is called idle if its metrics show no week
    /// before its last work: three days, longer than a weekend.
    pub unknown_week_seconds: u64,
    /// CPU of the whole machine below which a sample is idle, in parts per million: 5 %,
    /// Compute Optimizer's limit.
    pub cpu_floor_ppm: u32,
    /// Disk bytes a minute below which a sample is idle: 10 MB. Metrics include the system's
    /// own logs, caches and virus scans, so the limit is higher than with a probe.
    pub disk_floor_bytes: u64,
    /// Network bytes a day up to which a node without CPU activity counts as unused, whatever
    /// single samples show: 5 MB, Compute Optimizer's limit.
    pub unused_network_bytes_a_day: u64,
    /// CPU of the whole machine below which a short burst may be housekeeping (updates, log
    /// rotation, an agent) and not work, in parts per million: 15 %, three times the limit of idle.
    pub housekeeping_cpu_ppm: u32,
    /// Seconds that a burst of housekeeping may last: a quarter of an hour.
    pub housekeeping_seconds: u64,
    /// Short weak bursts a day, on average, above which all of them count as work and not as
    /// housekeeping: two.
    pub housekeeping_a_day: u32,
    /// Memory in use, in parts per million, above which an idle node is not called idle yet:
    /// half, more than a system without work uses. 1000000 switches this off.
    pub memory_floor_ppm: u32,
    /// Seconds without activity after which memory in use no longer prevents the finding: two
    /// days. What nobody reads or asks for in two days is not needed now.
    pub memory_held_seconds: u64,
    /// The percentile of its CPU samples that a node is sized by, in parts per million:
    /// 99.5 %, Compute Optimizer's default. The headroom is that of `[sizing]`.
    pub size_percentile_ppm: u32,
    /// CPU of the whole machine from which a sample counts as full, in parts per million:
    /// 90 %.
    pub full_cpu_ppm: u32,
    /// The share of samples with full CPU from which a node is too small, in parts per
    /// million: 20 %, as for threads that wait for a core.
    pub full_share_ppm: u32,
    /// Memory in use in 95 % of the samples from which a node is too small, in parts per
    /// million: 90 %.
    pub full_memory_ppm: u32,
    /// Days of hourly metrics that are requested for a node the first time: 14, in which each
    /// hour of the week occurs twice. 0 requests none.
    pub history_days: u32,
    /// What paid API calls may cost a day, in millionths of a dollar.
    pub paid_calls_usd_micros_a_day: i64,
    /// Cost allocation tags by which the bill is divided too, such as `Project`; each
    /// is a request of a cent more, four times a day.
    pub cost_tags: BTreeSet<String>,
}

impl Default for MetricsPolicy {
    fn default() -> Self {
        Self {
            idle_after_seconds: 6 * 3600,
            worked_before_seconds: 24 * 3600,
            missed_days_ppm: 10_000,
            unknown_week_seconds: 72 * 3600,
            cpu_floor_ppm: 50_000,
            disk_floor_bytes: 10_000_000,
            unused_network_bytes_a_day: 5_000_000,
            housekeeping_cpu_ppm: 150_000,
            housekeeping_seconds: 15 * 60,
            housekeeping_a_day: 2,
            memory_floor_ppm: 500_000,
            memory_held_seconds: 48 * 3600,
            size_percentile_ppm: 995_000,
            full_cpu_ppm: 900_000,
            full_share_ppm: 200_000,
            full_memory_ppm: 900_000,
            history_days: 14,
            paid_calls_usd_micros_a_day: 1_000_000,
            cost_tags: BTreeSet::new(),
        }
    }
}

impl MetricsPolicy {
    /// See [`Self::idle_after_seconds`].
    pub fn idle_after(&self) -> Duration {
        Duration::from_secs(self.idle_after_seconds)
    }

    /// See [`Self::worked_before_seconds`].
    pub fn worked_before(&self) -> Duration {
        Duration::from_secs(self.worked_before_seconds)
    }

    /// See [`Self::unknown_week_seconds`].
    pub fn unknown_week(&self) -> Duration {
        Duration::from_secs(self.unknown_week_seconds)
    }

    /// See [`Self::housekeeping_seconds`].
    pub fn housekeeping(&self) -> Duration {
        Duration::from_secs(self.housekeeping_seconds)
    }

    /// See [`Self::memory_held_seconds`].
    pub fn memory_held(&self) -> Duration {
        Duration::from_secs(self.memory_held_seconds)
    }

    /// The time of which hourly metrics are requested first.
    pub fn history(&self) -> Duration {
        Duration::from_secs(u64::from(self.history_days) * 86_400)
    }

    /// See [`Self::cpu_floor_ppm`].
    pub fn cpu_floor(&self) -> Share {
        Share::from_ppm(self.cpu_floor_ppm)
    }

    /// See [`Self::housekeeping_cpu_ppm`].
    pub fn housekeeping_cpu(&self) -> Share {
        Share::from_ppm(self.housekeeping_cpu_ppm)
    }

    /// See [`Self::memory_floor_ppm`].
    pub fn memory_floor(&self) -> Share {
        Share::from_ppm(self.memory_floor_ppm)
    }

    /// See [`Self::full_cpu_ppm`].
    pub fn full_cpu(&self) -> Share {
        Share::from_ppm(self.full_cpu_ppm)
    }

    /// See [`Self::full_share_ppm`].
    pub fn full_share(&self) -> Share {
        Share::from_ppm(self.full_share_ppm)
    }

    /// See [`Self::full_memory_ppm`].
    pub fn full_memory(&self) -> Share {
        Share::from_ppm(self.full_memory_ppm)
    }
}
