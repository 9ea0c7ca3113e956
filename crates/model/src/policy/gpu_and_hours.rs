//! Thresholds of idle GPUs and of recurring idle hours.

use serde::{Deserialize, Serialize};

/// Thresholds of idle GPUs on an active machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GpuPolicy {
    /// Seconds that GPUs may be idle while the CPU works. The default is two hours, which is longer
    /// than the preparation of data between two trainings.
    pub idle_after_seconds: u64,
    /// Bytes of allocated GPU memory that count as used by a process. The default of 256 MiB is
    /// more than a driver and a display server allocate.
    pub held_bytes: u64,
}

impl Default for GpuPolicy {
    fn default() -> Self {
        Self {
            idle_after_seconds: 2 * 3600,
            held_bytes: 256 << 20,
        }
    }
}

/// Thresholds of recurring idle hours in the last 14 days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct HoursPolicy {
    /// Share of the hours of two weeks that must be observed, in parts per million. The default of
    /// 85 % is reached after thirteen days.
    pub seen_ppm: u32,
    /// Share of the used hours that must be used in both weeks, in parts per million. Below this
    /// share the use does not recur, and no schedule is recommended.
    pub recurring_ppm: u32,
    /// Minimum number of consecutive hours for switching a node off. The default is 4, because
    /// starting and stopping take time.
    pub least_off: u32,
    /// Minimum number of hours in a week without the node. The default is a third of the week.
    pub least_off_a_week: u32,
    /// CPU use of all cores in 95 % of the hours of a week, in parts per million. Below this value
    /// the node is underutilized. The default is 10 %.
    pub low_p95_ppm: u32,
    /// Number of earlier idle periods that make the present one usual. The periods are on the last
    /// day, or at the same hours of the last days. The default is 3, because two may be a
    /// coincidence.
    pub times_alike: u32,
    /// Seconds by which an idle period may begin earlier or end later than that of each earlier day
    /// with which it is compared. The default is three hours.
    pub early_or_late_seconds: u32,
}

impl Default for HoursPolicy {
    fn default() -> Self {
        Self {
            seen_ppm: 850_000,
            recurring_ppm: 800_000,
            least_off: 4,
            least_off_a_week: 56,
            low_p95_ppm: 100_000,
            times_alike: 3,
            early_or_late_seconds: 3 * 3600,
        }
    }
}
