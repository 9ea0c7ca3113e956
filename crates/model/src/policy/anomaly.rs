//! Thresholds of unusual costs.

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// Thresholds of unusual costs of pipelines and cost centres. A closed day of the bill is compared
/// with the days on which there were costs among the 28 days before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AnomalyPolicy {
    /// Smallest increase above the median for the finding, in millionths of a dollar. A day must also
    /// cost this amount more than the same weekday of the four weeks before, because weekends differ.
    /// AWS Cost Anomaly Detection notifies from 100 USD by default; a pipeline is only a part of an
    /// account.
    pub min_increase_usd_micros: i64,
    /// Smallest increase as a share of the median, in parts per million. The default of 40 % is that
    /// of AWS Cost Anomaly Detection.
    pub min_increase_ppm: u32,
    /// Smallest modified z-score, in millionths: 0.6745 times the increase, divided by the median
    /// absolute deviation. The default of 3.5 is that of Iglewicz and Hoaglin, "How to Detect and
    /// Handle Outliers" (1993).
    pub score_ppm: u32,
    /// Minimum number of days since the first cost. AWS Cost Anomaly Detection needs 10 days; the default of two
    /// weeks contains each weekday twice.
    pub min_history_days: u32,
    /// Minimum number of days with costs among the 28 days. With fewer days, a single day can decide
    /// the median.
    pub min_cost_days: u32,
}

impl Default for AnomalyPolicy {
    fn default() -> Self {
        Self {
            min_increase_usd_micros: 10_000_000,
            min_increase_ppm: 400_000,
            score_ppm: 3_500_000,
            min_history_days: 14,
            min_cost_days: 7,
        }
    }
}

impl AnomalyPolicy {
    /// See [`Self::min_increase_usd_micros`].
    pub fn min_increase(&self) -> Usd {
        Usd::from_micros(self.min_increase_usd_micros)
    }

    /// The smallest increase above a median, by both limits.
    pub fn min_increase_above(&self, median: Usd) -> Usd {
        let part = median.part(u128::from(self.min_increase_ppm), 1_000_000);
        self.min_increase().max(part)
    }
}
