//! The messages that version 1.3 added.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Handed {
    #[prost(string, optional, tag = "1")]
    pub trace_id: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub labels: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Label {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Opened {
    #[prost(string, repeated, tag = "1")]
    pub arguments: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    pub files: Vec<Files>,
    #[prost(uint64, tag = "3")]
    pub files_left_out: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Files {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(uint64, tag = "2")]
    pub count: u64,
}
