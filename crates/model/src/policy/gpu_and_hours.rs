//! When a machine is more than its work needs: its GPUs and its hours.

use serde::{Deserialize, Serialize};

/// When GPUs are idle on a machine that works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GpuPolicy {
    /// Seconds for which GPUs may compute nothing while the cores work: two hours, past
    /// what loading and preparing data takes between two trainings.
    pub idle_after_seconds: u64,
    /// Bytes of GPU memory that are somebody's: 256 MiB, above what a driver and a
    /// display server hold by themselves.
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

/// When hours of the week are off, by a fortnight's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct HoursPolicy {
    /// The share of the hours of the week that must have been seen in two weeks, in
    /// parts per million: 85 %, which thirteen days contain whatever the hour of the last one.
    pub seen_ppm: u32,
    /// The share of its used hours that must have been used in two weeks, in parts per
    /// million: below it its use does not recur, and no schedule fits.
    pub recurring_ppm: u32,
    /// Hours in a row that are worth switching off: four, since starting and stopping
    /// take a while and people forget.
    pub least_off: u32,
    /// Hours of a week that a schedule must spare at least: a third of them.
    pub least_off_a_week: u32,
    /// The share of all cores that 95 % of a week's hours never use more of, in parts
    /// per million, for a node to be of low duty: 10 %.
    pub low_p95_ppm: u32,
    /// How many rests of the last day, or last days with the same hours, make the
    /// present rest of a node usual: three, since twice may be chance.
    pub times_alike: u32,
    /// Seconds by which work may end earlier or begin later than on those days: an
    /// eighth of a day, since nobody comes and goes by the minute.
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
