//! Whether a task shared its machine with others, and whether these were busy.

use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_telemetry::identity::{BootId, NodeId};
use jiff::Timestamp;

use crate::step_history::observed_task::ObservedTask;

/// The sum over time of an amount on one machine, such as busy cores, up to each start or end of a
/// task. Each entry also has the amount from then on; entries are in order of time.
#[derive(Default)]
struct OverTime(Vec<(Timestamp, f64, f64)>);

impl OverTime {
    /// Builds the sums from starts and ends with the change of the amount.
    fn from_turns(mut turns: Vec<(Timestamp, f64)>) -> Self {
        turns.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut sums: Vec<(Timestamp, f64, f64)> = Vec::with_capacity(turns.len());
        for (at, change) in turns {
            let (sum, now) = match sums.last() {
                Some((before, sum, now)) => (sum + now * seconds(*before, at), now + change),
                None => (0.0, change),
            };
            sums.push((at, sum, now));
        }
        Self(sums)
    }

    fn until(&self, at: Timestamp) -> f64 {
        let next = self.0.partition_point(|(from, ..)| *from <= at);
        let Some((from, sum, now)) = next.checked_sub(1).and_then(|i| self.0.get(i)) else {
            return 0.0;
        };
        sum + now * seconds(*from, at)
    }

    /// The mean of the amount while a task ran.
    fn mean_during(&self, run: &ObservedTask<'_>) -> f64 {
        let (from, to) = (run.step.started_at, run.step.observed_at);
        (self.until(to) - self.until(from)) / seconds(from, to)
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// Use of all machines over time.
pub(crate) struct Neighbours<'a> {
    cores: BTreeMap<MachineBoot<'a>, OverTime>,
    tasks: BTreeMap<MachineBoot<'a>, OverTime>,
    tasks_of_step: BTreeMap<(MachineBoot<'a>, String), OverTime>,
}

/// A machine since its last boot.
type MachineBoot<'a> = (&'a NodeId, &'a BootId);

fn machine<'a>(run: &ObservedTask<'a>) -> MachineBoot<'a> {
    (&run.step.node, &run.step.boot)
}

/// The sums of an amount of each task by a key; tasks without an amount are left out.
fn sums<'a, K: Ord>(
    runs: &[ObservedTask<'a>],
    key: impl Fn(&ObservedTask<'a>) -> K,
    amount: impl Fn(&ObservedTask<'a>) -> Option<f64>,
) -> BTreeMap<K, OverTime> {
    let mut turns: BTreeMap<_, Vec<(Timestamp, f64)>> = BTreeMap::new();
    for run in runs {
        if let Some(amount) = amount(run) {
            let turns = turns.entry(key(run)).or_default();
            turns.push((run.step.started_at, amount));
            turns.push((run.step.observed_at, -amount));
        }
    }
    let machines = turns.into_iter();
    machines
        .map(|(key, turns)| (key, OverTime::from_turns(turns)))
        .collect()
}

impl<'a> Neighbours<'a> {
    /// Each task counts with its average number of busy cores.
    pub(crate) fn from_runs(runs: &[ObservedTask<'a>]) -> Self {
        Self {
            cores: sums(runs, machine, cores),
            tasks: sums(runs, machine, |_| Some(1.0)),
            tasks_of_step: sums(runs, of_step, |_| Some(1.0)),
        }
    }

    /// Whether a task of another step ran on its machine for at least half of its time. `None` if it
    /// took no time.
    pub(crate) fn shares(&self, run: &ObservedTask<'a>) -> Option<bool> {
        let all = self.tasks.get(&machine(run))?.mean_during(run);
        let own = self.tasks_of_step.get(&of_step(run))?.mean_during(run);
        let others = all - own;
        others.is_finite().then_some(others >= 0.5)
    }

    /// Whether other tasks used at least half of the vCPUs that this task left free. `None` if it
    /// left less than half a vCPU free, or the machine is unknown.
    pub(crate) fn crowded(&self, run: &ObservedTask<'a>, catalogue: &Catalogue) -> Option<bool> {
        let spec = catalogue.spec(&run.instance.instance_type)?;
        let busy = self.cores.get(&machine(run))?;
        let own = cores(run)?;
        let (others, left) = (busy.mean_during(run) - own, f64::from(spec.vcpus) - own);
        (left >= 0.5).then(|| others >= left / 2.0)
    }
}

fn of_step<'a>(run: &ObservedTask<'a>) -> (MachineBoot<'a>, String) {
    (machine(run), run.name().to_owned())
}

fn cores(run: &ObservedTask<'_>) -> Option<f64> {
    Some(run.step.usage.cpu.cores_over(run.wall())?.as_cores())
}
