//! Advice for one node.

use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::PriceBasis;
use crate::inventory::instance::Market;

/// Nodes that a report advises on, the dearest.
pub const MAX_NODES: usize = 1_000;

/// What is advised for one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAdvice {
    /// Its id.
    pub node: String,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// Where it is.
    pub region: Region,
    /// What it is.
    pub instance_type: InstanceType,
    /// How it is bought.
    pub market: Market,
    /// Whom to ask; `None` when no tag tells.
    pub owner: Option<String>,
    /// Whether what is told of it was measured or made by a generator.
    pub origin: Origin,
    /// Hours in which its probe saw it.
    pub hours_seen: u32,
    /// The most that it used at one time.
    pub used: Used,
    /// The same with headroom: what another type must have.
    pub needs: Used,
    /// What an hour of it costs; `None` where no price is known.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: Option<UsdPerHour>,
    /// Where that price comes from.
    pub basis: Option<PriceBasis>,
    /// Its list price, beside what is paid.
    #[serde(rename = "list_per_hour_usd", alias = "list_per_hour")]
    pub list_per_hour: Option<UsdPerHour>,
    /// Of when the list prices of its region are; `None` where that is not known.
    #[serde(default)]
    pub list_as_of: Option<Timestamp>,
    /// On demand at home, the cheapest first, each of another family.
    pub offers: Vec<NodeOffer>,
    /// What the best offer saves a month.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Option<Usd>,
    /// What was taken for granted.
    pub assumed: Vec<String>,
    /// Why nothing more is told.
    pub refused: Option<String>,
}

/// What a machine is used for at one time; `None` where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Used {
    /// Cores, of the machine that it is.
    pub cores: Option<MilliCores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

/// A type that a node could be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOffer {
    /// The type.
    pub instance_type: InstanceType,
    /// Its list price on demand.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: UsdPerHour,
    /// What an hour costs less than now; `None` where what is paid now is not known.
    #[serde(rename = "saves_an_hour_usd", alias = "saves_an_hour")]
    pub saves_an_hour: Option<UsdPerHour>,
}
