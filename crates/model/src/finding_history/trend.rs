//! What earlier reports summed up to.

use ebb_telemetry::money::{Usd, UsdPerHour};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::report::Report;

/// Days that the trend reaches back: two weeks, so that a week stands beside a week.
const DAYS: i64 = 14;

/// One report's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// When it judged.
    pub at: Timestamp,
    /// Its findings, without those set aside.
    pub findings: usize,
    /// Of those, without a price and so not in the sums.
    pub without_price: usize,
    /// What mending all of it would have saved a month.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Usd,
    /// What was wasted an hour.
    #[serde(rename = "waste_per_hour_usd", alias = "waste_per_hour")]
    pub waste_per_hour: UsdPerHour,
    /// Instances that ran.
    pub running_instances: usize,
    /// Of those, with a probe.
    pub with_probe: usize,
}

/// The newest report of each hour of the last two weeks, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trend(pub Vec<Past>);

impl Trend {
    /// Takes in a report that is newer than all before, in place of an earlier one
    /// of the same hour.
    pub fn take(&mut self, report: &Report) {
        let hour = |at: Timestamp| at.as_second().div_euclid(3600);
        let totals = &report.totals;
        let reach = SignedDuration::from_hours(24 * DAYS);
        let oldest = report.at.saturating_sub(reach).unwrap_or(Timestamp::MIN);
        self.0
            .retain(|past| past.at >= oldest && hour(past.at) != hour(report.at));
        self.0.push(Past {
            at: report.at,
            findings: report.findings.len(),
            without_price: totals.without_price,
            saving_a_month: totals.saving_a_month,
            waste_per_hour: totals.waste_per_hour,
            running_instances: totals.running_instances,
            with_probe: totals.with_probe,
        });
    }
}
