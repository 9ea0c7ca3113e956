//! Container Insights of what runs on Fargate, within the budget, as often as metrics of
//! nodes.

use std::collections::{BTreeMap, BTreeSet};

use ebb_cloud::ports::METRICS_PER_FAMILY;
use ebb_domain::fleet::{Gap, TaskFamily};
use ebb_domain::identity::Region;
use ebb_domain::judge::MetricSeries;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{METRICS_PER_IDLE_TIME, Paid, Wanted, affordable, looked_back};
use crate::gather::{Account, REGIONS_AT_ONCE, is_older};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Insights {
    /// When they were last asked for.
    at: Timestamp,
    told: BTreeMap<TaskFamily, MetricSeries>,
    refused: Vec<Gap>,
}

impl Paid {
    /// What Container Insights tells of families of tasks; nothing where it is switched off.
    pub fn insights(&self) -> BTreeMap<TaskFamily, MetricSeries> {
        let kept = self.insights.as_ref();
        kept.map(|kept| kept.told.clone()).unwrap_or_default()
    }

    pub(super) async fn refresh_insights(
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
            return vec![Gap {
                scope: format!("metrics of {number} task families on Fargate"),
                reason: "today's budget for paid calls is spent".to_owned(),
            }];
        }
        let before = source.metrics_requested();
        let from = looked_back(wanted);
        let calls = families.into_iter().map(|(region, families)| async move {
            let answer = source.of_tasks(&region, &families, from, wanted.now).await;
            (region, answer)
        });
        let mut kept = Insights {
            at: wanted.now,
            told: BTreeMap::new(),
            refused: Vec::new(),
        };
        let mut answers = stream::iter(calls).buffered(REGIONS_AT_ONCE);
        while let Some((region, answer)) = answers.next().await {
            match answer {
                Ok(told) => kept.told.extend(told),
                Err(error) => kept.refused.push(Gap {
                    scope: format!("{region}: metrics of tasks"),
                    reason: error.to_string(),
                }),
            }
        }
        drop(answers);
        kept.told.retain(|_, series| !series.is_empty());
        kept.refused.extend(source.take_gaps());
        self.pay(source, before);
        self.insights.insert(kept).refused.clone()
    }
}

/// What runs on Fargate, by where it is.
fn by_region(wanted: &Wanted<'_>) -> BTreeMap<Region, BTreeSet<TaskFamily>> {
    let mut all: BTreeMap<Region, BTreeSet<TaskFamily>> = BTreeMap::new();
    for task in wanted.inventory.batch.tasks.values() {
        if let Some((region, family)) = task.region.clone().zip(task.on_fargate()) {
            all.entry(region).or_default().insert(family);
        }
    }
    all
}
