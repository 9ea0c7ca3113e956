//! The cheapest machine type that holds a request.

use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An instance type to run on, at its list price.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Placement {
    /// The instance type.
    pub instance_type: InstanceType,
    /// The region.
    pub region: Region,
    /// The on-demand list price.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: UsdPerHour,
    /// The date of the price; `None` when unknown.
    #[serde(default)]
    pub price_as_of: Option<Timestamp>,
}
