//! Advice for one node.

use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::PriceBasis;
use crate::inventory::instance::Market;

/// Maximum number of nodes with advice in a report; the most expensive are kept.
pub const MAX_NODES: usize = 1_000;

/// Advice for one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeAdvice {
    /// The node id.
    pub node: String,
    /// The name; `None` when it has none.
    pub name: Option<String>,
    /// The region.
    pub region: Region,
    /// The instance type.
    pub instance_type: InstanceType,
    /// The purchase option.
    pub market: Market,
    /// The owner; `None` when no tag names one.
    pub owner: Option<String>,
    /// Whether the data was measured or made by a generator.
    pub origin: Origin,
    /// Hours in which its probe observed the node.
    pub hours_seen: u32,
    /// The peak of use at any one time.
    pub used: Used,
    /// The peak of use with headroom: what another instance type must have.
    pub needs: Used,
    /// The price per hour; `None` when no price is known.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: Option<UsdPerHour>,
    /// The source of that price.
    pub basis: Option<PriceBasis>,
    /// The list price, in addition to the effective price; `None` when unknown.
    #[serde(rename = "list_per_hour_usd", alias = "list_per_hour")]
    pub list_per_hour: Option<UsdPerHour>,
    /// The date of the list prices of the region; `None` when unknown.
    #[serde(default)]
    pub list_as_of: Option<Timestamp>,
    /// On-demand offers in the same region, the cheapest first, each of a different instance
    /// family.
    pub offers: Vec<NodeOffer>,
    /// The saving in a month with the best offer; `None` when unknown.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Option<Usd>,
    /// The assumptions of this advice.
    pub assumed: Vec<String>,
    /// Why there is no further advice; `None` when the advice is complete.
    pub refused: Option<String>,
}

/// The peak use of a machine; `None` when unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Used {
    /// Cores of the present machine.
    pub cores: Option<MilliCores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

/// An instance type that the node could have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeOffer {
    /// The instance type.
    pub instance_type: InstanceType,
    /// The on-demand list price.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: UsdPerHour,
    /// The saving per hour; `None` when the effective price is unknown.
    #[serde(rename = "saves_an_hour_usd", alias = "saves_an_hour")]
    pub saves_an_hour: Option<UsdPerHour>,
}
