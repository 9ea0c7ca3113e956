//! The recent tasks of one step.
//!
//! Merging two profiles is the union of their tasks. The newest record of a task replaces
//! earlier ones, and only the newest tasks are kept. The operation is commutative,
//! associative and idempotent, so that a profile can be rebuilt from the lake in any order.

pub mod failure;
pub mod sample;
pub mod tasks;

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{PeakMemory, PlacedStep, Requested, StepEnd, StepId};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::step_profile::sample::Sample;
use crate::step_profile::tasks::AttemptRecord;

/// Runs that are kept: enough for a chance of 1 % to be read from them.
pub const MAX_RUNS: usize = 300;

/// Which run it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The node and its boot, or the file that tells of it.
    pub seen_on: String,
    /// The step there.
    pub step: StepId,
}

impl RunKey {
    /// Of a step that a probe saw.
    pub fn of(step: &PlacedStep) -> Self {
        Self {
            seen_on: format!("{} {}", step.node, step.boot),
            step: step.usage.id.clone(),
        }
    }
}

/// What is kept of one run. Ordered by when it was seen last, so that of two records
/// the greater is the newer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Run {
    /// What the totals are as of.
    pub observed_at: Timestamp,
    /// When it started.
    pub started_at: Timestamp,
    /// How long it was seen.
    pub wall: Duration,
    /// For how long of that it had made no progress at the end.
    pub quiet: Duration,
    /// How it stands.
    pub end: StepEnd,
    /// CPU time used; `None` when unknown.
    pub cpu: Option<CpuTime>,
    /// The most cores it kept busy; `None` when unknown.
    pub peak_cores: Option<MilliCores>,
    /// The most memory it held; `None` when unknown.
    pub peak_memory: Option<PeakMemory>,
    /// Bytes to and from disk; `None` when unknown.
    pub disk: Option<Bytes>,
    /// Bytes it was given to read; `None` when unknown.
    pub input: Option<Bytes>,
    /// What it asked for.
    pub requested: Requested,
    /// What it ran on; `None` when unknown.
    pub machine: Option<InstanceType>,
    /// Measured or made up.
    pub origin: Origin,
    /// How parallel it was and what it waited for; empty where that was not seen.
    #[serde(default)]
    pub detail: StepDetail,
    /// Whether other steps kept most of its machine's other vCPUs busy; `None` when
    /// unknown.
    #[serde(default)]
    pub among_others: Option<bool>,
    /// What an engine's or a scheduler's record adds; `None` where only a probe saw it.
    #[serde(default)]
    pub record: Option<Box<AttemptRecord>>,
}

impl Run {
    /// Of a step that a probe saw, on a machine of this type. Its input is what it
    /// really read from disks: more than its input where it reads again what it wrote,
    /// less where the page cache had it; whether that explains anything, sizing finds
    /// out.
    pub fn of(step: &PlacedStep, requested: Requested, machine: &InstanceType) -> Self {
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
            among_others: None,
            record: None,
        }
    }

    /// Whether it tells what the step needs: ended well, however soon, or seen for long
    /// enough; not hung, not failed.
    pub fn tells(&self, policy: &Policy) -> bool {
        let is_whole = self.end == StepEnd::Exited(0);
        (is_whole || self.wall >= policy.overprovisioned.min_wall())
            && self.quiet < policy.batch.no_progress()
            && !self.end.is_bad()
    }

    /// Bytes that it moved over the network; `None` when unknown.
    pub fn moved(&self) -> Option<Bytes> {
        let network = self.detail.network?;
        Some(network.received.saturating_add(network.sent))
    }

    fn sample(&self) -> Sample {
        Sample {
            peak_cores: self.peak_cores,
            peak_memory: self.peak_memory,
            wall: self.wall,
            input: self.input,
            ..Sample::default()
        }
    }
}

/// The recent runs of one step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepProfile {
    runs: BTreeMap<RunKey, Run>,
}

impl Extend<(RunKey, Run)> for StepProfile {
    /// Takes in records of runs; the oldest go many at a time, for they are sorted for
    /// that.
    fn extend<I: IntoIterator<Item = (RunKey, Run)>>(&mut self, records: I) {
        for (key, run) in records {
            match self.runs.get_mut(&key) {
                Some(known) if *known < run => *known = run,
                Some(_) => {}
                None => {
                    self.runs.insert(key, run);
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
    /// Takes in one record of a run.
    pub fn add(&mut self, key: RunKey, run: Run) {
        self.extend([(key, run)]);
    }

    /// Joins two profiles of one step; see the module.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.extend(other.runs);
        self
    }

    /// Drops the oldest that there is no room for.
    fn bound(&mut self) {
        let mut order: Vec<_> = self.runs.iter().map(|(key, run)| (run, key)).collect();
        let Some(last) = order.len().checked_sub(MAX_RUNS + 1) else {
            return;
        };
        order.select_nth_unstable(last);
        let gone: Vec<RunKey> = order[..=last]
            .iter()
            .map(|(_, key)| (*key).clone())
            .collect();
        for key in &gone {
            self.runs.remove(key);
        }
    }

    /// Its runs, the one seen last at the end.
    pub fn by_time(&self) -> Vec<&Run> {
        let mut runs: Vec<_> = self.runs.iter().collect();
        runs.sort_by_key(|(key, run)| (*run, *key));
        runs.into_iter().map(|(_, run)| run).collect()
    }

    /// Runs that ended badly, out of memory or otherwise.
    pub fn failed(&self) -> usize {
        let bad = |run: &&Run| run.end.is_bad();
        self.runs.values().filter(bad).count()
    }

    /// Runs that were killed for want of memory.
    pub fn oom_kills(&self) -> usize {
        let killed = |run: &&Run| run.is_out_of_memory();
        self.runs.values().filter(killed).count()
    }

    /// The most of its runs that were under way at one time; at least one.
    pub fn at_once(&self) -> u32 {
        let runs = self.runs.values();
        most_at_once(runs.map(|run| (run.started_at, run.observed_at))).max(1)
    }
}

/// The most of some times that lie over one moment. One that ends at the moment at which
/// another begins makes room for it.
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
