//! From the wire to the domain's words: each field is checked and taken from where it
//! lies in the message, so that nothing is copied but what is kept. Of a field that is
//! there twice the last one counts; no writer does that.

mod fields;
mod node;
mod order;
mod resource_usage;
mod step;

use std::str::FromStr;
use std::time::Duration;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, NodeDetail};
use ebb_telemetry::identity::{BootId, IdentityError, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepUsage;
use ebb_telemetry::time::BootClock;
use jiff::Timestamp;

use self::fields::{Again, Fields, List};
use crate::error::DecodeError;
use crate::message::{
    HeartbeatMessage, MAX_DECODED_MESSAGE_BYTES, MAX_HEARTBEATS, MAX_STEPS_A_HEARTBEAT, StepObject,
    allowed,
};
use crate::proto;

/// Names from outside keep their first bytes; nothing real is longer.
pub(crate) const MAX_TEXT_BYTES: usize = 256;

fn wrong(field: &'static str, problem: impl Into<String>) -> DecodeError {
    DecodeError::Field {
        field,
        problem: problem.into(),
    }
}

fn utf8<'a>(field: &'static str, text: &'a [u8]) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(text).map_err(|_| wrong(field, "it is not UTF-8"))
}

fn named<T: FromStr<Err = IdentityError>>(
    field: &'static str,
    name: &[u8],
) -> Result<T, DecodeError> {
    let name = utf8(field, name)?;
    name.parse()
        .map_err(|error: IdentityError| wrong(field, error.to_string()))
}

/// The same name as in the heartbeat before is the same copy of it: a message is of
/// one node, and rarely of two boots.
fn again<T: Clone + FromStr<Err = IdentityError>>(
    field: &'static str,
    name: &[u8],
    before: Option<&T>,
    read: fn(&T) -> &str,
) -> Result<T, DecodeError> {
    match before.filter(|before| read(before).as_bytes() == name) {
        Some(before) => Ok(before.clone()),
        None => named(field, name),
    }
}

/// A name of at most so many bytes. Writers clean and cut names; what another wrote is
/// refused, and with it the step that it names, but nothing else.
fn text_of(field: &'static str, value: &[u8], max_bytes: usize) -> Result<String, DecodeError> {
    if value.len() > max_bytes {
        return Err(wrong(field, format!("more than {max_bytes} bytes")));
    }
    let value = utf8(field, value)?;
    let is_plain = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !is_plain && value.chars().any(char::is_control) {
        return Err(wrong(field, "it holds a control character"));
    }
    Ok(value.to_owned())
}

fn text(field: &'static str, value: &[u8]) -> Result<String, DecodeError> {
    text_of(field, value, MAX_TEXT_BYTES)
}

/// The same text as in the heartbeat before was found good there.
fn text_again(
    field: &'static str,
    value: &[u8],
    before: Option<&String>,
) -> Result<String, DecodeError> {
    match before.filter(|before| before.as_bytes() == value) {
        Some(before) => Ok(before.clone()),
        None => text(field, value),
    }
}

fn required<T>(field: &'static str, value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or_else(|| wrong(field, "it is missing"))
}

/// The wire has a time in microseconds as the bits of a signed number.
fn wall(field: &'static str, micros: u64) -> Result<Timestamp, DecodeError> {
    Timestamp::from_microsecond(micros.cast_signed())
        .map_err(|error| wrong(field, error.to_string()))
}

fn origin(origin: u32) -> Result<Origin, DecodeError> {
    match proto::Origin::try_from(origin.cast_signed()) {
        Ok(proto::Origin::Measured) => Ok(Origin::Measured),
        Ok(proto::Origin::Simulated) => Ok(Origin::Simulated),
        _ => Err(wrong("origin", format!("{origin} is not known here"))),
    }
}

/// Reads what one queue message says.
pub(crate) fn heartbeats(bytes: &[u8]) -> Result<HeartbeatMessage, DecodeError> {
    let read = heartbeats_in_order;
    read(bytes).or_else(|refused| order::again(bytes, &order::HEARTBEATS, refused, read))
}

/// Reads what one object says.
pub(crate) fn steps(bytes: &[u8]) -> Result<StepObject, DecodeError> {
    let read = step::steps;
    read(bytes).or_else(|refused| order::again(bytes, &order::STEPS, refused, read))
}

fn heartbeats_in_order(bytes: &[u8]) -> Result<HeartbeatMessage, DecodeError> {
    let mut said = Fields::of(bytes);
    let sent = required("sent", said.last(1, sent)?)?;
    let mut shared = Shared::default();
    let mut heartbeats = List::of("heartbeats", MAX_HEARTBEATS, MAX_HEARTBEATS);
    said.each(2, |part| {
        heartbeats.add(|before| heartbeat(part, &sent, before.last(), &mut shared))
    })?;
    let message = HeartbeatMessage {
        sent,
        heartbeats: heartbeats.all()?,
        refused_steps: shared.refused_steps,
    };
    said.end(2)?;
    Ok(message)
}

fn sent(bytes: &[u8]) -> Result<Sent, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Sent {
        boot: named("sent.boot", said.text(1))?,
        clock: BootClock::from_nanos(said.or_zero(2)),
        wall: wall("sent.wall_us", said.or_zero(3))?,
    };
    said.end(3)?;
    Ok(told)
}

/// What the heartbeats of a message have in common.
struct Shared<'a> {
    /// These hardly change from one heartbeat to the next.
    coverage: Again<'a, Coverage>,
    hardware: Again<'a, Hardware>,
    room: Room,
    refused_steps: u32,
}

impl Default for Shared<'_> {
    fn default() -> Self {
        Self {
            coverage: Again::default(),
            hardware: Again::default(),
            room: Room::new(MAX_DECODED_MESSAGE_BYTES),
            refused_steps: 0,
        }
    }
}

impl Shared<'_> {
    /// A running step; `None` where a field of it cannot be what it says.
    fn step(
        &mut self,
        part: &[u8],
        before: Option<&StepUsage>,
    ) -> Result<Option<StepUsage>, DecodeError> {
        match step::usage(part, before) {
            Ok(mut step) => {
                // No probe sends it of a step that runs.
                step.detail.opened = None;
                self.room.take(step.memory_bytes())?;
                Ok(Some(step))
            }
            Err(refused) if refused.is_of_one_step() => {
                self.refused_steps = self.refused_steps.saturating_add(1);
                Ok(None)
            }
            Err(broken) => Err(broken),
        }
    }
}

/// Memory that is left for what is read.
pub(super) struct Room {
    max: usize,
    left: usize,
}

impl Room {
    fn new(max: usize) -> Self {
        Self { max, left: max }
    }

    fn take(&mut self, bytes: usize) -> Result<(), DecodeError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or(DecodeError::TooLarge {
            what: "the memory of its steps",
            max: self.max,
        })?;
        Ok(())
    }
}

/// Reads one heartbeat of a sender; `before` is the one before it in the same message.
fn heartbeat<'a>(
    bytes: &'a [u8],
    sender: &Sent,
    before: Option<&Heartbeat>,
    shared: &mut Shared<'a>,
) -> Result<Heartbeat, DecodeError> {
    let mut said = Fields::of(bytes);
    let same_node = before.map(|before| &before.node);
    let node = again("node", said.text(1), same_node, NodeId::as_str)?;
    let same_boot = Some(before.map_or(&sender.boot, |before| &before.boot));
    let boot = again("boot", said.text(2), same_boot, BootId::as_str)?;
    let same_start = before.map(|before| &before.probe_start);
    let probe_start = again("probe_start", said.text(3), same_start, ProbeStart::as_str)?;
    let sequence = said.or_zero(4);
    let [start, end] = [5, 6].map(|tag| BootClock::from_nanos(said.or_zero(tag)));
    let wall_at_end = wall("wall_at_end_us", said.or_zero(7))?;
    let origin = origin(said.or_zero(8) as u32)?;
    let coverage = said.last(9, |part| shared.coverage.read(part, node::coverage))?;
    let hardware = said.last(10, |part| shared.hardware.read(part, node::hardware))?;
    let workload = said.last(11, node::usage)?;
    let background = said.last(12, node::usage)?;
    let typed_ago = said.get(13).map(Duration::from_millis);
    let steps_before = before.map_or_else(Default::default, |before| before.steps.as_slice());
    let most = MAX_STEPS_A_HEARTBEAT;
    let mut count = 0;
    let mut steps = Vec::with_capacity(steps_before.len().min(most));
    said.each(14, |part| {
        count += 1;
        if count <= most {
            steps.extend(shared.step(part, steps_before.get(steps.len()))?);
        }
        Ok(())
    })?;
    allowed("steps of a heartbeat", count, most)?;
    let probe = said.last(15, node::probe_cost)?;
    let mut detail = NodeDetail::default();
    said.each(16, |part| node::detail(part, &mut detail))?;
    said.end(16)?;
    Ok(Heartbeat {
        node,
        boot,
        probe_start,
        sequence,
        start,
        end,
        wall_at_end,
        origin,
        coverage: required("coverage", coverage)?,
        hardware: required("hardware", hardware)?,
        workload: required("workload", workload)?,
        background: required("background", background)?,
        typed_ago,
        steps,
        probe: required("probe", probe)?,
        detail,
    })
}
