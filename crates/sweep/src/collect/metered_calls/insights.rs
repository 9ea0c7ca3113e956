//! Container Insights of what runs on Fargate, within the budget, as often as metrics of
//! nodes.

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
    METRICS_PER_IDLE_TIME, Wanted, affordable, looked_back,
};
use crate::collect::metered_calls::history::{Joined, joined, kept, window};
use crate::collect::metered_calls::{Paid, spent};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Insights {
    /// When they were last asked for.
    at: Timestamp,
    told: BTreeMap<TaskFamily, MetricSeries>,
    /// Families of which hourly metrics of the days before were requested.
    with_history: BTreeSet<TaskFamily>,
    refused: Vec<Gap>,
}

/// Families by where they are.
type Families = BTreeMap<Region, BTreeSet<TaskFamily>>;

impl Paid {
    /// What Container Insights tells of families of tasks; nothing where it is switched off.
    pub fn insights(&self) -> BTreeMap<TaskFamily, MetricSeries> {
        let kept = self.insights.as_ref();
        kept.map(|kept| kept.told.clone()).unwrap_or_default()
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
            Some(old) => (old.told, old.with_history),
            None => Default::default(),
        };
        let mut fresh = Insights {
            at: wanted.now,
            told: BTreeMap::new(),
            with_history: old_history,
            refused: Vec::new(),
        };
        let recent = (looked_back(wanted), wanted.now);
        let answers = of_tasks(source, families.clone(), recent, &mut fresh.refused).await;
        let told = answers.into_iter().flat_map(|answer| answer.told);
        fresh.take(told.collect(), old, wanted);
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
    /// Takes in what was told now; what is not told again is no longer known.
    fn take(
        &mut self,
        told: BTreeMap<TaskFamily, MetricSeries>,
        mut old: BTreeMap<TaskFamily, MetricSeries>,
        wanted: &Wanted<'_>,
    ) {
        for (family, series) in told.into_iter().filter(|(_, series)| !series.is_empty()) {
            let series = match joined(old.remove(&family), series, wanted) {
                Joined::Both(series) => series,
                Joined::NewOnly(series) => {
                    self.with_history.remove(&family);
                    series
                }
            };
            self.told.insert(family, series);
        }
        let told = &self.told;
        self.with_history.retain(|family| told.contains_key(family));
    }

    /// Requests the hours before what was told now, for families that lack them: for all of
    /// them, or for none where that cannot be paid for.
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
                self.told.contains_key(family) && !self.with_history.contains(family)
            });
        });
        families.retain(|_, families| !families.is_empty());
        let number: usize = families.values().map(BTreeSet::len).sum();
        // A page of a list in each region, besides.
        if number + families.len() > affordable {
            let days = wanted.policy.history_days;
            let scope = format!("metrics of {days} days of {number} task families on Fargate");
            let refused = spent().and(": how long they usually pause is not known");
            self.refused.push(refused.gap(scope));
            return;
        }
        let answers = of_tasks(source, families, window, &mut self.refused).await;
        for mut answer in answers {
            for family in answer.families {
                let Some(newer) = self.told.remove(&family) else {
                    continue;
                };
                let older = answer.told.remove(&family).unwrap_or_default();
                let series = older.renewed(newer, kept(wanted));
                self.told.insert(family.clone(), series);
                self.with_history.insert(family);
            }
        }
    }
}

/// What one region told of some families.
struct Answer {
    families: BTreeSet<TaskFamily>,
    told: BTreeMap<TaskFamily, MetricSeries>,
}

/// Regions side by side; one that refuses is a gap.
async fn of_tasks(
    source: &dyn MetricsSource,
    families: Families,
    (from, to): (Timestamp, Timestamp),
    refused: &mut Vec<Gap>,
) -> Vec<Answer> {
    let calls = families.into_iter().map(|(region, families)| async move {
        let answer = source.of_tasks(&region, &families, from, to).await;
        (region, families, answer)
    });
    let mut answers = stream::iter(calls).buffered(REGIONS_AT_ONCE);
    let mut all = Vec::new();
    while let Some((region, families, answer)) = answers.next().await {
        match answer {
            Ok(told) => all.push(Answer { families, told }),
            Err(error) => {
                let scope = format!("{region}: metrics of tasks");
                refused.push(Refused::from(error).gap(scope));
            }
        }
    }
    all
}

/// What runs on Fargate, by where it is.
fn by_region(wanted: &Wanted<'_>) -> Families {
    let mut all = Families::new();
    for task in wanted.inventory.batch.tasks.values() {
        if let Some((region, family)) = task.region.clone().zip(task.on_fargate()) {
            all.entry(region).or_default().insert(family);
        }
    }
    all
}
