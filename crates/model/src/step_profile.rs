//! The recent tasks of one step.
//!
//! Merging two profiles is the union of their tasks. The newest record of a task replaces
//! earlier ones, and only the newest tasks are kept. The operation is commutative,
//! associative and idempotent, so that a profile can be rebuilt from the lake in any order.

pub mod attempts;
pub mod failure;
pub mod sample;
pub mod tasks;

use std::time::Duration;

use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{PeakMemory, PlacedStep, Requested, StepEnd, StepId, StepKind};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::step_profile::sample::Sample;
use crate::step_profile::tasks::AttemptRecord;

/// Maximum number of recorded tasks: enough to estimate a chance of 1 %.
pub const MAX_RUNS: usize = 300;

/// Where tasks are chosen for a profile, the number of those that have the largest peaks among all
/// but the newest. A run may process its largest samples first, and a chance of 1 % of
/// [`MAX_RUNS`] tasks is three tasks.
pub const LARGEST_OLDER: usize = 10;

/// The key of a recorded task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The node and its boot, or the file that contains the record.
    pub seen_on: String,
    /// The id of the task on the node or in the file.
    pub step: StepId,
}

impl RunKey {
    /// The key of a task that a probe observed. Slurm runs a requeued job again under its id, so
    /// the key of its task also contains the start.
    pub fn from_step(step: &PlacedStep) -> Self {
        let mut seen_on = format!("{} {}", step.node, step.boot);
        if step.usage.id.kind == StepKind::SlurmJob {
            seen_on.push_str(&format!(" {}", step.usage.started.as_nanos()));
        }
        Self {
            seen_on,
            step: step.usage.id.clone(),
        }
    }
}

/// The record of one execution of a step. Records are ordered by the time of the last observation,
/// so that the greater of two records is the newer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Run {
    /// The time of the last observation.
    pub observed_at: Timestamp,
    /// When it started.
    pub started_at: Timestamp,
    /// Its observed duration.
    pub wall: Duration,
    /// The time without progress at the end of that duration.
    pub quiet: Duration,
    /// How it ended.
    pub end: StepEnd,
    /// The CPU time; `None` when unknown.
    pub cpu: Option<CpuTime>,
    /// The peak of busy cores; `None` when unknown.
    pub peak_cores: Option<MilliCores>,
    /// The peak memory; `None` when unknown.
    pub peak_memory: Option<PeakMemory>,
    /// Bytes read from and written to disks; `None` when unknown.
    pub disk: Option<Bytes>,
    /// Bytes of input; `None` when unknown.
    pub input: Option<Bytes>,
    /// The request.
    pub requested: Requested,
    /// The instance type that it ran on; `None` when unknown.
    pub machine: Option<InstanceType>,
    /// Whether it was measured or made by a generator.
    pub origin: Origin,
    /// Its parallelism and wait states; empty if not observed.
    #[serde(default)]
    pub detail: StepDetail,
    /// The cores of its machine; `None` when unknown.
    #[serde(default)]
    pub machine_cores: Option<MilliCores>,
    /// Whether other tasks kept most of the other vCPUs of its machine busy; `None` when unknown.
    #[serde(default)]
    pub among_others: Option<bool>,
    /// Whether tasks of other steps ran on its machine for at least half of its time; `None` when
    /// unknown.
    #[serde(default)]
    pub shares_machine: Option<bool>,
    /// Additional data from a record of the engine or scheduler; `None` if only a probe observed
    /// the task.
    #[serde(default)]
    pub record: Option<Box<AttemptRecord>>,
}

impl Run {
    /// The record of a task that a probe observed on a machine of this type. Its input is the
    /// number of bytes that it read from disks. That number is too large if it reads its own
    /// output, and too small if the page cache contained the input. Sizing checks whether the
    /// number explains the memory.
    pub fn from_step(step: &PlacedStep, requested: Requested, machine: &InstanceType) -> Self {
        let usage = &step.usage;
        let quiet = usage.observed.since(usage.last_progress);
        let disk = usage.disk_read.zip(usage.disk_written);
        Self {
            observed_at: step.observed_at,
            started_at: step.started_at,
            wall: usage.observed.since(usage.started).unwrap_or_default(),
            quiet: quiet.unwrap_or_default(),
            end: usage.end,
            cpu: Some(usage.cpu),
            peak_cores: usage.peak_cores,
            peak_memory: usage.peak_memory,
            disk: disk.map(|(read, written)| read.saturating_add(written)),
            input: usage.disk_read.filter(|read| read.0 > 0),
            requested,
            machine: Some(machine.clone()),
            origin: step.origin,
            detail: usage.detail.clone(),
            machine_cores: None,
            among_others: None,
            shares_machine: None,
            record: None,
        }
    }

    /// Whether the task shows the needs of its step. It must not hang or fail, and must have ended
    /// successfully or been observed for long enough.
    pub fn tells(&self, policy: &Policy) -> bool {
        let is_whole = self.end == StepEnd::Exited(0);
        (is_whole || self.wall >= policy.overprovisioned.min_wall())
            && self.quiet < policy.batch.no_progress()
            && !self.end.is_bad()
    }

    /// Bytes received and sent over the network; `None` when unknown.
    pub fn moved(&self) -> Option<Bytes> {
        let network = self.detail.network?;
        Some(network.received.saturating_add(network.sent))
    }

    fn sample(&self) -> Sample {
        Sample {
            peak_memory: self.peak_memory,
            held_memory: (self.peak_memory)
                .filter(|peak| !peak.source.is_upper_bound())
                .map(|peak| peak.bytes),
            wall: self.wall,
            input: self.input,
            ..Sample::default()
        }
    }
}

/// The recent tasks of one step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepProfile {
    /// In order of their keys. Not a map, which reserves room for eleven values: each of 200,000
    /// steps may have a single task.
    runs: Vec<(RunKey, Box<Run>)>,
}

impl Extend<(RunKey, Run)> for StepProfile {
    /// Adds records of tasks. The oldest records are dropped in batches, because dropping needs a
    /// partial sort.
    fn extend<I: IntoIterator<Item = (RunKey, Run)>>(&mut self, records: I) {
        for (key, run) in records {
            match self.runs.binary_search_by(|(known, _)| known.cmp(&key)) {
                Ok(at) if *self.runs[at].1 < run => *self.runs[at].1 = run,
                Ok(_) => {}
                Err(at) => {
                    if self.runs.is_empty() {
                        self.runs.reserve_exact(1);
                    }
                    self.runs.insert(at, (key, Box::new(run)));
                }
            }
            if self.runs.len() >= 2 * MAX_RUNS {
                self.bound();
            }
        }
        if self.runs.len() > MAX_RUNS {
            self.bound();
        }
    }
}

impl StepProfile {
    /// Adds one record of a task.
    pub fn add(&mut self, key: RunKey, run: Run) {
        self.extend([(key, run)]);
    }

    /// Merges two profiles of one step; see the module.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.extend(other.runs.into_iter().map(|(key, run)| (key, *run)));
        self
    }

    /// The records, by their keys.
    fn records(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().map(|(_, run)| run.as_ref())
    }

    /// Drops the oldest records beyond [`MAX_RUNS`].
    fn bound(&mut self) {
        let mut order: Vec<_> = self.runs.iter().map(|(key, run)| (run, key)).collect();
        let Some(last) = order.len().checked_sub(MAX_RUNS + 1) else {
            return;
        };
        let (_, (run, key), _) = order.select_nth_unstable(last);
        let (run, key) = ((*run).clone(), (*key).clone());
        self.runs.retain(|(of, kept)| (kept, of) > (&run, &key));
    }

    /// The records in order of time, the newest last.
    pub fn by_time(&self) -> Vec<&Run> {
        let mut runs: Vec<_> = self.records().collect();
        // Of equal records, the one with the smaller key stays before the other.
        runs.sort();
        runs
    }

    /// Number of tasks that failed, including OOM kills.
    pub fn failed(&self) -> usize {
        let bad = |run: &&Run| run.end.is_bad();
        self.records().filter(bad).count()
    }

    /// Number of tasks that were OOM-killed.
    pub fn oom_kills(&self) -> usize {
        let killed = |run: &&Run| run.is_out_of_memory();
        self.records().filter(killed).count()
    }

    /// The largest memory request with which a task was OOM-killed; `None` if none is known.
    pub fn exhausted_request(&self) -> Option<Bytes> {
        let killed = self.records().filter(|run| run.is_out_of_memory());
        killed.filter_map(|run| run.requested.memory).max()
    }

    /// The largest number of its tasks that ran at the same time; at least one.
    pub fn at_once(&self) -> u32 {
        let runs = self.records();
        most_at_once(runs.map(|run| (run.started_at, run.observed_at))).max(1)
    }
}

/// The largest number of intervals that overlap at one moment. An interval that ends when another
/// begins does not overlap with it.
pub fn most_at_once(times: impl Iterator<Item = (Timestamp, Timestamp)>) -> u32 {
    let mut turns: Vec<(Timestamp, i32)> =
        times.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
    turns.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, turn) in turns {
        now += turn;
        most = most.max(now);
    }
    u32::try_from(most).unwrap_or(0)
}
