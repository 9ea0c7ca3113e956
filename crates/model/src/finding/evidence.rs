//! The evidence of findings as typed values, each with one line of text.

pub mod batch;
pub mod causes;
pub mod idle;
pub mod node;
pub mod purchasing;
pub mod step;

use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::{PeakMemory, Requested};
use ebb_telemetry::units::{Bytes, MilliCores, Share, Spoken};
use serde::{Deserialize, Serialize};

use crate::finding::evidence::batch::{Queued, StuckJob};
use crate::finding::evidence::idle::IdleNode;
use crate::finding::evidence::node::{MetricSize, Newer, OffHours, QuietGpu, Roomy, Tight};
use crate::finding::evidence::purchasing::Bought;
use crate::finding::evidence::step::StepTrouble;

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
    LowDuty(LowDuty),
    /// A volume, snapshot or address without use, or a volume of an old type.
    Unused(Unused),
    /// A failure or slowdown of a step.
    Step(StepTrouble),
    /// A job that waits for a long time.
    Queued(Queued),
    /// GPUs without computation.
    Gpu(QuietGpu),
    /// A node that is used in the same hours of each week.
    OffHours(OffHours),
    /// Machines with a more expensive purchase option than necessary.
    Bought(Bought),
    /// A newer instance type with the same capacity and a lower price.
    OldGeneration(Newer),
    /// A node whose work needs only a part of it.
    Roomy(Roomy),
    /// A node whose work needs more than it has.
    Tight(Tight),
    /// A node whose size does not fit its metrics.
    MetricSize(MetricSize),
}

/// A node with a few active minutes a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LowDuty {
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
            Self::LowDuty(e) => e.fmt(f),
            Self::Unused(e) => e.fmt(f),
            Self::Step(e) => e.fmt(f),
            Self::Queued(e) => e.fmt(f),
            Self::Gpu(e) => e.fmt(f),
            Self::OffHours(e) => e.fmt(f),
            Self::Bought(e) => e.fmt(f),
            Self::OldGeneration(e) => e.fmt(f),
            Self::Roomy(e) => e.fmt(f),
            Self::Tight(e) => e.fmt(f),
            Self::MetricSize(e) => e.fmt(f),
        }
    }
}

impl fmt::Display for LowDuty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (active, watched) = (Spoken(self.active), Spoken(self.watched));
        match self.p95_cpu {
            None => write!(f, "worked for {active} of {watched}"),
            Some(p95) => write!(
                f,
                "in 95 % of the hours of {watched} it never used more than {p95} of its cores"
            ),
        }
    }
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume { what } => write!(f, "{what}, attached to nothing"),
            Self::StoppedMachine { what, machine } => {
                write!(f, "{what} of {machine}, which has been stopped")
            }
            Self::Snapshot {
                what,
                volume: Some(volume),
            } => write!(
                f,
                "{what}: its volume {volume} is gone, and no image is made of it"
            ),
            Self::Snapshot { what, volume: None } => {
                write!(f, "{what}, a copy that no image is made of")
            }
            Self::OldType { what, iops, mibps } => write!(
                f,
                "{what}; gp3 with {iops} IOPS and {mibps} MiB/s does the same for less"
            ),
            Self::Address {
                public_ip: Some(ip),
            } => {
                write!(f, "{ip} is associated with nothing")
            }
            Self::Address { public_ip: None } => f.write_str("associated with nothing"),
        }
    }
}

impl fmt::Display for Overprovisioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = [
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
        write!(f, "asked for {}, used at most {}", list(asked), list(used))?;
        let times = if self.samples == 1 { "time" } else { "times" };
        write!(
            f,
            " (seen {} {times}, {} in all)",
            self.samples,
            Spoken(self.observed_for)
        )
    }
}

impl Overprovisioned {
    /// The peak memory in bytes.
    pub fn peak_bytes(&self) -> Option<Bytes> {
        self.peak_memory.map(|peak| peak.bytes)
    }
}
