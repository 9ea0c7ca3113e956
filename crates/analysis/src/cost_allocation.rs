//! Cost allocation of the bill of each day: tasks, findings, other work, watched idle time and
//! unassigned costs. The parts of a day add up to its bill, to the millionth of a dollar.

pub mod apportion;
pub mod machine_split;
pub(crate) mod task_claim;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ebb_model::bill::BilledDay;
use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;
use ebb_model::report::bill_day::LedgerDay;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::Usd;
use ebb_telemetry::time::Window;
use jiff::Timestamp;

use crate::cost_allocation::machine_split::{Claim, split_machine};
use crate::coverage::{DAY, of_day, overlap, seen};
use crate::facts::Facts;
use crate::step_history::by_step::Profiles;

/// Divides each day of the bill. A day without a total uses the sum of its resources.
pub(crate) fn divide(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    findings: &[Finding],
) -> Vec<LedgerDay> {
    let mut claims: BTreeMap<&NodeId, Vec<Claim>> = BTreeMap::new();
    for run in profiles.by_step.values().flat_map(|step| &step.runs) {
        let claim = task_claim::claim(facts, run);
        claims.entry(&run.step.node).or_default().push(claim);
    }
    let mut windows: BTreeMap<&str, Vec<Window>> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| takes_the_machine(finding)) {
        let id = finding.resource.id.as_str();
        windows.entry(id).or_default().push(finding.window);
    }
    let told: BTreeMap<&str, &BilledDay> = facts
        .billed
        .iter()
        .map(|day| (day.day.as_str(), day))
        .collect();
    let mut days: BTreeMap<&str, LedgerDay> = BTreeMap::new();
    for day in told.keys() {
        days.entry(day).or_default();
    }
    for (node, cost) in facts.bill {
        for (day, usd) in &cost.by_day {
            let entry = days.entry(day).or_default();
            let claims = claims.get(node).map_or(&[][..], Vec::as_slice);
            let windows = windows.get(node.as_str()).map_or(&[][..], Vec::as_slice);
            charge(facts, (node, day, *usd), (claims, windows), entry);
        }
    }
    days.into_iter()
        .map(|(day, entry)| closed(facts, day, told.get(day).copied(), entry))
        .collect()
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

fn charge(
    facts: &Facts<'_>,
    (node, day, usd): (&NodeId, &str, Usd),
    (claims, windows): (&[Claim], &[Window]),
    entry: &mut LedgerDay,
) {
    let instance = facts.inventory.instances.get(node);
    let known = instance.and_then(|instance| Some((instance, life(facts, instance, day)?)));
    let Some((instance, lived)) = known else {
        entry.elsewhere = entry.elsewhere + usd;
        return;
    };
    let machine = task_claim::capacity(facts, instance);
    let split = split_machine(usd, machine, lived, claims);
    let steps: Usd = split.tasks.iter().map(|task| task.used).sum();
    let length = lived.length().as_nanos();
    let wasted = windows.iter().map(|window| overlap(lived, *window)).sum();
    let rest = usd - steps;
    let wasted = part(usd, wasted, length);
    let found = wasted.min(rest.max(Usd::ZERO));
    let rest = rest - found;
    let worked = part(usd, worked(facts, node, lived, (claims, windows)), length);
    let other_work = worked.min(rest.max(Usd::ZERO));
    let rest = rest - other_work;
    let free = part(usd, seen(facts, node, lived), length) - (steps + wasted + worked);
    let idle = free.max(Usd::ZERO).min(rest.max(Usd::ZERO));
    entry.idle = entry.idle + idle;
    entry.unwatched = entry.unwatched + (rest - idle);
    entry.steps = entry.steps + steps;
    entry.findings = entry.findings + found;
    entry.other_work = entry.other_work + other_work;
}

/// The part of a day in which the machine existed; `None` for an invalid day.
fn life(facts: &Facts<'_>, instance: &Instance, day: &str) -> Option<Window> {
    let window = of_day(day)?;
    let launched = instance.launched_at.unwrap_or(Timestamp::MIN);
    Some(Window {
        from: window.from.max(launched),
        to: window.to.min(facts.now).max(launched),
    })
}

/// Time in nanoseconds in which the node worked without a task or a finding. The resolution is that
/// of the hourly slots.
fn worked(
    facts: &Facts<'_>,
    node: &NodeId,
    window: Window,
    (claims, windows): (&[Claim], &[Window]),
) -> u128 {
    let Some(hours) = facts.hours.nodes.get(node) else {
        return 0;
    };
    let taken = claims.iter().map(|claim| &claim.window).chain(windows);
    let taken: Vec<Window> = taken
        .copied()
        .filter(|taken| overlap(window, *taken) > 0)
        .collect();
    hours
        .worked(window)
        .filter(|slot| !taken.iter().any(|taken| overlap(*slot, *taken) > 0))
        .map(|slot| overlap(window, slot))
        .sum()
}

/// `used / whole` of an amount, at most all of it, rounded down so that the parts never exceed the
/// whole.
fn part(usd: Usd, used: u128, whole: u128) -> Usd {
    if whole == 0 {
        return Usd::ZERO;
    }
    let micros = i128::from(usd.micros());
    let used = i128::try_from(used.min(whole)).unwrap_or(i128::MAX);
    let whole = i128::try_from(whole).unwrap_or(i128::MAX);
    let part = micros.saturating_mul(used) / whole;
    Usd::from_micros(i64::try_from(part).unwrap_or(usd.micros()))
}

fn closed(facts: &Facts<'_>, day: &str, told: Option<&BilledDay>, entry: LedgerDay) -> LedgerDay {
    let seen = entry.steps
        + entry.findings
        + entry.other_work
        + entry.idle
        + entry.unwatched
        + entry.elsewhere;
    // AWS completes a day of the bill about one day after its end.
    let young = of_day(day).and_then(|window| window.to.checked_add(DAY).ok());
    let (billed, other, estimated) = match told {
        Some(told) => {
            let other = told.total - told.of_machines.unwrap_or(seen);
            (told.total, other, told.estimated)
        }
        None => (
            seen,
            Usd::ZERO,
            young.is_none_or(|closes| closes > facts.now),
        ),
    };
    LedgerDay {
        day: day.to_owned(),
        estimated,
        billed,
        elsewhere: entry.elsewhere + other,
        rounding: billed - seen - other,
        by_service: told.map(|told| told.by_service.clone()).unwrap_or_default(),
        by_tag: told.map(|told| told.by_tag.clone()).unwrap_or_default(),
        ..entry
    }
}
