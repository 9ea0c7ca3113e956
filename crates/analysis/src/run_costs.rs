//! The cost of each run, and why it differs from the usual cost of its pipeline.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ebb_model::report::run_cost::{CauseKind, CostCause, RunCost, UsualCost};
use ebb_model::report::workflow_runs::{Runs, WorkflowRun};
use ebb_telemetry::money::Usd;

/// The least number of earlier runs. The median of fewer follows a single unusual run.
const LEAST_EARLIER_RUNS: usize = 3;

/// The least part of the time of a run's tasks whose cost is known, in per cent. A run that began
/// before the days of the report, or ran on machines without a price, has no cost.
const LEAST_COVERED_PERCENT: u128 = 99;

const GIGABYTE: u128 = 1_000_000_000;

/// Sums over the tasks of a run that decide its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RunFactors {
    /// Number of tasks that did not fail.
    pub(crate) tasks: u64,
    /// Their time.
    pub(crate) task_nanos: u128,
    /// Their used cost.
    pub(crate) used: Usd,
    /// The used cost of the tasks that failed.
    pub(crate) failed: Usd,
    /// The unused cost of all tasks.
    pub(crate) unused: Usd,
    /// The time of all tasks, and the part of it whose cost is known.
    pub(crate) all_nanos: u128,
    pub(crate) covered_nanos: u128,
    /// Bytes that the tasks read from disks.
    pub(crate) read_bytes: u128,
    /// Number of tasks without that number.
    pub(crate) unknown_reads: u64,
}

impl RunFactors {
    pub(crate) fn add(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.task_nanos += other.task_nanos;
        self.used = self.used + other.used;
        self.failed = self.failed + other.failed;
        self.unused = self.unused + other.unused;
        self.all_nanos += other.all_nanos;
        self.covered_nanos += other.covered_nanos;
        self.read_bytes += other.read_bytes;
        self.unknown_reads += other.unknown_reads;
    }

    fn total(&self) -> Usd {
        self.used + self.failed + self.unused
    }

    fn is_known(&self) -> bool {
        self.covered_nanos * 100 >= self.all_nanos * LEAST_COVERED_PERCENT
    }

    fn cost(&self, run: &WorkflowRun) -> RunCost {
        let total = self.total();
        let samples = run.samples.len() + run.samples_left_out;
        let has_reads = self.unknown_reads == 0 && self.read_bytes > 0;
        RunCost {
            total,
            used: self.used + self.failed,
            failed: self.failed,
            unused: self.unused,
            per_sample: (samples > 0).then(|| total.part(1, samples as u128)),
            per_gb_read: has_reads.then(|| total.part(GIGABYTE, self.read_bytes)),
            usual: None,
        }
    }
}

/// Adds the cost to each run that has one.
pub(crate) fn add_costs(runs: &mut Runs, factors: &BTreeMap<String, RunFactors>) {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for run in &runs.runs {
        *names.entry(run.run.clone()).or_default() += 1;
    }
    // Runs of the same name that were assigned in different ways have one sum.
    let known = |run: &WorkflowRun| {
        let factors = factors.get(&run.run).filter(|factors| factors.is_known())?;
        let is_one = run.by.is_some() && names.get(&run.run) == Some(&1);
        is_one.then_some(*factors)
    };
    let usual: Vec<Option<UsualCost>> = runs
        .runs
        .iter()
        .map(|run| usual_cost(run, known(run)?, &runs.runs, known))
        .collect();
    for (run, usual) in runs.runs.iter_mut().zip(usual) {
        let cost = known(run).map(|factors| factors.cost(run));
        run.cost_breakdown = cost.map(|cost| RunCost { usual, ..cost });
    }
}

/// The usual cost for a run that has ended. The pipeline must be known.
fn usual_cost(
    run: &WorkflowRun,
    factors: RunFactors,
    all: &[WorkflowRun],
    known: impl Fn(&WorkflowRun) -> Option<RunFactors>,
) -> Option<UsualCost> {
    let pipeline = run.pipeline.as_ref().filter(|_| run.running == 0)?;
    let earlier = all.iter().filter(|other| {
        other.pipeline.as_ref() == Some(pipeline) && other.running == 0 && other.from < run.from
    });
    let mut earlier: Vec<(&WorkflowRun, RunFactors)> = earlier
        .filter_map(|other| Some((other, known(other)?)))
        .collect();
    if earlier.len() < LEAST_EARLIER_RUNS {
        return None;
    }
    earlier.sort_by_key(|(other, factors)| (factors.total(), other.from));
    let (median, usual) = earlier[(earlier.len() - 1) / 2];
    Some(UsualCost {
        run: median.run.clone(),
        earlier_runs: earlier.len(),
        total: usual.total(),
        causes: find_causes(&factors, &usual),
    })
}

/// Why a run costs more or less than another one. The amounts add up to the difference, to the
/// millionth of a dollar; those of zero are left out.
///
/// The used cost of successful tasks is the product of their number, their average duration and the
/// price of their time. Its difference is divided by the logarithmic mean Divisia index, which has no
/// remainder and does not depend on the order of the factors.
///
/// Source: B. W. Ang, "The LMDI approach to decomposition analysis: a practical guide", Energy
/// Policy 33 (2005).
pub(crate) fn find_causes(new: &RunFactors, usual: &RunFactors) -> Vec<CostCause> {
    let difference = new.used - usual.used;
    let (tasks, duration) = by_number_and_duration(new, usual).unwrap_or((difference, Usd::ZERO));
    let causes = [
        (CauseKind::Tasks, tasks),
        (CauseKind::Duration, duration),
        (CauseKind::Price, difference - tasks - duration),
        (CauseKind::FailedTasks, new.failed - usual.failed),
        (CauseKind::Unused, new.unused - usual.unused),
    ];
    let causes = causes.map(|(kind, amount)| CostCause { kind, amount });
    let mut causes: Vec<CostCause> = causes.into_iter().collect();
    causes.retain(|cause| cause.amount != Usd::ZERO);
    causes.sort_by_key(|cause| Reverse(cause.amount.micros().abs()));
    causes
}

/// The parts of the number of tasks and of their average duration. `None` if one of the two runs has
/// no successful task, no time or no cost; then the number alone makes the difference.
fn by_number_and_duration(new: &RunFactors, usual: &RunFactors) -> Option<(Usd, Usd)> {
    let positive = |value: f64| (value > 0.0).then_some(value);
    let ratio = |new: f64, usual: f64| Some(positive(new)? / positive(usual)?);
    let costs = (new.used.micros() as f64, usual.used.micros() as f64);
    let cost = ratio(costs.0, costs.1)?;
    let tasks = ratio(new.tasks as f64, usual.tasks as f64)?;
    let time = ratio(new.task_nanos as f64, usual.task_nanos as f64)?;
    let mean = match new.used == usual.used {
        true => costs.0,
        false => (costs.0 - costs.1) / cost.ln(),
    };
    let part = |ratio: f64| Usd::from_f64(mean * ratio.ln() / 1e6);
    Some((part(tasks)?, part(time / tasks)?))
}

#[cfg(test)]
mod tests;
