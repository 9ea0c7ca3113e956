//! The evidence of findings as typed values, each with one line of text.

pub mod batch;
pub mod causes;
pub mod idle;
pub mod node;
pub mod purchasing;
pub mod spend;
pub mod step;

use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::{PeakMemory, Requested};
use ebb_telemetry::units::{Bytes, HumanDuration, MilliCores, Share};
use serde::{Deserialize, Serialize};

use crate::finding::evidence::batch::{Queued, StuckJob};
use crate::finding::evidence::idle::IdleNode;
use crate::finding::evidence::node::{
    IdleGpus, MetricSize, NewerGeneration, OffHours, OversizedNode, UndersizedNode,
};
use crate::finding::evidence::purchasing::PurchaseOption;
use crate::finding::evidence::spend::{OverBudget, UnusualCost};
use crate::finding::evidence::step::StepTrouble;

/// The text followed by the value; nothing if the value is unknown.
fn optional<T: fmt::Display>(text: &'static str, value: Option<T>) -> impl fmt::Display {
    fmt::from_fn(move |f| match &value {
        Some(value) => write!(f, "{text}{value}"),
        None => Ok(()),
    })
}

/// The evidence of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Evidence {
    /// A node without activity.
    IdleNode(IdleNode),
    /// A job or worker without progress.
    StuckJob(StuckJob),
    /// A step that uses a fraction of its request.
    Overprovisioned(Overprovisioned),
    /// A node with a few active minutes a day.
    #[serde(alias = "low_duty")]
    UnderutilizedNode(UnderutilizedNode),
    /// A volume, snapshot or address without use, or a volume of an old type.
    Unused(Unused),
    /// A failure or slowdown of a step.
    Step(StepTrouble),
    /// A job that waits for a long time.
    Queued(Queued),
    /// GPUs without computation.
    Gpu(IdleGpus),
    /// A node that is used in the same hours of each week.
    OffHours(OffHours),
    /// Machines with a more expensive purchase option than necessary.
    #[serde(alias = "bought")]
    PurchaseOption(PurchaseOption),
    /// A newer instance type with the same capacity and a lower price.
    OldGeneration(NewerGeneration),
    /// A node whose work needs only a part of it.
    #[serde(alias = "roomy")]
    OversizedNode(OversizedNode),
    /// A node whose work needs more than it has.
    #[serde(alias = "tight")]
    UndersizedNode(UndersizedNode),
    /// A node whose size does not fit its metrics.
    MetricSize(MetricSize),
    /// A month that costs more than its budget, or will.
    OverBudget(OverBudget),
    /// A day that cost far more than the days before.
    UnusualCost(UnusualCost),
}

/// A node with a few active minutes a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnderutilizedNode {
    /// The observed time.
    pub watched: Duration,
    /// The part of it with activity.
    pub active: Duration,
    /// The 95th percentile of the hourly CPU peak, as a share of all cores. `None` if the finding
    /// rests on active minutes.
    #[serde(default)]
    pub p95_cpu: Option<Share>,
}

/// An unused or outdated volume, snapshot or address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "what_kind")]
pub enum Unused {
    /// No machine has attached the volume.
    Volume {
        /// Size and type.
        what: String,
    },
    /// The machine of the volume has been stopped for a long time.
    StoppedMachine {
        /// Size and type.
        what: String,
        /// The machine.
        machine: String,
    },
    /// gp3 offers the same performance at a lower price.
    OldType {
        /// Size and type.
        what: String,
        /// The IOPS that gp3 must provide.
        iops: u64,
        /// The throughput that gp3 must provide.
        mibps: u64,
    },
    /// The source volume of the snapshot was deleted, and no image uses the snapshot.
    Snapshot {
        /// Size and tier.
        what: String,
        /// The deleted volume; `None` for a copy, which has no source volume.
        volume: Option<String>,
    },
    /// The address is not associated.
    Address {
        /// The address itself; `None` when unknown.
        public_ip: Option<String>,
    },
}

/// A step that uses a fraction of its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overprovisioned {
    /// The request.
    pub requested: Requested,
    /// The peak of busy cores; `None` when unknown.
    pub peak_cores: Option<MilliCores>,
    /// Mean number of busy cores over all tasks; `None` when unknown.
    pub mean_cores: Option<MilliCores>,
    /// The peak memory; `None` when unknown.
    pub peak_memory: Option<PeakMemory>,
    /// Number of observed tasks.
    pub samples: u32,
    /// Total run time of these tasks.
    pub observed_for: Duration,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdleNode(e) => e.fmt(f),
            Self::StuckJob(e) => e.fmt(f),
            Self::Overprovisioned(e) => e.fmt(f),
            Self::UnderutilizedNode(e) => e.fmt(f),
            Self::Unused(e) => e.fmt(f),
            Self::Step(e) => e.fmt(f),
            Self::Queued(e) => e.fmt(f),
            Self::Gpu(e) => e.fmt(f),
            Self::OffHours(e) => e.fmt(f),
            Self::PurchaseOption(e) => e.fmt(f),
            Self::OldGeneration(e) => e.fmt(f),
            Self::OversizedNode(e) => e.fmt(f),
            Self::UndersizedNode(e) => e.fmt(f),
            Self::MetricSize(e) => e.fmt(f),
            Self::OverBudget(e) => e.fmt(f),
            Self::UnusualCost(e) => e.fmt(f),
        }
    }
}

impl fmt::Display for UnderutilizedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (active, watched) = (HumanDuration(self.active), HumanDuration(self.watched));
        match self.p95_cpu {
            None => write!(f, "active for only {active} in {watched}"),
            Some(p95) => write!(
                f,
                "used at most {p95} of its cores in 95 % of the hours of the last {watched}"
            ),
        }
    }
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume { what } => write!(f, "{what}, not attached to an instance"),
            Self::StoppedMachine { what, machine } => {
                write!(f, "{what} of {machine}, which is stopped")
            }
            Self::Snapshot {
                what,
                volume: Some(volume),
            } => write!(
                f,
                "{what}; source volume {volume} was deleted, and no AMI uses the snapshot"
            ),
            Self::Snapshot { what, volume: None } => {
                write!(f, "{what}, a copy that no AMI uses")
            }
            Self::OldType { what, iops, mibps } => write!(
                f,
                "{what}; gp3 with {iops} IOPS and {mibps} MiB/s has the same performance at a \
                 lower price"
            ),
            Self::Address {
                public_ip: Some(ip),
            } => {
                write!(f, "{ip} is not associated with any resource")
            }
            Self::Address { public_ip: None } => f.write_str("not associated with any resource"),
        }
    }
}

impl fmt::Display for Overprovisioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = [
            self.requested.cores.map(|cores| format!("{cores} vCPU")),
            self.requested.memory.map(|memory| memory.to_string()),
        ];
        let used = [
            self.peak_cores
                .map(|cores| format!("{:.1} cores", cores.as_cores())),
            self.peak_memory.map(|peak| peak.bytes.to_string()),
        ];
        let list = |parts: [Option<String>; 2]| {
            let known: Vec<_> = parts.into_iter().flatten().collect();
            if known.is_empty() {
                "an unknown amount".to_owned()
            } else {
                known.join(" and ")
            }
        };
        write!(
            f,
            "requested {}, used at most {}",
            list(request),
            list(used)
        )?;
        let noun = if self.samples == 1 { "task" } else { "tasks" };
        write!(
            f,
            " ({} {noun}, total run time {})",
            self.samples,
            HumanDuration(self.observed_for)
        )
    }
}

impl Overprovisioned {
    /// The peak memory in bytes.
    pub fn peak_bytes(&self) -> Option<Bytes> {
        self.peak_memory.map(|peak| peak.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of earlier releases contain these names; new reports do not.
    #[test]
    fn evidence_of_earlier_releases_is_read() {
        let check = |earlier: &str, present: &str, fields: serde_json::Value| {
            let mut stored = fields;
            stored["type"] = earlier.into();
            let read: Evidence = serde_json::from_value(stored).expect("it is read");
            let written = serde_json::to_value(&read).expect("it is written");
            assert_eq!(written["type"], present);
        };
        let time = serde_json::json!({"secs": 60, "nanos": 0});
        let low = serde_json::json!({"watched": time, "active": time});
        check("low_duty", "underutilized_node", low);
        let none = serde_json::json!({"cores": null, "memory": null, "instead": null});
        check("tight", "undersized_node", none);
        let roomy = serde_json::json!({
            "cores": 1000, "of_cores": 4000, "memory": 1, "of_memory": 8, "hours": 24,
            "instead": "c7a.large",
        });
        check("roomy", "oversized_node", roomy);
        let unused = serde_json::json!({
            "how": "unused_plan", "committed_per_hour_usd": "1.0", "used_per_hour_usd": "0.5",
        });
        check("bought", "purchase_option", unused);
    }
}
