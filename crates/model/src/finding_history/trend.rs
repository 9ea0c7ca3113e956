//! The sums of earlier reports.

use ebb_telemetry::money::{Usd, UsdPerHour};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::report::Report;

/// Days that the trend covers: two weeks, so that one week can be compared with another.
const DAYS: i64 = 14;

/// The sums of one report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Past {
    /// When the report was evaluated.
    pub at: Timestamp,
    /// Number of findings of kinds that have a saving, without those set aside.
    pub findings: usize,
    /// Number of these findings without a price; the sums do not contain them.
    pub without_price: usize,
    /// The saving in a month if everything is fixed.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Usd,
    /// The waste per hour.
    #[serde(rename = "waste_per_hour_usd", alias = "waste_per_hour")]
    pub waste_per_hour: UsdPerHour,
    /// Number of running instances.
    pub running_instances: usize,
    /// Number of running instances with a probe.
    pub with_probe: usize,
}

/// The newest report of each hour of the last two weeks, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trend(pub Vec<Past>);

/// Maximum distance of a compared report from its time. For a short time it is half of that time.
const COMPARED_WITHIN: SignedDuration = SignedDuration::from_hours(24);

impl Past {
    /// The report closest to the time `ago` before `now`. `None` if no report is close enough, as
    /// after a pause of the sweeps.
    pub fn before(past: &[Self], now: Timestamp, ago: SignedDuration) -> Option<&Self> {
        let then = now.saturating_sub(ago).unwrap_or(Timestamp::MIN);
        let distance = |one: &&Self| one.at.duration_since(then).abs();
        let closest = past.iter().min_by_key(distance);
        closest.filter(|one| distance(one) <= COMPARED_WITHIN.min(ago / 2))
    }
}

impl Trend {
    /// The time of the newest report; `None` before the first.
    pub fn newest(&self) -> Option<Timestamp> {
        self.0.last().map(|past| past.at)
    }

    /// Adds a report that is newer than all others. The report replaces an earlier one of the same
    /// hour.
    pub fn take(&mut self, report: &Report) {
        let hour = |at: Timestamp| at.as_second().div_euclid(3600);
        let totals = &report.totals;
        let reach = SignedDuration::from_hours(24 * DAYS);
        let oldest = report.at.saturating_sub(reach).unwrap_or(Timestamp::MIN);
        self.0
            .retain(|past| past.at >= oldest && hour(past.at) != hour(report.at));
        self.0.push(Past {
            at: report.at,
            findings: report.waste_findings(),
            without_price: totals.without_price,
            saving_a_month: totals.saving_a_month,
            waste_per_hour: totals.waste_per_hour,
            running_instances: totals.running_instances,
            with_probe: totals.with_probe,
        });
    }
}
