//! The rows of the table `costs` of the lake, for the days of the bill that it does not have yet.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ebb_model::cost_record::{CostRecord, CostUse, WrittenDay};
use ebb_model::inventory::instance::Instance;
use ebb_model::report::cost_shares::{CostDay, CostSource};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::Usd;
use jiff::civil::Date;

use crate::closed_days::{is_closed, is_complete};
use crate::cost_allocation::centre_rest::centre_of_machine;
use crate::cost_allocation::is_young;
use crate::cost_allocation::machine_day::MachineDay;
use crate::cost_allocation::named_claim::{MachineTasks, TaskNames};
use crate::coverage::is_whole;
use crate::facts::Facts;

/// Limit on the rows of a day. The largest amounts have rows of their own.
const MAX_DAY_ROWS: usize = 10_000;

/// Limit on the days of one sweep; all of them are one commit. The next sweep writes further days.
const MAX_DAYS: usize = 4;

/// With more billed machines, a sweep writes one day, to limit memory.
const MANY_MACHINES: usize = 10_000;

/// The machine, the index of the names of the tasks, and the use.
type RowKey = (Option<NodeId>, Option<usize>, CostUse);

/// Sums for the rows of the days that may be due.
#[derive(Debug, Default)]
pub(crate) struct CostRows {
    days: BTreeMap<String, BTreeMap<RowKey, Usd>>,
}

impl CostRows {
    /// No rows yet, for the oldest days of the bill that the table does not have as the bill is now.
    pub(crate) fn new(facts: &Facts<'_>) -> Self {
        let mut days: BTreeMap<&str, WrittenDay> = BTreeMap::new();
        for (day, usd) in facts.bill.values().flat_map(|cost| &cost.by_day) {
            let sum = days.entry(day).or_insert_with(|| WrittenDay {
                billed: Usd::ZERO,
                is_closed: is_complete(day, is_young(day, facts.now), facts.now),
            });
            sum.billed = sum.billed + *usd;
        }
        for day in facts.billed {
            let billed_day = WrittenDay {
                billed: day.total,
                is_closed: is_complete(&day.day, day.estimated, facts.now),
            };
            days.insert(&day.day, billed_day);
        }
        let is_due = |(day, now): &(&str, WrittenDay)| {
            let date = day.parse::<Date>();
            is_whole(day, facts.now) && date.is_ok_and(|date| must_write(facts, date, *now))
        };
        let most = match facts.bill.len() > MANY_MACHINES {
            true => 1,
            false => MAX_DAYS,
        };
        let due = days.into_iter().filter(is_due).take(most);
        let due = due.map(|(day, _)| (day.to_owned(), BTreeMap::new()));
        Self {
            days: due.collect(),
        }
    }

    /// Adds a machine on a day.
    pub(crate) fn add_machine(
        &mut self,
        day: &str,
        (id, tasks): (&NodeId, Option<&MachineTasks>),
        parts: &MachineDay,
    ) {
        let Some(rows) = self.days.get_mut(day) else {
            return;
        };
        let mut add = |names: Option<usize>, part: CostUse, usd: Usd| {
            let sum = rows.entry((Some(id.clone()), names, part)).or_default();
            *sum = *sum + usd;
        };
        if let Some(tasks) = tasks {
            for (at, task) in parts.tasks.iter().enumerate() {
                let used = match tasks.failed[at] {
                    true => CostUse::FailedTask,
                    false => CostUse::Task,
                };
                add(Some(tasks.names[at]), used, task.used);
                add(Some(tasks.names[at]), CostUse::Unused, task.unused);
            }
        }
        let mut rest = parts.clone();
        rest.spread();
        add(None, CostUse::Findings, rest.findings);
        add(None, CostUse::OtherWork, rest.other_work);
        add(None, CostUse::Idle, rest.idle);
        add(None, CostUse::Unwatched, rest.unwatched);
        add(None, CostUse::Elsewhere, rest.elsewhere);
    }

    /// Adds the cost of a day that belongs to no machine, and the rounding.
    pub(crate) fn add_rest(&mut self, day: &str, elsewhere: Usd, rounding: Usd) {
        if let Some(rows) = self.days.get_mut(day) {
            rows.insert((None, None, CostUse::Elsewhere), elsewhere);
            rows.insert((None, None, CostUse::Rounding), rounding);
        }
    }

    /// The rows of the days that are due.
    pub(crate) fn into_records(
        self,
        facts: &Facts<'_>,
        days: &[CostDay],
        names: &BTreeMap<TaskNames, usize>,
        gone: &BTreeMap<NodeId, Instance>,
    ) -> Vec<CostRecord> {
        let names: BTreeMap<usize, &TaskNames> =
            names.iter().map(|(name, at)| (*at, name)).collect();
        let mut records = Vec::new();
        for day in days.iter().filter(|day| day.source == CostSource::Bill) {
            let (Some(rows), Ok(date)) = (self.days.get(&day.day), day.day.parse::<Date>()) else {
                continue;
            };
            let now = WrittenDay {
                billed: day.total,
                is_closed: is_closed(day, facts.now),
            };
            if must_write(facts, date, now) {
                records.extend(of_day(facts, (date, now), rows, (&names, gone)));
            }
        }
        records
    }
}

/// Whether a day must be written. A bill without a part replaces a closed day only if it is larger.
fn must_write(facts: &Facts<'_>, day: Date, now: WrittenDay) -> bool {
    let written = &facts.memory.costs;
    let closed = written.days.get(&day).filter(|day| day.is_closed);
    let is_larger = closed.is_none_or(|closed| now.billed > closed.billed);
    written.is_due(day, now) && (is_larger || !facts.is_bill_partial())
}

fn of_day(
    facts: &Facts<'_>,
    (day, written): (Date, WrittenDay),
    rows: &BTreeMap<RowKey, Usd>,
    (names, gone): (&BTreeMap<usize, &TaskNames>, &BTreeMap<NodeId, Instance>),
) -> Vec<CostRecord> {
    let empty = CostRecord {
        day,
        evaluated_at: facts.now,
        is_closed: written.is_closed,
        origin: facts.origin(),
        billed: written.billed,
        account: None,
        resource: None,
        pipeline: None,
        run: None,
        step: None,
        user: None,
        cost_centre: None,
        part: CostUse::Rounding,
        combined_rows: 1,
        cost: Usd::ZERO,
    };
    let mut rows: Vec<(&RowKey, Usd)> = (rows.iter())
        .map(|(key, usd)| (key, *usd))
        .filter(|(_, usd)| *usd != Usd::ZERO)
        .collect();
    rows.sort_by_key(|(key, usd)| (Reverse(usd.micros().unsigned_abs()), *key));
    let rest = rows.split_off(rows.len().min(MAX_DAY_ROWS));
    let mut records: Vec<CostRecord> = rows
        .into_iter()
        .map(|((node, at, part), cost)| {
            let machine = node.as_ref().and_then(|node| {
                let known = facts.inventory.instances.get(node);
                known.or_else(|| gone.get(node))
            });
            let task = at.as_ref().and_then(|at| names.get(at));
            let of_machine = || machine.and_then(|one| centre_of_machine(facts.policy, one));
            let cost_centre = match task {
                Some(task) => task.cost_centre.as_deref(),
                None => of_machine(),
            };
            CostRecord {
                account: machine.and_then(|machine| machine.account.clone()),
                resource: node.as_ref().map(ToString::to_string),
                pipeline: task.and_then(|task| task.pipeline.clone()),
                run: task.and_then(|task| task.run.clone()),
                step: task.map(|task| task.step.clone()),
                user: task.and_then(|task| task.user.clone()),
                cost_centre: cost_centre.map(str::to_owned),
                part: *part,
                cost,
                ..empty.clone()
            }
        })
        .collect();
    records.extend(
        combined(rest).map(|(part, (combined_rows, cost))| CostRecord {
            part,
            combined_rows,
            cost,
            ..empty.clone()
        }),
    );
    records
}

/// The number and the sum of some rows by use.
fn combined(rows: Vec<(&RowKey, Usd)>) -> impl Iterator<Item = (CostUse, (u64, Usd))> {
    let mut sums: BTreeMap<CostUse, (u64, Usd)> = BTreeMap::new();
    for ((_, _, part), usd) in rows {
        let (count, sum) = sums.entry(*part).or_default();
        (*count, *sum) = (*count + 1, *sum + usd);
    }
    sums.into_iter()
}
