//! From the wire to the domain's words: each field is checked and taken from where it
//! lies in the message, so that nothing is copied but what is kept. Of a part that is
//! there twice the last one counts; no writer does that.

mod fields;
mod node;
mod step;

pub(crate) use step::steps;

use std::str::FromStr;
use std::time::Duration;

use ebb_domain::heartbeat::{BootClock, Coverage, Hardware, Heartbeat, Origin, Sent};
use ebb_domain::identity::{BootId, IdentityError, NodeId, ProbeStart};
use jiff::Timestamp;

use self::fields::{Again, List, Numbers, bits};
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
    let mut alike = Alike::default();
    let mut heartbeats = List::of("heartbeats", MAX_HEARTBEATS, MAX_HEARTBEATS);
    Numbers::<3>::read(bytes, 2, bits(&[1, 2]), |tag, part| match tag {
        1 => {
            sender = Some(sent(part)?);
            Ok(())
        }
        _ => heartbeats.add(|before| heartbeat(part, sender.as_ref(), before.last(), &mut alike)),
    })?;
    Ok(HeartbeatMessage {
        sent: required("sent", sender)?,
        heartbeats: heartbeats.all()?,
    })
}

fn sent(bytes: &[u8]) -> Result<Sent, DecodeError> {
    let mut boot = NO_TEXT;
    let said = Numbers::<4>::read(bytes, 3, bits(&[1]), |_, part| {
        boot = part;
        Ok(())
    })?;
    Ok(Sent {
        boot: named("sent.boot", boot)?,
        clock: BootClock::from_nanos(said.or_zero(2)),
        wall: wall("sent.wall_us", said.or_zero(3))?,
    })
}

/// The fields of a heartbeat that are texts or messages.
const PARTS: u32 = bits(&[1, 2, 3, 9, 10, 11, 12, 14, 15, 16]);

/// What hardly changes from one heartbeat to the next.
#[derive(Default)]
struct Alike<'a> {
    coverage: Again<'a, Coverage>,
    hardware: Again<'a, Hardware>,
}

/// Reads one heartbeat of a sender; `before` is the one before it in the same message.
fn heartbeat<'a>(
    bytes: &'a [u8],
    sender: Option<&Sent>,
    before: Option<&Heartbeat>,
    alike: &mut Alike<'a>,
) -> Result<Heartbeat, DecodeError> {
    let mut names = [NO_TEXT; 3];
    let (mut coverage, mut hardware, mut probe) = (None, None, None);
    let (mut workload, mut background, mut detail) = (None, None, None);
    let steps_before = before.map_or_else(Default::default, |before| before.steps.as_slice());
    let most = MAX_STEPS_A_HEARTBEAT;
    let mut steps = List::of("steps of a heartbeat", most, steps_before.len());
    let said = Numbers::<17>::read(bytes, 16, PARTS, |tag, part| {
        match tag {
            9 => coverage = Some(alike.coverage.read(part, node::coverage)?),
            10 => hardware = Some(alike.hardware.read(part, node::hardware)?),
            11 => workload = Some(node::usage(part)?),
            12 => background = Some(node::usage(part)?),
            14 => steps.add(|read| step::usage(part, steps_before.get(read.len())))?,
            15 => probe = Some(node::probe_cost(part)?),
            16 => detail = Some(node::detail(part)?),
            name => names[name - 1] = part,
        }
        Ok(())
    })?;
    let [node, boot, probe_start] = names;
    let (same_node, same_start) = (before.map(|b| &b.node), before.map(|b| &b.probe_start));
    let same_boot = before.map(|b| &b.boot).or(sender.map(|sent| &sent.boot));
    Ok(Heartbeat {
        node: again("node", node, same_node, NodeId::as_str)?,
        boot: again("boot", boot, same_boot, BootId::as_str)?,
        probe_start: again("probe_start", probe_start, same_start, ProbeStart::as_str)?,
        sequence: said.or_zero(4),
        start: BootClock::from_nanos(said.or_zero(5)),
        end: BootClock::from_nanos(said.or_zero(6)),
        wall_at_end: wall("wall_at_end_us", said.or_zero(7))?,
        origin: origin(said.or_zero(8) as u32)?,
        coverage: required("coverage", coverage)?,
        hardware: required("hardware", hardware)?,
        workload: required("workload", workload)?,
        background: required("background", background)?,
        typed_ago: said.get(13).map(Duration::from_millis),
        steps: steps.all()?,
        probe: required("probe", probe)?,
        detail: detail.unwrap_or_default(),
    })
}
