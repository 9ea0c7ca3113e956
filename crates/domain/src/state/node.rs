//! The state of one node.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Sequences, Ticks};
use crate::activity::{self, Activity};
use crate::heartbeat::{Coverage, Hardware, Origin, Placed, Usage};
use crate::identity::{BootId, ProbeStart};
use crate::policy::ActivityPolicy;
use crate::step::{PlacedStep, StepId};
use crate::units::Share;

/// Steps kept a node; a busy node runs fewer at once, and the lake has the rest.
const MAX_STEPS: usize = 64;
/// Probe runs kept a node; older ones can no longer arrive in practice.
const MAX_RUNS: usize = 16;
/// An interval of which less was seen does not count as seen.
const SEEN_SHARE: Share = Share::from_ppm(950_000);

/// The state of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Ticks in which the probe saw what it is there to see.
    pub seen: Ticks,
    /// The begin of the earliest interval; `None` before any heartbeat.
    pub first_seen: Option<Timestamp>,
    /// The end of the latest active interval; `None` when never active.
    pub active_until: Option<Timestamp>,
    /// The newest heartbeat's facts; `None` before any heartbeat.
    pub latest: Option<Latest>,
    /// What was accepted, by probe run.
    pub runs: BTreeMap<RunKey, RunState>,
    /// The newest record of each recent step.
    pub steps: BTreeMap<StepKey, PlacedStep>,
}

/// One stream of one probe run, which sequence numbers count in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The boot.
    pub boot: BootId,
    /// The probe's start.
    pub probe_start: ProbeStart,
    /// Which of its streams.
    pub stream: Stream,
}

/// The two streams of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Heartbeats over SQS.
    Heartbeats,
    /// Finished steps over S3.
    Steps,
}

/// What was accepted of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// The sequence numbers.
    pub accepted: Sequences,
    /// The newest time among them.
    pub newest: Timestamp,
}

/// Which step of which boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepKey {
    /// The boot.
    pub boot: BootId,
    /// The step.
    pub id: StepId,
}

/// What the newest heartbeat says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latest {
    /// The end of its interval.
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
        let was_seen = h.coverage.least().is_some_and(|least| least >= SEEN_SHARE);
        let seen = match was_seen {
            true => Ticks::with_middle_in(start, placed.end, policy.tick()),
            false => Ticks::default(),
        };
        let active = activity::of(h, policy) != Activity::Quiet;
        Self {
            seen,
            first_seen: Some(start),
            active_until: active.then_some(placed.end),
            latest: Some(Latest {
                end: placed.end,
                length: h.end.since(h.start).unwrap_or_default(),
                sequence: h.sequence,
                origin: h.origin,
                coverage: h.coverage,
                hardware: h.hardware,
                background: h.background,
            }),
            runs: run(
                &h.boot,
                &h.probe_start,
                Stream::Heartbeats,
                h.sequence,
                placed.end,
            ),
            steps: running_steps(placed),
        }
    }

    /// Recent steps, ended ones too.
    pub fn steps(&self) -> impl Iterator<Item = &PlacedStep> {
        self.steps.values()
    }

    /// The state that one step makes, as an object carried it.
    pub fn of_step(step: &PlacedStep) -> Self {
        let key = StepKey {
            boot: step.boot.clone(),
            id: step.usage.id.clone(),
        };
        let (probe_start, at) = (&step.probe_start, step.observed_at);
        Self {
            seen: Ticks::default(),
            first_seen: None,
            active_until: None,
            latest: None,
            runs: run(&step.boot, probe_start, Stream::Steps, step.sequence, at),
            steps: BTreeMap::from([(key, step.clone())]),
        }
    }

    /// Joins two states of the same node.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            seen: self.seen.union(&other.seen),
            first_seen: self.first_seen.into_iter().chain(other.first_seen).min(),
            active_until: self.active_until.max(other.active_until),
            latest: self
                .latest
                .into_iter()
                .chain(other.latest)
                .max_by_key(Latest::order),
            runs: merged_runs(self.runs, other.runs),
            steps: merged_steps(self.steps, other.steps),
        }
    }

    /// Steps that ran when last heard of.
    pub fn running(&self) -> impl Iterator<Item = &PlacedStep> {
        self.steps
            .values()
            .filter(|step| step.usage.end == crate::step::StepEnd::Running)
    }

    /// Heartbeats that a probe run numbered and that have not arrived.
    pub fn missing(&self) -> u64 {
        let heartbeats = self
            .runs
            .iter()
            .filter(|(key, _)| key.stream == Stream::Heartbeats);
        heartbeats.map(|(_, run)| run.accepted.missing()).sum()
    }
}

fn run(
    boot: &BootId,
    probe_start: &ProbeStart,
    stream: Stream,
    sequence: u64,
    newest: Timestamp,
) -> BTreeMap<RunKey, RunState> {
    let key = RunKey {
        boot: boot.clone(),
        probe_start: probe_start.clone(),
        stream,
    };
    BTreeMap::from([(
        key,
        RunState {
            accepted: Sequences::one(sequence),
            newest,
        },
    )])
}

fn running_steps(placed: &Placed) -> BTreeMap<StepKey, PlacedStep> {
    let h = &placed.heartbeat;
    let placed_step = |usage: &crate::step::StepUsage| {
        Some(PlacedStep {
            node: placed.node.clone(),
            boot: h.boot.clone(),
            probe_start: h.probe_start.clone(),
            sequence: h.sequence,
            origin: h.origin,
            started_at: placed.place(usage.started)?,
            observed_at: placed.place(usage.observed)?,
            last_progress_at: placed.place(usage.last_progress)?,
            usage: usage.clone(),
        })
    };
    let steps = h.steps.iter().filter_map(placed_step);
    let keyed = steps.map(|s| {
        (
            StepKey {
                boot: s.boot.clone(),
                id: s.usage.id.clone(),
            },
            s,
        )
    });
    merged_steps(keyed.collect(), BTreeMap::new())
}

fn merged_runs(
    mut a: BTreeMap<RunKey, RunState>,
    b: BTreeMap<RunKey, RunState>,
) -> BTreeMap<RunKey, RunState> {
    for (key, run) in b {
        let joined = match a.remove(&key) {
            None => run,
            Some(known) => RunState {
                accepted: known.accepted.union(run.accepted),
                newest: known.newest.max(run.newest),
            },
        };
        a.insert(key, joined);
    }
    newest_of(a, MAX_RUNS, |run| run.newest)
}

fn merged_steps(
    mut a: BTreeMap<StepKey, PlacedStep>,
    b: BTreeMap<StepKey, PlacedStep>,
) -> BTreeMap<StepKey, PlacedStep> {
    for (key, step) in b {
        let newest = match a.remove(&key) {
            Some(known) if order(&known) >= order(&step) => known,
            _ => step,
        };
        a.insert(key, newest);
    }
    newest_of(a, MAX_STEPS, |step| step.observed_at)
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

fn newest_of<K: Ord + Clone, V>(
    entries: BTreeMap<K, V>,
    max: usize,
    newest: impl Fn(&V) -> Timestamp,
) -> BTreeMap<K, V> {
    if entries.len() <= max {
        return entries;
    }
    let mut sorted: Vec<(K, V)> = entries.into_iter().collect();
    sorted.sort_by(|(a_key, a), (b_key, b)| (newest(b), b_key).cmp(&(newest(a), a_key)));
    sorted.truncate(max);
    sorted.into_iter().collect()
}
