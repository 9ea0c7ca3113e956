//! What shows a finding, as typed values; one line of words each.

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

/// What shows a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Evidence {
    /// Nothing ran on a node.
    IdleNode(IdleNode),
    /// A job or worker gets nowhere.
    StuckJob(StuckJob),
    /// A step uses a fraction of its request.
    Overprovisioned(Overprovisioned),
    /// A node works for a few minutes of the day.
    LowDuty(LowDuty),
    /// A volume or address serves nothing, or is of an old type.
    Unused(Unused),
    /// Something is wrong with a step.
    Step(StepTrouble),
    /// A job waits for long.
    Queued(Queued),
    /// GPUs compute nothing.
    Gpu(QuietGpu),
    /// A node is used in the same hours of each week.
    OffHours(OffHours),
    /// Machines are bought dearer than they need be.
    Bought(Bought),
    /// A newer type does the same for less.
    OldGeneration(Newer),
    /// A node's work needs but a part of it.
    Roomy(Roomy),
    /// A node's work needs more than there is of it.
    Tight(Tight),
    /// A node's size does not fit its metrics.
    MetricSize(MetricSize),
}

/// A node works for a few minutes of the day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowDuty {
    /// The time watched.
    pub watched: Duration,
    /// The part of it in which something worked.
    pub active: Duration,
    /// What 95 % of its hours never used more of than, of all cores; `None` when it is
    /// of low duty by its minutes.
    #[serde(default)]
    pub p95_cpu: Option<Share>,
}

/// What a volume or address is not used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what_kind")]
pub enum Unused {
    /// No machine has the volume.
    Volume {
        /// Its size and type.
        what: String,
    },
    /// The volume's machine has been stopped for long.
    StoppedMachine {
        /// Its size and type.
        what: String,
        /// The machine.
        machine: String,
    },
    /// gp3 would do the same for less.
    OldType {
        /// Its size and type.
        what: String,
        /// What gp3 has to give: IOPS.
        iops: u64,
        /// And throughput.
        mibps: u64,
    },
    /// Nothing is left of what the snapshot was made of.
    Snapshot {
        /// Its size and tier.
        what: String,
        /// The volume that is gone; `None` for a copy, which has none.
        volume: Option<String>,
    },
    /// Nothing has the address.
    Address {
        /// The address itself.
        public_ip: Option<String>,
    },
}

/// A step uses a fraction of its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overprovisioned {
    /// What it asked for.
    pub requested: Requested,
    /// The most cores it kept busy; `None` when unknown.
    pub peak_cores: Option<MilliCores>,
    /// Cores busy on average over all its samples.
    pub mean_cores: Option<MilliCores>,
    /// The most memory it held; `None` when unknown.
    pub peak_memory: Option<PeakMemory>,
    /// Steps observed.
    pub samples: u32,
    /// How long all of them ran together.
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
    /// The memory peak in bytes.
    pub fn peak_bytes(&self) -> Option<Bytes> {
        self.peak_memory.map(|peak| peak.bytes)
    }
}
