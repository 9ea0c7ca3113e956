//! Input from nodes: messages of the queue, objects and their keys.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ebb_cloud::ports::{Etag, Object, Received};
use ebb_ingest::object_key::StepKey;
use ebb_ingest::state_store::fold_batch::{fold_heartbeats, keep_new};
use ebb_lake::{check_heartbeat, check_step};
use ebb_model::policy::Policy;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_sweep::scan::Known;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::identity::attested;
use ebb_telemetry::step::PlacedStep;
use ebb_wire::StepObject;
use ebb_wire::{
    decode_heartbeats, decode_steps, encode_heartbeats, encode_steps, encode_steps_message,
};
use jiff::Timestamp;

use crate::Outcome;
use crate::evaluate::{Before, evaluate, render_all};
use crate::story::{GOLDEN_HEARTBEATS, Sending, golden_steps, story};
use crate::support::{first_line, zstd};
use ebb_ingest::{authenticate, object_key};

const MESSAGE_SCHEMA: &str = "ebb.heartbeat/1.7\n";
const OBJECT_SCHEMA: &str = "ebb.steps/1.7\n";
/// Arrival time of messages without a time of sending.
const ARRIVAL_SECOND: i64 = 1_790_000_000;

fn arrival() -> Timestamp {
    Timestamp::from_second(ARRIVAL_SECOND).expect("a time of this century")
}

/// A message with its sender in the first line.
pub(super) fn heartbeat_message(input: &[u8]) -> Outcome {
    let (sender, body) = first_line(input);
    let body = String::from_utf8_lossy(body).into_owned();
    open_message(sender, body, arrival())
}

pub(super) fn messages() -> Vec<Vec<u8>> {
    let with_sender = |golden: &str| {
        let body = golden.trim_end();
        let message = decode_heartbeats(body).expect("a golden message");
        let node = message
            .heartbeats
            .first()
            .expect("a heartbeat")
            .node
            .clone();
        format!("AROAFUZZ:{node}\n{body}").into_bytes()
    };
    let heartbeats = GOLDEN_HEARTBEATS.into_iter().map(with_sender);
    heartbeats.chain([steps_message()]).collect()
}

/// A message with finished tasks, with its sender.
fn steps_message() -> Vec<u8> {
    let steps = decode_steps(&golden_steps()).expect("the golden object");
    let body = encode_steps_message(&steps.sent, &steps.batch).expect("it fits");
    format!("AROAFUZZ:{}\n{body}", steps.batch.node).into_bytes()
}

/// The protobuf of a message, so that its fields are changed and not its compression.
pub(super) fn heartbeat_fields(input: &[u8]) -> Outcome {
    let body = format!("{MESSAGE_SCHEMA}{}", BASE64_STANDARD.encode(zstd(input)));
    let Ok(message) = decode_heartbeats(&body) else {
        return Outcome::Refused;
    };
    let Some(first) = message.heartbeats.first() else {
        return Outcome::Refused;
    };
    let sender = format!("AROAFUZZ:{}", first.node);
    let arrived = message.sent.wall;
    if let Ok(once) = encode_heartbeats(&message.sent, &message.heartbeats) {
        // The encoder cuts what no reader takes, and the second time there is nothing to cut.
        let once = decode_heartbeats(&once).expect("what was encoded is readable");
        assert_eq!(
            once.refused_steps, 0,
            "the reader refuses what the encoder writes"
        );
        let twice = encode_heartbeats(&once.sent, &once.heartbeats).expect("it was small enough");
        let twice = decode_heartbeats(&twice).expect("what was encoded is readable");
        assert!(twice == once, "encoding a second time changes the message");
    }
    open_message(sender, body, arrived)
}

pub(super) fn message_fields() -> Vec<Vec<u8>> {
    let plain = |golden: &str| {
        let (_, packed) = golden.trim_end().split_once('\n').expect("a schema line");
        let packed = BASE64_STANDARD.decode(packed).expect("base64");
        zstd::bulk::decompress(&packed, 1 << 20).expect("zstd")
    };
    GOLDEN_HEARTBEATS.into_iter().map(plain).collect()
}

fn received(sender: String, body: String, at: Timestamp) -> Received {
    Received {
        id: "m-1".to_owned(),
        receipt: "r-1".to_owned(),
        sender: Some(sender),
        sent_at: Some(at),
        body,
    }
}

fn open_message(sender: String, body: String, at: Timestamp) -> Outcome {
    let opened = authenticate::message(&received(sender, body, at));
    if let Some(refusal) = &opened.refused {
        assert!(!refusal.to_string().contains('\u{1b}'), "{refusal:?}");
    }
    let mut state = SweepState::default();
    state.take_heartbeats(opened.rows);
    state.take_steps(opened.steps);
    match state.rows + state.known.finished.len() {
        0 => Outcome::Refused,
        _ => Outcome::Accepted,
    }
}

/// An object under a key that belongs to it.
pub(super) fn steps_object(input: &[u8]) -> Outcome {
    match decode_steps(input) {
        Err(_) => Outcome::Refused,
        Ok(object) => open_object(&object, input),
    }
}

pub(super) fn objects() -> Vec<Vec<u8>> {
    vec![golden_steps()]
}

/// The protobuf of an object.
pub(super) fn steps_fields(input: &[u8]) -> Outcome {
    let object = [OBJECT_SCHEMA.as_bytes(), &zstd(input)].concat();
    let Ok(steps) = decode_steps(&object) else {
        return Outcome::Refused;
    };
    if let Ok(once) = encode_steps(&steps.sent, &steps.batch) {
        let once = decode_steps(&once).expect("what was encoded is readable");
        assert_eq!(
            once.refused_steps, 0,
            "the reader refuses what the encoder writes"
        );
        let twice = encode_steps(&once.sent, &once.batch).expect("it was small enough");
        let twice = decode_steps(&twice).expect("what was encoded is readable");
        assert!(twice == once, "encoding a second time changes the object");
    }
    open_object(&steps, &object)
}

pub(super) fn object_fields() -> Vec<Vec<u8>> {
    let object = golden_steps();
    let end = object.iter().position(|byte| *byte == b'\n');
    let packed = object
        .get(end.expect("a schema line") + 1..)
        .expect("a body");
    vec![zstd::bulk::decompress(packed, 1 << 20).expect("zstd")]
}

fn key_of(object: &StepObject) -> String {
    let batch = &object.batch;
    format!(
        "{}AROAFUZZ:{}/{}/{}/{}.steps.zst",
        object_key::INGEST_PREFIX,
        batch.node,
        batch.boot,
        batch.probe_start,
        batch.sequence
    )
}

fn open_object(steps: &StepObject, bytes: &[u8]) -> Outcome {
    let Ok(key) = StepKey::parse(&key_of(steps)) else {
        return Outcome::Refused;
    };
    let object = Object {
        bytes: bytes.to_vec(),
        etag: Etag("1".to_owned()),
        modified_at: steps.sent.wall,
    };
    let Ok(opened) = authenticate::object(&key, &object) else {
        return Outcome::Refused;
    };
    // A message with the same tasks gives as many rows.
    if let Ok(body) = encode_steps_message(&steps.sent, &steps.batch) {
        let sender = format!("AROAFUZZ:{}", steps.batch.node);
        let message = authenticate::message(&received(sender, body, steps.sent.wall));
        assert!(message.refused.is_none(), "{:?}", message.refused);
        assert_eq!(message.steps.len(), opened.steps.len());
    }
    let mut state = SweepState::default();
    state.take_steps(opened.steps);
    Outcome::Accepted
}

/// A key of the bucket, and a sender.
pub(super) fn object_key(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let sender = attested(&text);
    let key = StepKey::parse(&text);
    if let Err(refusal) = &key {
        assert!(!refusal.to_string().contains('\u{1b}'), "{refusal:?}");
    }
    match (sender, Outcome::from_result(&key)) {
        (Ok(_), _) => Outcome::Accepted,
        (Err(_), outcome) => outcome,
    }
}

pub(super) fn keys() -> Vec<Vec<u8>> {
    let keys = [
        "ingest/v1/AROAX:i-1/boot/start/00000007.steps.zst",
        "AROAEXAMPLEID:eks-cluster-pod-7f",
    ];
    keys.map(|key| key.as_bytes().to_vec()).to_vec()
}

/// Arbitrary valid heartbeats and finished steps, from the wire to every renderer.
pub(super) fn heartbeat_story(input: &[u8]) -> Outcome {
    fold_story(input).evaluate()
}

/// State of a sweep after a story.
pub(super) fn known_of_story(input: &[u8]) -> Known {
    fold_story(input).known
}

/// The heartbeats of a story that are accepted.
pub(super) fn rows_of_story(input: &[u8]) -> Vec<Placed> {
    let mut state = arrived(input);
    state.heartbeats.retain(|row| check_heartbeat(row).is_ok());
    state.heartbeats
}

fn fold_story(input: &[u8]) -> SweepState {
    let mut state = arrived(input);
    let heartbeats = std::mem::take(&mut state.heartbeats);
    state.take_heartbeats(heartbeats);
    state
}

/// Opens what a story sends; folds its steps.
fn arrived(input: &[u8]) -> SweepState {
    let mut state = SweepState::default();
    for sending in story(input) {
        match sending {
            Sending::Heartbeats(message) => {
                let Ok(body) = encode_heartbeats(&message.sent, &message.heartbeats) else {
                    continue;
                };
                let node = message.heartbeats.first().map(|heartbeat| &heartbeat.node);
                let sender = node.map_or_else(String::new, |node| format!("AROAFUZZ:{node}"));
                let opened = authenticate::message(&received(sender, body, message.sent.wall));
                state.heartbeats.extend(opened.rows);
            }
            Sending::Steps(object) => {
                let Ok(bytes) = encode_steps(&object.sent, &object.batch) else {
                    continue;
                };
                let Ok(key) = StepKey::parse(&key_of(&object)) else {
                    continue;
                };
                let arrived = Object {
                    bytes,
                    etag: Etag("1".to_owned()),
                    modified_at: object.sent.wall,
                };
                if let Ok(opened) = authenticate::object(&key, &arrived) {
                    state.take_steps(opened.steps);
                }
            }
        }
    }
    state
}

/// Choices that produce stories with several heartbeats. The golden messages define their meaning,
/// so random choices are sufficient.
pub(super) fn stories() -> Vec<Vec<u8>> {
    let bytes = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..512).map(|_| random.u8(..)).collect()
    };
    (0..24).map(bytes).collect()
}

/// State of a sweep about nodes.
#[derive(Debug, Default)]
struct SweepState {
    known: Known,
    heartbeats: Vec<Placed>,
    newest: Option<Timestamp>,
    rows: usize,
}

impl SweepState {
    fn take_heartbeats(&mut self, mut rows: Vec<Placed>) {
        rows.retain(|row| check_heartbeat(row).is_ok());
        keep_new(&self.known.state, &mut rows);
        let activity = Policy::default().activity;
        let (state, hours) = (&mut self.known.state, &mut self.known.hours);
        fold_heartbeats(&rows, (state, hours), &activity);
        self.newest = self.newest.max(rows.iter().map(|row| row.end).max());
        self.rows += rows.len();
        // Rows that were folded once change nothing when they are folded again.
        let mut again = (FleetState::default(), FleetHours::default());
        fold_heartbeats(&rows, (&mut again.0, &mut again.1), &activity);
        assert!(again.0.clone().merge(again.0.clone()) == again.0);
        assert!(self.known.state.clone().merge(again.0) == self.known.state);
    }

    fn take_steps(&mut self, mut steps: Vec<PlacedStep>) {
        steps.retain(|step| check_step(step).is_ok());
        for step in &steps {
            self.known.state.fold_step(step);
            self.newest = self.newest.max(Some(step.observed_at));
        }
        self.known.finished.extend(steps);
    }

    fn evaluate(mut self) -> Outcome {
        let Some(now) = self.newest else {
            return Outcome::Refused;
        };
        self.known.state.forget();
        let report = evaluate(&self.known, &Policy::default(), now);
        render_all(&report, &Before::default());
        Outcome::Accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_stories_hold_valid_heartbeats() {
        let stories = stories();
        let rows: Vec<usize> = stories
            .iter()
            .map(|story| rows_of_story(story).len())
            .collect();
        let valid = rows.iter().filter(|rows| **rows > 0).count();
        assert!(valid * 2 > stories.len(), "{rows:?}");
    }
}
