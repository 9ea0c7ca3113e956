//! One day of the bill, divided by what the machines did.

use std::collections::BTreeMap;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// One day of the bill and where it went.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerDay {
    /// `YYYY-MM-DD`, UTC.
    pub day: String,
    /// True while the cloud still changes what it bills for this day.
    pub estimated: bool,
    /// What the day cost in all; the sum of the seven below.
    #[serde(rename = "billed_usd", alias = "billed")]
    pub billed: Usd,
    /// What steps occupied of their machines.
    #[serde(rename = "steps_usd", alias = "steps")]
    pub steps: Usd,
    /// What is said to be wasted on machines in a finding, where no step was.
    #[serde(rename = "findings_usd", alias = "findings")]
    pub findings: Usd,
    /// Time in which a machine worked, and no step and no finding was: its services, and
    /// who is logged in.
    #[serde(rename = "other_work_usd", alias = "other_work")]
    pub other_work: Usd,
    /// The rest of the time that a probe saw.
    #[serde(rename = "idle_usd", alias = "idle")]
    pub idle: Usd,
    /// Time that no probe saw, where no finding speaks of it.
    #[serde(rename = "unwatched_usd", alias = "unwatched")]
    pub unwatched: Usd,
    /// What is billed and belongs to no machine that was seen, other services first of
    /// all. With `unwatched` it is what is not allocated.
    #[serde(rename = "elsewhere_usd", alias = "elsewhere")]
    pub elsewhere: Usd,
    /// What rounding each resource to a millionth of a dollar left over.
    #[serde(rename = "rounding_usd", alias = "rounding")]
    pub rounding: Usd,
    /// By service, as the bill names it.
    #[serde(rename = "by_service_usd", alias = "by_service")]
    pub by_service: BTreeMap<String, Usd>,
    /// By cost allocation tag and its value; `""` where a resource has none.
    #[serde(rename = "by_tag_usd", alias = "by_tag")]
    pub by_tag: BTreeMap<String, BTreeMap<String, Usd>>,
}

impl LedgerDay {
    /// What nobody is charged with.
    pub fn unallocated(&self) -> Usd {
        self.unwatched + self.elsewhere + self.rounding
    }

    /// What was billed as it is told: steps, other work, findings, idle, not allocated.
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
