//! Observations that one sweep passes to the next.

use std::collections::BTreeMap;

use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What one sweep tells the next.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Since when every sweep has found an ECS agent disconnected.
    pub disconnected_since: BTreeMap<NodeId, Timestamp>,
    /// Containers of which neither Batch nor ECS knew, by the resource that a finding
    /// about one names. No more than the state holds steps of.
    pub jobless: BTreeMap<String, Jobless>,
}

/// A container of which nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobless {
    /// The first sweep that found it so.
    pub since: Timestamp,
    /// How many have in a row, that one included.
    pub sweeps: u32,
}
