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
    /// Seconds without activity in the metrics before a node is idle. The default is six hours. A
    /// sample of five minutes hides short work, so the time is longer than with a probe.
    pub idle_after_seconds: u64,
    /// Seconds without activity before a node is idle if its metrics contain earlier activity. The
    /// default is one day, so that each hour of the day was observed as idle.
    pub worked_before_seconds: u64,
    /// Probability, in parts per million, that a node in use is inactive on this many of its usual
    /// working days. Below it, the node is idle in spite of longer pauses before. The default is
    /// 1 %. After a week without a missed day this takes two days, because one may be a holiday.
    pub missed_days_ppm: u32,
    /// Seconds without activity before a node is idle if its metrics contain less than a week
    /// before its last activity. The default is three days, which is longer than a weekend.
    pub unknown_week_seconds: u64,
    /// CPU use of the whole machine below which a sample is idle, in parts per million: 5 %, the
    /// limit of Compute Optimizer.
    pub cpu_floor_ppm: u32,
    /// Disk bytes a minute below which a sample is idle: 10 MB. Metrics include logs, caches and
    /// virus scans of the system, so the limit is higher than with a probe.
    pub disk_floor_bytes: u64,
    /// Network bytes a day up to which a node without CPU activity is unused, regardless of single
    /// samples: 5 MB, the limit of Compute Optimizer.
    pub unused_network_bytes_a_day: u64,
    /// CPU use of the whole machine below which a short burst may be housekeeping and not work, in
    /// parts per million. Housekeeping is updates, log rotation or an agent. The default is 15 %,
    /// three times the limit of idle.
    pub housekeeping_cpu_ppm: u32,
    /// Maximum duration of a burst of housekeeping in seconds.
    pub housekeeping_seconds: u64,
    /// Average number of short bursts a day. Above it, all bursts count as work.
    pub housekeeping_a_day: u32,
    /// Memory in use, in parts per million, above which a node without activity is not idle yet.
    /// The default of 50 % is more than a system without work uses. 1000000 switches this off.
    pub memory_floor_ppm: u32,
    /// Seconds without activity after which memory in use no longer prevents the finding. The
    /// default is two days.
    pub memory_held_seconds: u64,
    /// Percentile of the CPU samples for the size of a node, in parts per million: 99.5 %, the
    /// default of Compute Optimizer. The headroom is in `[sizing]`.
    pub size_percentile_ppm: u32,
    /// CPU use of the whole machine from which a sample counts as full, in parts per million.
    pub full_cpu_ppm: u32,
    /// Share of samples with full CPU from which a node is too small, in parts per million. The
    /// default of 20 % is also the limit for threads that wait for a core.
    pub full_share_ppm: u32,
    /// Memory use from which a node is too small, in parts per million. The 95th percentile of the
    /// samples must reach it.
    pub full_memory_ppm: u32,
    /// Days of hourly metrics in the first request for a node. In the default of 14 days, each hour
    /// of the week occurs twice. 0 requests none.
    pub history_days: u32,
    /// Maximum cost of API calls a day, in millionths of a dollar.
    pub paid_calls_usd_micros_a_day: i64,
    /// Cost allocation tags that divide the bill, such as `Project`. Each tag needs one more
    /// request of $0.01, twice a day.
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
