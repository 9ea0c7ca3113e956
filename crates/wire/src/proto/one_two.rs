//! The messages that version 1.2 added.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeDetail {
    #[prost(string, optional, tag = "1")]
    pub sampled_because: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub gpus: Vec<GpuUse>,
    #[prost(uint64, tag = "3")]
    pub gpu_restarts: u64,
    #[prost(message, optional, tag = "4")]
    pub network: Option<NetworkDetail>,
    #[prost(message, optional, tag = "5")]
    pub pressure: Option<Pressure>,
    #[prost(uint64, optional, tag = "6")]
    pub reclaimed_bytes: Option<u64>,
    /// Since 1.3.
    #[prost(uint64, tag = "7")]
    pub labels_refused: u64,
    /// Since 1.4.
    #[prost(uint64, optional, tag = "8")]
    pub memory_used_bytes: Option<u64>,
    /// Since 1.6.
    #[prost(string, optional, tag = "9")]
    pub masked_because: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GpuUse {
    #[prost(uint32, tag = "1")]
    pub number: u32,
    #[prost(string, tag = "2")]
    pub model: String,
    #[prost(uint32, optional, tag = "3")]
    pub busy_ppm: Option<u32>,
    #[prost(uint64, optional, tag = "4")]
    pub memory_held_bytes: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub memory_bytes: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub processes: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NetworkDetail {
    #[prost(uint64, tag = "1")]
    pub owned_bytes: u64,
    #[prost(uint64, tag = "2")]
    pub unowned_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub retransmits: u64,
    #[prost(uint64, optional, tag = "4")]
    pub connections: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pressure {
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

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct StepNetwork {
    #[prost(uint64, tag = "1")]
    pub received_bytes: u64,
    #[prost(uint64, tag = "2")]
    pub sent_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub retransmits: u64,
    #[prost(uint64, tag = "4")]
    pub connections: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct StepGpu {
    #[prost(uint32, tag = "1")]
    pub devices: u32,
    #[prost(uint64, tag = "2")]
    pub held_ns: u64,
    #[prost(uint64, optional, tag = "3")]
    pub busy_ns: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub peak_memory_bytes: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RunName {
    #[prost(string, tag = "1")]
    pub launcher: String,
    #[prost(string, tag = "2")]
    pub key: String,
    #[prost(string, optional, tag = "3")]
    pub pipeline: Option<String>,
}
