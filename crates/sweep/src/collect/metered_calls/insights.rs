//! Container Insights for tasks on Fargate, within the budget, as often as the metrics of nodes.

use std::collections::{BTreeMap, BTreeSet};

use ebb_cloud::ports::metrics::{METRICS_PER_FAMILY, MetricsSource};
use ebb_model::inventory::batch::task::TaskFamily;
use ebb_model::metric_series::MetricSeries;
use ebb_model::visibility_gap::{Gap, Refused};
use ebb_telemetry::identity::Region;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::collect::account::{Account, REGIONS_AT_ONCE, is_older};
use crate::collect::metered_calls::budget::{
    METRICS_PER_IDLE_TIME, Wanted, affordable, five_minute_metrics_from,
};
use crate::collect::metered_calls::history::{Joined, joined, kept, window};
use crate::collect::metered_calls::{Paid, spent};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Insights {
    /// When they were requested last.
    at: Timestamp,
    series: BTreeMap<TaskFamily, MetricSeries>,
    /// Families whose hourly metrics of the days before were requested.
    with_history: BTreeSet<TaskFamily>,
    refused: Vec<Gap>,
}

/// Task families by region.
type Families = BTreeMap<Region, BTreeSet<TaskFamily>>;

impl Paid {
    /// Container Insights by task family; empty if Container Insights is disabled.
    pub fn insights(&self) -> BTreeMap<TaskFamily, MetricSeries> {
        let kept = self.insights.as_ref();
        kept.map(|kept| kept.series.clone()).unwrap_or_default()
    }

    pub(crate) async fn refresh_insights(
        &mut self,
        account: &Account<'_>,
        wanted: &Wanted<'_>,
    ) -> Vec<Gap> {
        let families = by_region(wanted);
        let Some(source) = account.metrics.filter(|_| !families.is_empty()) else {
            self.insights = None;
            return Vec::new();
        };
        let every = wanted.policy.idle_after() / METRICS_PER_IDLE_TIME;
        let fresh = self.insights.as_ref();
        if let Some(kept) = fresh.filter(|kept| !is_older(kept.at, wanted.now, every)) {
            return kept.refused.clone();
        }
        let number: usize = families.values().map(BTreeSet::len).sum();
        let takes = families.len() as u64 + number as u64 * METRICS_PER_FAMILY;
        if affordable(self.left(wanted.policy), takes) == 0 {
            let scope = format!("metrics of {number} task families on Fargate");
            return vec![spent().gap(scope)];
        }
        let before = source.metrics_requested();
        let (old, old_history) = match self.insights.take() {
            Some(old) => (old.series, old.with_history),
            None => Default::default(),
        };
        let mut fresh = Insights {
            at: wanted.now,
            series: BTreeMap::new(),
            with_history: old_history,
            refused: Vec::new(),
        };
        let recent = (five_minute_metrics_from(wanted), wanted.now);
        let answers = of_tasks(source, families.clone(), recent, &mut fresh.refused).await;
        let new_series = answers.into_iter().flat_map(|answer| answer.series);
        fresh.take(new_series.collect(), old, wanted);
        self.pay(source, before);
        let before = source.metrics_requested();
        let left = affordable(self.left(wanted.policy), METRICS_PER_FAMILY);
        fresh.ask_history(source, wanted, (families, left)).await;
        self.pay(source, before);
        fresh.refused.extend(source.take_gaps());
        self.insights.insert(fresh).refused.clone()
    }
}

impl Insights {
    /// Adds the new series to the stored ones. A family without a new series is dropped.
    fn take(
        &mut self,
        new_series: BTreeMap<TaskFamily, MetricSeries>,
        mut old: BTreeMap<TaskFamily, MetricSeries>,
        wanted: &Wanted<'_>,
    ) {
        for (family, series) in new_series
            .into_iter()
            .filter(|(_, series)| !series.is_empty())
        {
            let series = match joined(old.remove(&family), series, wanted) {
                Joined::Both(series) => series,
                Joined::NewOnly(series) => {
                    self.with_history.remove(&family);
                    series
                }
            };
            self.series.insert(family, series);
        }
        let stored = &self.series;
        self.with_history
            .retain(|family| stored.contains_key(family));
    }

    /// Requests the hours before the new series, for families that lack them. If the budget does
    /// not pay for all of them, none is requested.
    async fn ask_history(
        &mut self,
        source: &dyn MetricsSource,
        wanted: &Wanted<'_>,
        (mut families, affordable): (Families, usize),
    ) {
        let Some(window) = window(wanted) else {
            return;
        };
        families.values_mut().for_each(|families| {
            families.retain(|family| {
                self.series.contains_key(family) && !self.with_history.contains(family)
            });
        });
        families.retain(|_, families| !families.is_empty());
        let number: usize = families.values().map(BTreeSet::len).sum();
        // Each region also takes one page of a list.
        if number + families.len() > affordable {
            let days = wanted.policy.history_days;
            let scope = format!("metrics of {days} days of {number} task families on Fargate");
            let refused = spent().and("; their usual pauses are unknown");
            self.refused.push(refused.gap(scope));
            return;
        }
        let answers = of_tasks(source, families, window, &mut self.refused).await;
        for mut answer in answers {
            for family in answer.families {
                let Some(newer) = self.series.remove(&family) else {
                    continue;
                };
                let older = answer.series.remove(&family).unwrap_or_default();
                let series = older.renewed(newer, kept(wanted));
                self.series.insert(family.clone(), series);
                self.with_history.insert(family);
            }
        }
    }
}

/// The answer of one region about some families.
struct FamilyAnswer {
    families: BTreeSet<TaskFamily>,
    series: BTreeMap<TaskFamily, MetricSeries>,
}

/// Requests several regions at the same time. A region that refuses becomes a gap.
async fn of_tasks(
    source: &dyn MetricsSource,
    families: Families,
    (from, to): (Timestamp, Timestamp),
    refused: &mut Vec<Gap>,
) -> Vec<FamilyAnswer> {
    let calls = families.into_iter().map(|(region, families)| async move {
        let answer = source.of_tasks(&region, &families, from, to).await;
        (region, families, answer)
    });
    let mut answers = stream::iter(calls).buffered(REGIONS_AT_ONCE);
    let mut region_answers = Vec::new();
    while let Some((region, families, answer)) = answers.next().await {
        match answer {
            Ok(series) => region_answers.push(FamilyAnswer { families, series }),
            Err(error) => {
                let scope = format!("{region}: metrics of tasks");
                refused.push(Refused::from(error).gap(scope));
            }
        }
    }
    region_answers
}

/// The task families on Fargate, by region.
fn by_region(wanted: &Wanted<'_>) -> Families {
    let mut all = Families::new();
    for task in wanted.inventory.batch.tasks.values() {
        if let Some((region, family)) = task.region.clone().zip(task.on_fargate()) {
            all.entry(region).or_default().insert(family);
        }
    }
    all
}
