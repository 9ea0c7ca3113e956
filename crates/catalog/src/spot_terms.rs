//! What a type costs on the spot market, and how often it is interrupted.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use ebb_telemetry::money::UsdPerHour;

/// What a type costs on the spot market, and how often it is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpotTerms {
    /// Its price now, of the cheapest zone.
    pub per_hour: UsdPerHour,
    /// When that was; `None` when the answer did not say.
    #[serde(default)]
    pub as_of: Option<Timestamp>,
    /// Machines taken back in a month, in parts per million: the upper end of the
    /// Spot Instance Advisor's band. `None` when unknown.
    #[serde(default)]
    pub taken_back_ppm: Option<u32>,
    /// Interruptions that the account itself had.
    #[serde(default)]
    pub own: Option<OwnInterruptions>,
}

/// What the account saw of its own spot machines of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnInterruptions {
    /// Machines that were taken back.
    pub count: u32,
    /// Hours that machines ran in that time.
    pub machine_hours: u64,
}
