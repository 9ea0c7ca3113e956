//! Two weeks of hourly metrics, which show whether a node only pauses or has stopped working. They
//! are requested once for each node and stored; later answers are added to them.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_cloud::ports::metrics::{MetricsSource, NodeMetrics};
use ebb_model::metric_series::MetricSeries;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{NodeId, Region};
use jiff::Timestamp;

use crate::collect::metered_calls::budget::{Wanted, five_minute_metrics_from, within};
use crate::collect::metered_calls::{Paid, utilization};

/// The most nodes whose history is stored: each takes 14 KB of memory.
const MAX_HISTORIES: usize = 20_000;

const HOUR: i64 = 3600;

impl Paid {
    /// Adds the new series to the stored one. If the two do not overlap, the history is requested
    /// again.
    pub(crate) fn with_kept_history(
        &mut self,
        node: &NodeId,
        before: Option<MetricSeries>,
        new_series: MetricSeries,
        wanted: &Wanted<'_>,
    ) -> MetricSeries {
        match joined(before, new_series, wanted) {
            Joined::Both(series) => series,
            Joined::NewOnly(series) => {
                self.with_history.remove(node);
                series
            }
        }
    }

    /// Requests the hours before the new series, for nodes that lack them, within the budget.
    pub(crate) async fn ask_history(
        &mut self,
        source: &dyn MetricsSource,
        wanted: &Wanted<'_>,
        nodes: BTreeMap<Region, NodeMetrics>,
        gaps: &mut Vec<Gap>,
    ) {
        let Some(window) = window(wanted) else {
            return;
        };
        let mut lacking = Vec::new();
        let mut supplementary = NodeMetrics::new();
        for (region, nodes) in nodes {
            for (node, streams) in nodes {
                if !self.with_history.contains(&node) {
                    lacking.push((region.clone(), node.clone()));
                    supplementary.insert(node, streams);
                }
            }
        }
        lacking.truncate(MAX_HISTORIES.saturating_sub(self.with_history.len()));
        let by_region = within(self.left(wanted.policy), lacking, supplementary);
        for mut answer in utilization(source, by_region, window, gaps).await {
            for node in answer.nodes.into_keys() {
                let Some(newer) = self.metrics.remove(&node) else {
                    continue;
                };
                let older = answer.series.remove(&node).unwrap_or_default();
                let series = older.renewed(newer, kept(wanted));
                self.metrics.insert(node.clone(), series);
                self.with_history.insert(node);
            }
        }
        gaps.extend(self.lacks_history(wanted));
    }

    fn lacks_history(&self, wanted: &Wanted<'_>) -> Option<Gap> {
        let lacking = self.metrics.len().saturating_sub(self.with_history.len());
        let reason = match self.with_history.len() >= MAX_HISTORIES {
            true => format!("stored for {MAX_HISTORIES} nodes at most"),
            false => "the budget for paid calls of today is used up, or the calls were refused"
                .to_owned(),
        };
        (lacking > 0).then(|| {
            Gap::new(
                format!(
                    "metrics of {} days of {lacking} nodes",
                    wanted.policy.history_days
                ),
                format!("{reason}; the usual pauses of these nodes are unknown"),
            )
        })
    }
}

/// A new series, with or without the stored one.
pub(crate) enum Joined {
    Both(MetricSeries),
    /// No series was stored, or there is a gap between the two.
    NewOnly(MetricSeries),
}

pub(crate) fn joined(
    before: Option<MetricSeries>,
    new_series: MetricSeries,
    wanted: &Wanted<'_>,
) -> Joined {
    let newest = before
        .as_ref()
        .and_then(|series| series.points().next_back());
    let has_gap = newest.is_none_or(|newest| newest.end < five_minute_metrics_from(wanted));
    match before.filter(|_| !has_gap) {
        Some(before) => Joined::Both(before.renewed(new_series, kept(wanted))),
        None => Joined::NewOnly(new_series),
    }
}

/// How long a point is stored.
pub(crate) fn kept(wanted: &Wanted<'_>) -> Duration {
    let slack = Duration::from_secs(HOUR.unsigned_abs());
    wanted.policy.history().max(wanted.policy.idle_after() * 2) + slack
}

/// From a full hour to the time where five-minute metrics begin; `None` if the policy requests no
/// days before.
pub(crate) fn window(wanted: &Wanted<'_>) -> Option<(Timestamp, Timestamp)> {
    let from = wanted.now.checked_sub(wanted.policy.history()).ok()?;
    let window = (full_hour(from), five_minute_metrics_from(wanted));
    (window.0 < window.1).then_some(window)
}

/// The start of the hour that contains a time.
pub(crate) fn full_hour(at: Timestamp) -> Timestamp {
    let second = at.as_second();
    Timestamp::from_second(second - second.rem_euclid(HOUR)).unwrap_or(at)
}
