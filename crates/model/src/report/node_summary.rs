//! One line a node.

use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::PriceBasis;
use crate::inventory::instance::{Controller, InstanceState, Market};

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Its id: the instance's, where a cloud knows it.
    pub id: String,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// Where it is; `None` for one that only its probe tells of.
    pub region: Option<Region>,
    /// What it is; `None` when unknown.
    pub instance_type: Option<InstanceType>,
    /// How it is bought; `None` when unknown.
    pub market: Option<Market>,
    /// How it stands; `None` for one that only its probe tells of.
    pub state: Option<InstanceState>,
    /// Whom to ask; `None` when no tag tells.
    pub owner: Option<String>,
    /// What starts and stops it.
    pub controller: Option<Controller>,
    /// Whether what is told of it was measured or made by a generator.
    pub origin: Origin,
    /// When its probe was heard of last; `None` without one.
    pub heard_at: Option<Timestamp>,
    /// What an hour of it costs while it runs; `None` when no price is known.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: Option<UsdPerHour>,
    /// Where that price comes from.
    pub basis: Option<PriceBasis>,
    /// Of when that price is; `None` where that is not known.
    #[serde(default)]
    pub price_as_of: Option<Timestamp>,
    /// The findings about it and what runs on it, by id.
    pub findings: Vec<String>,
}
