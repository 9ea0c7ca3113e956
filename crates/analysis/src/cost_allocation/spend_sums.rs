//! Sums of the tasks of each pipeline and each cost centre by day, without a limit on their names.

use std::collections::BTreeMap;

use ebb_model::policy::costs::RestOfMachine;
use ebb_model::report::cost_shares::CostDimension;
use ebb_model::spend_history::SpendSubject;
use ebb_telemetry::money::Usd;

use crate::cost_allocation::named_claim::TaskNames;
use crate::run_costs::RunFactors;

/// The tasks of a subject on one day.
#[derive(Debug, Clone, Default)]
pub(crate) struct DayFactors {
    pub(crate) factors: RunFactors,
    /// Whether a task ran on a machine without a cost, so that a part of the cost is not known.
    pub(crate) is_partial: bool,
}

impl DayFactors {
    /// The cost that the tasks pay.
    pub(crate) fn cost(&self, rest: RestOfMachine) -> Usd {
        let used = self.factors.used + self.factors.failed;
        match rest {
            RestOfMachine::Apart => used,
            RestOfMachine::Spread => used + self.factors.unused,
        }
    }
}

/// The tasks of all subjects by day (`YYYY-MM-DD`, UTC).
#[derive(Debug, Default)]
pub(crate) struct SpendSums {
    /// The subjects of the tasks with the same names, by the index of the names.
    of_names: Vec<Vec<usize>>,
    users: Vec<Option<String>>,
    subjects: Vec<SpendSubject>,
    by_day: Vec<BTreeMap<String, DayFactors>>,
    by_user: Vec<BTreeMap<String, Usd>>,
}

impl SpendSums {
    /// Sums of no task yet, for tasks with these names.
    pub(crate) fn new(names: &BTreeMap<TaskNames, usize>) -> Self {
        let mut sums = Self {
            of_names: vec![Vec::new(); names.len()],
            users: vec![None; names.len()],
            ..Self::default()
        };
        let mut places: BTreeMap<SpendSubject, usize> = BTreeMap::new();
        for (names, at) in names {
            sums.users[*at].clone_from(&names.user);
            let named = [
                (CostDimension::Pipeline, &names.pipeline),
                (CostDimension::CostCentre, &names.cost_centre),
            ];
            for (dimension, name) in named {
                let Some(name) = name.clone() else { continue };
                let next = places.len();
                let place = places
                    .entry(SpendSubject { dimension, name })
                    .or_insert(next);
                sums.of_names[*at].push(*place);
            }
        }
        let mut subjects: Vec<(usize, SpendSubject)> = places
            .into_iter()
            .map(|(subject, place)| (place, subject))
            .collect();
        subjects.sort_unstable_by_key(|(place, _)| *place);
        sums.by_day = vec![BTreeMap::new(); subjects.len()];
        sums.by_user = vec![BTreeMap::new(); subjects.len()];
        sums.subjects = subjects.into_iter().map(|(_, subject)| subject).collect();
        sums
    }

    /// Adds a task that ran on a day.
    pub(crate) fn add(&mut self, names: usize, day: &str, factors: RunFactors) {
        let used = factors.used + factors.failed;
        for subject in &self.of_names[names] {
            let days = &mut self.by_day[*subject];
            days.entry(day.to_owned()).or_default().factors.add(factors);
            if let Some(user) = &self.users[names] {
                let sum = self.by_user[*subject].entry(user.clone()).or_default();
                *sum = *sum + used;
            }
        }
    }

    /// Adds a task that ran on a day on a machine without a cost.
    pub(crate) fn add_unpriced(&mut self, names: usize, day: &str) {
        for subject in &self.of_names[names] {
            let days = &mut self.by_day[*subject];
            days.entry(day.to_owned()).or_default().is_partial = true;
        }
    }

    /// Each subject with tasks on a day.
    pub(crate) fn on(&self, day: &str) -> impl Iterator<Item = (&SpendSubject, &DayFactors)> {
        let subjects = self.subjects.iter().zip(&self.by_day);
        subjects.filter_map(move |(subject, days)| Some((subject, days.get(day)?)))
    }

    /// The days of a subject on which it had tasks.
    pub(crate) fn days(&self, subject: &SpendSubject) -> Option<&BTreeMap<String, DayFactors>> {
        self.by_day.get(self.place(subject)?)
    }

    /// The user of more than half of the cost of a subject.
    pub(crate) fn main_user(&self, subject: &SpendSubject) -> Option<&str> {
        let users = self.by_user.get(self.place(subject)?)?;
        let all: Usd = self
            .days(subject)?
            .values()
            .map(|day| day.cost(RestOfMachine::Apart))
            .sum();
        let (user, most) = users.iter().max_by_key(|(_, usd)| **usd)?;
        (*most + *most > all).then_some(user.as_str())
    }

    fn place(&self, subject: &SpendSubject) -> Option<usize> {
        self.subjects.iter().position(|one| one == subject)
    }
}
