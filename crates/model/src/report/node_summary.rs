//! A summary of one node.

use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::PriceBasis;
use crate::inventory::instance::{Controller, InstanceState, Market};

/// A summary of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Node"))]
pub struct NodeSummary {
    /// The instance id, or the node id if no cloud provider knows it.
    pub id: String,
    /// The name; `None` when it has none.
    pub name: Option<String>,
    /// The region; `None` if only its probe reports the node.
    pub region: Option<Region>,
    /// The instance type; `None` when unknown.
    pub instance_type: Option<InstanceType>,
    /// The purchase option; `None` when unknown.
    pub market: Option<Market>,
    /// The state; `None` if only its probe reports the node.
    pub state: Option<InstanceState>,
    /// The owner; `None` when no tag names one.
    pub owner: Option<String>,
    /// The controller that starts and stops it; `None` without a known controller.
    pub controller: Option<Controller>,
    /// Whether the data was measured or made by a generator.
    pub origin: Origin,
    /// The time of the last heartbeat; `None` without a probe.
    pub heard_at: Option<Timestamp>,
    /// The price per hour while it runs; `None` when no price is known.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: Option<UsdPerHour>,
    /// The source of that price.
    pub basis: Option<PriceBasis>,
    /// The date of that price; `None` when unknown.
    #[serde(default)]
    pub price_as_of: Option<Timestamp>,
    /// The ids of the findings about the node and its tasks.
    #[serde(deserialize_with = "crate::finding_kind::read_ids")]
    pub findings: Vec<String>,
}
