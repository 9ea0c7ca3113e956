//! Arbitrary valid heartbeats: the golden messages of the wire format with fields replaced,
//! sent again and again with time going on. The fields are those of the types, so that a new
//! one is covered when a golden message has it.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::step::StepBatch;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::Share;
use ebb_wire::{HeartbeatMessage, StepObject};
use ebb_wire::{decode_heartbeats, decode_steps};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::evaluate::MARK;

/// Messages of a story at most.
const MAX_SENDINGS: usize = 12;
/// Times that a message is sent at most, each an interval later. A day and a half of an hour's
/// intervals, or four hours of a minute's.
const MAX_REPEATS: u64 = 240;
/// How many fields of a message are replaced. Many leave few heartbeats valid, so that is rare.
const EDITS: [usize; 8] = [0, 0, 1, 1, 2, 2, 3, 12];

/// The golden heartbeat messages.
pub(crate) const GOLDEN_HEARTBEATS: [&str; 7] = [
    include_str!("../../crates/wire/tests/golden/heartbeat-1.0.txt"),
    include_str!("../../crates/wire/tests/golden/heartbeat-1.1.txt"),
    include_str!("../../crates/wire/tests/golden/heartbeat-1.2.txt"),
    include_str!("../../crates/wire/tests/golden/heartbeat-1.3.txt"),
    include_str!("../../crates/wire/tests/golden/heartbeat-1.4.txt"),
    include_str!("../../crates/wire/tests/golden/heartbeat-1.5.txt"),
    include_str!("../../crates/wire/tests/golden/heartbeat-1.6.txt"),
];

/// The golden object of finished steps.
pub(crate) fn golden_steps() -> Vec<u8> {
    let text = include_str!("../../crates/wire/tests/golden/steps-1.0.base64");
    let text: String = text.split_whitespace().collect();
    BASE64_STANDARD.decode(text).expect("base64")
}

/// Something that a node sends.
#[derive(Debug, Clone)]
pub(crate) enum Sending {
    Heartbeats(HeartbeatMessage),
    Steps(StepObject),
}

/// Messages of nodes in order, with the time of arrival by the boot clock of the first node.
pub(crate) fn story(input: &[u8]) -> Vec<Sending> {
    let mut choices = Unstructured::new(input);
    let mut sendings = Vec::new();
    while sendings.len() < MAX_SENDINGS && !choices.is_empty() {
        // The choices are at an end.
        let Ok(more) = sending(&mut choices) else {
            break;
        };
        sendings.extend(more);
    }
    sendings
}

fn sending(choices: &mut Unstructured<'_>) -> Result<Vec<Sending>> {
    if choices.ratio(1, 4)? {
        let mut object = decode_steps(&golden_steps()).expect("the golden object");
        object.batch = edited(choices, &object.batch)?.unwrap_or(object.batch);
        follow_sender(&mut object.sent, &object.batch);
        return Ok(vec![Sending::Steps(object)]);
    }
    let golden = choices.choose(&GOLDEN_HEARTBEATS)?.trim_end();
    let golden = decode_heartbeats(golden).expect("a golden message");
    let first = golden.heartbeats.into_iter().next();
    let golden_heartbeat = first.expect("a golden message has a heartbeat");
    let heartbeat = edited(choices, &golden_heartbeat)?.unwrap_or(golden_heartbeat);
    let is_idle = choices.ratio(1, 2)?;
    let repeats = choices.int_in_range(1..=MAX_REPEATS)?;
    let sendings = (0..repeats).map(|number| {
        let heartbeat = later(&heartbeat, number, is_idle.then_some(Idle));
        let sent = Sent {
            boot: heartbeat.boot.clone(),
            clock: heartbeat.end,
            wall: heartbeat.wall_at_end,
        };
        Sending::Heartbeats(HeartbeatMessage {
            sent,
            heartbeats: vec![heartbeat],
            refused_steps: 0,
        })
    });
    Ok(sendings.collect())
}

/// A node whose workload did nothing.
#[derive(Debug, Clone, Copy)]
struct Idle;

/// The heartbeat so many intervals later.
fn later(heartbeat: &Heartbeat, number: u64, idle: Option<Idle>) -> Heartbeat {
    let mut heartbeat = heartbeat.clone();
    let length = heartbeat.end.since(heartbeat.start).unwrap_or_default();
    let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let shift = nanos.saturating_mul(number);
    let shifted = |clock: BootClock| BootClock::from_nanos(clock.as_nanos().saturating_add(shift));
    heartbeat.sequence = heartbeat.sequence.saturating_add(number);
    (heartbeat.start, heartbeat.end) = (shifted(heartbeat.start), shifted(heartbeat.end));
    let wall = heartbeat.wall_at_end;
    heartbeat.wall_at_end = wall
        .saturating_add(Duration::from_nanos(shift))
        .unwrap_or(wall);
    for step in &mut heartbeat.steps {
        step.observed = shifted(step.observed);
    }
    if idle.is_some() {
        heartbeat.workload.cpu = heartbeat.workload.cpu.map(|_| Default::default());
        heartbeat.workload.disk = heartbeat.workload.disk.map(|_| Default::default());
        heartbeat.workload.network = heartbeat.workload.network.map(|_| Default::default());
        heartbeat.workload.gpu = heartbeat.workload.gpu.map(|_| Share::from_ppm(0));
        heartbeat.typed_ago = None;
        heartbeat.steps.clear();
    }
    heartbeat
}

/// An object is sent after its newest step was observed.
fn follow_sender(sent: &mut Sent, batch: &StepBatch) {
    sent.boot = batch.boot.clone();
    let newest = batch.steps.iter().map(|step| step.observed).max();
    sent.clock = sent.clock.max(newest.unwrap_or(sent.clock));
}

/// The value with some of its fields replaced; `None` if a field does not take its new value.
fn edited<T>(choices: &mut Unstructured<'_>, value: &T) -> Result<Option<T>>
where
    T: Serialize + DeserializeOwned,
{
    let mut tree = serde_json::to_value(value).expect("a value as JSON");
    for _ in 0..*choices.choose(&EDITS)? {
        let mut changed = tree.clone();
        edit(choices, &mut changed)?;
        // A value that its type refuses is left out, so that the others count.
        if serde_json::from_value::<T>(changed.clone()).is_ok() {
            tree = changed;
        }
    }
    Ok(serde_json::from_value(tree).ok())
}

/// Replaces one leaf, or repeats or removes one entry of a list.
fn edit(choices: &mut Unstructured<'_>, value: &mut Value) -> Result<()> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let index = choices.choose_index(fields.len())?;
            let field = fields.values_mut().nth(index);
            field.map_or(Ok(()), |field| edit(choices, field))
        }
        Value::Array(entries) if !entries.is_empty() => {
            let index = choices.choose_index(entries.len())?;
            match choices.int_in_range(0..=5)? {
                0 => drop(entries.remove(index)),
                1 => {
                    let times = choices.int_in_range(1..=40)?;
                    let entry = entries[index].clone();
                    entries.extend(std::iter::repeat_n(entry, times));
                }
                _ => return edit(choices, &mut entries[index]),
            }
            Ok(())
        }
        leaf => {
            *leaf = replacement(choices, leaf)?;
            Ok(())
        }
    }
}

fn replacement(choices: &mut Unstructured<'_>, leaf: &Value) -> Result<Value> {
    Ok(match leaf {
        Value::String(_) => Value::String(text(choices)?),
        Value::Bool(is) => Value::Bool(!is),
        Value::Number(_) => number(choices)?,
        // An unknown value becomes known, in one of the forms that a field may have.
        _ => match choices.int_in_range(0..=2)? {
            0 => number(choices)?,
            1 => Value::String(text(choices)?),
            _ => Value::Null,
        },
    })
}

fn number(choices: &mut Unstructured<'_>) -> Result<Value> {
    const SPECIAL: [u64; 10] = [
        0,
        1,
        999_999,
        1_000_000,
        1_000_001,
        u32::MAX as u64,
        u32::MAX as u64 + 1,
        i64::MAX as u64,
        i64::MAX as u64 + 1,
        u64::MAX,
    ];
    Ok(match choices.int_in_range(0..=3)? {
        0 => Value::from(*choices.choose(&SPECIAL)?),
        1 => Value::from(u64::from(choices.arbitrary::<u16>()?)),
        2 => Value::from(choices.arbitrary::<u64>()?),
        _ => Value::Null,
    })
}

fn text(choices: &mut Unstructured<'_>) -> Result<String> {
    const SPECIAL: [&str; 9] = [
        MARK,
        "\u{1b}[2J\u{202e}\u{7}",
        "=cmd|' /C calc'!A0",
        "a\r\nb\tc",
        "a|b`c*d_e]f(g)",
        "{{ 7 * 7 }}<!channel>&lt;",
        "i-0abc123",
        "workload",
        "2026-09-21T10:00:00Z",
    ];
    Ok(match choices.int_in_range(0..=2)? {
        0 => (*choices.choose(&SPECIAL)?).to_owned(),
        1 => choices.arbitrary::<&str>()?.to_owned(),
        _ => "ä".repeat(choices.int_in_range(0..=600)?),
    })
}
