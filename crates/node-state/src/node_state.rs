//! The state of one node.

use std::cmp::Ordering;
use std::num::NonZeroI64;
use std::time::Duration;

use ebb_telemetry::activity;
use ebb_telemetry::activity::{Activity, ActivityPolicy};
use ebb_telemetry::arrival::{MAX_DELIVERY, PlaceError, Placed};
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{PlacedStep, StepEnd, StepKind};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::latest_detail::{LatestDetail, PackedDetail};
use crate::probe_run::{Run, RunKey, Stream};
use crate::sequences::Sequences;
use crate::stored_step::{KeptStep, Names};
use crate::ticks::Ticks;
use crate::weeks::Weeks;

/// Maximum number of stored steps of a node. A busy node runs fewer at once, and the lake contains
/// the others.
const MAX_STEPS: usize = 64;

/// Maximum number of stored streams of probe runs of a node. Beyond it, the node forgets the
/// sequence numbers of the oldest streams. The node then refuses data from that time; see
/// [`NodeState::check_forgotten`].
const MAX_RUNS: usize = 64;

/// Maximum number of ranges of sequence numbers of a stream.
const MAX_RANGES: usize = 256;

/// A repeated message may get a slightly later time than the original. The difference is at most
/// the longest delivery time, on both sides.
const PLACED_AGAIN: SignedDuration = SignedDuration::from_secs(2 * MAX_DELIVERY.as_secs() as i64);

/// A step counts as ended if it is missing for so long while its node sends data. Each heartbeat
/// contains all running steps, and the lake contains the ended ones.
const STEPS_KEPT_FOR: Duration = Duration::from_secs(15 * 60);

/// The state of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeState {
    /// Ticks in which the probe observed the required signals.
    pub seen: Ticks,
    /// Ticks in which the workload was active.
    pub active: Ticks,
    /// The begin of the earliest interval; `None` without a heartbeat.
    #[serde(with = "ebb_telemetry::time::nanos::option")]
    pub first_seen: Option<Timestamp>,
    /// The end of the latest active interval; `None` when never active.
    #[serde(with = "ebb_telemetry::time::nanos::option")]
    pub active_until: Option<Timestamp>,
    /// Times of its GPUs; `None` on most nodes, which have no observed GPU.
    gpu: Option<Box<GpuTimes>>,
    /// The newest heartbeat; `None` without a heartbeat.
    pub latest: Option<Latest>,
    /// Accepted sequence numbers, in order of boot, probe start and stream.
    runs: Box<[Run]>,
    /// Seconds since 1970. The accepted sequence numbers up to this time are forgotten, because the
    /// node had too many probe starts. `None` if nothing is forgotten.
    forgotten_until: Option<NonZeroI64>,
    /// The newest record of each recent step without its executables, in order of boot and id. The
    /// names in the record contain the boot and the probe start.
    pub(crate) steps: Box<[KeptStep]>,
    /// The weeks of all data in this state.
    pub(crate) weeks: Weeks,
}

/// When the GPUs of a node were observed and active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuTimes {
    /// The begin of the earliest interval with GPU observation; `None` without any.
    #[serde(with = "ebb_telemetry::time::nanos::option")]
    pub watched_from: Option<Timestamp>,
    /// The end of the latest interval in which a GPU computed; `None` when none ever did.
    #[serde(with = "ebb_telemetry::time::nanos::option")]
    pub active_until: Option<Timestamp>,
}

/// The content of the newest heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latest {
    /// The end of its interval.
    #[serde(with = "ebb_telemetry::time::nanos")]
    pub end: Timestamp,
    /// The length of its interval.
    pub length: Duration,
    /// The sequence number, which distinguishes two heartbeats with the same end.
    pub sequence: u64,
    /// Whether it was measured or made by a generator.
    pub origin: Origin,
    /// The coverage of each signal.
    pub coverage: Coverage,
    /// The hardware of the machine.
    pub hardware: Hardware,
    /// The other parts.
    detail: PackedDetail,
}

impl Latest {
    fn from_heartbeat(placed: &Placed, length: Duration) -> Self {
        let h = &placed.heartbeat;
        Self {
            end: placed.end,
            length,
            sequence: h.sequence,
            origin: h.origin,
            coverage: h.coverage,
            hardware: h.hardware,
            detail: PackedDetail::new(&LatestDetail::from_heartbeat(placed, length)),
        }
    }

    /// The parts that few readers need, unpacked.
    pub fn detail(&self) -> LatestDetail {
        self.detail.unpack()
    }

    fn order(&self) -> (Timestamp, u64, Duration) {
        (self.end, self.sequence, self.length)
    }
}

impl NodeState {
    /// The state of one heartbeat.
    pub fn of_heartbeat(placed: &Placed, policy: &ActivityPolicy) -> Self {
        let mut state = Self::begun(placed.end);
        state.fold(std::slice::from_ref(placed), policy);
        state
    }

    /// The state of a node without data except the time.
    pub(crate) fn begun(at: Timestamp) -> Self {
        Self {
            weeks: Weeks::from_time(at),
            ..Self::default()
        }
    }

    /// Adds heartbeats, which equals merging with the state of each. A step that occurs in many
    /// heartbeats is packed only once, because the newest record comes first.
    pub(crate) fn fold(&mut self, placed: &[Placed], policy: &ActivityPolicy) {
        for one in placed {
            self.note_heartbeat(one, policy);
        }
        for one in placed.iter().rev() {
            self.take_running(one);
            self.bound();
        }
    }

    fn note_heartbeat(&mut self, placed: &Placed, policy: &ActivityPolicy) {
        let h = &placed.heartbeat;
        let (start, end) = (placed.start().unwrap_or(placed.end), placed.end);
        let active = activity::classify(h, policy) != Activity::Quiet;
        if h.is_observed() {
            self.seen.add(start, end, policy.tick());
        }
        if active {
            self.active.add(start, end, policy.tick());
            self.active_until = self.active_until.max(Some(end));
        }
        self.first_seen = earliest(self.first_seen, Some(start));
        self.absorb_gpu(GpuTimes {
            watched_from: h.coverage.gpu.map(|_| start),
            active_until: activity::computes(h, policy).then_some(end),
        });
        let length = h.end.since(h.start).unwrap_or_default();
        let known = self.latest.as_ref().map(Latest::order);
        if known < Some((end, h.sequence, length)) {
            self.latest = Some(Latest::from_heartbeat(placed, length));
        }
        let key = (&h.boot, &h.probe_start, Stream::Heartbeats);
        let accepted = |known: &mut Sequences| known.insert(h.sequence);
        self.note(key, end, accepted);
        self.weeks = self.weeks.join(Weeks::from_time(end));
        self.bound_runs();
    }

    fn take_running(&mut self, placed: &Placed) {
        let h = &placed.heartbeat;
        for usage in &h.steps {
            let key = (&h.boot, Some((usage.id.kind, usage.id.key.as_str())));
            let known = self.steps.binary_search_by(|known| known.key().cmp(&key));
            if known.is_ok_and(|at| self.steps[at].observed > usage.observed) {
                continue;
            }
            let names = self.shared(Names {
                boot: h.boot.clone(),
                probe_start: h.probe_start.clone(),
            });
            if let Some(step) = KeptStep::running(names, placed, usage) {
                self.take_step(step);
            }
        }
    }

    /// The state of one step from an uploaded object.
    pub fn of_step(step: &PlacedStep) -> Self {
        let mut state = Self {
            steps: KeptStep::ended(step).into_iter().collect(),
            weeks: Weeks::from_time(step.observed_at),
            ..Self::default()
        };
        let key = (&step.boot, &step.probe_start, Stream::Steps);
        let accepted = |known: &mut Sequences| known.insert(step.sequence);
        state.note(key, step.observed_at, accepted);
        state
    }

    /// Merges two states of the same node.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.absorb(other);
        self
    }

    /// Times of its GPUs.
    pub fn gpu(&self) -> GpuTimes {
        self.gpu.as_deref().copied().unwrap_or_default()
    }

    fn absorb_gpu(&mut self, other: GpuTimes) {
        let own = self.gpu();
        let both = GpuTimes {
            watched_from: earliest(own.watched_from, other.watched_from),
            active_until: own.active_until.max(other.active_until),
        };
        if both != own {
            self.gpu = Some(Box::new(both));
        }
    }

    /// Adds the data of another state of the same node.
    pub fn absorb(&mut self, other: Self) {
        self.seen.absorb(&other.seen);
        self.active.absorb(&other.active);
        self.first_seen = earliest(self.first_seen, other.first_seen);
        self.active_until = self.active_until.max(other.active_until);
        self.absorb_gpu(other.gpu());
        let newer = |theirs: &Latest| {
            let ours = self.latest.as_ref();
            ours.is_none_or(|ours| theirs.order() > ours.order())
        };
        if let Some(theirs) = other.latest.filter(newer) {
            self.latest = Some(theirs);
        }
        for run in &other.runs {
            let accepted = |known: &mut Sequences| known.absorb(&run.accepted);
            self.note(run.key(), run.newest, accepted);
        }
        for mut step in other.steps {
            step.names = self.shared(step.names);
            self.take_step(step);
        }
        self.weeks = self.weeks.join(other.weeks);
        self.forgotten_until = self.forgotten_until.max(other.forgotten_until);
        self.bound();
    }

    /// The newest time of its data; `None` without data.
    pub(crate) fn newest(&self) -> Option<Timestamp> {
        self.runs.iter().map(|run| run.newest).max()
    }

    /// Lets all records share the same copies of names.
    pub(crate) fn share_names(&mut self) {
        let mut steps = std::mem::take(&mut self.steps);
        for step in &mut steps {
            step.names = self.shared(step.names.clone());
        }
        self.steps = steps;
    }

    /// The existing copies of names; every heartbeat brings new copies.
    fn shared(&self, mut names: Names) -> Names {
        let known = |run: &&Run| run.boot == names.boot && run.probe_start == names.probe_start;
        if let Some(run) = self.runs.iter().find(known) {
            names.boot = run.boot.clone();
            names.probe_start = run.probe_start.clone();
        }
        names
    }

    /// Records that data of a probe run with the time `at` was accepted.
    fn note<T>(
        &mut self,
        key: RunKey<'_>,
        at: Timestamp,
        accepted: impl FnOnce(&mut Sequences) -> T,
    ) {
        let at_index = self.runs.binary_search_by(|known| known.key().cmp(&key));
        let index = at_index.unwrap_or_else(|index| {
            let (boot, probe_start, stream) = key;
            let run = Run {
                boot: boot.clone(),
                probe_start: probe_start.clone(),
                stream,
                accepted: Sequences::default(),
                newest: at,
            };
            insert(&mut self.runs, index, run);
            index
        });
        let run = &mut self.runs[index];
        run.newest = run.newest.max(at);
        accepted(&mut run.accepted);
        run.accepted.give_up_gaps(MAX_RANGES);
    }

    fn take_step(&mut self, step: KeptStep) {
        let key = step.key();
        match self.steps.binary_search_by(|known| known.key().cmp(&key)) {
            Ok(at) if self.steps[at].is_older_than(&step) => self.steps[at] = step,
            Ok(_) => {}
            Err(at) => insert(&mut self.steps, at, step),
        }
    }

    /// Drops entries that are too old or exceed a limit. The remaining entries depend only on the
    /// newest ones, which merging keeps, so that the order of arrival does not matter.
    fn bound(&mut self) {
        self.bound_runs();
        let ended = self.steps.iter().map(|step| step.observed_at);
        let newest = ended.chain(self.latest.as_ref().map(|l| l.end)).max();
        let oldest = newest.and_then(|at| at.checked_sub(STEPS_KEPT_FOR).ok());
        let is_old = |step: &KeptStep| oldest.is_some_and(|oldest| step.observed_at < oldest);
        if self.steps.iter().any(is_old) {
            let mut steps = std::mem::take(&mut self.steps).into_vec();
            steps.retain(|step| !is_old(step));
            self.steps = steps.into_boxed_slice();
        }
        newest_of(
            &mut self.steps,
            MAX_STEPS,
            |step| step.observed_at,
            |a, b| a.key().cmp(&b.key()),
        );
    }

    fn bound_runs(&mut self) {
        let gone = newest_of(
            &mut self.runs,
            MAX_RUNS,
            |run| run.newest,
            |a, b| a.key().cmp(&b.key()),
        );
        let newest_gone = gone.map(|at| at.as_second().saturating_add(1));
        let until = newest_gone.and_then(NonZeroI64::new);
        self.forgotten_until = self.forgotten_until.max(until);
    }

    /// Refuses data that a forgotten probe run may have accepted.
    ///
    /// # Errors
    /// `Forgotten`, if `at` is not later than the forgotten time plus the possible delay of a
    /// repeat.
    pub(crate) fn check_forgotten(&self, at: Timestamp) -> Result<(), PlaceError> {
        let until = self.forgotten_until.map(NonZeroI64::get);
        let until = until.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let until = until.and_then(|until| until.checked_add(PLACED_AGAIN).ok());
        match until.is_some_and(|until| at <= until) {
            true => Err(PlaceError::Forgotten {
                probe_starts: MAX_RUNS / 2,
            }),
            false => Ok(()),
        }
    }

    /// True if this heartbeat was accepted before.
    pub fn accepted_heartbeat(&self, heartbeat: &Heartbeat) -> bool {
        let h = heartbeat;
        self.accepted((&h.boot, &h.probe_start, Stream::Heartbeats), h.sequence)
    }

    /// True if this sequence number of a probe run was accepted before.
    pub(crate) fn accepted(&self, key: RunKey<'_>, sequence: u64) -> bool {
        let found = self.runs.binary_search_by(|known| known.key().cmp(&key));
        found.is_ok_and(|at| self.runs[at].accepted.contains(sequence))
    }

    /// Recent steps, including ended ones; `node` is the node of this state.
    pub fn steps(&self, node: &NodeId) -> impl Iterator<Item = PlacedStep> {
        self.steps.iter().filter_map(|step| step.unpack(node))
    }

    /// The ids of recent ECS tasks, including ended ones.
    pub fn ecs_tasks(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step.key() {
            (_, Some((StepKind::EcsTask, key))) => Some(key),
            _ => None,
        })
    }

    /// Steps that were running at their last observation; `node` is the node of this state.
    pub fn running(&self, node: &NodeId) -> impl Iterator<Item = PlacedStep> {
        self.steps(node)
            .filter(|step| step.usage.end == StepEnd::Running)
    }

    /// Number of heartbeats that have a sequence number but have not arrived.
    pub fn missing(&self) -> u64 {
        let heartbeats = self
            .runs
            .iter()
            .filter(|run| run.stream == Stream::Heartbeats);
        heartbeats.map(|run| run.accepted.missing()).sum()
    }
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// Keeps the `max` newest of entries that are sorted by `key`. Returns the newest time of the
/// removed entries; `None` if nothing was removed.
fn newest_of<T>(
    all: &mut Box<[T]>,
    max: usize,
    newest: impl Fn(&T) -> Timestamp,
    key: impl Fn(&T, &T) -> Ordering,
) -> Option<Timestamp> {
    if all.len() <= max {
        return None;
    }
    let mut entries = std::mem::take(all).into_vec();
    entries.sort_by(|a, b| newest(b).cmp(&newest(a)).then_with(|| key(b, a)));
    let gone = entries.get(max).map(&newest);
    entries.truncate(max);
    entries.sort_by(key);
    *all = entries.into_boxed_slice();
    gone
}

/// Inserts an entry without reserving more space: most nodes have a single entry.
fn insert<T>(all: &mut Box<[T]>, at: usize, one: T) {
    let mut entries = std::mem::take(all).into_vec();
    entries.reserve_exact(1);
    entries.insert(at, one);
    *all = entries.into_boxed_slice();
}
