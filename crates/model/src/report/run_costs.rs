//! The cost of each run, as a table of costs by run shows it.

use std::collections::BTreeMap;

use ebb_telemetry::money::Usd;
use serde::Serialize;

use crate::policy::costs::RestOfMachine;
use crate::report::cost_shares::{CostDimension, CostName, CostShares, DayShare};
use crate::report::workflow_runs::{Runs, UNASSIGNED, WorkflowRun};

/// The cost of the tasks of one run on all days of the costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AllocatedCost {
    /// The cost that the tasks pay; `None` if no machine has a price.
    #[serde(rename = "cost_usd")]
    pub cost: Option<Usd>,
    /// The cost of capacity that no task used or reserved on its machines while it had tasks there;
    /// `None` if no machine has a price.
    #[serde(rename = "unused_usd")]
    pub unused: Option<Usd>,
    /// Number of tasks with a cost.
    pub tasks: usize,
    /// Number of tasks on machines without a price; the cost does not contain them.
    pub tasks_without_price: usize,
}

impl AllocatedCost {
    /// Whether the cost lacks tasks of the run: they ran before the days of the costs, or have no
    /// price.
    pub fn is_partial(&self, run: &WorkflowRun) -> bool {
        self.tasks.saturating_sub(self.tasks_without_price) < run.steps
    }

    /// An amount of this cost for people. `≥` marks the cost of a part of the run's tasks.
    fn words(&self, amount: Option<Usd>, run: &WorkflowRun) -> Option<String> {
        let sign = if self.is_partial(run) { "≥ " } else { "" };
        amount.map(|amount| format!("{sign}{amount}"))
    }

    /// The cost for people.
    pub fn cost_words(&self, run: &WorkflowRun) -> Option<String> {
        self.words(self.cost, run)
    }

    /// The cost of unused capacity for people.
    pub fn unused_words(&self, run: &WorkflowRun) -> Option<String> {
        self.words(self.unused, run)
    }
}

/// A run with its cost.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PricedRun<'a> {
    /// The run.
    #[serde(flatten)]
    pub run: &'a WorkflowRun,
    /// The same cost as in `/v1/costs?by=run`. A run that is not among the most expensive ones there has
    /// the sum of its parts. `None` if the report allocates no cost to the run.
    pub cost: Option<AllocatedCost>,
}

/// The cost of each run of a report.
#[derive(Debug, Default)]
pub struct RunCosts<'a> {
    by_name: BTreeMap<&'a str, AllocatedCost>,
    rest: RestOfMachine,
}

impl<'a> RunCosts<'a> {
    /// The costs of the runs of a report.
    pub fn new(costs: &'a CostShares) -> Self {
        Self {
            by_name: costs.by_run_name(),
            rest: costs.rest,
        }
    }

    /// Whether a cost contains a part of what no task occupied.
    pub fn rest(&self) -> RestOfMachine {
        self.rest
    }

    /// The cost by the name of a run, which may be too old for the list of runs; `None` if nothing
    /// is allocated to it.
    pub fn of_name(&self, run: &str, runs: &Runs) -> Option<AllocatedCost> {
        let mut runs = runs.runs.iter();
        let known_run = runs.find(|one| one.run == run);
        known_run.map_or_else(
            || self.by_name.get(run).copied(),
            |known_run| self.cost_of(known_run),
        )
    }

    /// The cost of a run; `None` if nothing is allocated to it. A run that is not among the most
    /// expensive ones costs the sum of its parts. That needs a price for each task.
    pub fn cost_of(&self, run: &WorkflowRun) -> Option<AllocatedCost> {
        let from_parts = || {
            let cost = run.cost_breakdown.as_ref()?;
            Some(AllocatedCost {
                cost: Some(match self.rest {
                    RestOfMachine::Apart => cost.used,
                    RestOfMachine::Spread => cost.total,
                }),
                unused: Some(cost.unused),
                tasks: run.steps,
                tasks_without_price: 0,
            })
        };
        let named = self.by_name.get(run.run.as_str()).copied();
        named.or_else(from_parts)
    }

    /// A run with its cost.
    pub fn priced(&self, run: &'a WorkflowRun) -> PricedRun<'a> {
        PricedRun {
            run,
            cost: self.cost_of(run),
        }
    }
}

impl CostShares {
    /// The cost by the name of the run. Runs that cost less than those of the report have none.
    fn by_run_name(&self) -> BTreeMap<&str, AllocatedCost> {
        let mut sums: BTreeMap<&str, DayShare> = BTreeMap::new();
        for share in &self.by_run {
            let run = match share.names.get(&CostDimension::Run) {
                Some(CostName::Name(run)) => run.as_str(),
                Some(CostName::Unknown) | None => UNASSIGNED,
                Some(CostName::Others) => continue,
            };
            let sum = sums.entry(run).or_default();
            share.by_day.values().for_each(|day| sum.add(*day));
        }
        let cost = |sum: DayShare| AllocatedCost {
            cost: (!sum.is_unknown()).then(|| sum.cost(self.rest)),
            unused: (!sum.is_unknown()).then_some(sum.unused),
            tasks: sum.tasks,
            tasks_without_price: sum.tasks_without_price,
        };
        let sums = sums.into_iter();
        sums.map(|(run, sum)| (run, cost(sum))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::costs::RestOfMachine;
    use crate::report::cost_shares::CostShare;
    use crate::report::cost_table::CostDimensions;

    fn share(run: CostName, user: &str, days: &[(&str, DayShare)]) -> CostShare {
        let user = CostName::Name(user.to_owned());
        let days = days.iter();
        CostShare {
            names: [(CostDimension::Run, run), (CostDimension::User, user)].into(),
            by_day: days.map(|(day, one)| ((*day).to_owned(), *one)).collect(),
        }
    }

    fn day(tasks: usize, used: i64, tasks_without_price: usize) -> DayShare {
        DayShare {
            tasks,
            tasks_without_price,
            used: Usd::from_micros(used),
            unused: Usd::from_micros(used / 2),
        }
    }

    #[test]
    fn the_cost_of_a_run_is_that_of_its_row_in_the_table() {
        let run = |name: &str| CostName::Name(name.to_owned());
        let mut costs = CostShares {
            by_run: vec![
                share(
                    run("a"),
                    "ana",
                    &[("2026-03-01", day(1, 10, 0)), ("2026-03-02", day(2, 20, 1))],
                ),
                share(run("a"), "ben", &[("2026-03-02", day(3, 40, 0))]),
                share(run("b"), "ana", &[("2026-03-01", day(0, 0, 4))]),
                share(CostName::Unknown, "ana", &[("2026-03-01", day(5, 6, 0))]),
                share(CostName::Others, "ana", &[("2026-03-01", day(7, 8, 0))]),
            ],
            ..CostShares::default()
        };
        for rest in [RestOfMachine::Apart, RestOfMachine::Spread] {
            costs.rest = rest;
            let by: CostDimensions = "run".parse().expect("a dimension");
            let table = costs.table(&by, None).expect("a table");
            let named = table.rows.iter().filter_map(|row| {
                let run = match &row.names[0] {
                    CostName::Name(run) => run.as_str(),
                    CostName::Unknown => UNASSIGNED,
                    CostName::Others => return None,
                };
                let cost = AllocatedCost {
                    cost: row.cost,
                    unused: row.unused,
                    tasks: row.tasks,
                    tasks_without_price: row.tasks_without_price,
                };
                Some((run, cost))
            });
            let found = costs.by_run_name();
            assert_eq!(found, named.collect());
            assert_eq!(
                found.keys().copied().collect::<Vec<_>>(),
                ["a", "b", UNASSIGNED]
            );
            assert_eq!((found["a"].tasks, found["b"].cost), (6, None));
        }
    }
}
