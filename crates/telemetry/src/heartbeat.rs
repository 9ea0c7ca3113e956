//! What one node did in one interval, as its probe tells it. How it travels is
//! `ebb-wire`'s business; when it happened on AWS's clock is [`Placed`].

pub mod node_signals;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identity::{BootId, NodeId, ProbeStart};
use crate::origin::Origin;
use crate::step::StepUsage;
use crate::time::BootClock;
use crate::units::{Bytes, CpuTime, MilliCores, Share};

pub use node_signals::{GpuUse, NetworkDetail, NodeDetail, Pressure};

/// What one node did in one interval, and how much of it the probe could see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The node that the sender claims to be; what AWS attests decides.
    pub node: NodeId,
    /// The boot that the clocks below count from.
    pub boot: BootId,
    /// The run of the probe that the sequence belongs to.
    pub probe_start: ProbeStart,
    /// Counts this probe run's heartbeats from 0; with `boot` and `probe_start`
    /// it tells a repeat from news.
    pub sequence: u64,
    /// When the interval began.
    pub start: BootClock,
    /// When the interval ended.
    pub end: BootClock,
    /// The node's own idea of the time at `end`; shown as an offset only.
    pub wall_at_end: Timestamp,
    /// Measured or made up.
    pub origin: Origin,
    /// How much of the interval each signal saw.
    pub coverage: Coverage,
    /// What the machine has.
    pub hardware: Hardware,
    /// What processes that the rules call workload used.
    pub workload: Usage,
    /// What all other processes used.
    pub background: Usage,
    /// Time from the last key press on any terminal to `end`; `None` when there
    /// is no terminal or it cannot be seen.
    pub typed_ago: Option<Duration>,
    /// Usage so far of the steps that run at `end`.
    pub steps: Vec<StepUsage>,
    /// What the probe itself cost.
    pub probe: ProbeCost,
    /// What else was seen of the node.
    #[serde(default)]
    pub detail: NodeDetail,
}

/// An interval of which less was seen does not count as seen.
const SEEN_SHARE: Share = Share::from_ppm(950_000);

impl Heartbeat {
    /// True when the probe saw what it is there to see.
    pub fn was_seen(&self) -> bool {
        let least = self.coverage.least();
        least.is_some_and(|least| least >= SEEN_SHARE)
    }
}

/// The share of an interval that each signal covered; `None` means that this
/// probe does not observe the signal at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// CPU time of processes that live at a sample.
    pub cpu: Option<Share>,
    /// Memory.
    pub memory: Option<Share>,
    /// Disk bytes.
    pub disk: Option<Share>,
    /// Network bytes.
    pub network: Option<Share>,
    /// GPU utilization.
    pub gpu: Option<Share>,
    /// Processes that start and end between two samples.
    pub short_processes: Option<Share>,
}

impl Coverage {
    /// The least share among the signals that are observed; `None` when none is.
    pub fn least(&self) -> Option<Share> {
        [
            self.cpu,
            self.memory,
            self.disk,
            self.network,
            self.gpu,
            self.short_processes,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// What the machine has, as the kernel tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Cores online, hyperthreads counted.
    pub cores: MilliCores,
    /// Memory.
    pub memory: Bytes,
    /// GPU devices; `None` when it could not be found out.
    pub gpus: Option<u32>,
}

/// What a group of processes used in an interval; `None` is unknown, not none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time, user and system.
    pub cpu: Option<CpuTime>,
    /// Bytes that really went to or came from a block device.
    pub disk: Option<Bytes>,
    /// Bytes over the network, loopback left out.
    pub network: Option<Bytes>,
    /// The busiest GPU's utilization.
    pub gpu: Option<Share>,
    /// Processes started.
    pub processes_started: u64,
}

/// What the probe itself used in the interval, and what it lost since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeCost {
    /// Its CPU time in the interval.
    pub cpu: CpuTime,
    /// Its resident memory at the end; `None` when it could not be read.
    pub resident: Option<Bytes>,
    /// Kernel events lost for want of room, since it started.
    pub events_lost: u64,
    /// Records that the probe lost before it could send them, since it started.
    pub records_dropped: u64,
    /// Bytes that wait in the spool.
    pub spool_depth: Bytes,
    /// Dropped records that could not be read from the disk; `None` before schema 1.6.
    pub records_unreadable: Option<u64>,
    /// Running steps that did not fit into a heartbeat, since it started; `None` before
    /// schema 1.6.
    pub steps_left_out: Option<u64>,
    /// Steps that were sent with fewer details because the message was too large, since it
    /// started; `None` before schema 1.6.
    pub steps_shortened: Option<u64>,
    /// Earlier runs of the probe that ended without a clean stop; `None` if the record of
    /// earlier runs cannot be read, and before schema 1.6.
    pub unclean_stops: Option<u64>,
    /// Unclean stops after which the machine booted again: a power loss, a reset or a kernel
    /// crash. `None` as for `unclean_stops`.
    pub power_losses: Option<u64>,
}
