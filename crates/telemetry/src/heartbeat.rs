//! Heartbeats: the activity of one node in one interval, as its probe reports it. `ebb-wire`
//! encodes them, and [`Placed`] adds the time on the AWS clock.

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

/// The activity of one node in one interval, and how much of the interval the probe observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The node that the sender claims to be; the node that AWS attests takes precedence.
    pub node: NodeId,
    /// The boot that the clocks below count from.
    pub boot: BootId,
    /// The start of the probe to which `sequence` belongs.
    pub probe_start: ProbeStart,
    /// Counts the heartbeats since the probe start, from 0. Together with `boot` and `probe_start`
    /// it identifies duplicates.
    pub sequence: u64,
    /// When the interval began.
    pub start: BootClock,
    /// When the interval ended.
    pub end: BootClock,
    /// The node's wall clock at `end`; only its offset is shown.
    pub wall_at_end: Timestamp,
    /// Measured or simulated.
    pub origin: Origin,
    /// The share of the interval that each signal covered.
    pub coverage: Coverage,
    /// The hardware of the machine.
    pub hardware: Hardware,
    /// Resource use of the processes that the rules classify as workload.
    pub workload: Usage,
    /// Resource use of all other processes.
    pub background: Usage,
    /// Time from the last key press on any terminal to `end`; `None` if there is no terminal or the
    /// time cannot be read.
    pub typed_ago: Option<Duration>,
    /// Resource use so far of the tasks that run at `end`.
    pub steps: Vec<StepUsage>,
    /// Resource use of the probe itself.
    pub probe: ProbeCost,
    /// Further observations of the node.
    #[serde(default)]
    pub detail: NodeDetail,
}

/// An interval with less coverage than this counts as not observed.
const OBSERVED_SHARE: Share = Share::from_ppm(950_000);

impl Heartbeat {
    /// True if every signal that this probe observes covered at least 95 % of the interval.
    pub fn is_observed(&self) -> bool {
        let least = self.coverage.least();
        least.is_some_and(|least| least >= OBSERVED_SHARE)
    }
}

/// The share of an interval that each signal covered; `None` if this probe does not observe the
/// signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// CPU time of processes that are alive at a sample.
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
    /// The least share among the observed signals; `None` if no signal is observed.
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

/// The hardware of the machine, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Cores online; each hyperthread counts as one.
    pub cores: MilliCores,
    /// Memory.
    pub memory: Bytes,
    /// Number of GPU devices; `None` if it could not be determined.
    pub gpus: Option<u32>,
}

/// Resource use of a group of processes in an interval; `None` means unknown, not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time, user and system.
    pub cpu: Option<CpuTime>,
    /// Bytes transferred to or from a block device.
    pub disk: Option<Bytes>,
    /// Bytes over the network, without loopback.
    pub network: Option<Bytes>,
    /// Utilization of the busiest GPU.
    pub gpu: Option<Share>,
    /// Number of processes started.
    pub processes_started: u64,
}

/// Resource use of the probe in the interval, and the data that it lost since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeCost {
    /// CPU time of the probe in the interval.
    pub cpu: CpuTime,
    /// Resident memory of the probe at the end; `None` if it could not be read.
    pub resident: Option<Bytes>,
    /// Kernel events lost because the ring buffer was full, since the probe started.
    pub events_lost: u64,
    /// Records that the probe lost before it could send them, since it started.
    pub records_dropped: u64,
    /// Bytes in the spool.
    pub spool_depth: Bytes,
    /// Dropped records that could not be read from the disk; `None` before schema 1.6.
    pub records_unreadable: Option<u64>,
    /// Running tasks that did not fit into a heartbeat, since it started; `None` before
    /// schema 1.6.
    pub steps_left_out: Option<u64>,
    /// Tasks that were sent with fewer details because the message was too large, since it
    /// started; `None` before schema 1.6.
    pub steps_shortened: Option<u64>,
    /// Earlier runs of the probe that ended without a clean stop; `None` if the record of
    /// earlier runs cannot be read, and before schema 1.6.
    pub unclean_stops: Option<u64>,
    /// Unclean stops after which the machine booted again: a power loss, a reset or a kernel
    /// crash. `None` as for `unclean_stops`.
    pub power_losses: Option<u64>,
}
