//! One day of the bill, divided by the use of the machines.

use std::collections::BTreeMap;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// One day of the bill by use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BilledDayShares {
    /// `YYYY-MM-DD`, UTC.
    pub day: String,
    /// True while the cloud provider may still change the cost of this day.
    pub estimated: bool,
    /// The cost of the day; the sum of the seven fields below.
    #[serde(rename = "billed_usd", alias = "billed")]
    pub billed: Usd,
    /// The share of the machines that tasks occupied.
    #[serde(rename = "steps_usd", alias = "steps")]
    pub steps: Usd,
    /// Waste on machines that findings report, at times without a task.
    #[serde(rename = "findings_usd", alias = "findings")]
    pub findings: Usd,
    /// Time in which a machine was active without a task or finding: services and login sessions.
    #[serde(rename = "other_work_usd", alias = "other_work")]
    pub other_work: Usd,
    /// All other time that a probe observed.
    #[serde(rename = "idle_usd", alias = "idle")]
    pub idle: Usd,
    /// Time without a probe, if no finding covers it.
    #[serde(rename = "unwatched_usd", alias = "unwatched")]
    pub unwatched: Usd,
    /// Cost that belongs to no known machine, mostly other services. This cost and `unwatched` are
    /// unallocated.
    #[serde(rename = "elsewhere_usd", alias = "elsewhere")]
    pub elsewhere: Usd,
    /// The remainder of rounding each resource to a millionth of a dollar.
    #[serde(rename = "rounding_usd", alias = "rounding")]
    pub rounding: Usd,
    /// Cost by service name of the bill.
    #[serde(rename = "by_service_usd", alias = "by_service")]
    pub by_service: BTreeMap<String, Usd>,
    /// Cost by cost allocation tag and tag value; `""` for resources without the tag.
    #[serde(rename = "by_tag_usd", alias = "by_tag")]
    pub by_tag: BTreeMap<String, BTreeMap<String, Usd>>,
}

impl BilledDayShares {
    /// Cost that is not allocated to any use.
    pub fn unallocated(&self) -> Usd {
        self.unwatched + self.elsewhere + self.rounding
    }

    /// The cost in the order of display: steps, other work, findings, idle, unallocated.
    pub fn parts(&self) -> [Usd; 5] {
        [
            self.steps,
            self.other_work,
            self.findings,
            self.idle,
            self.unallocated(),
        ]
    }
}
