//! The messages that version 1.3 added.

use prost::Message;

use super::Text;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Handed {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub trace_id: Option<Text>,
    #[prost(message, repeated, tag = "2")]
    pub labels: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Label {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Text,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Text,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Opened {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub arguments: Vec<Text>,
    #[prost(message, repeated, tag = "2")]
    pub files: Vec<Files>,
    #[prost(uint64, tag = "3")]
    pub files_left_out: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Files {
    #[prost(bytes = "bytes", tag = "1")]
    pub path: Text,
    #[prost(uint64, tag = "2")]
    pub count: u64,
}
