//! Spot price and interruption rate of a type.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use ebb_telemetry::money::UsdPerHour;

/// Spot price and interruption rate of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpotTerms {
    /// The current price in the cheapest zone.
    pub per_hour: UsdPerHour,
    /// The time of the price; `None` if the answer does not contain it.
    #[serde(default)]
    pub as_of: Option<Timestamp>,
    /// Machines interrupted in a month, in parts per million: the upper end of the Spot Instance
    /// Advisor's band. `None` if unknown, or if the band has no upper end.
    #[serde(default)]
    pub taken_back_ppm: Option<u32>,
    /// The lower end of a band without an upper end, in parts per million: more machines than this
    /// are interrupted in a month. `None` for any other band.
    #[serde(default)]
    pub taken_back_above_ppm: Option<u32>,
    /// The account's own interruptions; `None` if unknown.
    #[serde(default)]
    pub own: Option<OwnInterruptions>,
}

/// Interruptions of the account's own spot machines of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnInterruptions {
    /// The number of interrupted machines.
    pub count: u32,
    /// Hours that machines ran in the same time.
    pub machine_hours: u64,
}
