//! Cost allocation: each day of the bill by use, and the cost of machines by the names of tasks. The
//! parts of a day add up to its bill, to the millionth of a dollar.

pub mod apportion;
pub(crate) mod centre_rest;
pub(crate) mod cost_rows;
pub(crate) mod machine;
pub(crate) mod machine_day;
pub mod machine_split;
pub(crate) mod named_claim;
pub mod share_sums;
pub(crate) mod spend_sums;
pub(crate) mod task_claim;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::bill::BilledDay;
use ebb_model::cost_record::CostRecord;
use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;
use ebb_model::policy::costs::RestOfMachine;
use ebb_model::report::bill_day::BilledDayShares;
use ebb_model::report::cost_shares::{
    CostDay, CostDimension, CostShares, CostSource, DayShare, RestKind,
};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::Usd;
use ebb_telemetry::step::PlacedStep;
use ebb_telemetry::time::Window;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cost_allocation::centre_rest::{CentreRests, centre_of_machine};
use crate::cost_allocation::cost_rows::CostRows;
use crate::cost_allocation::machine_day::{ChargedMachine, MachineDay, charge};
use crate::cost_allocation::named_claim::NamedClaims;
use crate::cost_allocation::share_sums::ShareSums;
use crate::cost_allocation::spend_sums::SpendSums;
use crate::coverage::{DAY, is_whole, of_day, overlap, overlap_with_all};
use crate::facts::Facts;
use crate::run_costs::RunFactors;
use crate::step_history::by_step::Profiles;

/// Limit on the days at the prices of machines, if there is no bill. Hourly activity has as many.
const MAX_PRICED_DAYS: i64 = 14;

/// The bill by use, and the cost of machines by the names of tasks.
pub(crate) struct Allocation {
    pub(crate) ledger: Vec<BilledDayShares>,
    pub(crate) costs: CostShares,
    /// The sums that decide the cost of each run.
    pub(crate) runs: BTreeMap<String, RunFactors>,
    /// The cost of pipelines and cost centres by day.
    pub(crate) spend: SpendSums,
    /// Rows of the table `costs` for the days that it does not have yet.
    pub(crate) rows: Vec<CostRecord>,
}

/// Divides each day of the bill, and the days after it by the prices of the machines. A day of the
/// bill without a total uses the sum of its resources. A day whose hours and tasks are partly
/// forgotten is left out, because its parts would be wrong.
pub(crate) fn allocate(
    facts: &Facts<'_>,
    (profiles, kept): (&Profiles<'_>, &[PlacedStep]),
    findings: &[Finding],
) -> Allocation {
    let gone = machine::gone_machines(facts);
    let claims = NamedClaims::collect(facts, (profiles, kept), &gone);
    let mut windows: BTreeMap<&str, Vec<Window>> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| takes_the_machine(finding)) {
        let id = finding.resource.id.as_str();
        windows.entry(id).or_default().push(finding.window);
    }
    let mut allocator = Allocator {
        facts,
        gone: &gone,
        claims: &claims,
        windows,
        shares: ShareSums::default(),
        centres: CentreRests::default(),
        runs: claims.task_sums.clone(),
        spend: SpendSums::new(&claims.names),
        rows: CostRows::new(facts),
        charged: BTreeMap::new(),
        unpriced: BTreeMap::new(),
    };
    let (ledger, mut days) = allocator.billed_days();
    days.extend(allocator.priced_days(ledger.last().map(|day| day.day.as_str())));
    for day in &mut days {
        day.machines_without_price = allocator.count_without_price(&day.day);
    }
    std::mem::take(&mut allocator.centres).put_into(&mut days);
    let by = |first| allocator.shares.by(first, &claims.names);
    let policy = &facts.policy.costs;
    let costs = CostShares {
        method: policy.method,
        rest: policy.rest,
        cost_centre_tag: policy.cost_centre_tag.clone(),
        by_run: by(CostDimension::Run),
        by_step: by(CostDimension::Step),
        days,
    };
    let mut runs: BTreeMap<String, RunFactors> = BTreeMap::new();
    for (names, at) in &claims.names {
        if let (Some(run), Some(factors)) = (&names.run, allocator.runs.get(*at)) {
            runs.entry(run.clone()).or_default().add(*factors);
        }
    }
    let rows = allocator.rows;
    let rows = rows.into_records(facts, &costs.days, &claims.names, &gone);
    Allocation {
        ledger,
        costs,
        runs,
        spend: allocator.spend,
        rows,
    }
}

/// Whether a finding covers a whole machine. The cost of findings about jobs and steps belongs to
/// their tasks.
fn takes_the_machine(finding: &Finding) -> bool {
    let about_a_node = matches!(
        finding.kind,
        FindingKind::IdleNode | FindingKind::UnderutilizedNode | FindingKind::StuckBatchJob
    );
    about_a_node && finding.resource.node.is_none()
}

/// Divides the costs of machines, and sums them up by the names of their tasks.
struct Allocator<'a> {
    facts: &'a Facts<'a>,
    gone: &'a BTreeMap<NodeId, Instance>,
    claims: &'a NamedClaims,
    /// Windows of findings by machine.
    windows: BTreeMap<&'a str, Vec<Window>>,
    shares: ShareSums,
    centres: CentreRests<'a>,
    /// By the index of the names of the tasks.
    runs: Vec<RunFactors>,
    spend: SpendSums,
    rows: CostRows,
    /// Machines with tasks and a cost, by day.
    charged: BTreeMap<String, BTreeSet<NodeId>>,
    /// Machines that ran without a price, by day without a bill.
    unpriced: BTreeMap<String, BTreeSet<NodeId>>,
}

impl<'a> Allocator<'a> {
    fn billed_days(&mut self) -> (Vec<BilledDayShares>, Vec<CostDay>) {
        let now = self.facts.now;
        let billed_days = self
            .facts
            .billed
            .iter()
            .filter(|day| is_whole(&day.day, now));
        let billed_days: BTreeMap<&str, &BilledDay> =
            billed_days.map(|day| (day.day.as_str(), day)).collect();
        // The parts of a day for the ledger, and after the policy for the rest of machines.
        let mut days: BTreeMap<&str, [BilledDayShares; 2]> = BTreeMap::new();
        for day in billed_days.keys() {
            days.entry(day).or_default();
        }
        for (node, cost) in self.facts.bill {
            for (day, usd) in cost.by_day.iter().filter(|(day, _)| is_whole(day, now)) {
                let known = self.facts.inventory.instances.get(node);
                let instance = known.or_else(|| self.gone.get(node));
                let tasks = self.claims.by_machine.get(node);
                let claims = tasks.map_or(&[][..], |tasks| tasks.claims.as_slice());
                let lived = machine::life(self.facts, node, claims, day);
                let parts = self.charge((node, instance, lived.as_deref()), day, *usd);
                self.rows.add_machine(day, (node, tasks), &parts);
                let [ledger, shown] = days.entry(day).or_default();
                parts.add_to(ledger);
                self.show(day, instance, parts, shown);
            }
        }
        let days = days.into_iter().map(|(day, [ledger, shown])| {
            let of_machines = ledger.elsewhere;
            let ledger = closed(self.facts, day, billed_days.get(day).copied(), ledger);
            let elsewhere = ledger.elsewhere - of_machines;
            self.rows.add_rest(day, elsewhere, ledger.rounding);
            let of_bill = BilledDayShares {
                elsewhere: ledger.elsewhere,
                rounding: ledger.rounding,
                ..shown
            };
            let cost = CostDay {
                day: day.to_owned(),
                source: CostSource::Bill,
                estimated: ledger.estimated,
                total: ledger.billed,
                upper_bound: Usd::ZERO,
                rest: rest(&of_bill),
                rest_by_centre: Vec::new(),
                machines_without_price: 0,
            };
            (ledger, cost)
        });
        days.unzip()
    }

    /// The days after the last day of the bill, by the prices of machines.
    fn priced_days(&mut self, billed_to: Option<&str>) -> Vec<CostDay> {
        let mut days = Vec::new();
        for day in days_after(billed_to, self.facts.now) {
            let mut shown = BilledDayShares::default();
            let (mut total, mut upper_bound) = (Usd::ZERO, Usd::ZERO);
            for (node, instance) in &self.facts.inventory.instances {
                let Some(lived) = machine::priced_life(self.facts, instance, &day) else {
                    continue;
                };
                let Some(price) = self.facts.price_of(instance) else {
                    let of_day = self.unpriced.entry(day.clone()).or_default();
                    of_day.insert(node.clone());
                    continue;
                };
                let usd = price.per_hour.over(lived.length());
                let lived = Some(std::slice::from_ref(&lived));
                let parts = self.charge((node, Some(instance), lived), &day, usd);
                self.show(&day, Some(instance), parts, &mut shown);
                total = total + usd;
                if price.basis.is_bound() {
                    upper_bound = upper_bound + usd;
                }
            }
            days.push(CostDay {
                day,
                source: CostSource::Prices,
                estimated: true,
                total,
                upper_bound,
                rest: rest(&shown),
                rest_by_centre: Vec::new(),
                machines_without_price: 0,
            });
        }
        days
    }

    /// Adds a machine to the costs of a day, after the policy for the rest of machines.
    fn show(
        &mut self,
        day: &str,
        instance: Option<&'a Instance>,
        mut parts: MachineDay,
        shown: &mut BilledDayShares,
    ) {
        if self.facts.policy.costs.rest == RestOfMachine::Spread {
            parts.spread();
        }
        let policy = self.facts.policy;
        if let Some(centre) = instance.and_then(|one| centre_of_machine(policy, one)) {
            self.centres.add(day, centre, &parts);
        }
        parts.add_to(shown);
    }

    fn charge(
        &mut self,
        (id, instance, lived): (&NodeId, Option<&Instance>, Option<&[Window]>),
        day: &str,
        usd: Usd,
    ) -> MachineDay {
        let tasks = self.claims.by_machine.get(id);
        let findings = self.windows.get(id.as_str());
        let machine = ChargedMachine {
            id,
            instance,
            lived,
            claims: tasks.map_or(&[][..], |tasks| &tasks.claims),
            findings: findings.map_or(&[][..], Vec::as_slice),
        };
        let parts = charge(self.facts, machine, usd);
        if tasks.is_some() {
            let of_day = self.charged.entry(day.to_owned()).or_default();
            of_day.insert(id.clone());
        }
        for (at, task) in parts.tasks.iter().enumerate() {
            let Some(names) = tasks.and_then(|tasks| tasks.names.get(at)) else {
                continue;
            };
            let share = DayShare {
                tasks: usize::from(is_last_day(machine.claims[at].window, day)),
                tasks_without_price: 0,
                used: task.used,
                unused: task.unused,
            };
            self.shares.add(*names, day, share);
            let failed = tasks.is_some_and(|tasks| tasks.failed[at]);
            let window = machine.claims[at].window;
            let lived = lived.map_or(0, |lived| overlap_with_all(lived, window));
            let (good, bad) = match failed {
                true => (Usd::ZERO, task.used),
                false => (task.used, Usd::ZERO),
            };
            let paid = RunFactors {
                used: good,
                failed: bad,
                unused: task.unused,
                covered_nanos: lived,
                ..RunFactors::default()
            };
            self.runs[*names].add(paid);
            if lived > 0 {
                let of_day = RunFactors {
                    tasks: u64::from(!failed),
                    task_nanos: if failed { 0 } else { lived },
                    ..paid
                };
                self.spend.add(*names, day, of_day);
            }
        }
        parts
    }

    /// The number of machines without a cost on a day: those with tasks, and on a day without a bill
    /// those that ran. It counts their tasks.
    fn count_without_price(&mut self, day: &str) -> usize {
        let Some(window) = of_day(day) else {
            return 0;
        };
        let charged = self.charged.remove(day).unwrap_or_default();
        let mut machines = self.unpriced.remove(day).unwrap_or_default();
        for (id, tasks) in &self.claims.by_machine {
            let ran = |window_of_task| overlap(window, window_of_task) > 0;
            if charged.contains(id) || !tasks.claims.iter().any(|claim| ran(claim.window)) {
                continue;
            }
            machines.insert(id.clone());
            for (claim, names) in tasks.claims.iter().zip(&tasks.names) {
                if ran(claim.window) {
                    self.spend.add_unpriced(*names, day);
                }
                let share = DayShare {
                    tasks_without_price: usize::from(is_last_day(claim.window, day)),
                    ..DayShare::default()
                };
                self.shares.add(*names, day, share);
            }
        }
        machines.len()
    }
}

/// Whether a task ended, or was last observed, on this day.
fn is_last_day(task: Window, day: &str) -> bool {
    let day = of_day(day);
    day.is_some_and(|day| day.from < task.to && task.to <= day.to)
}

/// The cost of a day that belongs to no task; without parts that are zero.
fn rest(day: &BilledDayShares) -> BTreeMap<RestKind, Usd> {
    let parts = [
        (RestKind::Findings, day.findings),
        (RestKind::OtherWork, day.other_work),
        (RestKind::Idle, day.idle),
        (RestKind::Unwatched, day.unwatched),
        (RestKind::Elsewhere, day.elsewhere),
        (RestKind::Rounding, day.rounding),
    ];
    let parts = parts.into_iter().filter(|(_, usd)| *usd != Usd::ZERO);
    parts.collect()
}

/// The days from the last day of the bill to today, at most [`MAX_PRICED_DAYS`].
fn days_after(billed_to: Option<&str>, now: Timestamp) -> Vec<String> {
    let today = now.to_zoned(TimeZone::UTC).date();
    let days = (0..MAX_PRICED_DAYS).rev();
    let days = days.filter_map(|back| today.checked_sub(jiff::Span::new().days(back)).ok());
    let days = days.map(|day| day.to_string());
    days.filter(|day| billed_to.is_none_or(|last| day.as_str() > last))
        .collect()
}

/// Whether the bill of a day may still grow. AWS completes a day about one day after its end.
fn is_young(day: &str, now: Timestamp) -> bool {
    let closes = of_day(day).and_then(|window| window.to.checked_add(DAY).ok());
    closes.is_none_or(|closes| closes > now)
}

/// The most that rounding each of 100,000 machines to a millionth adds up to, in millionths of a
/// dollar.
const MOST_ROUNDING_MICROS: i64 = 50_000;

fn closed(
    facts: &Facts<'_>,
    day: &str,
    billed_day: Option<&BilledDay>,
    entry: BilledDayShares,
) -> BilledDayShares {
    let sum_of_parts = entry.steps
        + entry.findings
        + entry.other_work
        + entry.idle
        + entry.unwatched
        + entry.elsewhere;
    let (billed, other, estimated) = match billed_day {
        Some(billed_day) => {
            // Credits belong to no machine, and are a part of the service. The rest is rounding.
            let of_machines = billed_day.of_machines.unwrap_or(sum_of_parts);
            let is_rounding = (of_machines - sum_of_parts).micros().abs() <= MOST_ROUNDING_MICROS;
            let of_machines = if is_rounding {
                of_machines
            } else {
                sum_of_parts
            };
            (
                billed_day.total,
                billed_day.total - of_machines,
                billed_day.estimated,
            )
        }
        None => (sum_of_parts, Usd::ZERO, is_young(day, facts.now)),
    };
    BilledDayShares {
        day: day.to_owned(),
        estimated,
        billed,
        elsewhere: entry.elsewhere + other,
        rounding: billed - sum_of_parts - other,
        by_service: billed_day
            .map(|billed_day| billed_day.by_service.clone())
            .unwrap_or_default(),
        by_tag: billed_day
            .map(|billed_day| billed_day.by_tag.clone())
            .unwrap_or_default(),
        ..entry
    }
}
