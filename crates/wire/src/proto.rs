//! The protobuf messages of v1, as they are written; `read` reads them. Tags are for ever: a field that is dropped keeps
//! its tag reserved in a comment, a new one takes the next.

mod one_four;
mod one_three;
mod one_two;

use prost::{Enumeration, Message};

pub(crate) use one_four::{Asked, Reclaim, Unmoved};
pub(crate) use one_three::{Files, Handed, Label, Opened};
pub(crate) use one_two::{
    GpuUse, NetworkDetail, NodeDetail, Pressure, RunName, StepGpu, StepNetwork,
};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Heartbeats {
    #[prost(message, optional, tag = "1")]
    pub sent: Option<Sent>,
    #[prost(message, repeated, tag = "2")]
    pub heartbeats: Vec<Heartbeat>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Steps {
    #[prost(message, optional, tag = "1")]
    pub sent: Option<Sent>,
    #[prost(string, tag = "2")]
    pub node: String,
    #[prost(string, tag = "3")]
    pub boot: String,
    #[prost(string, tag = "4")]
    pub probe_start: String,
    #[prost(uint64, tag = "5")]
    pub sequence: u64,
    #[prost(enumeration = "Origin", tag = "6")]
    pub origin: i32,
    #[prost(message, repeated, tag = "7")]
    pub steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sent {
    #[prost(string, tag = "1")]
    pub boot: String,
    #[prost(uint64, tag = "2")]
    pub clock_ns: u64,
    #[prost(int64, tag = "3")]
    pub wall_us: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Heartbeat {
    #[prost(string, tag = "1")]
    pub node: String,
    #[prost(string, tag = "2")]
    pub boot: String,
    #[prost(string, tag = "3")]
    pub probe_start: String,
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
    pub coverage: Option<Coverage>,
    #[prost(message, optional, tag = "10")]
    pub hardware: Option<Hardware>,
    #[prost(message, optional, tag = "11")]
    pub workload: Option<Usage>,
    #[prost(message, optional, tag = "12")]
    pub background: Option<Usage>,
    #[prost(uint64, optional, tag = "13")]
    pub typed_ago_ms: Option<u64>,
    #[prost(message, repeated, tag = "14")]
    pub steps: Vec<Step>,
    #[prost(message, optional, tag = "15")]
    pub probe: Option<ProbeCost>,
    /// Since 1.2.
    #[prost(message, optional, tag = "16")]
    pub detail: Option<NodeDetail>,
}

/// Shares in parts per million.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Coverage {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub memory: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub disk: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub network: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub gpu: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    pub short_processes: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Hardware {
    #[prost(uint64, tag = "1")]
    pub milli_cores: u64,
    #[prost(uint64, tag = "2")]
    pub memory_bytes: u64,
    #[prost(uint32, optional, tag = "3")]
    pub gpus: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Usage {
    #[prost(uint64, optional, tag = "1")]
    pub cpu_ns: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub disk_bytes: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub network_bytes: Option<u64>,
    #[prost(uint32, optional, tag = "4")]
    pub gpu_ppm: Option<u32>,
    #[prost(uint64, tag = "5")]
    pub processes_started: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProbeCost {
    #[prost(uint64, tag = "1")]
    pub cpu_ns: u64,
    #[prost(uint64, optional, tag = "2")]
    pub resident_bytes: Option<u64>,
    #[prost(uint64, tag = "3")]
    pub events_lost: u64,
    #[prost(uint64, tag = "4")]
    pub records_dropped: u64,
    #[prost(uint64, tag = "5")]
    pub spool_depth_bytes: u64,
    /// Since 1.6.
    #[prost(uint64, optional, tag = "6")]
    pub records_unreadable: Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    pub steps_left_out: Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub steps_shortened: Option<u64>,
    #[prost(uint64, optional, tag = "9")]
    pub unclean_stops: Option<u64>,
    #[prost(uint64, optional, tag = "10")]
    pub power_losses: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Step {
    #[prost(enumeration = "StepKind", tag = "1")]
    pub kind: i32,
    #[prost(string, tag = "2")]
    pub key: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(uint64, tag = "4")]
    pub started_ns: u64,
    #[prost(uint64, tag = "5")]
    pub observed_ns: u64,
    #[prost(enumeration = "EndKind", tag = "6")]
    pub end: i32,
    /// Exit status or signal number, as `end` says.
    #[prost(uint32, tag = "7")]
    pub end_code: u32,
    #[prost(uint64, tag = "8")]
    pub processes: u64,
    #[prost(uint64, tag = "9")]
    pub cpu_ns: u64,
    #[prost(uint64, optional, tag = "10")]
    pub peak_memory_bytes: Option<u64>,
    #[prost(enumeration = "MemorySource", tag = "11")]
    pub peak_memory_source: i32,
    #[prost(uint64, optional, tag = "12")]
    pub disk_read_bytes: Option<u64>,
    #[prost(uint64, optional, tag = "13")]
    pub disk_written_bytes: Option<u64>,
    #[prost(uint64, optional, tag = "14")]
    pub requested_milli_cores: Option<u64>,
    #[prost(uint64, optional, tag = "15")]
    pub requested_memory_bytes: Option<u64>,
    #[prost(uint64, optional, tag = "16")]
    pub peak_milli_cores: Option<u64>,
    #[prost(uint64, tag = "17")]
    pub last_progress_ns: u64,
    #[prost(message, repeated, tag = "18")]
    pub tools: Vec<Tool>,
    /// Since 1.1.
    #[prost(message, optional, boxed, tag = "19")]
    pub detail: Option<Box<Detail>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Detail {
    #[prost(uint64, optional, tag = "1")]
    pub user_cpu_ns: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub system_cpu_ns: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub run_queue_ns: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub voluntary_switches: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub involuntary_switches: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub minor_faults: Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    pub major_faults: Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub disk_delay_ns: Option<u64>,
    /// By class, the fewest cores first; empty ones at the end are left out.
    #[prost(message, repeated, tag = "9")]
    pub parallelism: Vec<Busy>,
    #[prost(message, repeated, tag = "10")]
    pub states: Vec<Sampled>,
    /// Since 1.2.
    #[prost(message, optional, tag = "11")]
    pub network: Option<StepNetwork>,
    #[prost(message, optional, tag = "12")]
    pub gpu: Option<StepGpu>,
    #[prost(message, optional, tag = "13")]
    pub run: Option<RunName>,
    /// Since 1.3.
    #[prost(message, optional, tag = "14")]
    pub handed: Option<Handed>,
    #[prost(message, optional, tag = "15")]
    pub opened: Option<Opened>,
    /// Since 1.4.
    #[prost(message, optional, tag = "16")]
    pub asked: Option<Asked>,
    #[prost(message, optional, tag = "17")]
    pub unmoved: Option<Unmoved>,
    #[prost(uint32, optional, tag = "18")]
    pub threads: Option<u32>,
    #[prost(uint32, optional, tag = "19")]
    pub user: Option<u32>,
    #[prost(message, optional, tag = "20")]
    pub reclaim: Option<Reclaim>,
    #[prost(uint64, optional, tag = "21")]
    pub memory_now_bytes: Option<u64>,
    /// Since 1.5: a bit each, as `namespaces(7)` lists mount, pid, network, user, UTS, IPC
    /// and cgroup, in this order.
    #[prost(uint32, optional, tag = "22")]
    pub namespaces: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Busy {
    #[prost(uint64, tag = "1")]
    pub wall_ns: u64,
    #[prost(uint64, tag = "2")]
    pub cpu_ns: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sampled {
    #[prost(enumeration = "TaskState", tag = "1")]
    pub state: i32,
    #[prost(uint64, tag = "2")]
    pub samples: u64,
    #[prost(uint64, tag = "3")]
    pub time_ns: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tool {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub processes: u64,
    #[prost(uint64, tag = "3")]
    pub cpu_ns: u64,
    #[prost(uint64, optional, tag = "4")]
    pub peak_memory_bytes: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub disk_bytes: Option<u64>,
}

/// Zero is never written: an enumeration that is absent is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(crate) enum Origin {
    Unspecified = 0,
    Measured = 1,
    Simulated = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(crate) enum StepKind {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(crate) enum EndKind {
    Unspecified = 0,
    Running = 1,
    Exited = 2,
    Signalled = 3,
    OutOfMemory = 4,
    Unknown = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(crate) enum MemorySource {
    Unspecified = 0,
    CgroupSampled = 1,
    CgroupPeak = 2,
    ProcessesSampled = 3,
    HighWaterAtExit = 4,
    MaxRssUpperBound = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(crate) enum TaskState {
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
}
