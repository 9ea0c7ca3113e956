//! Advice for steps, groups of steps, and nodes.

pub mod bottleneck;
pub mod group;
pub mod node;
pub mod offer;
pub mod placement;
pub mod self_sizing;
pub mod sized_request;
pub mod spot_wish;
pub mod step;

use serde::{Deserialize, Serialize};

use crate::advice::group::GroupAdvice;
use crate::advice::node::NodeAdvice;

/// Advice for pipelines, compute environments and nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Targets {
    /// Pipelines, the greatest saving first.
    pub pipelines: Vec<GroupAdvice>,
    /// Batch compute environments, the greatest saving first.
    pub environments: Vec<GroupAdvice>,
    /// Nodes, the greatest saving first.
    pub nodes: Vec<NodeAdvice>,
    /// Number of targets beyond the limits of the report.
    pub left_out: usize,
}
