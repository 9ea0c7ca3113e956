//! Activity of nodes by hour.

use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// When nodes were at work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// The begin of the first hour, which is that of a day in UTC: the first of which
    /// anything was seen, or the fortnight's. `None` without any node.
    pub from: Option<Timestamp>,
    /// Nodes with findings first, the greatest saving first; then others by id.
    pub nodes: Vec<NodeHours>,
    /// Nodes with a probe beyond those.
    pub left_out: usize,
}

/// One node's hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHours {
    /// The node.
    pub node: NodeId,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// The share of each hour's seen ticks in which something worked, in percent;
    /// `None` where nothing of the hour was seen. The last hour is not over.
    pub hours: Vec<Option<u8>>,
}
