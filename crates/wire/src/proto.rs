// Generated from ebb.v1.proto; tests/generated.rs shows how.
/// A message in the queue: at most 64 KiB in base64, zstd-compressed, after a header.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Heartbeats {
    #[prost(message, optional, tag = "1")]
    pub sent: ::core::option::Option<Sent>,
    #[prost(message, repeated, tag = "2")]
    pub heartbeats: ::prost::alloc::vec::Vec<Heartbeat>,
}
/// Steps that ended: an object in the bucket, or a message in the queue with the limits of `Heartbeats`.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Steps {
    #[prost(message, optional, tag = "1")]
    pub sent: ::core::option::Option<Sent>,
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub boot: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub probe_start: ::prost::alloc::string::String,
    #[prost(uint64, tag = "5")]
    pub sequence: u64,
    #[prost(enumeration = "Origin", tag = "6")]
    pub origin: i32,
    #[prost(message, repeated, tag = "7")]
    pub steps: ::prost::alloc::vec::Vec<Step>,
}
/// When and on which boot of the node something was sent.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Sent {
    #[prost(string, tag = "1")]
    pub boot: ::prost::alloc::string::String,
    #[prost(uint64, tag = "2")]
    pub clock_ns: u64,
    #[prost(int64, tag = "3")]
    pub wall_us: i64,
}
/// One interval of one node.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Heartbeat {
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub boot: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub probe_start: ::prost::alloc::string::String,
    #[prost(uint64, tag = "4")]
    pub sequence: u64,
    #[prost(uint64, tag = "5")]
    pub start_ns: u64,
    #[prost(uint64, tag = "6")]
    pub end_ns: u64,
    #[prost(int64, tag = "7")]
    pub wall_at_end_us: i64,
    #[prost(enumeration = "Origin", tag = "8")]
    pub origin: i32,
    #[prost(message, optional, tag = "9")]
    pub coverage: ::core::option::Option<Coverage>,
    #[prost(message, optional, tag = "10")]
    pub hardware: ::core::option::Option<Hardware>,
    #[prost(message, optional, tag = "11")]
    pub workload: ::core::option::Option<Usage>,
    #[prost(message, optional, tag = "12")]
    pub background: ::core::option::Option<Usage>,
    #[prost(uint64, optional, tag = "13")]
    pub typed_ago_ms: ::core::option::Option<u64>,
    #[prost(message, repeated, tag = "14")]
    pub steps: ::prost::alloc::vec::Vec<Step>,
    #[prost(message, optional, tag = "15")]
    pub probe: ::core::option::Option<ProbeCost>,
    /// Since 1.2.
    #[prost(message, optional, tag = "16")]
    pub detail: ::core::option::Option<NodeDetail>,
}
/// Shares of the interval in which each signal was watched, in parts per million. Absent: unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Coverage {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: ::core::option::Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub memory: ::core::option::Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub disk: ::core::option::Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub network: ::core::option::Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub gpu: ::core::option::Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    pub short_processes: ::core::option::Option<u32>,
}
/// The size of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Hardware {
    #[prost(uint64, tag = "1")]
    pub milli_cores: u64,
    #[prost(uint64, tag = "2")]
    pub memory_bytes: u64,
    #[prost(uint32, optional, tag = "3")]
    pub gpus: ::core::option::Option<u32>,
}
/// Resource use of a group of processes in the interval. Absent: unknown, which is not zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Usage {
    #[prost(uint64, optional, tag = "1")]
    pub cpu_ns: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub disk_bytes: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub network_bytes: ::core::option::Option<u64>,
    #[prost(uint32, optional, tag = "4")]
    pub gpu_ppm: ::core::option::Option<u32>,
    #[prost(uint64, tag = "5")]
    pub processes_started: u64,
}
/// Resource use of the probe in the interval, and its losses since its start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProbeCost {
    #[prost(uint64, tag = "1")]
    pub cpu_ns: u64,
    #[prost(uint64, optional, tag = "2")]
    pub resident_bytes: ::core::option::Option<u64>,
    #[prost(uint64, tag = "3")]
    pub events_lost: u64,
    #[prost(uint64, tag = "4")]
    pub records_dropped: u64,
    #[prost(uint64, tag = "5")]
    pub spool_depth_bytes: u64,
    /// Since 1.6.
    #[prost(uint64, optional, tag = "6")]
    pub records_unreadable: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    pub steps_left_out: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub steps_shortened: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "9")]
    pub unclean_stops: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "10")]
    pub power_losses: ::core::option::Option<u64>,
}
/// One task: totals since its start.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Step {
    #[prost(enumeration = "StepKind", tag = "1")]
    pub kind: i32,
    #[prost(string, tag = "2")]
    pub key: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub name: ::prost::alloc::string::String,
    #[prost(uint64, tag = "4")]
    pub started_ns: u64,
    #[prost(uint64, tag = "5")]
    pub observed_ns: u64,
    #[prost(enumeration = "EndKind", tag = "6")]
    pub end: i32,
    /// Exit status or signal number, depending on `end`.
    #[prost(uint32, tag = "7")]
    pub end_code: u32,
    #[prost(uint64, tag = "8")]
    pub processes: u64,
    #[prost(uint64, tag = "9")]
    pub cpu_ns: u64,
    #[prost(uint64, optional, tag = "10")]
    pub peak_memory_bytes: ::core::option::Option<u64>,
    #[prost(enumeration = "MemorySource", tag = "11")]
    pub peak_memory_source: i32,
    #[prost(uint64, optional, tag = "12")]
    pub disk_read_bytes: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "13")]
    pub disk_written_bytes: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "14")]
    pub requested_milli_cores: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "15")]
    pub requested_memory_bytes: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "16")]
    pub peak_milli_cores: ::core::option::Option<u64>,
    #[prost(uint64, tag = "17")]
    pub last_progress_ns: u64,
    #[prost(message, repeated, tag = "18")]
    pub tools: ::prost::alloc::vec::Vec<Tool>,
    /// Since 1.1.
    #[prost(message, optional, boxed, tag = "19")]
    pub detail: ::core::option::Option<::prost::alloc::boxed::Box<Detail>>,
}
/// Further observations of a task. Absent: unknown, which is not zero.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Detail {
    #[prost(uint64, optional, tag = "1")]
    pub user_cpu_ns: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub system_cpu_ns: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub run_queue_ns: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub voluntary_switches: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub involuntary_switches: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub minor_faults: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    pub major_faults: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub disk_delay_ns: ::core::option::Option<u64>,
    /// By class, beginning with the fewest cores; empty classes at the end are omitted.
    #[prost(message, repeated, tag = "9")]
    pub parallelism: ::prost::alloc::vec::Vec<Busy>,
    #[prost(message, repeated, tag = "10")]
    pub states: ::prost::alloc::vec::Vec<Sampled>,
    /// Since 1.2.
    #[prost(message, optional, tag = "11")]
    pub network: ::core::option::Option<StepNetwork>,
    #[prost(message, optional, tag = "12")]
    pub gpu: ::core::option::Option<StepGpu>,
    #[prost(message, optional, tag = "13")]
    pub run: ::core::option::Option<RunName>,
    /// Since 1.3.
    #[prost(message, optional, tag = "14")]
    pub scheduler_labels: ::core::option::Option<SchedulerLabels>,
    #[prost(message, optional, tag = "15")]
    pub opt_in_detail: ::core::option::Option<OptInDetail>,
    /// Since 1.4.
    #[prost(message, optional, tag = "16")]
    pub syscall_io: ::core::option::Option<SyscallIo>,
    #[prost(message, optional, tag = "17")]
    pub cpu_without_progress: ::core::option::Option<CpuWithoutProgress>,
    #[prost(uint32, optional, tag = "18")]
    pub threads: ::core::option::Option<u32>,
    #[prost(uint32, optional, tag = "19")]
    pub user: ::core::option::Option<u32>,
    #[prost(message, optional, tag = "20")]
    pub reclaim: ::core::option::Option<Reclaim>,
    #[prost(uint64, optional, tag = "21")]
    pub memory_now_bytes: ::core::option::Option<u64>,
    /// Since 1.5: one bit for each namespace in which a process differs from the node. The lowest
    /// bit is mount, then pid, network, user, UTS, IPC and cgroup, as in `namespaces(7)`.
    #[prost(uint32, optional, tag = "22")]
    pub namespaces: ::core::option::Option<u32>,
    /// Since 1.7: the states with the most samples, without RUNNING.
    #[prost(message, repeated, tag = "23")]
    pub waiting_tools: ::prost::alloc::vec::Vec<WaitingTool>,
    /// Since 1.7: connections by port, first those with the most open ones.
    #[prost(message, repeated, tag = "24")]
    pub network_peers: ::prost::alloc::vec::Vec<NetworkPeer>,
}
/// The program that was most often in a state.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WaitingTool {
    #[prost(enumeration = "TaskState", tag = "1")]
    pub state: i32,
    #[prost(string, tag = "2")]
    pub tool: ::prost::alloc::string::String,
    /// Samples in which one of its processes was in this state.
    #[prost(uint64, tag = "3")]
    pub samples: u64,
}
/// Wall time in one class of parallelism, and the CPU time in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Busy {
    #[prost(uint64, tag = "1")]
    pub wall_ns: u64,
    #[prost(uint64, tag = "2")]
    pub cpu_ns: u64,
}
/// The samples of a task in one state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Sampled {
    #[prost(enumeration = "TaskState", tag = "1")]
    pub state: i32,
    #[prost(uint64, tag = "2")]
    pub samples: u64,
    #[prost(uint64, tag = "3")]
    pub time_ns: u64,
}
/// One program of a task.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Tool {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(uint64, tag = "2")]
    pub processes: u64,
    #[prost(uint64, tag = "3")]
    pub cpu_ns: u64,
    #[prost(uint64, optional, tag = "4")]
    pub peak_memory_bytes: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub disk_bytes: ::core::option::Option<u64>,
    /// Since 1.7.
    #[prost(message, optional, tag = "6")]
    pub events: ::core::option::Option<ToolEvents>,
}
/// Starts and ends of the processes of one program of a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ToolEvents {
    /// From the start of the task to the start of the first process.
    #[prost(uint64, tag = "1")]
    pub started_after_ns: u64,
    /// From the start of the task to the latest end of a process. Absent: none ended.
    #[prost(uint64, optional, tag = "2")]
    pub ended_after_ns: ::core::option::Option<u64>,
    /// Processes with a non-zero exit status, or ended by a signal.
    #[prost(uint64, tag = "3")]
    pub failed: u64,
    /// Processes that the kernel killed because memory was exhausted.
    #[prost(uint64, tag = "4")]
    pub oom_kills: u64,
}
/// Further observations of the node.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct NodeDetail {
    #[prost(string, optional, tag = "1")]
    pub sampled_because: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "2")]
    pub gpus: ::prost::alloc::vec::Vec<GpuUse>,
    #[prost(uint64, tag = "3")]
    pub gpu_restarts: u64,
    #[prost(message, optional, tag = "4")]
    pub network: ::core::option::Option<NetworkDetail>,
    #[prost(message, optional, tag = "5")]
    pub pressure: ::core::option::Option<Pressure>,
    #[prost(uint64, optional, tag = "6")]
    pub reclaimed_bytes: ::core::option::Option<u64>,
    /// Since 1.3.
    #[prost(uint64, tag = "7")]
    pub labels_refused: u64,
    /// Since 1.4.
    #[prost(uint64, optional, tag = "8")]
    pub memory_used_bytes: ::core::option::Option<u64>,
    /// Since 1.6.
    #[prost(string, optional, tag = "9")]
    pub masked_because: ::core::option::Option<::prost::alloc::string::String>,
    /// Since 1.7: the version of the probe, such as "0.2.0".
    #[prost(string, optional, tag = "10")]
    pub version: ::core::option::Option<::prost::alloc::string::String>,
}
/// One GPU in the interval.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GpuUse {
    #[prost(uint32, tag = "1")]
    pub number: u32,
    #[prost(string, tag = "2")]
    pub model: ::prost::alloc::string::String,
    #[prost(uint32, optional, tag = "3")]
    pub busy_ppm: ::core::option::Option<u32>,
    #[prost(uint64, optional, tag = "4")]
    pub memory_held_bytes: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub memory_bytes: ::core::option::Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub processes: ::core::option::Option<u32>,
}
/// Network counters of the node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NetworkDetail {
    #[prost(uint64, tag = "1")]
    pub owned_bytes: u64,
    #[prost(uint64, tag = "2")]
    pub unowned_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub retransmits: u64,
    #[prost(uint64, optional, tag = "4")]
    pub connections: ::core::option::Option<u64>,
}
/// Pressure stall information: time in the interval.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Pressure {
    #[prost(uint64, tag = "1")]
    pub cpu_some_ns: u64,
    #[prost(uint64, tag = "2")]
    pub memory_some_ns: u64,
    #[prost(uint64, tag = "3")]
    pub memory_full_ns: u64,
    #[prost(uint64, tag = "4")]
    pub disk_some_ns: u64,
    #[prost(uint64, tag = "5")]
    pub disk_full_ns: u64,
}
/// TCP payload of a task's sockets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StepNetwork {
    #[prost(uint64, tag = "1")]
    pub received_bytes: u64,
    #[prost(uint64, tag = "2")]
    pub sent_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub retransmits: u64,
    #[prost(uint64, tag = "4")]
    pub connections: u64,
}
/// TCP connections of a task to one port at one kind of address, without loopback. Never an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NetworkPeer {
    /// The port of the server. Absent: a port that a kernel gives to clients.
    #[prost(uint32, optional, tag = "1")]
    pub port: ::core::option::Option<u32>,
    #[prost(enumeration = "PeerScope", tag = "2")]
    pub scope: i32,
    /// Whether the task is the server.
    #[prost(bool, tag = "3")]
    pub is_server: bool,
    #[prost(uint64, tag = "4")]
    pub received_bytes: u64,
    #[prost(uint64, tag = "5")]
    pub sent_bytes: u64,
    /// Open at the last sample.
    #[prost(uint64, tag = "6")]
    pub connections: u64,
}
/// GPU use of a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StepGpu {
    #[prost(uint32, tag = "1")]
    pub devices: u32,
    #[prost(uint64, tag = "2")]
    pub held_ns: u64,
    #[prost(uint64, optional, tag = "3")]
    pub busy_ns: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub peak_memory_bytes: ::core::option::Option<u64>,
}
/// The pipeline run that a task belongs to, from its launcher.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RunName {
    #[prost(string, tag = "1")]
    pub launcher: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key: ::prost::alloc::string::String,
    #[prost(string, optional, tag = "3")]
    pub pipeline: ::core::option::Option<::prost::alloc::string::String>,
}
/// Labels that a scheduler sent for a task.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SchedulerLabels {
    #[prost(string, optional, tag = "1")]
    pub trace_id: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "2")]
    pub labels: ::prost::alloc::vec::Vec<Label>,
}
/// A label from a scheduler.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Label {
    #[prost(string, tag = "1")]
    pub key: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub value: ::prost::alloc::string::String,
}
/// Arguments and open files of a task, which the probe sends only if they are enabled.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OptInDetail {
    #[prost(string, repeated, tag = "1")]
    pub arguments: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "2")]
    pub files: ::prost::alloc::vec::Vec<Files>,
    #[prost(uint64, tag = "3")]
    pub files_left_out: u64,
}
/// Number of open files below a path.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Files {
    #[prost(string, tag = "1")]
    pub path: ::prost::alloc::string::String,
    #[prost(uint64, tag = "2")]
    pub count: u64,
}
/// Bytes and calls of `read` and `write`, with or without a disk access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SyscallIo {
    #[prost(uint64, tag = "1")]
    pub read_bytes: u64,
    #[prost(uint64, tag = "2")]
    pub written_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub read_calls: u64,
    #[prost(uint64, tag = "4")]
    pub write_calls: u64,
}
/// CPU time without a visible result, such as input, output or a new memory page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CpuWithoutProgress {
    #[prost(uint64, tag = "1")]
    pub now_ns: u64,
    #[prost(uint64, tag = "2")]
    pub longest_ns: u64,
}
/// Memory that the kernel reclaimed from the task's cgroup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Reclaim {
    #[prost(uint64, optional, tag = "1")]
    pub pages_reclaimed_bytes: ::core::option::Option<u64>,
    #[prost(uint64, tag = "2")]
    pub limit_hits: u64,
}
/// Whether data was measured or simulated. Zero is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum Origin {
    Unspecified = 0,
    Measured = 1,
    Simulated = 2,
}
impl Origin {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "ORIGIN_UNSPECIFIED",
            Self::Measured => "ORIGIN_MEASURED",
            Self::Simulated => "ORIGIN_SIMULATED",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ORIGIN_UNSPECIFIED" => Some(Self::Unspecified),
            "ORIGIN_MEASURED" => Some(Self::Measured),
            "ORIGIN_SIMULATED" => Some(Self::Simulated),
            _ => None,
        }
    }
}
/// The kind of a task. Zero is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum StepKind {
    Unspecified = 0,
    EcsTask = 1,
    Pod = 2,
    Container = 3,
    SlurmJob = 4,
    NextflowTask = 5,
    SnakemakeJob = 6,
    Session = 7,
    Service = 8,
    Tree = 9,
}
impl StepKind {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "STEP_KIND_UNSPECIFIED",
            Self::EcsTask => "STEP_KIND_ECS_TASK",
            Self::Pod => "STEP_KIND_POD",
            Self::Container => "STEP_KIND_CONTAINER",
            Self::SlurmJob => "STEP_KIND_SLURM_JOB",
            Self::NextflowTask => "STEP_KIND_NEXTFLOW_TASK",
            Self::SnakemakeJob => "STEP_KIND_SNAKEMAKE_JOB",
            Self::Session => "STEP_KIND_SESSION",
            Self::Service => "STEP_KIND_SERVICE",
            Self::Tree => "STEP_KIND_TREE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "STEP_KIND_UNSPECIFIED" => Some(Self::Unspecified),
            "STEP_KIND_ECS_TASK" => Some(Self::EcsTask),
            "STEP_KIND_POD" => Some(Self::Pod),
            "STEP_KIND_CONTAINER" => Some(Self::Container),
            "STEP_KIND_SLURM_JOB" => Some(Self::SlurmJob),
            "STEP_KIND_NEXTFLOW_TASK" => Some(Self::NextflowTask),
            "STEP_KIND_SNAKEMAKE_JOB" => Some(Self::SnakemakeJob),
            "STEP_KIND_SESSION" => Some(Self::Session),
            "STEP_KIND_SERVICE" => Some(Self::Service),
            "STEP_KIND_TREE" => Some(Self::Tree),
            _ => None,
        }
    }
}
/// How a task ended. Zero is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum EndKind {
    Unspecified = 0,
    Running = 1,
    Exited = 2,
    Signalled = 3,
    OutOfMemory = 4,
    Unknown = 5,
}
impl EndKind {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "END_KIND_UNSPECIFIED",
            Self::Running => "END_KIND_RUNNING",
            Self::Exited => "END_KIND_EXITED",
            Self::Signalled => "END_KIND_SIGNALLED",
            Self::OutOfMemory => "END_KIND_OUT_OF_MEMORY",
            Self::Unknown => "END_KIND_UNKNOWN",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "END_KIND_UNSPECIFIED" => Some(Self::Unspecified),
            "END_KIND_RUNNING" => Some(Self::Running),
            "END_KIND_EXITED" => Some(Self::Exited),
            "END_KIND_SIGNALLED" => Some(Self::Signalled),
            "END_KIND_OUT_OF_MEMORY" => Some(Self::OutOfMemory),
            "END_KIND_UNKNOWN" => Some(Self::Unknown),
            _ => None,
        }
    }
}
/// How the peak of memory was measured. Zero is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum MemorySource {
    Unspecified = 0,
    CgroupSampled = 1,
    CgroupPeak = 2,
    ProcessesSampled = 3,
    HighWaterAtExit = 4,
    MaxRssUpperBound = 5,
}
impl MemorySource {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "MEMORY_SOURCE_UNSPECIFIED",
            Self::CgroupSampled => "MEMORY_SOURCE_CGROUP_SAMPLED",
            Self::CgroupPeak => "MEMORY_SOURCE_CGROUP_PEAK",
            Self::ProcessesSampled => "MEMORY_SOURCE_PROCESSES_SAMPLED",
            Self::HighWaterAtExit => "MEMORY_SOURCE_HIGH_WATER_AT_EXIT",
            Self::MaxRssUpperBound => "MEMORY_SOURCE_MAX_RSS_UPPER_BOUND",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "MEMORY_SOURCE_UNSPECIFIED" => Some(Self::Unspecified),
            "MEMORY_SOURCE_CGROUP_SAMPLED" => Some(Self::CgroupSampled),
            "MEMORY_SOURCE_CGROUP_PEAK" => Some(Self::CgroupPeak),
            "MEMORY_SOURCE_PROCESSES_SAMPLED" => Some(Self::ProcessesSampled),
            "MEMORY_SOURCE_HIGH_WATER_AT_EXIT" => Some(Self::HighWaterAtExit),
            "MEMORY_SOURCE_MAX_RSS_UPPER_BOUND" => Some(Self::MaxRssUpperBound),
            _ => None,
        }
    }
}
/// The kind of an IP address. Zero is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum PeerScope {
    Unspecified = 0,
    LinkLocal = 1,
    Private = 2,
    Public = 3,
}
impl PeerScope {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "PEER_SCOPE_UNSPECIFIED",
            Self::LinkLocal => "PEER_SCOPE_LINK_LOCAL",
            Self::Private => "PEER_SCOPE_PRIVATE",
            Self::Public => "PEER_SCOPE_PUBLIC",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "PEER_SCOPE_UNSPECIFIED" => Some(Self::Unspecified),
            "PEER_SCOPE_LINK_LOCAL" => Some(Self::LinkLocal),
            "PEER_SCOPE_PRIVATE" => Some(Self::Private),
            "PEER_SCOPE_PUBLIC" => Some(Self::Public),
            _ => None,
        }
    }
}
/// The state of a task at a sample. Zero is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum TaskState {
    Unspecified = 0,
    Running = 1,
    Runnable = 2,
    PageFault = 3,
    Disk = 4,
    Network = 5,
    Pipe = 6,
    Poll = 7,
    Timer = 8,
    Lock = 9,
    Child = 10,
    Other = 11,
    /// Since 1.7: a network or FUSE file system.
    RemoteFileSystem = 12,
}
impl TaskState {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "TASK_STATE_UNSPECIFIED",
            Self::Running => "TASK_STATE_RUNNING",
            Self::Runnable => "TASK_STATE_RUNNABLE",
            Self::PageFault => "TASK_STATE_PAGE_FAULT",
            Self::Disk => "TASK_STATE_DISK",
            Self::Network => "TASK_STATE_NETWORK",
            Self::Pipe => "TASK_STATE_PIPE",
            Self::Poll => "TASK_STATE_POLL",
            Self::Timer => "TASK_STATE_TIMER",
            Self::Lock => "TASK_STATE_LOCK",
            Self::Child => "TASK_STATE_CHILD",
            Self::Other => "TASK_STATE_OTHER",
            Self::RemoteFileSystem => "TASK_STATE_REMOTE_FILE_SYSTEM",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "TASK_STATE_UNSPECIFIED" => Some(Self::Unspecified),
            "TASK_STATE_RUNNING" => Some(Self::Running),
            "TASK_STATE_RUNNABLE" => Some(Self::Runnable),
            "TASK_STATE_PAGE_FAULT" => Some(Self::PageFault),
            "TASK_STATE_DISK" => Some(Self::Disk),
            "TASK_STATE_NETWORK" => Some(Self::Network),
            "TASK_STATE_PIPE" => Some(Self::Pipe),
            "TASK_STATE_POLL" => Some(Self::Poll),
            "TASK_STATE_TIMER" => Some(Self::Timer),
            "TASK_STATE_LOCK" => Some(Self::Lock),
            "TASK_STATE_CHILD" => Some(Self::Child),
            "TASK_STATE_OTHER" => Some(Self::Other),
            "TASK_STATE_REMOTE_FILE_SYSTEM" => Some(Self::RemoteFileSystem),
            _ => None,
        }
    }
}
