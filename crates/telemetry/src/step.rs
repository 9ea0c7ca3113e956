//! A task: one execution on one node, and its resource use so far.

pub mod container_labels;
pub mod namespaces;
pub mod parallelism;
pub mod resource_usage;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identity::{BootId, NodeId, ProbeStart};
use crate::origin::Origin;
use crate::time::BootClock;
use crate::units::{Bytes, CpuTime, MilliCores};

pub use namespaces::{Namespace, Namespaces};
pub use parallelism::{Busy, PARALLELISM_BOUNDS, PARALLELISM_CLASSES, Parallelism};
pub use resource_usage::{
    CpuWithoutProgress, NetworkPeer, OptInDetail, PeerScope, Reclaim, RunName, Sampled,
    SchedulerLabels, StepDetail, StepGpu, StepNetwork, SyscallIo, TaskState, WaitingTool,
};

/// The kind of a task; it determines how far its name can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// An ECS task, and so also a Batch job attempt; the key is the task id.
    EcsTask,
    /// A Kubernetes pod; the key is the pod's uid.
    Pod,
    /// A container of any other runtime; the key is the container id.
    Container,
    /// A Slurm job; the key is `job` or `job.step`.
    SlurmJob,
    /// A Nextflow task outside a container; the key is the hash of the work directory.
    NextflowTask,
    /// A Snakemake job outside a container.
    SnakemakeJob,
    /// A login session.
    Session,
    /// A systemd service.
    Service,
    /// A process tree without any other identity; the key is the start of its root process.
    Tree,
}

/// The identity of a task within one boot of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepId {
    /// The kind of the task.
    pub kind: StepKind,
    /// The key, unique within its kind.
    pub key: String,
}

impl StepId {
    /// Maximum length of a key in bytes; real keys have at most 64.
    pub const MAX_KEY_BYTES: usize = 256;
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.key)
    }
}

/// Whether and how a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepEnd {
    /// The task still runs.
    Running,
    /// The task ended with this exit status.
    Exited(u8),
    /// A signal ended the task.
    Signalled(u8),
    /// The kernel killed one of its processes because of an out-of-memory condition.
    OutOfMemory,
    /// The task ended; its exit status was not observed.
    Unknown,
}

impl StepEnd {
    /// True if the task failed: a non-zero exit status, a signal or an out-of-memory kill.
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
            Self::OutOfMemory => f.write_str("was OOM-killed"),
            Self::Unknown => f.write_str("ended in an unknown way"),
        }
    }
}

/// The source of a memory peak; values of different sources are never combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemorySource {
    /// Anonymous, shared and kernel memory of the cgroup; the greatest sample.
    CgroupSampled,
    /// The cgroup's peak counter: an upper bound, because it includes the page cache.
    CgroupPeak,
    /// The greatest sum of the resident memory of the live processes at one instant.
    ProcessesSampled,
    /// The high-water mark at exit of a task with a single process.
    HighWaterAtExit,
    /// The kernel's `maxrss`: an upper bound, because a parent process may have raised it.
    MaxRssUpperBound,
}

impl MemorySource {
    /// Whether the value may contain memory that the task did not use: the page cache, memory of
    /// its parent, or peaks of several processes at different times.
    pub const fn is_upper_bound(self) -> bool {
        matches!(self, Self::CgroupPeak | Self::MaxRssUpperBound)
    }
}

/// The most memory that a task used at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakMemory {
    /// The amount.
    pub bytes: Bytes,
    /// The source of the value.
    pub source: MemorySource,
}

/// The requested resources; `None` if there is no limit or it cannot be read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Requested {
    /// Cores.
    pub cores: Option<MilliCores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

/// Resource use of one executable within a task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolUsage {
    /// Base name of the executable.
    pub name: String,
    /// Number of its processes that were started.
    pub processes: u64,
    /// CPU time of these processes.
    pub cpu: CpuTime,
    /// The greatest resident memory of one process; `None` if no process was sampled.
    pub peak_memory: Option<Bytes>,
    /// Bytes read from and written to block devices; `None` when unknown.
    pub disk: Option<Bytes>,
    /// Starts and ends of its processes; `None` from probes before version 1.7 of the contract, and
    /// in the state of a node.
    pub events: Option<ToolEvents>,
}

/// Starts and ends of the processes of one executable within a task.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct ToolEvents {
    /// Time from the start of the task to the start of the first process.
    pub started_after: Duration,
    /// Time from the start of the task to the latest end of a process; `None` before the first end.
    pub ended_after: Option<Duration>,
    /// Number of processes that ended with a non-zero exit status or by a signal.
    pub failed: u64,
    /// Number of processes that the kernel killed because of an out-of-memory condition.
    pub oom_kills: u64,
}

/// Resource use of a task from its start to `observed`. The values are totals, so the newest record
/// of a task replaces all earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepUsage {
    /// The identity of the task.
    pub id: StepId,
    /// A name for people: the container, job or script name.
    pub name: String,
    /// When its first process started.
    pub started: BootClock,
    /// The time of these totals; the end, if the task ended.
    pub observed: BootClock,
    /// Whether and how the task ended.
    pub end: StepEnd,
    /// Number of processes started.
    pub processes: u64,
    /// CPU time, user and system, of all its processes, including ended ones.
    pub cpu: CpuTime,
    /// The most memory that it used at once; `None` if it was never sampled.
    pub peak_memory: Option<PeakMemory>,
    /// Bytes read from block devices; `None` if unknown.
    pub disk_read: Option<Bytes>,
    /// Bytes written to block devices; `None` if unknown.
    pub disk_written: Option<Bytes>,
    /// The limits of its cgroup.
    pub requested: Requested,
    /// The most cores that it kept busy over one sample interval; `None` before the second sample.
    pub peak_cores: Option<MilliCores>,
    /// When it last used CPU, transferred bytes or started a process.
    pub last_progress: BootClock,
    /// Its executables in descending order of CPU time; the probe limits their number.
    pub tools: Vec<ToolUsage>,
    /// Further observations of the task.
    #[serde(default)]
    pub detail: StepDetail,
}

impl StepUsage {
    /// How much later the end of a task counts in [`Self::order`]. A probe reads the end of a task and
    /// the list of running tasks one after the other.
    pub const END_IS_LATER: Duration = Duration::from_secs(30);

    /// Of two records of one task, the one with the greater value replaces the other.
    pub fn order(&self) -> BootClock {
        let later = match self.end {
            StepEnd::Running => Duration::ZERO,
            _ => Self::END_IS_LATER,
        };
        let later = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        BootClock::from_nanos(self.observed.as_nanos().saturating_add(later))
    }

    /// The approximate memory of this record, including its heap data. Readers limit the size of a
    /// message by this value.
    pub fn memory_bytes(&self) -> usize {
        let tools: usize = self
            .tools
            .iter()
            .map(|tool| size_of::<ToolUsage>() + tool.name.len())
            .sum();
        size_of::<Self>() + self.id.key.len() + self.name.len() + tools + self.detail.heap_bytes()
    }

    /// The name of its step: the label `step` if there is one, otherwise its own name.
    pub fn step_name(&self) -> &str {
        self.label("step").unwrap_or(&self.name)
    }

    /// The value of a label of the task.
    pub fn label(&self, key: &str) -> Option<&str> {
        let labels = self.detail.scheduler_labels.as_ref()?;
        labels.labels.get(key).map(String::as_str)
    }

    /// The executable with the most CPU time among the reported ones.
    pub fn busiest_tool(&self) -> Option<&ToolUsage> {
        self.tools.iter().max_by_key(|tool| tool.cpu)
    }
}

/// Tasks that ended; one message of the queue or one object contains one batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBatch {
    /// The node that the sender claims to be.
    pub node: NodeId,
    /// The boot that the clocks count from.
    pub boot: BootId,
    /// The start of the probe.
    pub probe_start: ProbeStart,
    /// Counts the batches since the probe start, from 0.
    pub sequence: u64,
    /// Measured or simulated.
    pub origin: Origin,
    /// The tasks.
    pub steps: Vec<StepUsage>,
}

/// One task of an attested node, with times on the AWS clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedStep {
    /// The node that AWS attests.
    pub node: NodeId,
    /// The boot; tasks of different boots can have the same key.
    pub boot: BootId,
    /// The start of the probe; together with `sequence` it identifies duplicates.
    pub probe_start: ProbeStart,
    /// The number of the batch.
    pub sequence: u64,
    /// Measured or simulated.
    pub origin: Origin,
    /// When the task started.
    #[serde(with = "crate::time::nanos")]
    pub started_at: Timestamp,
    /// The time of the totals.
    #[serde(with = "crate::time::nanos")]
    pub observed_at: Timestamp,
    /// When the task last made progress.
    #[serde(with = "crate::time::nanos")]
    pub last_progress_at: Timestamp,
    /// Its resource use.
    pub usage: StepUsage,
}
