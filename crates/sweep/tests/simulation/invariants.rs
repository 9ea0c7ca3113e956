//! Ebb's promises, checked after each sweep and at the end of each week.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ebb_lake::EvaluatedFinding;
use ebb_model::finding_kind::FindingKind;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;

use ebb_ingest::state_store::hourly_activity::Hours;
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart, attested};
use ebb_wire::{decode_heartbeats, decode_steps_message, is_steps_message};
use serde_json::Value;

use crate::cloud::Cloud;
use crate::probe::{BEGIN_SECOND, Key};
use crate::week::Week;
use ebb_ingest::state_store;

/// A promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// All sent data is in the lake or among the dead letters.
    NothingLost,
    /// The lake has each heartbeat and each finished task once.
    NothingDoubled,
    /// The state equals the folded lake.
    StateIsFolded,
    /// A node that worked in a window is not idle in it.
    WorkIsNotIdle,
    /// One change of a finding is notified once.
    NotifiedOnce,
    /// Sweeps without a fault process all waiting data.
    Ends,
}

/// A promise that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) promise: Promise,
    detail: String,
}

impl Promise {
    pub(crate) fn broken(self, detail: impl Into<String>) -> Violation {
        Violation {
            promise: self,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.detail)
    }
}

/// A delivery may be under way for two minutes on either side of a window.
const EDGE_SECONDS: i64 = 240;

/// Coverage below which no node counts as idle.
const MIN_COVERAGE_PPM: i64 = 950_000;

/// Unobserved work of this length, a few ticks, may be missing.
const SLACK_SECONDS: i64 = 300;

/// Checks a finding against the real work of its node; `worked` holds it by hour. Returns the
/// number of idle nodes that were checked.
pub(crate) fn check_idle<'a>(
    evaluated: &EvaluatedFinding,
    worked: impl Fn(&str) -> &'a [bool],
) -> Result<u64, Violation> {
    let finding = &evaluated.finding;
    if finding.kind != FindingKind::IdleNode {
        return Ok(0);
    }
    let from = finding.window.from.as_second() + EDGE_SECONDS;
    let to = finding.window.to.as_second() - EDGE_SECONDS;
    let hours = worked(&finding.resource.id).iter().enumerate();
    let overlap = |hour: usize| {
        let begin = BEGIN_SECOND + i64::try_from(hour).unwrap_or(i64::MAX) * 3_600;
        ((begin + 3_600).min(to) - begin.max(from)).max(0)
    };
    let busy: i64 = hours
        .filter(|(_, works)| **works)
        .map(|(hour, _)| overlap(hour))
        .sum();
    let length = i64::try_from(finding.window.length().as_secs()).unwrap_or(i64::MAX);
    let coverage_ppm = finding.coverage.map_or(0, |share| i64::from(share.ppm()));
    let unobserved = length * (1_000_000 - coverage_ppm) / 1_000_000;
    if coverage_ppm < MIN_COVERAGE_PPM {
        return Err(Promise::WorkIsNotIdle.broken(format!(
            "{} is idle although only {coverage_ppm} ppm of the window were seen",
            finding.resource.id
        )));
    }
    match busy <= unobserved + SLACK_SECONDS {
        true => Ok(1),
        false => Err(Promise::WorkIsNotIdle.broken(format!(
            "{} worked for {busy} s in the window from {} to {}, of which {unobserved} s were not seen",
            finding.resource.id, finding.window.from, finding.window.to
        ))),
    }
}

/// Checks that the lake has all data that was sent and not refused, once. Returns the number of
/// refused heartbeats.
pub(crate) fn check_rows(week: &Week) -> Result<u64, Violation> {
    let mut rows = BTreeSet::new();
    for placed in week.cloud.lake.heartbeats() {
        let key = Key::new(&placed.node, &placed.heartbeat);
        if !week.sent.contains(&key) {
            return Err(Promise::NothingDoubled.broken(format!("nobody sent {key:?}")));
        }
        if let Some(key) = rows.replace(key) {
            return Err(Promise::NothingDoubled.broken(format!("twice in the lake: {key:?}")));
        }
    }
    let refused = refused_heartbeats(&week.cloud);
    let mut missing = week.sent.difference(&rows);
    if let Some(lost) = missing.clone().find(|key| !refused.contains(*key)) {
        return Err(Promise::NothingLost.broken(format!("lost: {lost:?}")));
    }
    check_steps(week)?;
    Ok(missing.by_ref().count() as u64)
}

fn refused_heartbeats(cloud: &Cloud) -> BTreeSet<Key> {
    let mut refused = BTreeSet::new();
    for message in cloud.dead_letters.messages() {
        let sender = message.attributes.get("sender");
        let node = sender.and_then(|sender| attested(sender).ok());
        let decoded = decode_heartbeats(&message.body);
        if let (Some(sender), Ok(decoded)) = (node, decoded) {
            let keys = decoded.heartbeats.iter().map(|h| Key::new(&sender.node, h));
            refused.extend(keys);
        }
    }
    refused
}

fn check_steps(week: &Week) -> Result<(), Violation> {
    let (mut rows, mut objects) = (BTreeSet::new(), BTreeSet::new());
    for step in week.cloud.lake.steps() {
        let key = Key {
            node: step.node.clone(),
            boot: step.boot.clone(),
            probe_start: step.probe_start.clone(),
            sequence: step.sequence,
        };
        if !rows.insert((key.clone(), step.usage.id.key.clone())) {
            return Err(Promise::NothingDoubled.broken(format!("a step twice: {key:?}")));
        }
        objects.insert(key);
    }
    let keys = week.cloud.objects.keys();
    let refused = keys.iter().filter_map(|key| step_key(key));
    objects.extend(refused);
    objects.extend(refused_step_messages(&week.cloud));
    match week.sent_steps.difference(&objects).next() {
        Some(lost) => Err(Promise::NothingLost.broken(format!("steps lost: {lost:?}"))),
        None => Ok(()),
    }
}

/// The messages of finished tasks among the dead letters.
fn refused_step_messages(cloud: &Cloud) -> BTreeSet<Key> {
    let refused = cloud.dead_letters.messages().into_iter();
    let refused = refused.filter(|message| is_steps_message(&message.body));
    let keys = refused.filter_map(|message| {
        let sender = attested(message.attributes.get("sender")?).ok()?;
        let batch = decode_steps_message(&message.body).ok()?.batch;
        Some(Key {
            node: sender.node,
            boot: batch.boot,
            probe_start: batch.probe_start,
            sequence: batch.sequence,
        })
    });
    keys.collect()
}

/// The object of finished tasks that is stored among the dead letters under this key.
fn step_key(key: &str) -> Option<Key> {
    let rest = key.strip_prefix("dead-letter/ingest/v1/")?;
    let mut parts = rest.split('/');
    let node: NodeId = attested(parts.next()?).ok()?.node;
    let (boot, start) = (parts.next()?, parts.next()?);
    let sequence = parts.next()?.strip_suffix(".steps.zst")?;
    Some(Key {
        node,
        boot: BootId::new(boot).ok()?,
        probe_start: ProbeStart::new(start).ok()?,
        sequence: sequence.parse().ok()?,
    })
}

/// Checks that the state of all shards together equals the folded lake.
pub(crate) async fn check_state(cloud: &Cloud) -> Result<(), Violation> {
    let activity = &cloud.policy.activity;
    let (mut state, mut hours) = (FleetState::default(), FleetHours::default());
    for shard in cloud.all_shards() {
        let stored = state_store::load(&cloud.objects, shard, activity).await;
        let stored = stored.map_err(|error| Promise::Ends.broken(format!("{error:?}")))?;
        state = state.merge(stored.stored.fleet);
        let stored = Hours::load(&cloud.objects, shard, activity).await;
        let stored = stored.map_err(|error| Promise::Ends.broken(format!("{error:?}")))?;
        hours = hours.merge(stored.into_fleet());
    }
    let (mut folded, mut folded_hours) = (FleetState::default(), FleetHours::default());
    let (rows, steps) = (cloud.lake.heartbeats(), cloud.lake.steps());
    folded.fold_heartbeats(&rows, activity);
    folded_hours.fold_heartbeats(&rows, activity);
    for step in &steps {
        folded.fold_step(step);
    }
    // A probe start may be forgotten and then appear again. Its earlier numbers are then missing in
    // one of the two orders. Data with such a number is refused because of its age, so it counts as
    // accepted in both states.
    for fleet in [&mut state, &mut folded] {
        for row in &rows {
            if fleet.check_age(&row.node, row.end).is_err() {
                fleet.fold_heartbeat(row, activity);
            }
        }
        for step in &steps {
            if fleet.check_age(&step.node, step.observed_at).is_err() {
                fleet.fold_step(step);
            }
        }
    }
    if state != folded {
        let names = |fleet: &FleetState| format!("{:?}", fleet.nodes.keys());
        let both = (names(&state), names(&folded));
        return Err(Promise::StateIsFolded.broken(format!("nodes {both:?}")));
    }
    match hours == folded_hours {
        true => Ok(()),
        false => Err(Promise::StateIsFolded.broken("the hours differ")),
    }
}

/// The last notification of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    stage: String,
    /// Whether the sweep that notified was able to remember it.
    is_remembered: bool,
}

/// The notifications to people and programs.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    /// By channel and finding. A crash before the sweep stores what it notified repeats a
    /// message; a sweep that stored it must not.
    last: BTreeMap<(&'static str, String), Last>,
    /// A receiver leaves out events whose id it knows.
    event_ids: BTreeSet<String>,
    count: u64,
}

/// The number of notifications before a sweep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentBefore {
    published: usize,
    events: usize,
}

impl Notifications {
    pub(crate) fn begin(&self, cloud: &Cloud) -> SentBefore {
        SentBefore {
            published: cloud.topic.published().len(),
            events: cloud.events.sent().len(),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds what a sweep sent; `is_remembered` if no fault kept the sweep from storing it.
    pub(crate) fn end(
        &mut self,
        cloud: &Cloud,
        before: SentBefore,
        is_remembered: bool,
    ) -> Result<(), Violation> {
        for (_, body) in cloud.topic.published().iter().skip(before.published) {
            for (finding, stage) in changes(body) {
                self.count += 1;
                self.note(("topic", finding), stage, is_remembered)?;
            }
        }
        for (id, body) in cloud.events.sent().iter().skip(before.events) {
            if !self.event_ids.insert(id.clone()) {
                continue;
            }
            let event: Value = serde_json::from_str(body).unwrap_or_default();
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            let stage = text("type");
            let stage = stage.split('.').nth(3).unwrap_or_default().to_owned();
            self.note(("webhook", text("subject")), stage, is_remembered)?;
        }
        Ok(())
    }

    fn note(
        &mut self,
        (channel, finding): (&'static str, String),
        stage: String,
        is_remembered: bool,
    ) -> Result<(), Violation> {
        let last = Last {
            stage: stage.clone(),
            is_remembered,
        };
        let known = self.last.insert((channel, finding.clone()), last);
        let known = known.filter(|known| known.is_remembered);
        match known.is_some_and(|known| is_repeat(&known.stage, &stage)) {
            true => {
                Err(Promise::NotifiedOnce.broken(format!("{channel}: {finding} is {stage}, again")))
            }
            false => Ok(()),
        }
    }
}

/// Whether `now` contains nothing new for a receiver that knows `before`. A finding that grew may
/// grow again.
fn is_repeat(before: &str, now: &str) -> bool {
    let is_open = |stage: &str| stage != "resolved";
    match now {
        "resolved" => !is_open(before),
        "grew" | "grown" => !is_open(before),
        _ => is_open(before),
    }
}

/// The findings of one message of the topic, and what changed about each.
fn changes(body: &str) -> Vec<(String, String)> {
    let event: Value = serde_json::from_str(body).unwrap_or_default();
    let list = |name: &str| event["data"][name].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = list("findings");
    let found = found
        .iter()
        .map(|one| (text(&one["finding"]["id"]), text(&one["change"])));
    let resolved = list("resolved");
    let resolved = resolved
        .iter()
        .map(|one| (text(&one["id"]), "resolved".to_owned()));
    found.chain(resolved).collect()
}
