//! Activity of nodes by hour.

use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Activity of nodes by hour.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Timeline {
    /// The begin of the first hour, at midnight UTC: the first day with data, or the first day of
    /// the last two weeks. `None` without nodes.
    pub from: Option<Timestamp>,
    /// Nodes with findings first, the greatest saving first; then other nodes by id.
    pub nodes: Vec<NodeHours>,
    /// Number of nodes with a probe beyond those.
    pub left_out: usize,
}

/// Activity of one node by hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeHours {
    /// The node.
    pub node: NodeId,
    /// The name; `None` when it has none.
    pub name: Option<String>,
    /// The active share of the observed ticks of each hour, in percent; `None` for an hour without
    /// observation. The last hour is incomplete.
    pub hours: Vec<Option<u8>>,
}
