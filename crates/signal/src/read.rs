//! From the wire to the domain's words: each field is checked and taken from where it
//! lies in the message, so that nothing is copied but what is kept. Of a part that is
//! there twice the last one counts; no writer does that.

mod fields;
mod node;
mod step;

pub(crate) use step::steps;

use std::str::FromStr;
use std::time::Duration;

use ebb_domain::heartbeat::{BootClock, Heartbeat, Origin, Sent};
use ebb_domain::identity::{BootId, IdentityError, NodeId, ProbeStart};
use jiff::Timestamp;

use self::fields::{Fields, List};
use crate::error::DecodeError;
use crate::message::{HeartbeatMessage, MAX_HEARTBEATS, MAX_STEPS_A_HEARTBEAT};
use crate::proto;

/// Names from outside keep their first bytes; nothing real is longer.
const MAX_TEXT_BYTES: usize = 256;

/// A text that is not there is empty.
const NO_TEXT: &[u8] = b"";

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

fn text(field: &'static str, value: &[u8]) -> Result<String, DecodeError> {
    if value.len() > MAX_TEXT_BYTES {
        return Err(wrong(field, format!("{} bytes are too many", value.len())));
    }
    let value = utf8(field, value)?;
    let is_plain = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !is_plain && value.chars().any(char::is_control) {
        return Err(wrong(field, "it holds a control character"));
    }
    Ok(value.to_owned())
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
    let mut sender = None;
    let mut heartbeats = List::of("heartbeats", MAX_HEARTBEATS, MAX_HEARTBEATS);
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => sender = Some(sent(value.bytes()?)?),
            2 => {
                let bytes = value.bytes()?;
                heartbeats.add(|before| heartbeat(bytes, sender.as_ref(), before.last()))?;
            }
            _ => {}
        }
    }
    Ok(HeartbeatMessage {
        sent: required("sent", sender)?,
        heartbeats: heartbeats.all()?,
    })
}

fn sent(bytes: &[u8]) -> Result<Sent, DecodeError> {
    let (mut boot, mut clock, mut micros) = (NO_TEXT, 0, 0);
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => boot = value.bytes()?,
            2 => clock = value.number()?,
            3 => micros = value.number()?,
            _ => {}
        }
    }
    Ok(Sent {
        boot: named("sent.boot", boot)?,
        clock: BootClock::from_nanos(clock),
        wall: wall("sent.wall_us", micros)?,
    })
}

/// Reads one heartbeat of a sender; `before` is the one before it in the same message.
fn heartbeat(
    bytes: &[u8],
    sender: Option<&Sent>,
    before: Option<&Heartbeat>,
) -> Result<Heartbeat, DecodeError> {
    let (mut names, mut numbers) = ([NO_TEXT; 3], [0; 4]);
    let (mut source, mut typed_ago, mut detail) = (0, None, Default::default());
    let (mut coverage, mut hardware, mut probe) = (None, None, None);
    let (mut workload, mut background) = (None, None);
    let steps_before = before.map_or_else(Default::default, |before| before.steps.as_slice());
    let most = MAX_STEPS_A_HEARTBEAT;
    let mut steps = List::of("steps of a heartbeat", most, steps_before.len());
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => names[0] = value.bytes()?,
            2 => names[1] = value.bytes()?,
            3 => names[2] = value.bytes()?,
            4 => numbers[0] = value.number()?,
            5 => numbers[1] = value.number()?,
            6 => numbers[2] = value.number()?,
            7 => numbers[3] = value.number()?,
            8 => source = value.small()?,
            9 => coverage = Some(node::coverage(value.bytes()?)?),
            10 => hardware = Some(node::hardware(value.bytes()?)?),
            11 => workload = Some(node::usage(value.bytes()?)?),
            12 => background = Some(node::usage(value.bytes()?)?),
            13 => typed_ago = Some(Duration::from_millis(value.number()?)),
            14 => {
                let bytes = value.bytes()?;
                steps.add(|read| step::usage(bytes, steps_before.get(read.len())))?;
            }
            15 => probe = Some(node::probe_cost(value.bytes()?)?),
            16 => detail = node::detail(value.bytes()?)?,
            _ => {}
        }
    }
    let ([node, boot, probe_start], [sequence, start, end, wall_at_end]) = (names, numbers);
    let (same_node, same_start) = (before.map(|b| &b.node), before.map(|b| &b.probe_start));
    let same_boot = before.map(|b| &b.boot).or(sender.map(|sent| &sent.boot));
    Ok(Heartbeat {
        node: again("node", node, same_node, NodeId::as_str)?,
        boot: again("boot", boot, same_boot, BootId::as_str)?,
        probe_start: again("probe_start", probe_start, same_start, ProbeStart::as_str)?,
        sequence,
        start: BootClock::from_nanos(start),
        end: BootClock::from_nanos(end),
        wall_at_end: wall("wall_at_end_us", wall_at_end)?,
        origin: origin(source)?,
        coverage: required("coverage", coverage)?,
        hardware: required("hardware", hardware)?,
        workload: required("workload", workload)?,
        background: required("background", background)?,
        typed_ago,
        steps: steps.all()?,
        probe: required("probe", probe)?,
        detail,
    })
}
