//! Whether a task shared its machine with busy neighbours.

use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_telemetry::identity::{BootId, NodeId};
use jiff::Timestamp;

use crate::step_history::observed_task::SeenRun;

/// Core seconds that all tasks of one machine used, up to each start or end of a task. Each entry
/// also has the number of busy cores; entries are in order of time.
#[derive(Default)]
struct Busy(Vec<(Timestamp, f64, f64)>);

impl Busy {
    /// Builds the sums from starts and ends with the change in busy cores.
    fn of(mut turns: Vec<(Timestamp, f64)>) -> Self {
        turns.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut sums: Vec<(Timestamp, f64, f64)> = Vec::with_capacity(turns.len());
        for (at, cores) in turns {
            let (used, busy) = match sums.last() {
                Some((before, used, busy)) => (used + busy * seconds(*before, at), busy + cores),
                None => (0.0, cores),
            };
            sums.push((at, used, busy));
        }
        Self(sums)
    }

    fn until(&self, at: Timestamp) -> f64 {
        let next = self.0.partition_point(|(from, ..)| *from <= at);
        let Some((from, used, busy)) = next.checked_sub(1).and_then(|i| self.0.get(i)) else {
            return 0.0;
        };
        used + busy * seconds(*from, at)
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// Use of all machines over time.
pub(crate) struct Neighbours<'a> {
    by_machine: BTreeMap<(&'a NodeId, &'a BootId), Busy>,
}

impl<'a> Neighbours<'a> {
    /// Each task counts with its average number of busy cores.
    pub(crate) fn of(runs: &[SeenRun<'a>]) -> Self {
        let mut turns: BTreeMap<_, Vec<(Timestamp, f64)>> = BTreeMap::new();
        for run in runs {
            if let Some(cores) = cores(run) {
                let turns = turns.entry((&run.step.node, &run.step.boot)).or_default();
                turns.push((run.step.started_at, cores));
                turns.push((run.step.observed_at, -cores));
            }
        }
        let by_machine = turns.into_iter();
        Self {
            by_machine: by_machine
                .map(|(key, turns)| (key, Busy::of(turns)))
                .collect(),
        }
    }

    /// Whether other tasks used at least half of the vCPUs that this task left free. `None` if it
    /// left less than half a vCPU free, or the machine is unknown.
    pub(crate) fn crowded(&self, run: &SeenRun<'a>, catalogue: &Catalogue) -> Option<bool> {
        let spec = catalogue.spec(&run.instance.instance_type)?;
        let busy = self.by_machine.get(&(&run.step.node, &run.step.boot))?;
        let own = cores(run)?;
        let wall = seconds(run.step.started_at, run.step.observed_at);
        let all = busy.until(run.step.observed_at) - busy.until(run.step.started_at);
        let (others, left) = (all / wall - own, f64::from(spec.vcpus) - own);
        (left >= 0.5).then(|| others >= left / 2.0)
    }
}

fn cores(run: &SeenRun<'_>) -> Option<f64> {
    Some(run.step.usage.cpu.cores_over(run.wall())?.as_cores())
}
