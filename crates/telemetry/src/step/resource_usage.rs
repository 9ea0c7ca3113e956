//! Further observations of a task: the parts of its CPU time, its waits and its parallelism. An
//! older probe sends none of them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Namespaces, Parallelism};
use crate::units::{Bytes, CpuTime};

/// Totals since the start of the task. `None` means that the kernel or the probe does not report
/// the value; it does not mean zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepDetail {
    /// CPU time in user mode.
    pub user_cpu: Option<CpuTime>,
    /// CPU time in kernel mode. The kernel divides CPU time into user and system by the clock tick.
    /// The sum is exact, but the parts are coarse for processes of a few milliseconds.
    pub system_cpu: Option<CpuTime>,
    /// Time in which its threads were ready and waited for a core, without threads that ended
    /// before their process.
    pub run_queue: Option<Duration>,
    /// Number of voluntary context switches of its threads.
    pub voluntary_switches: Option<u64>,
    /// Number of involuntary context switches of its threads.
    pub involuntary_switches: Option<u64>,
    /// Page faults without disk access.
    pub minor_faults: Option<u64>,
    /// Page faults with disk access.
    pub major_faults: Option<u64>,
    /// Time in which its threads waited for block devices; known only if `kernel.task_delayacct` is
    /// on.
    pub disk_delay: Option<Duration>,
    /// Its time by the number of busy cores.
    pub parallelism: Parallelism,
    /// The number of samples in each state; empty if states cannot be observed.
    pub states: BTreeMap<TaskState, Sampled>,
    /// The executables that waited, most samples first; at most [`Self::MAX_WAITING_TOOLS`]. Empty
    /// if states cannot be observed, and from probes before version 1.7 of the contract.
    pub waiting_tools: Vec<WaitingTool>,
    /// TCP connections by port and kind of address: first those with the most open connections,
    /// then those with the most bytes; at most [`Self::MAX_NETWORK_PEERS`]. Empty if sockets cannot
    /// be observed, and from probes before version 1.7 of the contract.
    pub network_peers: Vec<NetworkPeer>,
    /// Bytes and calls of `read` and `write` on files, pipes and devices; `None` if they are not
    /// counted.
    pub syscall_io: Option<SyscallIo>,
    /// How long it computed without a visible result; `None` if this cannot be observed.
    pub cpu_without_progress: Option<CpuWithoutProgress>,
    /// The most threads of its processes at one sample; `None` if it ended before the first sample.
    pub threads: Option<u32>,
    /// The numeric user id of its first process on the node; `None` if it was not observed.
    pub user: Option<u32>,
    /// Namespaces in which any of its processes differs from the node. `None` if they cannot be
    /// read; an empty set means that none differs.
    pub namespaces: Option<Namespaces>,
    /// Its memory use at the last sample, from the same source as its peak if that source is
    /// sampled; `None` without a sample.
    pub memory_now: Option<Bytes>,
    /// How the kernel kept its memory within the limit; `None` for a task without a cgroup of its
    /// own, and if the kernel does not report it.
    pub reclaim: Option<Reclaim>,
    /// The traffic of its TCP sockets; `None` if no socket was observed. That does not mean zero
    /// where sockets cannot be observed.
    pub network: Option<StepNetwork>,
    /// Its GPU use; `None` if it used no GPU, or GPUs cannot be observed.
    pub gpu: Option<StepGpu>,
    /// The run of the task, as the node detects it; `None` if the node cannot detect it.
    pub run: Option<Box<RunName>>,
    /// Labels from a scheduler on the node; `None` if no scheduler sent any.
    pub scheduler_labels: Option<Box<SchedulerLabels>>,
    /// Data that the probe sends only if its configuration enables it.
    pub opt_in_detail: Option<Box<OptInDetail>>,
}

/// The executable that was most often in a state other than running.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingTool {
    /// The state.
    pub state: TaskState,
    /// Base name of the executable.
    pub tool: String,
    /// Number of samples in which the task was in this state because of this executable. Several
    /// executables can cause the state of one sample.
    pub samples: u64,
}

impl StepDetail {
    /// Maximum number of [waiting tools](Self::waiting_tools).
    pub const MAX_WAITING_TOOLS: usize = 3;

    /// Maximum number of [network peers](Self::network_peers).
    pub const MAX_NETWORK_PEERS: usize = 4;

    /// The approximate heap memory. A map entry takes its key, its value and its part of a tree
    /// node.
    pub(super) fn heap_bytes(&self) -> usize {
        const ENTRY: usize = 2 * size_of::<(String, String)>();
        let states = self.states.len() * 2 * size_of::<(TaskState, Sampled)>();
        let run = self.run.as_ref().map_or(0, |run| {
            let pipeline = run.pipeline.as_ref().map_or(0, String::len);
            size_of::<RunName>() + run.launcher.len() + run.key.len() + pipeline
        });
        let scheduler_labels = self
            .scheduler_labels
            .as_ref()
            .map_or(0, |scheduler_labels| {
                let labels = scheduler_labels.labels.iter();
                let labels: usize = labels.map(|(k, v)| ENTRY + k.len() + v.len()).sum();
                let trace_id = scheduler_labels.trace_id.as_ref().map_or(0, String::len);
                size_of::<SchedulerLabels>() + trace_id + labels
            });
        let opt_in_detail = self.opt_in_detail.as_ref().map_or(0, |opt_in_detail| {
            let arguments = opt_in_detail.arguments.iter();
            let arguments: usize = arguments.map(|a| size_of::<String>() + a.len()).sum();
            let files: usize = opt_in_detail
                .files
                .keys()
                .map(|path| ENTRY + path.len())
                .sum();
            size_of::<OptInDetail>() + arguments + files
        });
        let waiting = self.waiting_tools.iter();
        let waiting: usize = waiting
            .map(|one| size_of::<WaitingTool>() + one.tool.len())
            .sum();
        let peers = self.network_peers.len() * size_of::<NetworkPeer>();
        states + waiting + peers + run + scheduler_labels + opt_in_detail
    }
}

#[cfg(any(test, feature = "testing"))]
impl StepDetail {
    /// Details for tests. Each field is named, so that a new one gets a value, and each known number
    /// differs from the others.
    #[expect(clippy::too_many_lines, reason = "one value with all its fields")]
    pub fn sample() -> Self {
        let mut parallelism = Parallelism::default();
        parallelism.add(Duration::from_nanos(10), CpuTime(2));
        parallelism.add(Duration::from_nanos(10), CpuTime(10_000));
        let sampled = |samples| Sampled {
            samples,
            time: Duration::from_nanos(samples * 7),
        };
        Self {
            user_cpu: Some(CpuTime(71)),
            system_cpu: Some(CpuTime(0)),
            run_queue: Some(Duration::from_nanos(73)),
            voluntary_switches: Some(79),
            involuntary_switches: Some(83),
            minor_faults: Some(89),
            major_faults: Some(97),
            disk_delay: None,
            parallelism,
            states: BTreeMap::from([
                (TaskState::Running, sampled(2)),
                (TaskState::Pipe, sampled(3)),
            ]),
            waiting_tools: vec![WaitingTool {
                state: TaskState::Pipe,
                tool: "bwa-α".to_owned(),
                samples: 3,
            }],
            network_peers: vec![NetworkPeer {
                port: Some(5432),
                scope: PeerScope::Private,
                is_server: true,
                received: Bytes(173),
                sent: Bytes(0),
                connections: 179,
            }],
            network: Some(StepNetwork {
                received: Bytes(101),
                sent: Bytes(0),
                retransmits: 103,
                connections: 107,
            }),
            gpu: Some(StepGpu {
                devices: 8,
                held: Duration::from_nanos(109),
                busy: None,
                peak_memory: Some(Bytes(113)),
            }),
            run: Some(Box::new(RunName {
                launcher: "nextflow".to_owned(),
                key: "1f-α".to_owned(),
                pipeline: None,
            })),
            scheduler_labels: Some(Box::new(SchedulerLabels {
                trace_id: Some("4bf9".to_owned()),
                labels: [("run".to_owned(), "r7".to_owned())].into(),
            })),
            opt_in_detail: Some(Box::new(OptInDetail {
                arguments: vec!["bwa".to_owned(), String::new()],
                files: [("/data/α".to_owned(), 127)].into(),
                files_left_out: 131,
            })),
            syscall_io: Some(SyscallIo {
                read: Bytes(137),
                written: Bytes(139),
                read_calls: 149,
                write_calls: 0,
            }),
            cpu_without_progress: Some(CpuWithoutProgress {
                now: Duration::ZERO,
                longest: Duration::from_nanos(151),
            }),
            threads: Some(157),
            user: Some(u32::MAX),
            namespaces: Some(Namespaces::from_bits(0b1001)),
            memory_now: Some(Bytes(167)),
            reclaim: Some(Reclaim {
                pages_reclaimed: None,
                limit_hits: 163,
            }),
        }
    }
}

/// Bytes and calls of `read` and `write` since the start of a task, including cache hits. Mapped
/// files and data sent by `send` are not included. Source: `rchar`, `wchar`, `syscr` and `syscw` in
/// `/proc/PID/io`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct SyscallIo {
    /// Bytes that `read` calls returned.
    pub read: Bytes,
    /// Bytes that `write` calls accepted.
    pub written: Bytes,
    /// Number of `read` calls.
    pub read_calls: u64,
    /// Number of `write` calls.
    pub write_calls: u64,
}

impl SyscallIo {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            read: self.read.saturating_add(more.read),
            written: self.written.saturating_add(more.written),
            read_calls: self.read_calls.saturating_add(more.read_calls),
            write_calls: self.write_calls.saturating_add(more.write_calls),
        }
    }

    /// The increase since `before`; a counter that decreased gives zero.
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

/// How the kernel kept a task's cgroup within its memory limit, since the cgroup was created.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Reclaim {
    /// Memory that the kernel reclaimed from it, mostly page cache; `None` with cgroup v1, which
    /// does not report it.
    pub pages_reclaimed: Option<Bytes>,
    /// How often the cgroup reached its memory limit.
    pub limit_hits: u64,
}

/// Time in which a task computed without a result that the kernel sees. Results are: a byte read or
/// written, a new memory page, a process started or ended, or a GPU in use. Much useful work has no
/// visible result for a while; a busy loop never has one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct CpuWithoutProgress {
    /// CPU-active time since the last visible result; waiting time is not included.
    pub now: Duration,
    /// The longest such period, including the present one.
    pub longest: Duration,
}

/// Labels that a scheduler sends for a task over the probe's socket. They affect only the
/// assignment to a run, pipeline and sample.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SchedulerLabels {
    /// The trace id that connects the task to the scheduler's own traces.
    pub trace_id: Option<String>,
    /// Names and values; `run`, `pipeline` and `sample` name what the task belongs to.
    pub labels: BTreeMap<String, String>,
}

impl SchedulerLabels {
    /// Maximum number of labels of a task.
    pub const MAX_LABELS: usize = 16;
    /// Maximum bytes of a label's name, as in Kubernetes, and of a trace id.
    pub const MAX_KEY_BYTES: usize = 64;
    /// Maximum bytes of a label's value.
    pub const MAX_VALUE_BYTES: usize = 128;

    /// The text as the value of a label; `None` if it is empty, too long or contains a control
    /// character.
    pub fn value(text: &str) -> Option<String> {
        let is_value = !text.is_empty()
            && text.len() <= Self::MAX_VALUE_BYTES
            && !text.chars().any(char::is_control);
        is_value.then(|| text.to_owned())
    }

    /// The text, cut to the bytes of a value.
    pub fn cut(mut text: String) -> String {
        text.truncate(text.floor_char_boundary(Self::MAX_VALUE_BYTES));
        text
    }
}

/// Data that leaves a node only if the configuration of its probe enables it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct OptInDetail {
    /// The arguments of its first process, cut to the limits; empty unless `export_args` is set.
    pub arguments: Vec<String>,
    /// Number of files that were open, by path cut to the configured depth; empty unless
    /// `files_depth` is set.
    pub files: BTreeMap<String, u64>,
    /// How often an open file was left out because a limit was reached. A file that stays open
    /// counts at each scan.
    pub files_left_out: u64,
}

impl OptInDetail {
    /// Maximum number of arguments of a task, including empty ones.
    pub const MAX_ARGUMENTS: usize = 128;
    /// Maximum bytes of all arguments together.
    pub const MAX_ARGUMENT_BYTES: usize = 1_024;
    /// Maximum number of cut paths of a task.
    pub const MAX_PATHS: usize = 32;
    /// Maximum bytes of a cut path.
    pub const MAX_PATH_BYTES: usize = 256;
}

/// Traffic of a task's TCP sockets since its start, without loopback. UDP traffic and kernel
/// traffic for the task (NFS, Lustre) are not included.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct StepNetwork {
    /// Bytes of payload received.
    pub received: Bytes,
    /// Bytes of payload sent, without retransmissions.
    pub sent: Bytes,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Connections open at the last sample.
    pub connections: u64,
}

/// The TCP connections of a task to one port at one kind of address, since its start, without
/// loopback. It contains no address and no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkPeer {
    /// The port of the server; `None` for ports that a kernel gives to clients, and for connections
    /// beyond the limit of the probe.
    pub port: Option<u16>,
    /// The kind of the other end's address.
    pub scope: PeerScope,
    /// Whether the task is the server.
    pub is_server: bool,
    /// Bytes of payload received.
    pub received: Bytes,
    /// Bytes of payload sent, without retransmissions.
    pub sent: Bytes,
    /// Connections open at the last sample.
    pub connections: u64,
}

impl NetworkPeer {
    /// The lowest port that Linux gives to clients by default.
    ///
    /// Source: Linux, `Documentation/networking/ip-sysctl.rst`, `ip_local_port_range`.
    pub const FIRST_CLIENT_PORT: u16 = 32_768;

    /// The service that usually has the port; `None` if there is none.
    ///
    /// Sources: IANA, Service Name and Transport Protocol Port Number Registry, and the documentation
    /// of those that are not in it.
    pub const fn service(&self) -> Option<&'static str> {
        let Some(port) = self.port else {
            return None;
        };
        Some(match (port, self.scope) {
            (80, PeerScope::LinkLocal) => "instance metadata",
            (22, _) => "SSH",
            (53 | 853, _) => "DNS",
            (80, _) => "HTTP",
            (443, _) => "HTTPS",
            (111 | 2049, _) => "NFS",
            (139 | 445, _) => "SMB",
            (988, _) => "Lustre",
            (3300 | 6789, _) => "Ceph",
            (1433, _) => "SQL Server",
            (1521, _) => "Oracle Database",
            (3306, _) => "MySQL",
            (5432, _) => "PostgreSQL",
            (5439, _) => "Redshift",
            (6379, _) => "Redis",
            (9042, _) => "Cassandra",
            (11_211, _) => "Memcached",
            (27_017, _) => "MongoDB",
            (5671 | 5672, _) => "AMQP",
            (9092, _) => "Kafka",
            (6817..=6819, _) => "Slurm",
            _ => return None,
        })
    }
}

/// The number of open connections and the port: `2 to port 443 (HTTPS) at public addresses`.
impl fmt::Display for NetworkPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.is_server {
            "from clients of"
        } else {
            "to"
        };
        write!(f, "{} {direction} ", self.connections)?;
        match (self.port, self.service()) {
            (Some(port), Some(service)) => write!(f, "port {port} ({service})")?,
            (Some(port), None) => write!(f, "port {port}")?,
            (None, _) => f.write_str("other ports")?,
        }
        write!(f, " at {}", self.scope)
    }
}

/// The kind of an IP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PeerScope {
    /// Valid only on its link: 169.254.0.0/16 and `fe80::/10`. Instance metadata and the credentials
    /// of ECS tasks have such addresses.
    LinkLocal,
    /// Private (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, `fc00::/7`), or shared by carriers
    /// (100.64.0.0/10).
    Private,
    /// Any other.
    Public,
}

impl fmt::Display for PeerScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinkLocal => "link-local addresses",
            Self::Private => "private addresses",
            Self::Public => "public addresses",
        })
    }
}

/// GPU use of a task since its start.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct StepGpu {
    /// The most devices that its processes used at one sample.
    pub devices: u32,
    /// Device time in which it used devices, summed over all devices.
    pub held: Duration,
    /// Device time in which devices computed for its processes, summed over all devices; `None` if
    /// the driver does not report processes separately.
    pub busy: Option<Duration>,
    /// The most device memory that it used at one sample; `None` if the driver does not report it.
    pub peak_memory: Option<Bytes>,
}

/// The run of a pipeline, as a node detects it from its processes and directories.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunName {
    /// The workflow engine, such as `nextflow`.
    pub launcher: String,
    /// Identifies the run on its node. Two runs never have the same key.
    pub key: String,
    /// The pipeline; `None` if the launcher does not name one.
    pub pipeline: Option<String>,
}

/// The state of a task at one sample: the first state of this list that any of its threads has. So
/// work precedes waiting, and a cause precedes the threads that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// A thread runs on a core.
    Running,
    /// A thread is ready and waits for a core.
    Runnable,
    /// A thread waits for a memory page.
    PageFault,
    /// A thread waits for a block device.
    Disk,
    /// A thread waits for a network or FUSE file system, such as NFS, SMB, Ceph, Lustre or a mounted
    /// bucket. Probes before version 1.7 of the contract report a disk or the network instead.
    RemoteFileSystem,
    /// A thread waits for the network.
    Network,
    /// A thread waits for another process at a pipe or a local socket.
    Pipe,
    /// A thread waits in poll, select or epoll.
    Poll,
    /// A thread sleeps for a fixed time.
    Timer,
    /// A thread waits for another thread or for a file lock.
    Lock,
    /// A thread waits for the end of a child process.
    Child,
    /// A thread waits for something else.
    Other,
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Runnable => "waiting for a core",
            Self::PageFault => "in page faults",
            Self::Disk => "waiting for disk",
            Self::RemoteFileSystem => "waiting for a network or FUSE file system",
            Self::Network => "waiting for network",
            Self::Pipe => "waiting for a pipe",
            Self::Poll => "waiting for events",
            Self::Timer => "sleeping",
            Self::Lock => "waiting for a lock",
            Self::Child => "waiting for a child process",
            Self::Other => "waiting for something else",
        })
    }
}

/// Number of samples, and the time that they represent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sampled {
    /// Number of samples.
    pub samples: u64,
    /// The sum of the times from each sample back to the previous one.
    pub time: Duration,
}
