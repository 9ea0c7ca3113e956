//! The cost of one machine on one day, divided by use.

use ebb_model::inventory::instance::Instance;
use ebb_model::report::bill_day::BilledDayShares;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::Usd;
use ebb_telemetry::time::Window;

use crate::cost_allocation::machine_split::{Claim, TaskShare, split_machine};
use crate::cost_allocation::task_claim;
use crate::coverage::{observed_nanos, overlap, overlap_with_all};
use crate::facts::Facts;

/// The parts of the cost of a machine on a day.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineDay {
    /// In the order of the tasks of the machine; empty for an unknown machine.
    pub(crate) tasks: Vec<TaskShare>,
    pub(crate) findings: Usd,
    pub(crate) other_work: Usd,
    pub(crate) idle: Usd,
    pub(crate) unwatched: Usd,
    pub(crate) elsewhere: Usd,
}

impl MachineDay {
    fn used(&self) -> Usd {
        self.tasks.iter().map(|task| task.used).sum()
    }

    /// The unused cost of the tasks of the machine.
    pub(crate) fn unused(&self) -> Usd {
        self.tasks.iter().map(|task| task.unused).sum()
    }

    /// Adds the parts to those of the day.
    pub(crate) fn add_to(&self, day: &mut BilledDayShares) {
        day.steps = day.steps + self.used();
        day.findings = day.findings + self.findings;
        day.other_work = day.other_work + self.other_work;
        day.idle = day.idle + self.idle;
        day.unwatched = day.unwatched + self.unwatched;
        day.elsewhere = day.elsewhere + self.elsewhere;
    }

    /// Takes the unused cost of the tasks out of the other parts. The time in which they ran is
    /// mostly idle, or not watched; the rest of the unused cost is in other work and findings.
    pub(crate) fn spread(&mut self) {
        let mut left = self.unused();
        for part in [
            &mut self.idle,
            &mut self.unwatched,
            &mut self.other_work,
            &mut self.findings,
        ] {
            let taken = left.min((*part).max(Usd::ZERO));
            *part = *part - taken;
            left = left - taken;
        }
        // A credit makes the cost negative.
        self.unwatched = self.unwatched - left;
    }
}

/// A machine with its tasks, and the windows of the findings about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChargedMachine<'a> {
    pub(crate) id: &'a NodeId,
    /// `None` if it is not known.
    pub(crate) instance: Option<&'a Instance>,
    /// The time in which it ran on the day, without overlaps.
    pub(crate) lived: Option<&'a [Window]>,
    pub(crate) claims: &'a [Claim],
    pub(crate) findings: &'a [Window],
}

/// Divides the cost of a machine on a day.
pub(crate) fn charge(facts: &Facts<'_>, machine: ChargedMachine<'_>, usd: Usd) -> MachineDay {
    let Some((instance, lived)) = machine.instance.zip(machine.lived) else {
        return MachineDay {
            elsewhere: usd,
            ..MachineDay::default()
        };
    };
    let size = task_claim::capacity(facts, instance);
    let split = split_machine(usd, size, lived, machine.claims);
    let steps: Usd = split.tasks.iter().map(|task| task.used).sum();
    let length = lived.iter().map(|run| run.length().as_nanos()).sum();
    let windows = machine.findings.iter();
    let wasted = windows.map(|window| overlap_with_all(lived, *window)).sum();
    let rest = usd - steps;
    let wasted = part(usd, wasted, length);
    let findings = wasted.min(rest.max(Usd::ZERO));
    let rest = rest - findings;
    let worked = lived.iter().map(|run| worked(facts, machine, *run)).sum();
    let worked = part(usd, worked, length);
    let other_work = worked.min(rest.max(Usd::ZERO));
    let rest = rest - other_work;
    let observed = lived
        .iter()
        .map(|run| observed_nanos(facts, machine.id, *run));
    let free = part(usd, observed.sum(), length) - (steps + wasted + worked);
    let idle = free.max(Usd::ZERO).min(rest.max(Usd::ZERO));
    MachineDay {
        tasks: split.tasks,
        findings,
        other_work,
        idle,
        unwatched: rest - idle,
        elsewhere: Usd::ZERO,
    }
}

/// Time in nanoseconds in which the node worked without a task or a finding. The resolution is that
/// of the hourly slots.
fn worked(facts: &Facts<'_>, machine: ChargedMachine<'_>, window: Window) -> u128 {
    let Some(hours) = facts.hours.nodes.get(machine.id) else {
        return 0;
    };
    let taken = machine.claims.iter().map(|claim| &claim.window);
    let taken = taken.chain(machine.findings);
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
