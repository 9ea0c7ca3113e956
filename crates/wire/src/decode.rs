//! Decodes messages to the telemetry types. Each field is checked and read in place, so that only
//! stored values are copied. If a field occurs twice, the last one counts; no encoder writes that.

pub(crate) mod fields;
pub(crate) mod node;
pub(crate) mod order;
pub(crate) mod resource_usage;
// Generated: `tests/generated.rs` creates it from `ebb.v1.proto`.
#[rustfmt::skip]
mod shapes;
pub(crate) mod step;
pub(crate) mod values;

use std::str::FromStr;
use std::time::Duration;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::node_signals::NodeDetail;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat};
use ebb_telemetry::identity::{BootId, IdentityError, NodeId, ProbeStart};
use ebb_telemetry::step::StepUsage;
use ebb_telemetry::time::BootClock;
use jiff::Timestamp;

use crate::contents::{
    HeartbeatMessage, MAX_DECODED_MESSAGE_BYTES, MAX_HEARTBEATS, MAX_STEPS_A_HEARTBEAT, StepObject,
    allowed,
};
use crate::decode::fields::{Again, Fields, List};
use crate::decode::values::{Room, named, origin, required, sent, wrong};
use crate::error::DecodeError;

fn utf8<'a>(field: &'static str, text: &'a [u8]) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(text).map_err(|_| wrong(field, "it is not UTF-8"))
}

/// Shares a name with the previous heartbeat if both are equal. A message comes from one node, and
/// rarely from two boots.
fn reuse_or_parse<T: Clone + FromStr<Err = IdentityError>>(
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

/// The encoded time is in microseconds, as the bits of a signed number.
fn wall(field: &'static str, micros: u64) -> Result<Timestamp, DecodeError> {
    Timestamp::from_microsecond(micros.cast_signed())
        .map_err(|error| wrong(field, error.to_string()))
}

/// Decodes one queue message.
pub(crate) fn heartbeats(bytes: &[u8]) -> Result<HeartbeatMessage, DecodeError> {
    let read = heartbeats_in_order;
    read(bytes)
        .or_else(|refused| order::decode_reordered(bytes, &shapes::HEARTBEATS, refused, read))
}

/// Decodes one object.
pub(crate) fn steps(bytes: &[u8]) -> Result<StepObject, DecodeError> {
    let read = step::steps;
    read(bytes).or_else(|refused| order::decode_reordered(bytes, &shapes::STEPS, refused, read))
}

fn heartbeats_in_order(bytes: &[u8]) -> Result<HeartbeatMessage, DecodeError> {
    let mut fields = Fields::new(bytes);
    let sent = required("sent", fields.last(1, sent)?)?;
    let mut shared = Shared::default();
    let mut heartbeats = List::new("heartbeats", MAX_HEARTBEATS, MAX_HEARTBEATS);
    fields.each(2, |part| {
        heartbeats.add(|before| heartbeat(part, &sent, before.last(), &mut shared))
    })?;
    let message = HeartbeatMessage {
        sent,
        heartbeats: heartbeats.all()?,
        refused_steps: shared.refused_steps,
    };
    fields.end(2)?;
    Ok(message)
}

/// State that the heartbeats of a message share.
struct Shared<'a> {
    /// These values rarely change from one heartbeat to the next.
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
    /// Decodes a running task; `None` if a field has an invalid value.
    fn step(
        &mut self,
        part: &[u8],
        before: Option<&StepUsage>,
    ) -> Result<Option<StepUsage>, DecodeError> {
        match step::usage(part, before) {
            Ok(mut step) => {
                // No probe sends this for a running task.
                step.detail.opt_in_detail = None;
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

/// Decodes one heartbeat of a sender; `before` is the previous one in the same message.
fn heartbeat<'a>(
    bytes: &'a [u8],
    sender: &Sent,
    before: Option<&Heartbeat>,
    shared: &mut Shared<'a>,
) -> Result<Heartbeat, DecodeError> {
    let mut fields = Fields::new(bytes);
    let same_node = before.map(|before| &before.node);
    let node = reuse_or_parse("node", fields.text(1), same_node, NodeId::as_str)?;
    let same_boot = Some(before.map_or(&sender.boot, |before| &before.boot));
    let boot = reuse_or_parse("boot", fields.text(2), same_boot, BootId::as_str)?;
    let same_start = before.map(|before| &before.probe_start);
    let probe_start = reuse_or_parse(
        "probe_start",
        fields.text(3),
        same_start,
        ProbeStart::as_str,
    )?;
    let sequence = fields.or_zero(4);
    let [start, end] = [5, 6].map(|tag| BootClock::from_nanos(fields.or_zero(tag)));
    let wall_at_end = wall("wall_at_end_us", fields.or_zero(7))?;
    let origin = origin(fields.or_zero(8) as u32)?;
    let coverage = fields.last(9, |part| shared.coverage.read(part, node::coverage))?;
    let hardware = fields.last(10, |part| shared.hardware.read(part, node::hardware))?;
    let workload = fields.last(11, node::usage)?;
    let background = fields.last(12, node::usage)?;
    let typed_ago = fields.get(13).map(Duration::from_millis);
    let steps_before = before.map_or_else(Default::default, |before| before.steps.as_slice());
    let most = MAX_STEPS_A_HEARTBEAT;
    let mut count = 0;
    let mut steps = Vec::with_capacity(steps_before.len().min(most));
    fields.each(14, |part| {
        count += 1;
        if count <= most {
            steps.extend(shared.step(part, steps_before.get(steps.len()))?);
        }
        Ok(())
    })?;
    allowed("steps of a heartbeat", count, most)?;
    let probe = fields.last(15, node::probe_cost)?;
    let mut detail = NodeDetail::default();
    fields.each(16, |part| node::detail(part, &mut detail))?;
    fields.end(16)?;
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
