//! Further observations of a node: how the probe observed it, its GPUs, its network and its
//! pressure stall information. An older probe sends none of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::probe_version::ProbeVersion;
use crate::units::{Bytes, Share};

/// Further observations. An empty or `None` field was not observed, which differs from zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeDetail {
    /// Why the probe sampled procfs; `None` if the kernel reported every process.
    pub sampled_because: Option<String>,
    /// Each observed GPU, by number.
    pub gpus: Vec<GpuUse>,
    /// How often the GPU process hung or ended and was started again, since the probe started.
    pub gpu_restarts: u64,
    /// Network counters in addition to the byte counts.
    pub network: Option<NetworkDetail>,
    /// How long tasks were stalled in the interval.
    pub pressure: Option<Pressure>,
    /// Memory that the kernel reclaimed under memory pressure.
    pub reclaimed: Option<Bytes>,
    /// Labels from schedulers that were refused since the probe started.
    pub labels_refused: u64,
    /// Memory in use at the end: total memory without the memory that is available to programs.
    pub memory_used: Option<Bytes>,
    /// Why all names of programs and scripts are masked: the rules that contain the mask could
    /// not be read. `None` if the rules decide which names are masked.
    pub masked_because: Option<String>,
    /// The version of the probe; `None` if it did not send a valid one.
    pub version: Option<ProbeVersion>,
}

/// The use of one GPU in an interval.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuUse {
    /// The driver's number for the device.
    pub number: u32,
    /// The model name.
    pub model: String,
    /// The mean share of time in which the device computed, over the samples. `None` if the driver
    /// does not report it, for example with Multi-Instance GPU (MIG).
    pub busy: Option<Share>,
    /// The most device memory in use at a sample.
    pub memory_held: Option<Bytes>,
    /// Total device memory.
    pub memory: Option<Bytes>,
    /// The most processes that used the device at a sample.
    pub processes: Option<u32>,
}

/// Network counters of a node. UDP traffic and kernel sockets (NFS, Lustre) have no owning process
/// here; their bytes are only in the node's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkDetail {
    /// TCP payload of sockets with a known process, without loopback.
    pub owned: Bytes,
    /// TCP payload of sockets with an unknown process.
    pub unowned: Bytes,
    /// TCP segments retransmitted.
    pub retransmits: u64,
    /// TCP connections of processes, open at the end; `None` if they cannot be listed.
    pub connections: Option<u64>,
}

/// Stall times in an interval, as the kernel reports them in its pressure stall information: `some`
/// counts if at least one task waited, `full` if all non-idle tasks waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pressure {
    /// Some task waited for a core.
    pub cpu_some: Duration,
    /// Some task waited for memory.
    pub memory_some: Duration,
    /// All non-idle tasks waited for memory.
    pub memory_full: Duration,
    /// Some task waited for a block device.
    pub disk_some: Duration,
    /// All non-idle tasks waited for a block device.
    pub disk_full: Duration,
}
