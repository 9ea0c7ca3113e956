//! Thresholds of steps that request too much.

use std::time::Duration;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// When a step asked for too much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct OverprovisionedPolicy {
    /// A step that still runs, or whose end was not seen, says nothing about what it
    /// needs when it was seen for less.
    pub min_wall_seconds: u64,
    /// A request is too large when what is needed, headroom counted, is at most
    /// this share of it, in parts per million: half, where the next smaller
    /// machine of a family begins.
    pub needed_share_ppm: u32,
    /// Savings below this a month, in millionths of a dollar, are churn for
    /// pennies.
    pub min_saving_usd_micros: i64,
}

impl Default for OverprovisionedPolicy {
    fn default() -> Self {
        Self {
            min_wall_seconds: 10 * 60,
            needed_share_ppm: 500_000,
            min_saving_usd_micros: 1_000_000,
        }
    }
}

impl OverprovisionedPolicy {
    /// See [`Self::min_wall_seconds`].
    pub fn min_wall(&self) -> Duration {
        Duration::from_secs(self.min_wall_seconds)
    }

    /// Savings below this a month are not worth a change.
    pub fn min_saving(&self) -> Usd {
        Usd::from_micros(self.min_saving_usd_micros)
    }
}
