//! Thresholds of idle nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_telemetry::units::Share;
use serde::{Deserialize, Serialize};

/// When a node is idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct IdlePolicy {
    /// Seconds without activity before a node is called idle. Half an hour: longer
    /// than a coffee, far shorter than the days that averages need.
    pub after_seconds: u64,
    /// The share of the window that must have been seen, in parts per million;
    /// below it the verdict is undetermined.
    pub min_coverage_ppm: u32,
    /// A node with one of these tags is meant to stand by: `key` or `key=value`.
    pub standby_tags: BTreeSet<String>,
    /// True to judge machines with GPUs whose GPUs nobody watches.
    pub judge_unwatched_gpus: bool,
    /// A node that works in less than this share of a day's minutes, in parts per
    /// million, is of low duty: 5 %, a little more than an hour.
    pub low_duty_ppm: u32,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self {
            after_seconds: 30 * 60,
            min_coverage_ppm: 950_000,
            standby_tags: BTreeSet::from(["ebb:standby=true".to_owned()]),
            judge_unwatched_gpus: false,
            low_duty_ppm: 50_000,
        }
    }
}

impl IdlePolicy {
    /// Time without activity before a node is called idle.
    pub fn after(&self) -> Duration {
        Duration::from_secs(self.after_seconds)
    }

    /// The share of the window that must have been seen.
    pub fn min_coverage(&self) -> Share {
        Share::from_ppm(self.min_coverage_ppm)
    }
}
