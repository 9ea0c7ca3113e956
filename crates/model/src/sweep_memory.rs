//! Observations that one sweep passes to the next.

use std::collections::BTreeMap;

use ebb_telemetry::identity::NodeId;
use ebb_telemetry::units::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost_record::WrittenCosts;
use crate::spend_history::SpendHistory;

/// The observations that one sweep passes to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// The first of the consecutive sweeps that found an ECS agent disconnected.
    pub disconnected_since: BTreeMap<NodeId, Timestamp>,
    /// Containers that neither Batch nor ECS knew, by the resource id of their finding. There are
    /// at most as many as steps in the state.
    pub jobless: BTreeMap<String, Jobless>,
    /// The first of the consecutive sweeps that found an Elastic IP address without an association,
    /// by allocation id. EC2 does not report since when.
    #[serde(default)]
    pub unassociated_since: BTreeMap<String, Timestamp>,
    /// The first sweep. A state that it found may be of any age. `None` before it.
    #[serde(default)]
    pub first_sweep: Option<Timestamp>,
    /// Probes that have lost data, or whose spool is larger than
    /// [`GROWN_SPOOL`](crate::report::probe_problem::GROWN_SPOOL).
    #[serde(default)]
    pub probes: BTreeMap<NodeId, ProbeMark>,
    /// The cost of pipelines and cost centres on closed days. The bill goes back 14 days, a budget and
    /// an unusual cost need more.
    #[serde(default)]
    pub spend: SpendHistory,
    /// The days in the table `costs` of the lake.
    #[serde(default)]
    pub costs: WrittenCosts,
    /// The newest batch of the table `node_hours`; `None` before the first.
    #[serde(default)]
    pub node_hours: Option<u64>,
}

/// The counters of a probe in its newest heartbeat, and what changed since the previous sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeMark {
    /// The end of the heartbeat.
    pub heard_at: Timestamp,
    /// Lost kernel events, and lost records, since the probe started.
    pub lost: [u64; 2],
    /// The heartbeat in which each of the two was found to have grown; `None` if it never was.
    pub lost_at: [Option<Timestamp>; 2],
    /// Bytes in the spool.
    pub spool: Bytes,
    /// Whether the spool was larger than in the heartbeat of the previous sweep.
    pub spool_grows: bool,
}

/// A container that neither Batch nor ECS knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobless {
    /// The first sweep that found it.
    pub since: Timestamp,
    /// Number of consecutive sweeps that found it, including the first.
    pub sweeps: u32,
}
