//! What else is known of a step beside its totals: how its CPU time divides, what
//! it waited for, and how parallel it was. An older probe tells none of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Namespaces, Parallelism};
use crate::units::{Bytes, CpuTime};

/// Totals since the step's start; `None` where the kernel or the probe does not
/// tell, which is not zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepDetail {
    /// CPU time in programs.
    pub user_cpu: Option<CpuTime>,
    /// CPU time in the kernel for them. The kernel divides CPU time by the tick of
    /// its clock: exact in sum, coarse for processes of a few milliseconds.
    pub system_cpu: Option<CpuTime>,
    /// Time its threads were ready and waited for a core; that of threads which
    /// ended within a living process is not in it.
    pub run_queue: Option<Duration>,
    /// Times a thread gave up its core to wait.
    pub voluntary_switches: Option<u64>,
    /// Times a thread was made to give up its core.
    pub involuntary_switches: Option<u64>,
    /// Page faults that memory answered.
    pub minor_faults: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: Option<u64>,
    /// Time its threads waited for block devices; known only where the kernel has
    /// `kernel.task_delayacct` on.
    pub disk_delay: Option<Duration>,
    /// Its time by cores kept busy.
    pub parallelism: Parallelism,
    /// What it did at the samples, once each; empty where that cannot be seen.
    pub states: BTreeMap<TaskState, Sampled>,
    /// What it asked of files, pipes and devices by calls; `None` where that is not
    /// counted.
    pub asked: Option<Asked>,
    /// For how long it computed and nothing came of it; `None` where that cannot be
    /// seen.
    pub unmoved: Option<Unmoved>,
    /// The most threads that its processes had at one sample; `None` when it was over
    /// before any.
    pub threads: Option<u32>,
    /// The user of its first process, by the number that the node has for it; `None`
    /// where that was not seen.
    pub user: Option<u32>,
    /// Where any of its processes was apart from the node; `None` where that cannot be
    /// seen, which an empty set is not.
    pub namespaces: Option<Namespaces>,
    /// Its step memory at the last sample, from the source that its peak names where that
    /// is sampled; `None` without a sample.
    pub memory_now: Option<Bytes>,
    /// How its memory was kept within bounds; `None` for a step without a cgroup of its
    /// own, and where the kernel does not tell.
    pub reclaim: Option<Reclaim>,
    /// What its TCP sockets carried; `None` when none was seen, which is no zero where
    /// sockets cannot be seen.
    pub network: Option<StepNetwork>,
    /// What it did on GPUs; `None` when it used none, or none can be looked at.
    pub gpu: Option<StepGpu>,
    /// The run that it is part of, as its node tells; `None` when it cannot be told
    /// there.
    pub run: Option<Box<RunName>>,
    /// What a scheduler said of it on its node; `None` when none did.
    pub handed: Option<Box<Handed>>,
    /// What its node tells only where that is switched on.
    pub opened: Option<Box<Opened>>,
}

impl StepDetail {
    /// About how much memory it points to. An entry of a map takes its key and value and
    /// its part of a node.
    pub(super) fn heap_bytes(&self) -> usize {
        const ENTRY: usize = 2 * size_of::<(String, String)>();
        let states = self.states.len() * 2 * size_of::<(TaskState, Sampled)>();
        let run = self.run.as_ref().map_or(0, |run| {
            let pipeline = run.pipeline.as_ref().map_or(0, String::len);
            size_of::<RunName>() + run.launcher.len() + run.key.len() + pipeline
        });
        let handed = self.handed.as_ref().map_or(0, |handed| {
            let labels = handed.labels.iter();
            let labels: usize = labels.map(|(k, v)| ENTRY + k.len() + v.len()).sum();
            let trace_id = handed.trace_id.as_ref().map_or(0, String::len);
            size_of::<Handed>() + trace_id + labels
        });
        let opened = self.opened.as_ref().map_or(0, |opened| {
            let arguments = opened.arguments.iter();
            let arguments: usize = arguments.map(|a| size_of::<String>() + a.len()).sum();
            let files: usize = opened.files.keys().map(|path| ENTRY + path.len()).sum();
            size_of::<Opened>() + arguments + files
        });
        states + run + handed + opened
    }
}

/// What a step asked for by calls to read and write since its start, a cache's answers
/// included; what it mapped, or sent by `send`, is not in it. In `/proc/PID/io`: `rchar`,
/// `wchar`, `syscr` and `syscw`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Asked {
    /// Bytes that calls to read gave.
    pub read: Bytes,
    /// Bytes that calls to write took.
    pub written: Bytes,
    /// Calls to read.
    pub read_calls: u64,
    /// Calls to write.
    pub write_calls: u64,
}

impl Asked {
    /// Both together.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            read: self.read.saturating_add(more.read),
            written: self.written.saturating_add(more.written),
            read_calls: self.read_calls.saturating_add(more.read_calls),
            write_calls: self.write_calls.saturating_add(more.write_calls),
        }
    }

    /// What came to `before` since.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            read: Bytes(self.read.0.saturating_sub(before.read.0)),
            written: Bytes(self.written.0.saturating_sub(before.written.0)),
            read_calls: self.read_calls.saturating_sub(before.read_calls),
            write_calls: self.write_calls.saturating_sub(before.write_calls),
        }
    }
}

/// What the kernel did to keep a step's cgroup within its memory, since it was made.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Reclaim {
    /// Memory taken back from it, mostly cached files; `None` with cgroup v1, which does
    /// not tell.
    pub taken: Option<Bytes>,
    /// Times that it came to its limit.
    pub limit_hits: u64,
}

/// Time in which a step computed and nothing came of it that the kernel sees: no byte
/// read or written, no new page of memory, no process begun or ended, no GPU held. Much
/// honest work looks so for a while; a step that spins looks so for ever.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Unmoved {
    /// Since the last thing that came of it; time in which it waited is not in it.
    pub now: Duration,
    /// The longest there was, the present one included.
    pub longest: Duration,
}

/// What a scheduler hands a step over the probe's socket. Nothing is judged by it but
/// which run, pipeline and sample the step is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Handed {
    /// Joins the step to the scheduler's own traces.
    pub trace_id: Option<String>,
    /// Names and values; `run`, `pipeline` and `sample` say what the step is of.
    pub labels: BTreeMap<String, String>,
}

impl Handed {
    /// Labels of a step at most.
    pub const MAX_LABELS: usize = 16;
    /// Bytes of a label's name, as of Kubernetes', and of a trace id at most.
    pub const MAX_KEY_BYTES: usize = 64;
    /// Bytes of a label's value at most.
    pub const MAX_VALUE_BYTES: usize = 128;
}

/// What leaves a node only where whoever runs its probe has switched it on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Opened {
    /// The arguments of its first process, cut; empty unless `export_args` is set.
    pub arguments: Vec<String>,
    /// Files that were seen open, by their path cut to the chosen depth; empty unless
    /// `files_depth` is set.
    pub files: BTreeMap<String, u64>,
    /// Files beyond those that there was room for.
    pub files_left_out: u64,
}

impl Opened {
    /// Arguments of a step at most, the empty ones too.
    pub const MAX_ARGUMENTS: usize = 128;
    /// Bytes of all arguments together at most.
    pub const MAX_ARGUMENT_BYTES: usize = 1_024;
    /// Cut paths of a step at most.
    pub const MAX_PATHS: usize = 32;
    /// Bytes of a cut path at most.
    pub const MAX_PATH_BYTES: usize = 256;
}

/// A step's TCP sockets since its start, loopback left out. What it sent by UDP, or
/// the kernel for it (NFS, Lustre), is not in it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct StepNetwork {
    /// Payload received.
    pub received: Bytes,
    /// Payload sent, each byte once.
    pub sent: Bytes,
    /// Segments sent again.
    pub retransmits: u64,
    /// Connections open at the last sample.
    pub connections: u64,
}

/// A step's GPUs since its start.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct StepGpu {
    /// The most devices that its processes held at one sample.
    pub devices: u32,
    /// The time that it held devices, of all of them together.
    pub held: Duration,
    /// The time in which its processes computed on them, of all of them together;
    /// `None` when the device does not tell processes apart.
    pub busy: Option<Duration>,
    /// The most of their memory that it held at one sample; `None` when the device
    /// does not tell.
    pub peak_memory: Option<Bytes>,
}

/// The run of a pipeline, as a node tells it from its processes and folders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunName {
    /// What runs pipelines here, as `nextflow`.
    pub launcher: String,
    /// Tells this run from others of its node; never two runs in one.
    pub key: String,
    /// The pipeline, where the launcher names one.
    pub pipeline: Option<String>,
}

/// What a step does at one sample: the first of these that any of its threads does,
/// so that work comes before waiting, and a cause before who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It has a core.
    Running,
    /// It is ready, and waits for a core.
    Runnable,
    /// It waits for a page of its memory.
    PageFault,
    /// It waits for a block device.
    Disk,
    /// It waits for the network, a network file system included.
    Network,
    /// It waits for another process at a pipe or a local socket.
    Pipe,
    /// It waits for any of several things: poll, select, epoll.
    Poll,
    /// It sleeps for a time that it chose.
    Timer,
    /// It waits for another thread, or for a lock on a file.
    Lock,
    /// It waits for the end of a child.
    Child,
    /// It waits for something else.
    Other,
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Runnable => "waiting for a core",
            Self::PageFault => "in page faults",
            Self::Disk => "waiting for disk",
            Self::Network => "waiting for network",
            Self::Pipe => "waiting at a pipe",
            Self::Poll => "waiting for events",
            Self::Timer => "sleeping",
            Self::Lock => "waiting for a lock",
            Self::Child => "waiting for a child",
            Self::Other => "waiting for something else",
        })
    }
}

/// How often something was seen, and the time that the samples stand for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Sampled {
    /// Samples.
    pub samples: u64,
    /// The time from each of them to the one before.
    pub time: Duration,
}
