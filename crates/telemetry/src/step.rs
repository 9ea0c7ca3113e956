//! A step: one unit of pipeline work on one node, and what it used so far.

pub mod namespaces;
pub mod parallelism;
pub mod resource_usage;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identity::{BootId, NodeId, ProbeStart};
use crate::origin::Origin;
use crate::time::BootClock;
use crate::units::{Bytes, CpuTime, MilliCores};

pub use namespaces::{Namespace, Namespaces};
pub use parallelism::{Busy, PARALLELISM_BOUNDS, PARALLELISM_CLASSES, Parallelism};
pub use resource_usage::{
    Asked, Handed, Opened, Reclaim, RunName, Sampled, StepDetail, StepGpu, StepNetwork, TaskState,
    Unmoved,
};

/// What kind of thing a step is; it says how far its name can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A task of ECS, and so a Batch job attempt; the key is the task id.
    EcsTask,
    /// A Kubernetes pod; the key is the pod's uid.
    Pod,
    /// A container of any other runtime; the key is the container id.
    Container,
    /// A Slurm job; the key is `job` or `job.step`.
    SlurmJob,
    /// A Nextflow task outside a container; the key is the work folder's hash.
    NextflowTask,
    /// A Snakemake job outside a container.
    SnakemakeJob,
    /// A login session.
    Session,
    /// A service of systemd.
    Service,
    /// A process tree that nothing else names; the key is the root's start.
    Tree,
}

/// A step's identity within one boot of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepId {
    /// What kind of thing it is.
    pub kind: StepKind,
    /// Its key, unique among its kind.
    pub key: String,
}

impl StepId {
    /// The bound on a key in bytes; real ones have at most 64.
    pub const MAX_KEY_BYTES: usize = 256;
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.key)
    }
}

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepEnd {
    /// It still runs.
    Running,
    /// It ended with this exit status.
    Exited(u8),
    /// A signal ended it.
    Signalled(u8),
    /// The kernel killed one of its processes for want of memory.
    OutOfMemory,
    /// It ended, and how was not seen.
    Unknown,
}

impl StepEnd {
    /// True when it ended and not with status 0.
    pub fn is_bad(self) -> bool {
        !matches!(self, Self::Running | Self::Exited(0) | Self::Unknown)
    }
}

impl fmt::Display for StepEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("runs"),
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Signalled(signal) => write!(f, "was ended by signal {signal}"),
            Self::OutOfMemory => f.write_str("was killed for want of memory"),
            Self::Unknown => f.write_str("ended, and how was not seen"),
        }
    }
}

/// Where a peak of memory was read; sources are never mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemorySource {
    /// The cgroup's anonymous, shared and kernel memory, greatest sample.
    CgroupSampled,
    /// The cgroup's own peak counter: an upper bound, page cache included.
    CgroupPeak,
    /// The greatest sum of the live processes' resident memory at one instant.
    ProcessesSampled,
    /// The high-water mark at exit, of a step that was a single process.
    HighWaterAtExit,
    /// The kernel's `maxrss`, which a parent may have raised: an upper bound.
    MaxRssUpperBound,
}

/// The most memory that a step held at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeakMemory {
    /// How much.
    pub bytes: Bytes,
    /// Where it was read.
    pub source: MemorySource,
}

/// What was asked for; `None` when there is no limit or it cannot be seen.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Requested {
    /// Cores.
    pub cores: Option<MilliCores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

/// What one executable did within a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolUsage {
    /// The executable's base name.
    pub name: String,
    /// Processes of it that were started.
    pub processes: u64,
    /// Their CPU time.
    pub cpu: CpuTime,
    /// The greatest resident memory of one of them; `None` when never seen.
    pub peak_memory: Option<Bytes>,
    /// Bytes read from and written to block devices; `None` when unknown.
    pub disk: Option<Bytes>,
}

/// What a step used from its start to `observed`: totals, so that the newest
/// record of a step stands for all the earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepUsage {
    /// Which step.
    pub id: StepId,
    /// What a person would call it: container, job or script name.
    pub name: String,
    /// When its first process started.
    pub started: BootClock,
    /// What these totals are as of; the end, for a step that ended.
    pub observed: BootClock,
    /// How it stands.
    pub end: StepEnd,
    /// Processes started.
    pub processes: u64,
    /// CPU time, user and system, of all its processes, ended ones counted.
    pub cpu: CpuTime,
    /// The most memory it held at once; `None` when never sampled.
    pub peak_memory: Option<PeakMemory>,
    /// Bytes really read from block devices; `None` when unknown.
    pub disk_read: Option<Bytes>,
    /// Bytes really written to block devices; `None` when unknown.
    pub disk_written: Option<Bytes>,
    /// What its cgroup allows it.
    pub requested: Requested,
    /// The most cores it kept busy over one sample interval; `None` before two
    /// samples.
    pub peak_cores: Option<MilliCores>,
    /// When it last used CPU, moved bytes or started a process.
    pub last_progress: BootClock,
    /// Its executables, the most CPU first, bounded by the probe.
    pub tools: Vec<ToolUsage>,
    /// What else was seen of it.
    #[serde(default)]
    pub detail: StepDetail,
}

impl StepUsage {
    /// About how much memory it takes, all that it points to included: what readers bound
    /// a message by.
    pub fn memory_bytes(&self) -> usize {
        let tools: usize = self
            .tools
            .iter()
            .map(|tool| size_of::<ToolUsage>() + tool.name.len())
            .sum();
        size_of::<Self>() + self.id.key.len() + self.name.len() + tools + self.detail.heap_bytes()
    }

    /// The executable that used the most CPU, of those that are told.
    pub fn busiest_tool(&self) -> Option<&ToolUsage> {
        self.tools.iter().max_by_key(|tool| tool.cpu)
    }
}

/// Steps that ended, as one object carries them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBatch {
    /// The node that the sender claims to be.
    pub node: NodeId,
    /// The boot that the clocks count from.
    pub boot: BootId,
    /// The run of the probe.
    pub probe_start: ProbeStart,
    /// Counts this probe run's batches from 0.
    pub sequence: u64,
    /// Measured or made up.
    pub origin: Origin,
    /// The steps.
    pub steps: Vec<StepUsage>,
}

/// One step of an attested node, its times on AWS's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedStep {
    /// The node that AWS attests.
    pub node: NodeId,
    /// The boot that tells two steps of one key apart.
    pub boot: BootId,
    /// The run of the probe, and with `sequence` what tells a repeat from news.
    pub probe_start: ProbeStart,
    /// The batch it came in.
    pub sequence: u64,
    /// Measured or made up.
    pub origin: Origin,
    /// When it started.
    #[serde(with = "crate::time::nanos")]
    pub started_at: Timestamp,
    /// What the totals are as of.
    #[serde(with = "crate::time::nanos")]
    pub observed_at: Timestamp,
    /// When it last made progress.
    #[serde(with = "crate::time::nanos")]
    pub last_progress_at: Timestamp,
    /// What it used.
    pub usage: StepUsage,
}
