//! The state of one node.

use std::cmp::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::weeks::Weeks;
use super::{Sequences, Ticks, nanos};
use crate::activity::{self, Activity};
use crate::heartbeat::{Coverage, GpuUse, Hardware, Origin, Placed, Usage};
use crate::identity::{BootId, ProbeStart};
use crate::policy::ActivityPolicy;
use crate::step::{PlacedStep, StepEnd, StepId, StepUsage};

/// Steps kept a node; a busy node runs fewer at once, and the lake has the rest.
const MAX_STEPS: usize = 64;
/// Probe runs kept a node; older ones can no longer arrive in practice.
const MAX_RUNS: usize = 16;

/// A step not heard of for so long while its node was has ended: each heartbeat
/// names all that run, and the lake has what ended.
const STEPS_KEPT_FOR: Duration = Duration::from_secs(15 * 60);

/// The state of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeState {
    /// Ticks in which the probe saw what it is there to see.
    pub seen: Ticks,
    /// Ticks in which the workload was active.
    pub active: Ticks,
    /// The begin of the earliest interval; `None` before any heartbeat.
    #[serde(with = "nanos::option")]
    pub first_seen: Option<Timestamp>,
    /// The end of the latest active interval; `None` when never active.
    #[serde(with = "nanos::option")]
    pub active_until: Option<Timestamp>,
    /// The begin of the earliest interval in which its GPUs were watched; `None` when
    /// they never were.
    #[serde(with = "nanos::option")]
    pub gpu_watched_from: Option<Timestamp>,
    /// The end of the latest interval in which one of them computed; `None` when none
    /// ever did.
    #[serde(with = "nanos::option")]
    pub gpu_active_until: Option<Timestamp>,
    /// The newest heartbeat's facts; `None` before any heartbeat.
    pub latest: Option<Latest>,
    /// What was accepted, in order of boot, probe start and stream.
    runs: Vec<Run>,
    /// The newest record of each recent step, its executables left out, in order
    /// of boot and id. Whose they are, the names here tell.
    steps: Vec<PlacedStep>,
    /// The weeks of all that is known here.
    pub(super) weeks: Weeks,
}

/// What was accepted of one stream of one probe run, which sequence numbers count
/// in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The boot.
    pub boot: BootId,
    /// The probe's start.
    pub probe_start: ProbeStart,
    /// Which of its streams.
    pub stream: Stream,
    /// The sequence numbers.
    pub accepted: Sequences,
    /// The newest time among them.
    #[serde(with = "nanos")]
    pub newest: Timestamp,
}

impl Run {
    fn key(&self) -> RunKey<'_> {
        (&self.boot, &self.probe_start, self.stream)
    }
}

/// What tells two runs apart.
pub(super) type RunKey<'a> = (&'a BootId, &'a ProbeStart, Stream);

/// The two streams of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Heartbeats over SQS.
    Heartbeats,
    /// Finished steps over S3.
    Steps,
}

/// What the newest heartbeat says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latest {
    /// The end of its interval.
    #[serde(with = "nanos")]
    pub end: Timestamp,
    /// The length of its interval.
    pub length: Duration,
    /// Tells apart two with the same end.
    pub sequence: u64,
    /// Measured or made up.
    pub origin: Origin,
    /// What each signal saw.
    pub coverage: Coverage,
    /// What the machine has.
    pub hardware: Hardware,
    /// What background used.
    pub background: Usage,
    /// Each GPU that was looked at.
    pub gpus: Vec<GpuUse>,
}

impl Latest {
    fn order(&self) -> (Timestamp, u64, Duration) {
        (self.end, self.sequence, self.length)
    }
}

impl NodeState {
    /// The state that one heartbeat makes.
    pub fn of_heartbeat(placed: &Placed, policy: &ActivityPolicy) -> Self {
        let h = &placed.heartbeat;
        let start = placed.start().unwrap_or(placed.end);
        let seen = match h.was_seen() {
            true => Ticks::with_middle_in(start, placed.end, policy.tick()),
            false => Ticks::default(),
        };
        let active = activity::of(h, policy) != Activity::Quiet;
        Self {
            seen,
            active: match active {
                true => Ticks::with_middle_in(start, placed.end, policy.tick()),
                false => Ticks::default(),
            },
            first_seen: Some(start),
            active_until: active.then_some(placed.end),
            gpu_watched_from: h.coverage.gpu.map(|_| start),
            gpu_active_until: activity::computes(h, policy).then_some(placed.end),
            latest: Some(Latest {
                end: placed.end,
                length: h.end.since(h.start).unwrap_or_default(),
                sequence: h.sequence,
                origin: h.origin,
                coverage: h.coverage,
                hardware: h.hardware,
                background: h.background,
                gpus: h.detail.gpus.clone(),
            }),
            runs: vec![Run {
                boot: h.boot.clone(),
                probe_start: h.probe_start.clone(),
                stream: Stream::Heartbeats,
                accepted: Sequences::one(h.sequence),
                newest: placed.end,
            }],
            steps: running_steps(placed),
            weeks: Weeks::of(placed.end),
        }
    }

    /// The state that one step makes, as an object carried it.
    pub fn of_step(step: &PlacedStep) -> Self {
        Self {
            runs: vec![Run {
                boot: step.boot.clone(),
                probe_start: step.probe_start.clone(),
                stream: Stream::Steps,
                accepted: Sequences::one(step.sequence),
                newest: step.observed_at,
            }],
            steps: vec![PlacedStep {
                usage: step.usage.without_tools(),
                node: step.node.clone(),
                boot: step.boot.clone(),
                probe_start: step.probe_start.clone(),
                ..*step
            }],
            weeks: Weeks::of(step.observed_at),
            ..Self::default()
        }
    }

    /// Joins two states of the same node.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.absorb(other);
        self
    }

    /// Takes in what another state of the same node knows.
    pub fn absorb(&mut self, other: Self) {
        self.seen.absorb(other.seen);
        self.active.absorb(other.active);
        self.first_seen = self.first_seen.into_iter().chain(other.first_seen).min();
        self.active_until = self.active_until.max(other.active_until);
        let watched = self.gpu_watched_from.into_iter();
        self.gpu_watched_from = watched.chain(other.gpu_watched_from).min();
        self.gpu_active_until = self.gpu_active_until.max(other.gpu_active_until);
        let newer = |theirs: &Latest| {
            let ours = self.latest.as_ref();
            ours.is_none_or(|ours| theirs.order() > ours.order())
        };
        if let Some(theirs) = other.latest.filter(newer) {
            self.latest = Some(theirs);
        }
        other.runs.into_iter().for_each(|run| self.take_run(run));
        for mut step in other.steps {
            self.share_names(&mut step);
            self.take_step(step);
        }
        self.weeks = self.weeks.join(other.weeks);
        self.bound();
    }

    /// The newest time that it was heard of; `None` before anything.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        self.runs.iter().map(|run| run.newest).max()
    }

    /// Lets a step hold the copies of names that are held already: with every
    /// heartbeat come new ones.
    fn share_names(&self, step: &mut PlacedStep) {
        let known = |run: &&Run| run.boot == step.boot && run.probe_start == step.probe_start;
        if let Some(run) = self.runs.iter().find(known) {
            step.boot = run.boot.clone();
            step.probe_start = run.probe_start.clone();
        }
        if let Some(known) = self.steps.first() {
            step.node = known.node.clone();
        }
    }

    fn take_run(&mut self, run: Run) {
        match self
            .runs
            .binary_search_by(|known| known.key().cmp(&run.key()))
        {
            Ok(at) => {
                let known = &mut self.runs[at];
                known.newest = known.newest.max(run.newest);
                known.accepted.absorb(run.accepted);
            }
            Err(at) => {
                // A vector grows by doubling, and most nodes have one.
                self.runs.reserve_exact(1);
                self.runs.insert(at, run);
            }
        }
    }

    fn take_step(&mut self, step: PlacedStep) {
        let key = step_key(&step);
        match self
            .steps
            .binary_search_by(|known| step_key(known).cmp(&key))
        {
            Ok(at) if order(&self.steps[at]) < order(&step) => self.steps[at] = step,
            Ok(_) => {}
            Err(at) => {
                self.steps.reserve_exact(1);
                self.steps.insert(at, step);
            }
        }
    }

    /// Drops what is too old or too much. What stays depends only on what is
    /// newest, which merging keeps, so the order of arrival does not show.
    fn bound(&mut self) {
        newest_of(
            &mut self.runs,
            MAX_RUNS,
            |run| run.newest,
            |a, b| a.key().cmp(&b.key()),
        );
        let ended = self.steps.iter().map(|step| step.observed_at);
        let newest = ended.chain(self.latest.as_ref().map(|l| l.end)).max();
        let oldest = newest.and_then(|at| at.checked_sub(STEPS_KEPT_FOR).ok());
        if let Some(oldest) = oldest {
            self.steps.retain(|step| step.observed_at >= oldest);
        }
        newest_of(
            &mut self.steps,
            MAX_STEPS,
            |step| step.observed_at,
            |a, b| step_key(a).cmp(&step_key(b)),
        );
        self.steps.shrink_to_fit();
    }

    /// True when this number of a run was taken in before.
    pub(super) fn accepted(&self, key: RunKey<'_>, sequence: u64) -> bool {
        let found = self.runs.binary_search_by(|known| known.key().cmp(&key));
        found.is_ok_and(|at| self.runs[at].accepted.contains(sequence))
    }

    /// Recent steps, ended ones too.
    pub fn steps(&self) -> impl Iterator<Item = &PlacedStep> {
        self.steps.iter()
    }

    /// Steps that ran when last heard of.
    pub fn running(&self) -> impl Iterator<Item = &PlacedStep> {
        self.steps()
            .filter(|step| step.usage.end == StepEnd::Running)
    }

    /// Heartbeats that a probe run numbered and that have not arrived.
    pub fn missing(&self) -> u64 {
        let heartbeats = self
            .runs
            .iter()
            .filter(|run| run.stream == Stream::Heartbeats);
        heartbeats.map(|run| run.accepted.missing()).sum()
    }
}

fn running_steps(placed: &Placed) -> Vec<PlacedStep> {
    let h = &placed.heartbeat;
    let placed_step = |usage: &StepUsage| {
        Some(PlacedStep {
            node: placed.node.clone(),
            boot: h.boot.clone(),
            probe_start: h.probe_start.clone(),
            sequence: h.sequence,
            origin: h.origin,
            started_at: placed.place(usage.started)?,
            observed_at: placed.place(usage.observed)?,
            last_progress_at: placed.place(usage.last_progress)?,
            usage: usage.without_tools(),
        })
    };
    let mut steps = NodeState::default();
    let placed = h.steps.iter().filter_map(placed_step);
    placed.for_each(|step| steps.take_step(step));
    steps.bound();
    steps.steps
}

fn step_key(step: &PlacedStep) -> (&BootId, &StepId) {
    (&step.boot, &step.usage.id)
}

/// Totals only grow, so the record observed last stands for the others; the
/// rest of the order only makes it total. A record that says how the step ended
/// beats one of the same moment that does not.
fn order(step: &PlacedStep) -> impl Ord + '_ {
    (
        step.usage.observed,
        step.usage.end,
        &step.usage,
        step.observed_at,
        step.sequence,
    )
}

/// Keeps the `max` newest of entries that are sorted by `key`.
fn newest_of<T>(
    entries: &mut Vec<T>,
    max: usize,
    newest: impl Fn(&T) -> Timestamp,
    key: impl Fn(&T, &T) -> Ordering,
) {
    if entries.len() <= max {
        return;
    }
    entries.sort_by(|a, b| newest(b).cmp(&newest(a)).then_with(|| key(b, a)));
    entries.truncate(max);
    entries.sort_by(key);
}
