//! What else a heartbeat says of its node: how the node was watched, its GPUs, its
//! network, and what its tasks waited for. An older probe tells none of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Share};

/// What else was seen; empty and `None` where it was not, which is not zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeDetail {
    /// Why the node was watched by sampling procfs; `None` when the kernel told of
    /// every process.
    pub sampled_because: Option<String>,
    /// Each GPU that was looked at, by number.
    pub gpus: Vec<GpuUse>,
    /// How often the program that asks the GPUs hung or ended and was started again,
    /// since the probe started.
    pub gpu_restarts: u64,
    /// What is known of the network beside its bytes.
    pub network: Option<NetworkDetail>,
    /// For how long of the interval tasks could not go on.
    pub pressure: Option<Pressure>,
    /// Pages that the kernel took back from their holders because memory ran short.
    pub reclaimed: Option<Bytes>,
    /// Labels from schedulers that were refused since the probe started.
    pub labels_refused: u64,
    /// Memory in use at the end: all but what programs could have at once.
    pub memory_used: Option<Bytes>,
    /// Why all names of programs and scripts are masked: the rules that contain the mask could
    /// not be read. `None` if the rules decide which names are masked.
    pub masked_because: Option<String>,
}

/// One GPU in an interval.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuUse {
    /// Its number, as the driver counts.
    pub number: u32,
    /// Its model.
    pub model: String,
    /// The mean share of time in which it computed, over the samples; `None` when it
    /// does not tell, as when it is cut into several (MIG).
    pub busy: Option<Share>,
    /// The most of its memory that was held at a sample.
    pub memory_held: Option<Bytes>,
    /// Its memory.
    pub memory: Option<Bytes>,
    /// The most processes that used it at a sample.
    pub processes: Option<u32>,
}

/// The network of a node. UDP and the kernel's own sockets (NFS, Lustre) have no
/// owner here: their bytes are in the node's traffic only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkDetail {
    /// TCP payload of sockets whose process is known, loopback left out.
    pub owned: Bytes,
    /// TCP payload of sockets whose process is not known.
    pub unowned: Bytes,
    /// TCP segments sent again.
    pub retransmits: u64,
    /// TCP connections of processes, open at the end; `None` where they cannot be
    /// listed.
    pub connections: Option<u64>,
}

/// Time of an interval in which tasks could not go on, as the kernel counts it
/// (pressure stall information): some task waited, and all that had work did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pressure {
    /// Some task waited for a core.
    pub cpu_some: Duration,
    /// Some task waited for memory.
    pub memory_some: Duration,
    /// No task could go on for want of memory.
    pub memory_full: Duration,
    /// Some task waited for a block device.
    pub disk_some: Duration,
    /// No task could go on for want of a block device.
    pub disk_full: Duration,
}
