//! Thresholds of overprovisioned steps.

use std::time::Duration;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// Thresholds of overprovisioned steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct OverprovisionedPolicy {
    /// Minimum observed seconds of a task that still runs or whose end was not observed. A shorter
    /// task does not show its need.
    pub min_wall_seconds: u64,
    /// Largest share of a request that a step may need, headroom included, for the finding. In
    /// parts per million; the default is 50 %, the step to the next smaller type of a family.
    pub needed_share_ppm: u32,
    /// Minimum saving a month, in millionths of a dollar. If only an upper bound of the saving is
    /// known, the bound counts, because the saving may reach it. The finding then shows "at most".
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

    /// See [`Self::min_saving_usd_micros`].
    pub fn min_saving(&self) -> Usd {
        Usd::from_micros(self.min_saving_usd_micros)
    }
}
