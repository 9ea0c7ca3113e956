//! The messages that version 1.4 added.

use prost::Message;

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Asked {
    #[prost(uint64, tag = "1")]
    pub read_bytes: u64,
    #[prost(uint64, tag = "2")]
    pub written_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub read_calls: u64,
    #[prost(uint64, tag = "4")]
    pub write_calls: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Unmoved {
    #[prost(uint64, tag = "1")]
    pub now_ns: u64,
    #[prost(uint64, tag = "2")]
    pub longest_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Reclaim {
    #[prost(uint64, optional, tag = "1")]
    pub taken_bytes: Option<u64>,
    #[prost(uint64, tag = "2")]
    pub limit_hits: u64,
}
