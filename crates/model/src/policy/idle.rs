//! Thresholds of idle nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_telemetry::units::Share;
use serde::{Deserialize, Serialize};

/// Thresholds of idle nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct IdlePolicy {
    /// Seconds without activity before a node is idle. The default of 30 minutes is longer than a
    /// short break, and much shorter than the days that averages need.
    pub after_seconds: u64,
    /// Share of the window that must be observed, in parts per million. Below it, the node is not
    /// evaluated.
    pub min_coverage_ppm: u32,
    /// Tags of nodes that are meant to stand by: `key` or `key=value`.
    pub standby_tags: BTreeSet<String>,
    /// Whether to evaluate nodes with GPUs that are not observed.
    #[serde(alias = "judge_unwatched_gpus")]
    pub evaluate_unwatched_gpus: bool,
    /// Share of the minutes of a day in which a node is active, in parts per million. Below it, the
    /// node is underutilized. The default is 5 %, a little more than one hour.
    #[serde(alias = "low_duty_ppm")]
    pub underutilized_ppm: u32,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self {
            after_seconds: 30 * 60,
            min_coverage_ppm: 950_000,
            standby_tags: BTreeSet::from(["ebb:standby=true".to_owned()]),
            evaluate_unwatched_gpus: false,
            underutilized_ppm: 50_000,
        }
    }
}

impl IdlePolicy {
    /// See [`Self::after_seconds`].
    pub fn after(&self) -> Duration {
        Duration::from_secs(self.after_seconds)
    }

    /// See [`Self::min_coverage_ppm`].
    pub fn min_coverage(&self) -> Share {
        Share::from_ppm(self.min_coverage_ppm)
    }
}
