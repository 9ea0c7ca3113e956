//! Work of a task of a step, by the machine type of its tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::TypeSpec;
use ebb_model::step_profile::Run;
use ebb_sizing::ranking::offer;
use ebb_sizing::work::{Phase, Work};
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::step::parallelism::{PARALLELISM_CLASSES, Parallelism};
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::units::{Bytes, MilliCores};

/// Factor on the weight of a task for each newer task on the same machine type. The weight halves
/// after 35 tasks, the same as in sizing.
const FADE: f64 = 0.98;

/// Average of the tasks on one machine type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MeanWork<'a> {
    pub(crate) work: Work,
    pub(crate) on: &'a TypeSpec,
    pub(crate) among_others: bool,
    pub(crate) runs: u32,
}

impl MeanWork<'_> {
    pub(crate) fn observed_tasks(&self) -> offer::ObservedTasks<'_> {
        offer::ObservedTasks {
            work: &self.work,
            on: self.on,
            among_others: self.among_others,
            runs: self.runs,
        }
    }
}

/// Average work by machine type; recent tasks have more weight. `runs` are in order of time. Tasks
/// with unknown CPU time or machine are left out.
pub(crate) fn work_by_type<'a>(runs: &[&Run], catalogue: &'a Catalogue) -> Vec<MeanWork<'a>> {
    let mut by_machine: BTreeMap<&InstanceType, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        if let Some(machine) = &run.machine {
            by_machine.entry(machine).or_default().push(run);
        }
    }
    let by_machine = by_machine.into_iter();
    by_machine
        .filter_map(|(machine, runs)| mean(&runs, catalogue.spec(machine)?))
        .collect()
}

/// Work of one task: time by number of busy cores from samples, otherwise from totals. `None` if
/// the CPU time is unknown or the task has no duration.
pub(crate) fn work(run: &Run) -> Option<Work> {
    let parallelism = &run.detail.parallelism;
    let mut work = match parallelism.wall().is_zero() {
        true => Work::from_totals(run.wall, run.cpu?, run.peak_cores)?,
        false => Work::from_samples(run.wall, run.cpu?, parallelism)?,
    };
    work.disk = run.disk;
    work.network = run.moved();
    let waited = [TaskState::Disk, TaskState::PageFault];
    work.disk_wait = share_of_time(run, &waited).map(|share| run.wall.mul_f64(share));
    Some(work)
}

/// Share of the sampled time of a task in these states; `None` without samples.
pub(crate) fn share_of_time(run: &Run, states: &[TaskState]) -> Option<f64> {
    let all: Duration = run.detail.states.values().map(|samples| samples.time).sum();
    let of = |state: &TaskState| run.detail.states.get(state).map(|samples| samples.time);
    let these: Duration = states.iter().filter_map(of).sum();
    (!all.is_zero()).then(|| these.as_secs_f64() / all.as_secs_f64())
}

fn mean<'a>(runs: &[&Run], on: &'a TypeSpec) -> Option<MeanWork<'a>> {
    let mut sum = WorkSum::default();
    let mut weight = 1.0;
    for run in runs.iter().rev() {
        if let Some(work) = work(run) {
            sum.add(&work, run.among_others == Some(true), weight);
            weight *= FADE;
        }
    }
    sum.mean(on)
}

/// Weighted sums over tasks.
#[derive(Default)]
struct WorkSum {
    /// Seconds and core seconds, by class of parallelism.
    busy: [(f64, f64); PARALLELISM_CLASSES],
    disk: WeightedSum,
    network: WeightedSum,
    disk_wait: WeightedSum,
    among_others: f64,
    weight: f64,
    runs: u32,
}

/// A sum over the tasks with a known value.
#[derive(Default)]
struct WeightedSum {
    sum: f64,
    weight: f64,
}

impl WeightedSum {
    fn add(&mut self, value: Option<f64>, weight: f64) {
        if let Some(value) = value {
            self.sum += value * weight;
            self.weight += weight;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

impl WorkSum {
    fn add(&mut self, work: &Work, among_others: bool, weight: f64) {
        for phase in &work.phases {
            let (wall, cores) = (phase.wall.as_secs_f64(), phase.cores.as_cores());
            let busy = &mut self.busy[Parallelism::class_of(phase.cores)];
            busy.0 += wall * weight;
            busy.1 += wall * cores * weight;
        }
        self.disk.add(work.disk.map(|b| b.0 as f64), weight);
        self.network.add(work.network.map(|b| b.0 as f64), weight);
        self.disk_wait
            .add(work.disk_wait.map(|t| t.as_secs_f64()), weight);
        self.among_others += f64::from(u8::from(among_others)) * weight;
        self.weight += weight;
        self.runs += 1;
    }

    fn mean(self, on: &TypeSpec) -> Option<MeanWork<'_>> {
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let phase = |(wall, core_seconds): &(f64, f64)| Phase {
            cores: MilliCores((1000.0 * core_seconds / wall).round() as u64),
            wall: seconds(wall / self.weight),
        };
        let busy = self.busy.iter().filter(|busy| busy.0 > 0.0);
        let phases: Vec<Phase> = busy.map(phase).collect();
        let work = Work {
            phases,
            disk: self.disk.mean().map(|bytes| Bytes(bytes as u64)),
            network: self.network.mean().map(|bytes| Bytes(bytes as u64)),
            disk_wait: self.disk_wait.mean().map(seconds),
        };
        (self.runs > 0).then_some(MeanWork {
            work,
            on,
            among_others: self.among_others > self.weight / 2.0,
            runs: self.runs,
        })
    }
}
