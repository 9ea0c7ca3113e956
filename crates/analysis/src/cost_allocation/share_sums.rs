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
    /// By the index of the names and the index of the day.
    sums: BTreeMap<(usize, usize), DayShare>,
    days: Vec<String>,
}

/// A name in a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shown<'a> {
    Name(&'a str),
    Unknown,
    Others,
}

/// The dimensions of a table, its first one first.
type Dimensions = [CostDimension; 4];

/// The cost of tasks with the same names on one day, with the names in the order of the dimensions.
struct NamedShare<'a> {
    names: [Shown<'a>; 4],
    day: &'a str,
    share: DayShare,
}

impl ShareSums {
    pub(crate) fn add(&mut self, names: usize, day: &str, share: DayShare) {
        if share == DayShare::default() {
            return;
        }
        let known = self.days.iter().rposition(|known| known == day);
        let day = known.unwrap_or_else(|| {
            self.days.push(day.to_owned());
            self.days.len() - 1
        });
        self.sums.entry((names, day)).or_default().add(share);
    }

    /// The sums by `first`, which is the run or the step, and by pipeline, user and cost centre. At
    /// most [`MAX_SHARES`], the most expensive first.
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
        let sums = self.sums.iter();
        let named = sums.filter_map(|((at, day), share)| {
            let task = names.get(at)?;
            Some(NamedShare {
                names: dimensions.map(|one| name(task, one)),
                day: &self.days[*day],
                share: *share,
            })
        });
        bounded(&named.collect::<Vec<_>>(), dimensions)
    }
}

fn name(task: &TaskNames, dimension: CostDimension) -> Shown<'_> {
    let name = match dimension {
        CostDimension::Run => task.run.as_ref(),
        CostDimension::Pipeline => task.pipeline.as_ref(),
        CostDimension::Step => Some(&task.step),
        CostDimension::User => task.user.as_ref(),
        CostDimension::CostCentre => task.cost_centre.as_ref(),
    };
    name.map_or(Shown::Unknown, |name| Shown::Name(name))
}

fn bounded(named: &[NamedShare<'_>], dimensions: Dimensions) -> Vec<CostShare> {
    let expensive = dearest_names(named);
    let (mut limit, mut other_limit) = (MAX_NAMES, MAX_OTHER_NAMES);
    let mut shares = loop {
        let kept = [limit, other_limit, other_limit, other_limit];
        if let Some(shares) = fold(named, dimensions, &kept_names(&expensive, kept)) {
            break shares;
        }
        (limit, other_limit) = (limit / 2, other_limit / 2);
    };
    shares.sort_by_cached_key(|share| (Reverse(cost(&share.by_day)), share.names.clone()));
    shares
}

/// The names of each dimension, the most expensive first.
fn dearest_names<'a>(named: &[NamedShare<'a>]) -> [Vec<&'a str>; 4] {
    std::array::from_fn(|dimension| {
        let mut by_name: BTreeMap<&str, Usd> = BTreeMap::new();
        for one in named {
            if let Shown::Name(name) = one.names[dimension] {
                let sum = by_name.entry(name).or_default();
                *sum = *sum + one.share.used + one.share.unused;
            }
        }
        let mut order: Vec<_> = by_name.into_iter().collect();
        order.sort_by_key(|(name, usd)| (Reverse(*usd), *name));
        order.into_iter().map(|(name, _)| name).collect()
    })
}

fn kept_names<'a>(expensive: &[Vec<&'a str>; 4], limits: [usize; 4]) -> [BTreeSet<&'a str>; 4] {
    std::array::from_fn(|dimension| {
        let names = expensive[dimension].iter().take(limits[dimension]);
        names.copied().collect()
    })
}

/// The sums, with `others` for the names that are not kept; `None` if there are more than
/// [`MAX_SHARES`].
fn fold(
    named: &[NamedShare<'_>],
    dimensions: Dimensions,
    kept: &[BTreeSet<&str>; 4],
) -> Option<Vec<CostShare>> {
    let mut folded: BTreeMap<[Shown<'_>; 4], BTreeMap<String, DayShare>> = BTreeMap::new();
    for one in named {
        let names = std::array::from_fn(|dimension| match one.names[dimension] {
            Shown::Name(name) if !kept[dimension].contains(name) => Shown::Others,
            name => name,
        });
        let days = folded.entry(names).or_default();
        days.entry(one.day.to_owned()).or_default().add(one.share);
        if folded.len() > MAX_SHARES {
            return None;
        }
    }
    let shares = folded.into_iter().map(|(names, by_day)| CostShare {
        names: dimensions.into_iter().zip(names.map(cost_name)).collect(),
        by_day,
    });
    Some(shares.collect())
}

fn cost_name(name: Shown<'_>) -> CostName {
    match name {
        Shown::Name(name) => CostName::Name(name.to_owned()),
        Shown::Unknown => CostName::Unknown,
        Shown::Others => CostName::Others,
    }
}

fn cost(days: &BTreeMap<String, DayShare>) -> Usd {
    days.values().map(|day| day.used + day.unused).sum()
}
