//! The cost of machines that belongs to no task, by the cost centre of the machine.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ebb_model::inventory::instance::Instance;
use ebb_model::policy::Policy;
use ebb_model::report::cost_shares::{CentreRest, CostDay, CostName, RestKind};
use ebb_telemetry::money::Usd;

use crate::cost_allocation::machine_day::MachineDay;

/// Limit on the cost centres of a report. The others are one.
const MAX_CENTRES: usize = 50;

/// The value of the tag of cost centres of a machine; `None` without the tag or its value.
pub(crate) fn centre_of_machine<'a>(policy: &Policy, machine: &'a Instance) -> Option<&'a str> {
    let value = machine.tags.get(policy.costs.cost_centre_tag.as_ref()?)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}

/// The parts of a machine without a task, in the order of [`KINDS`].
type Parts = [Usd; 5];

const KINDS: [RestKind; 5] = [
    RestKind::Findings,
    RestKind::OtherWork,
    RestKind::Idle,
    RestKind::Unwatched,
    RestKind::Elsewhere,
];

/// The sums of each day by cost centre.
#[derive(Debug, Default)]
pub(crate) struct CentreRests<'a> {
    days: BTreeMap<String, BTreeMap<&'a str, Parts>>,
}

impl<'a> CentreRests<'a> {
    /// Adds a machine with a cost centre.
    pub(crate) fn add(&mut self, day: &str, centre: &'a str, machine: &MachineDay) {
        let parts = [
            machine.findings,
            machine.other_work,
            machine.idle,
            machine.unwatched,
            machine.elsewhere,
        ];
        if !self.days.contains_key(day) {
            self.days.insert(day.to_owned(), BTreeMap::new());
        }
        if let Some(centres) = self.days.get_mut(day) {
            add(centres.entry(centre).or_default(), parts);
        }
    }

    /// Puts the sums into their days. The most expensive centres have names.
    pub(crate) fn put_into(self, days: &mut [CostDay]) {
        let mut totals: BTreeMap<&str, i128> = BTreeMap::new();
        for (centre, parts) in self.days.values().flatten() {
            let cost: i128 = parts.iter().map(|usd| i128::from(usd.micros())).sum();
            *totals.entry(centre).or_default() += cost;
        }
        let mut order: Vec<(&str, i128)> = totals.into_iter().collect();
        order.sort_by_key(|(centre, cost)| (Reverse(*cost), *centre));
        let named: BTreeSet<&str> = order
            .iter()
            .take(MAX_CENTRES)
            .map(|(one, _)| *one)
            .collect();
        for day in days {
            let mut sums: BTreeMap<CostName, Parts> = BTreeMap::new();
            for (centre, parts) in self.days.get(&day.day).into_iter().flatten() {
                let name = match named.contains(centre) {
                    true => CostName::Name((*centre).to_owned()),
                    false => CostName::Others,
                };
                add(sums.entry(name).or_default(), *parts);
            }
            day.rest_by_centre = sums.into_iter().filter_map(centre_rest).collect();
        }
    }
}

fn add(sums: &mut Parts, parts: Parts) {
    for (sum, part) in sums.iter_mut().zip(parts) {
        *sum = *sum + part;
    }
}

/// `None` if all parts are zero.
fn centre_rest((name, parts): (CostName, Parts)) -> Option<CentreRest> {
    let parts = KINDS.into_iter().zip(parts);
    let rest: BTreeMap<RestKind, Usd> = parts.filter(|(_, usd)| *usd != Usd::ZERO).collect();
    (!rest.is_empty()).then_some(CentreRest { name, rest })
}
