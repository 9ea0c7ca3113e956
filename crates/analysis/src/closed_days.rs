//! The costs of pipelines and cost centres on closed days, with those that earlier sweeps stored.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ebb_model::policy::Policy;
use ebb_model::policy::costs::RestOfMachine;
use ebb_model::report::cost_shares::{CostDay, CostDimension, CostSource};
use ebb_model::spend_history::{SpendDay, SpendHistory, SpendSubject};
use ebb_telemetry::money::Usd;
use jiff::Timestamp;
use jiff::civil::Date;

use crate::cost_allocation::spend_sums::SpendSums;
use crate::coverage::{DAY, of_day};
use crate::facts::Facts;

/// Days after the end of a day until its bill is complete. AWS needs up to one day; Cost Explorer calls
/// the days of a month estimated until the invoice exists.
const CLOSES_AFTER_DAYS: u32 = 2;

/// The costs of pipelines and cost centres, as findings need them.
#[derive(Debug, Default)]
pub(crate) struct Spend {
    /// Closed days.
    pub(crate) history: SpendHistory,
    /// All days of the bill, with the causes of their cost.
    pub(crate) sums: SpendSums,
}

impl Spend {
    /// The costs after a sweep, with the closed days that earlier sweeps stored.
    pub(crate) fn new(facts: &Facts<'_>, days: &[CostDay], sums: SpendSums) -> Self {
        let before = &facts.memory.spend;
        let bill = (days, facts.is_bill_partial());
        let history = with_days(before, (bill, &sums), facts.policy, facts.now);
        Self { history, sums }
    }
}

/// Whether the bill of a day is complete.
pub(crate) fn is_closed(day: &CostDay, now: Timestamp) -> bool {
    day.source == CostSource::Bill && is_complete(&day.day, day.estimated, now)
}

/// The same for a day of the bill.
pub(crate) fn is_complete(day: &str, estimated: bool, now: Timestamp) -> bool {
    let closes = of_day(day).and_then(|day| day.to.checked_add(DAY * CLOSES_AFTER_DAYS).ok());
    !estimated || closes.is_some_and(|closes| closes <= now)
}

/// The history after a sweep. A day that is known keeps its costs until its bill changes, because a
/// sweep sees fewer tasks of older days. A bill without a part replaces only smaller ones: a part that
/// always lacks, such as an account without costs by resource, keeps no correction back.
pub(crate) fn with_days(
    before: &SpendHistory,
    ((days, is_partial), sums): ((&[CostDay], bool), &SpendSums),
    policy: &Policy,
    now: Timestamp,
) -> SpendHistory {
    let mut history = match before.is_of(&policy.costs) {
        true => before.clone(),
        false => SpendHistory::empty(&policy.costs),
    };
    let budgets: BTreeSet<SpendSubject> = (policy.budgets.iter())
        .filter_map(|budget| budget.subject())
        .collect();
    for day in days.iter().filter(|day| is_closed(day, now)) {
        let Ok(date) = day.day.parse::<Date>() else {
            continue;
        };
        let known = history.days.get(&date);
        let is_replaced = |known: &SpendDay| {
            known.billed < day.total || (known.billed != day.total && !is_partial)
        };
        if known.is_none_or(is_replaced) {
            history
                .days
                .insert(date, costs_of(day, sums, policy.costs.rest, &budgets));
        }
    }
    let excess = history.days.len().saturating_sub(SpendHistory::MAX_DAYS);
    for _ in 0..excess {
        history.days.pop_first();
    }
    history
}

fn costs_of(
    day: &CostDay,
    sums: &SpendSums,
    rest: RestOfMachine,
    budgets: &BTreeSet<SpendSubject>,
) -> SpendDay {
    let mut by: BTreeMap<CostDimension, Vec<(&SpendSubject, Option<Usd>)>> = BTreeMap::new();
    for (subject, tasks) in sums.on(&day.day) {
        let cost = (!tasks.is_partial).then(|| tasks.cost(rest));
        by.entry(subject.dimension)
            .or_default()
            .push((subject, cost));
    }
    let mut stored = SpendDay {
        billed: day.total,
        ..SpendDay::default()
    };
    for (dimension, mut names) in by {
        // Names with a budget first, then the most expensive.
        names
            .sort_by_key(|(subject, cost)| (!budgets.contains(*subject), Reverse(*cost), *subject));
        let with_budget = names
            .iter()
            .filter(|(one, _)| budgets.contains(*one))
            .count();
        let most = with_budget + SpendHistory::MAX_NAMES;
        if names.len() > most {
            stored.left_out.insert(dimension, names.len() - most);
        }
        let names = names.into_iter().take(most);
        let names = names.map(|(subject, cost)| (subject.name.clone(), cost));
        stored.by.insert(dimension, names.collect());
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost_allocation::named_claim::TaskNames;
    use crate::run_costs::RunFactors;
    use ebb_telemetry::testing::at;

    /// The zero of the test clock is on 2026-09-21.
    fn day(date: &str, total: i64, estimated: bool) -> CostDay {
        CostDay {
            day: date.to_owned(),
            source: CostSource::Bill,
            estimated,
            total: Usd::from_micros(total),
            rest: BTreeMap::new(),
            upper_bound: Usd::ZERO,
            rest_by_centre: Vec::new(),
            machines_without_price: 0,
        }
    }

    fn names(pipeline: &str) -> TaskNames {
        TaskNames {
            run: None,
            pipeline: Some(pipeline.to_owned()),
            step: "align".to_owned(),
            user: None,
            cost_centre: None,
        }
    }

    fn paid(micros: i64) -> RunFactors {
        RunFactors {
            used: Usd::from_micros(micros),
            ..RunFactors::default()
        }
    }

    fn pipeline(name: &str) -> SpendSubject {
        SpendSubject {
            dimension: CostDimension::Pipeline,
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_day_is_closed_when_the_bill_says_so_or_two_days_after_its_end() {
        let check = |date: &str, estimated: bool, source: CostSource, expect: bool| {
            let day = CostDay {
                source,
                ..day(date, 1, estimated)
            };
            assert_eq!(is_closed(&day, at(0)), expect, "{date} {estimated}");
        };
        check("2026-09-20", false, CostSource::Bill, true);
        check("2026-09-20", true, CostSource::Bill, false);
        check("2026-09-19", true, CostSource::Bill, false);
        check("2026-09-18", true, CostSource::Bill, true);
        check("2026-09-18", true, CostSource::Prices, false);
        check("2026-09-18", false, CostSource::Prices, false);
    }

    #[test]
    fn a_known_day_keeps_its_costs_until_its_bill_changes_and_lacks_nothing_or_grows() {
        let policy = Policy::default();
        let named = BTreeMap::from([(names("a"), 0), (names("b"), 1)]);
        let sums_of = |a: i64| {
            let mut sums = SpendSums::new(&named);
            sums.add(0, "2026-09-17", paid(a));
            sums.add_unpriced(1, "2026-09-17");
            sums
        };
        let cost = |history: &SpendHistory, name: &str| {
            let costs = history.since_first_cost(&pipeline(name));
            costs.values().next().copied()
        };
        let after_sweep = |before: &SpendHistory, total: i64, a: i64| {
            let days = [day("2026-09-17", total, false), day("2026-09-21", 9, true)];
            with_days(before, ((&days, false), &sums_of(a)), &policy, at(0))
        };
        let first = after_sweep(&SpendHistory::default(), 100, 7);
        assert_eq!(first.days.len(), 1, "an open day is not stored");
        assert_eq!(cost(&first, "a"), Some(Some(Usd::from_micros(7))));
        assert_eq!(cost(&first, "b"), Some(None), "unknown is not zero");
        assert_eq!(cost(&first, "c"), None);
        assert_eq!(after_sweep(&first, 100, 3), first, "a sweep that sees less");
        let without_a_part = |total: i64| {
            let days = [day("2026-09-17", total, false)];
            with_days(&first, ((&days, true), &sums_of(3)), &policy, at(0))
        };
        assert_eq!(without_a_part(40), first, "a smaller bill");
        let larger = cost(&without_a_part(101), "a");
        assert_eq!(larger, Some(Some(Usd::from_micros(3))));
        let changed = after_sweep(&first, 101, 3);
        assert_eq!(cost(&changed, "a"), Some(Some(Usd::from_micros(3))));
        let mut other = policy.clone();
        other.costs.rest = RestOfMachine::Spread;
        let days: [CostDay; 0] = [];
        let spread = with_days(&first, ((&days, false), &sums_of(1)), &other, at(0));
        assert!(spread.days.is_empty(), "costs by another method");
    }

    #[test]
    fn days_and_names_are_bounded_and_a_name_that_is_left_out_is_unknown() {
        let mut policy = Policy::default();
        let last = SpendHistory::MAX_NAMES + 9;
        let name = |n: usize| format!("p{n:03}");
        policy.budgets = Policy::parse(&format!(
            "[[budgets]]\npipeline = \"{}\"\nusd_a_month = 1\n",
            name(0)
        ))
        .expect("a policy")
        .budgets;
        let named: BTreeMap<TaskNames, usize> = (0..=last).map(|n| (names(&name(n)), n)).collect();
        let mut sums = SpendSums::new(&named);
        let begin = jiff::civil::date(2026, 6, 1);
        let dates = begin.series(jiff::Span::new().days(1)).take(60);
        let days: Vec<CostDay> = dates.map(|date| day(&date.to_string(), 1, false)).collect();
        for n in 0..=last {
            for day in &days {
                sums.add(n, &day.day, paid(i64::try_from(n).expect("a few") + 1));
            }
        }
        let before = SpendHistory::default();
        let history = with_days(&before, ((&days, false), &sums), &policy, at(0));
        assert_eq!(history.days.len(), SpendHistory::MAX_DAYS);
        let (_, newest) = history.days.last_key_value().expect("days");
        assert_eq!(newest.left_out[&CostDimension::Pipeline], 9);
        let known = |n: usize| newest.cost(&pipeline(&name(n))).map(Usd::micros);
        assert_eq!(
            (known(0), known(1), known(last)),
            (Some(1), None, Some(210))
        );
        assert_eq!(newest.cost(&pipeline("new")), None);
    }
}
