//! Thresholds of unused volumes, addresses and snapshots.

use std::time::Duration;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// Thresholds of unused volumes, addresses and snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StoragePolicy {
    /// Minimum age of an unused volume in seconds. For a volume of a stopped machine, the time
    /// since the stop. For an address, the time since the first sweep that found it without an
    /// association, unless that was the first sweep of all. The default is one week, because short
    /// stops are normal.
    pub unused_after_seconds: u64,
    /// Minimum age of a snapshot without a volume or image, in seconds. The default is 90 days,
    /// because it may be a last backup.
    pub snapshot_after_seconds: u64,
    /// Minimum saving a month, in millionths of a dollar.
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
    /// See [`Self::unused_after_seconds`].
    pub fn unused_after(&self) -> Duration {
        Duration::from_secs(self.unused_after_seconds)
    }

    /// See [`Self::min_volume_saving_usd_micros`].
    pub fn min_saving(&self) -> Usd {
        Usd::from_micros(self.min_volume_saving_usd_micros)
    }
}
