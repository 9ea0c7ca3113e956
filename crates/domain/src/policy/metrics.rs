//! How metrics of the cloud are judged, and what asking for them may cost.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::Share;

/// How nodes without a probe are judged on metrics of the cloud.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsPolicy {
    /// Seconds of quiet metrics before a node is called idle. Six hours: averages
    /// over five minutes hide short work, so more of them are asked for.
    pub idle_after_seconds: u64,
    /// CPU of the whole machine below which a period is quiet, in parts per
    /// million: 5 %, Compute Optimizer's bound.
    pub cpu_floor_ppm: u32,
    /// Memory in use, in parts per million, from which on quiet metrics do not make a node
    /// idle: half, which no system without work holds; what does may be needed. 1000000
    /// to ask for the rest alone.
    pub memory_floor_ppm: u32,
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
            cpu_floor_ppm: 50_000,
            memory_floor_ppm: 500_000,
            paid_calls_usd_micros_a_day: 1_000_000,
            cost_tags: BTreeSet::new(),
        }
    }
}

impl MetricsPolicy {
    /// Time of quiet metrics before a node is called idle.
    pub fn idle_after(&self) -> Duration {
        Duration::from_secs(self.idle_after_seconds)
    }

    /// CPU of the whole machine below which a period is quiet.
    pub fn cpu_floor(&self) -> Share {
        Share::from_ppm(self.cpu_floor_ppm)
    }

    /// Memory in use from which on quiet metrics do not make a node idle.
    pub fn memory_floor(&self) -> Share {
        Share::from_ppm(self.memory_floor_ppm)
    }
}
