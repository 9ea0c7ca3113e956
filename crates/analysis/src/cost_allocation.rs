//! Cost allocation of the bill of each day: tasks, findings, other work, watched idle time and
//! unassigned costs. The parts of a day add up to its bill, to the millionth of a dollar.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ebb_model::bill::BilledDay;
use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::bill_day::LedgerDay;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::time::Window;
use jiff::Timestamp;

use crate::coverage::{DAY, WHOLE, of_day, overlap, seen};
use crate::facts::Facts;
use crate::step_history::by_step::Profiles;
use crate::step_history::observed_task::SeenRun;

/// Window of a task and its share of the machine.
type Used = (Window, u128);

/// Divides each day of the bill. A day without a total uses the sum of its resources.
pub(crate) fn divide(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    findings: &[Finding],
) -> Vec<LedgerDay> {
    let mut runs: BTreeMap<&NodeId, Vec<Used>> = BTreeMap::new();
    for run in profiles.by_step.values().flat_map(|step| &step.runs) {
        let used = (of_run(run), share(facts, run));
        runs.entry(&run.step.node).or_default().push(used);
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
            let runs = runs.get(node).map_or(&[][..], Vec::as_slice);
            let windows = windows.get(node.as_str()).map_or(&[][..], Vec::as_slice);
            charge(facts, (node, day, *usd), (runs, windows), entry);
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
    (runs, windows): (&[Used], &[Window]),
    entry: &mut LedgerDay,
) {
    let Some(instance) = facts.inventory.instances.get(node) else {
        entry.elsewhere = entry.elsewhere + usd;
        return;
    };
    let launched = instance.launched_at.unwrap_or(Timestamp::MIN);
    let Some(lived) = of_day(day).map(|window| Window {
        from: window.from.max(launched),
        to: window.to.min(facts.now).max(launched),
    }) else {
        entry.elsewhere = entry.elsewhere + usd;
        return;
    };
    let length = lived.length().as_nanos();
    let used: u128 = runs
        .iter()
        .map(|(window, share)| overlap(lived, *window) * share)
        .sum();
    let steps = part(usd, used, length * WHOLE);
    let wasted: u128 = windows.iter().map(|window| overlap(lived, *window)).sum();
    let rest = usd - steps;
    let found = part(usd, wasted, length).min(rest.max(Usd::ZERO));
    let rest = rest - found;
    let worked = worked(facts, node, lived, (runs, windows));
    let other_work = part(usd, worked, length).min(rest.max(Usd::ZERO));
    let rest = rest - other_work;
    let taken = used + (wasted + worked) * WHOLE;
    let free = (seen(facts, node, lived) * WHOLE).saturating_sub(taken);
    let idle = part(usd, free, length * WHOLE).min(rest.max(Usd::ZERO));
    entry.idle = entry.idle + idle;
    entry.unwatched = entry.unwatched + (rest - idle);
    entry.steps = entry.steps + steps;
    entry.findings = entry.findings + found;
    entry.other_work = entry.other_work + other_work;
}

/// Time in nanoseconds in which the node worked without a task or a finding. The resolution is that
/// of the hourly slots.
fn worked(
    facts: &Facts<'_>,
    node: &NodeId,
    window: Window,
    (runs, windows): (&[Used], &[Window]),
) -> u128 {
    let Some(hours) = facts.hours.nodes.get(node) else {
        return 0;
    };
    let taken = runs.iter().map(|(run, _)| run).chain(windows);
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

/// Share of its machine that a task occupies, in parts per million. A task without a request
/// occupies the whole machine.
fn share(facts: &Facts<'_>, run: &SeenRun<'_>) -> u128 {
    let whole = UsdPerHour::from_micros(1_000_000);
    let part = run.part_of(facts, whole, run.requested().into());
    part.map_or(WHOLE, |part| u128::try_from(part.0.micros()).unwrap_or(0))
}

fn of_run(run: &SeenRun<'_>) -> Window {
    Window {
        from: run.step.started_at,
        to: run.step.observed_at,
    }
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
