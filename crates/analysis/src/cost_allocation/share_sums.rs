//! Sums of costs by the names of tasks, bounded for a report. The sum of each name that stays is
//! complete: a name is replaced by `others` in all sums or in none.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ebb_model::report::cost_shares::{CostDimension, CostName, CostShare, DayShare};
use ebb_telemetry::money::Usd;

use crate::cost_allocation::named_claim::TaskNames;

/// Limit on the sums of each table of a report.
pub const MAX_SHARES: usize = 200;

/// Limit on the names of the first dimension of a table, and of each other dimension.
const MAX_NAMES: usize = 100;
const MAX_OTHER_NAMES: usize = 50;

/// Costs of tasks by day, by the index of their names.
#[derive(Debug, Default)]
pub(crate) struct ShareSums {
    sums: BTreeMap<usize, BTreeMap<String, DayShare>>,
}

type Named = BTreeMap<CostDimension, CostName>;

impl ShareSums {
    pub(crate) fn add(&mut self, names: usize, day: &str, share: DayShare) {
        if share == DayShare::default() {
            return;
        }
        let days = self.sums.entry(names).or_default();
        days.entry(day.to_owned()).or_default().add(share);
    }

    /// The sums by `first`, which is the run or the step, and by pipeline, user and cost centre.
    pub(crate) fn by(
        &self,
        first: CostDimension,
        names: &BTreeMap<TaskNames, usize>,
    ) -> Vec<CostShare> {
        let names: BTreeMap<usize, &TaskNames> =
            names.iter().map(|(name, at)| (*at, name)).collect();
        let dimensions = [
            first,
            CostDimension::Pipeline,
            CostDimension::User,
            CostDimension::CostCentre,
        ];
        let mut sums: BTreeMap<Named, BTreeMap<String, DayShare>> = BTreeMap::new();
        for (at, days) in &self.sums {
            let Some(task) = names.get(at) else {
                continue;
            };
            let named = dimensions.map(|one| (one, name(task, one)));
            add_days(&mut sums, BTreeMap::from(named), days);
        }
        bounded(&sums, first)
    }
}

fn name(task: &TaskNames, dimension: CostDimension) -> CostName {
    let name = match dimension {
        CostDimension::Run => task.run.clone(),
        CostDimension::Pipeline => task.pipeline.clone(),
        CostDimension::Step => Some(task.step.clone()),
        CostDimension::User => task.user.clone(),
        CostDimension::CostCentre => task.cost_centre.clone(),
    };
    name.map_or(CostName::Unknown, CostName::Name)
}

fn add_days(
    sums: &mut BTreeMap<Named, BTreeMap<String, DayShare>>,
    names: Named,
    days: &BTreeMap<String, DayShare>,
) {
    let sum = sums.entry(names).or_default();
    for (day, share) in days {
        sum.entry(day.clone()).or_default().add(*share);
    }
}

/// At most [`MAX_SHARES`] sums, the most expensive first.
fn bounded(
    sums: &BTreeMap<Named, BTreeMap<String, DayShare>>,
    first: CostDimension,
) -> Vec<CostShare> {
    let (mut limit, mut other_limit) = (MAX_NAMES, MAX_OTHER_NAMES);
    let folded = loop {
        let folded = fold(sums, |one| match one == first {
            true => limit,
            false => other_limit,
        });
        if folded.len() <= MAX_SHARES {
            break folded;
        }
        (limit, other_limit) = (limit / 2, other_limit / 2);
    };
    let mut shares: Vec<CostShare> = folded
        .into_iter()
        .map(|(names, by_day)| CostShare { names, by_day })
        .collect();
    shares.sort_by_cached_key(|share| (Reverse(cost(&share.by_day)), share.names.clone()));
    shares
}

/// Replaces all but the most expensive names of each dimension by `others`.
fn fold(
    sums: &BTreeMap<Named, BTreeMap<String, DayShare>>,
    limit: impl Fn(CostDimension) -> usize,
) -> BTreeMap<Named, BTreeMap<String, DayShare>> {
    let mut by_name: BTreeMap<(CostDimension, &CostName), Usd> = BTreeMap::new();
    for (names, days) in sums {
        for (dimension, name) in names.iter().filter(|(_, name)| name.name().is_some()) {
            let sum = by_name.entry((*dimension, name)).or_default();
            *sum = *sum + cost(days);
        }
    }
    let mut order: Vec<_> = by_name.into_iter().collect();
    order.sort_by_key(|((dimension, name), usd)| (*dimension, Reverse(*usd), *name));
    let of_dimension = order.chunk_by(|((a, _), _), ((b, _), _)| a == b);
    let kept: BTreeSet<(CostDimension, &CostName)> = of_dimension
        .flat_map(|names| names.iter().take(limit(names[0].0.0)))
        .map(|(name, _)| *name)
        .collect();
    let mut folded = BTreeMap::new();
    for (names, days) in sums {
        let names = names.iter().map(|(dimension, name)| {
            let stays = name.name().is_none() || kept.contains(&(*dimension, name));
            let name = if stays { name } else { &CostName::Others };
            (*dimension, name.clone())
        });
        add_days(&mut folded, names.collect(), days);
    }
    folded
}

fn cost(days: &BTreeMap<String, DayShare>) -> Usd {
    days.values().map(|day| day.used + day.unused).sum()
}
