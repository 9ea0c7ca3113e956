//! The cost of a pipeline run, by sample and next to the usual cost of its pipeline.

use std::fmt;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// The cost of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunCost {
    /// The used and the unused cost.
    #[serde(rename = "total_usd")]
    pub total: Usd,
    /// The part of the machines that the tasks occupied.
    #[serde(rename = "used_usd")]
    pub used: Usd,
    /// The part of the used cost of tasks that failed.
    #[serde(rename = "failed_usd")]
    pub failed: Usd,
    /// The tasks' part of what no task occupied while they ran.
    #[serde(rename = "unused_usd")]
    pub unused: Usd,
    /// The total for each sample; `None` if no sample is known.
    #[serde(rename = "per_sample_usd")]
    pub per_sample: Option<Usd>,
    /// The total for each 10^9 bytes that the tasks read from disks; `None` if a task without this
    /// number ran, or nothing was read.
    #[serde(rename = "per_gb_read_usd")]
    pub per_gb_read: Option<Usd>,
    /// The usual cost of its pipeline; `None` while the run is running, and with fewer than three
    /// earlier runs.
    pub usual: Option<UsualCost>,
}

/// The cost of the run with the median cost among the earlier runs of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsualCost {
    /// The name of that run.
    pub run: String,
    /// The number of earlier runs with a known cost.
    pub earlier_runs: usize,
    /// Its cost.
    #[serde(rename = "total_usd")]
    pub total: Usd,
    /// Why the new run costs more or less, the largest amount first. The amounts add up to the
    /// difference.
    pub causes: Vec<CostCause>,
}

/// A part of a difference of costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostCause {
    /// The cause.
    pub kind: CauseKind,
    /// The amount that it adds to the cost; negative if it saves.
    #[serde(rename = "usd")]
    pub amount: Usd,
}

/// A cause of a difference of costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The number of successful tasks.
    Tasks,
    /// Their average duration.
    Duration,
    /// The price of an hour of a task: of its machine, and its part of it.
    Price,
    /// Tasks that failed.
    FailedTasks,
    /// Capacity that no task occupied while the run had tasks.
    Unused,
}

impl fmt::Display for CostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_more = self.amount >= Usd::ZERO;
        f.pad(match (self.kind, is_more) {
            (CauseKind::Tasks, true) => "more tasks",
            (CauseKind::Tasks, false) => "fewer tasks",
            (CauseKind::Duration, true) => "longer tasks",
            (CauseKind::Duration, false) => "shorter tasks",
            (CauseKind::Price, true) => "dearer machines or larger parts of them",
            (CauseKind::Price, false) => "cheaper machines or smaller parts of them",
            (CauseKind::FailedTasks, true) => "more failed tasks",
            (CauseKind::FailedTasks, false) => "fewer failed tasks",
            (CauseKind::Unused, true) => "more unused capacity",
            (CauseKind::Unused, false) => "less unused capacity",
        })
    }
}

impl RunCost {
    /// The difference to the usual cost in per cent of it, rounded; `None` if there is no usual cost.
    pub fn percent_of_usual(&self) -> Option<i64> {
        let usual = self.usual.as_ref()?.total.micros();
        let difference = i128::from(self.total.micros()) - i128::from(usual);
        let percent = (difference * 100).checked_div(i128::from(usual))?;
        i64::try_from(percent).ok()
    }
}
