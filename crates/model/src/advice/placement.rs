//! The cheapest machine type that holds a request.

use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A machine type to run on, at its list price.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placement {
    /// The type.
    pub instance_type: InstanceType,
    /// Where.
    pub region: Region,
    /// Its list price on demand.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: UsdPerHour,
    /// Of when that is; `None` where it is not known.
    #[serde(default)]
    pub price_as_of: Option<Timestamp>,
}
