//! When volumes, addresses and snapshots are waste.

use std::time::Duration;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// When volumes and addresses are waste.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StoragePolicy {
    /// Seconds that a volume must have lived, or its machine been stopped, before it
    /// is waste. A week: whoever stops something for a moment is back by then.
    pub unused_after_seconds: u64,
    /// Seconds that a snapshot of nothing must be old: ninety days, past what is kept
    /// as a last copy for a while.
    pub snapshot_after_seconds: u64,
    /// Savings below this a month, in millionths of a dollar, are churn for pennies.
    pub min_volume_saving_usd_micros: i64,
}

impl Default for StoragePolicy {
    fn default() -> Self {
        Self {
            unused_after_seconds: 7 * 86_400,
            snapshot_after_seconds: 90 * 86_400,
            min_volume_saving_usd_micros: 1_000_000,
        }
    }
}

impl StoragePolicy {
    /// Time before what lies unused is waste.
    pub fn unused_after(&self) -> Duration {
        Duration::from_secs(self.unused_after_seconds)
    }

    /// Savings below this a month are not worth a change.
    pub fn min_saving(&self) -> Usd {
        Usd::from_micros(self.min_volume_saving_usd_micros)
    }
}
