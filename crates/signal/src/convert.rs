//! Between the domain's words and the wire's. Reading checks every field.

mod one_three;
mod one_two;
mod step;

pub(crate) use step::steps;

use std::str::FromStr;
use std::time::Duration;

use ebb_domain::heartbeat::{
    BootClock, Coverage, Hardware, Heartbeat, Origin, ProbeCost, Sent, Usage,
};
use ebb_domain::identity::{BootId, IdentityError, NodeId, ProbeStart};
use ebb_domain::units::{Bytes, CpuTime, MilliCores, Share};
use jiff::Timestamp;

use crate::error::DecodeError;
use crate::message::{MAX_STEPS_A_HEARTBEAT, allowed};
use crate::proto::{self, Text};

/// Names from outside keep their first bytes; nothing real is longer.
const MAX_TEXT_BYTES: usize = 256;

pub(crate) fn wrong(field: &'static str, problem: impl Into<String>) -> DecodeError {
    DecodeError::Field {
        field,
        problem: problem.into(),
    }
}

/// Text for the wire.
pub(crate) fn wire(text: &str) -> Text {
    Text::copy_from_slice(text.as_bytes())
}

fn utf8<'a>(field: &'static str, text: &'a Text) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(text).map_err(|_| wrong(field, "it is not UTF-8"))
}

pub(crate) fn named<T: FromStr<Err = IdentityError>>(
    field: &'static str,
    name: &Text,
) -> Result<T, DecodeError> {
    let name = utf8(field, name)?;
    name.parse()
        .map_err(|error: IdentityError| wrong(field, error.to_string()))
}

/// The same name as in the heartbeat before is the same copy of it: a message is of
/// one node, and rarely of two boots.
fn again<T: Clone + FromStr<Err = IdentityError>>(
    field: &'static str,
    name: &Text,
    before: Option<&T>,
    read: fn(&T) -> &str,
) -> Result<T, DecodeError> {
    match before.filter(|before| read(before).as_bytes() == name) {
        Some(before) => Ok(before.clone()),
        None => named(field, name),
    }
}

pub(crate) fn text(field: &'static str, value: &Text) -> Result<String, DecodeError> {
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

/// Reads one after the other; in a loop, for a collected result has no room ahead.
pub(crate) fn each<'a, W, T: TryFrom<&'a W, Error = DecodeError>>(
    all: &'a [W],
) -> Result<Vec<T>, DecodeError> {
    let mut read = Vec::with_capacity(all.len());
    for one in all {
        read.push(one.try_into()?);
    }
    Ok(read)
}

fn required<T>(field: &'static str, value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or_else(|| wrong(field, "it is missing"))
}

fn wall(field: &'static str, micros: i64) -> Result<Timestamp, DecodeError> {
    Timestamp::from_microsecond(micros).map_err(|error| wrong(field, error.to_string()))
}

/// More than 584 years are as many.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn sent(sent: Option<proto::Sent>) -> Result<Sent, DecodeError> {
    let sent = required("sent", sent)?;
    Ok(Sent {
        boot: named("sent.boot", &sent.boot)?,
        clock: BootClock::from_nanos(sent.clock_ns),
        wall: wall("sent.wall_us", sent.wall_us)?,
    })
}

impl From<&Sent> for proto::Sent {
    fn from(sent: &Sent) -> Self {
        Self {
            boot: wire(sent.boot.as_str()),
            clock_ns: sent.clock.as_nanos(),
            wall_us: sent.wall.as_microsecond(),
        }
    }
}

pub(crate) fn origin_out(origin: Origin) -> i32 {
    match origin {
        Origin::Measured => proto::Origin::Measured,
        Origin::Simulated => proto::Origin::Simulated,
    }
    .into()
}

pub(crate) fn origin_in(origin: i32) -> Result<Origin, DecodeError> {
    match proto::Origin::try_from(origin) {
        Ok(proto::Origin::Measured) => Ok(Origin::Measured),
        Ok(proto::Origin::Simulated) => Ok(Origin::Simulated),
        _ => Err(wrong("origin", format!("{origin} is not known here"))),
    }
}

impl From<&Heartbeat> for proto::Heartbeat {
    fn from(h: &Heartbeat) -> Self {
        Self {
            node: wire(h.node.as_str()),
            boot: wire(h.boot.as_str()),
            probe_start: wire(h.probe_start.as_str()),
            sequence: h.sequence,
            start_ns: h.start.as_nanos(),
            end_ns: h.end.as_nanos(),
            wall_at_end_us: h.wall_at_end.as_microsecond(),
            origin: origin_out(h.origin),
            coverage: Some((&h.coverage).into()),
            hardware: Some((&h.hardware).into()),
            workload: Some((&h.workload).into()),
            background: Some((&h.background).into()),
            typed_ago_ms: h
                .typed_ago
                .map(|ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
            steps: h.steps.iter().map(Into::into).collect(),
            probe: Some((&h.probe).into()),
            detail: one_two::out(&h.detail),
        }
    }
}

/// Reads one heartbeat; `before` is the one before it in the same message.
pub(crate) fn heartbeat(
    h: proto::Heartbeat,
    before: Option<&Heartbeat>,
) -> Result<Heartbeat, DecodeError> {
    allowed("steps of a heartbeat", h.steps.len(), MAX_STEPS_A_HEARTBEAT)?;
    let (node, boot) = (before.map(|b| &b.node), before.map(|b| &b.boot));
    let start = before.map(|b| &b.probe_start);
    Ok(Heartbeat {
        node: again("node", &h.node, node, NodeId::as_str)?,
        boot: again("boot", &h.boot, boot, BootId::as_str)?,
        probe_start: again("probe_start", &h.probe_start, start, ProbeStart::as_str)?,
        sequence: h.sequence,
        start: BootClock::from_nanos(h.start_ns),
        end: BootClock::from_nanos(h.end_ns),
        wall_at_end: wall("wall_at_end_us", h.wall_at_end_us)?,
        origin: origin_in(h.origin)?,
        coverage: required("coverage", h.coverage)?.into(),
        hardware: required("hardware", h.hardware)?.into(),
        workload: required("workload", h.workload)?.into(),
        background: required("background", h.background)?.into(),
        typed_ago: h.typed_ago_ms.map(Duration::from_millis),
        steps: each(&h.steps)?,
        probe: required("probe", h.probe)?.into(),
        detail: one_two::taken(h.detail)?,
    })
}

impl From<&Coverage> for proto::Coverage {
    fn from(c: &Coverage) -> Self {
        let ppm = |share: Option<Share>| share.map(Share::ppm);
        Self {
            cpu: ppm(c.cpu),
            memory: ppm(c.memory),
            disk: ppm(c.disk),
            network: ppm(c.network),
            gpu: ppm(c.gpu),
            short_processes: ppm(c.short_processes),
        }
    }
}

impl From<proto::Coverage> for Coverage {
    fn from(c: proto::Coverage) -> Self {
        let share = |ppm: Option<u32>| ppm.map(Share::from_ppm);
        Self {
            cpu: share(c.cpu),
            memory: share(c.memory),
            disk: share(c.disk),
            network: share(c.network),
            gpu: share(c.gpu),
            short_processes: share(c.short_processes),
        }
    }
}

impl From<&Hardware> for proto::Hardware {
    fn from(h: &Hardware) -> Self {
        Self {
            milli_cores: h.cores.0,
            memory_bytes: h.memory.0,
            gpus: h.gpus,
        }
    }
}

impl From<proto::Hardware> for Hardware {
    fn from(h: proto::Hardware) -> Self {
        Self {
            cores: MilliCores(h.milli_cores),
            memory: Bytes(h.memory_bytes),
            gpus: h.gpus,
        }
    }
}

impl From<&Usage> for proto::Usage {
    fn from(u: &Usage) -> Self {
        Self {
            cpu_ns: u.cpu.map(|cpu| cpu.0),
            disk_bytes: u.disk.map(|bytes| bytes.0),
            network_bytes: u.network.map(|bytes| bytes.0),
            gpu_ppm: u.gpu.map(Share::ppm),
            processes_started: u.processes_started,
        }
    }
}

impl From<proto::Usage> for Usage {
    fn from(u: proto::Usage) -> Self {
        Self {
            cpu: u.cpu_ns.map(CpuTime),
            disk: u.disk_bytes.map(Bytes),
            network: u.network_bytes.map(Bytes),
            gpu: u.gpu_ppm.map(Share::from_ppm),
            processes_started: u.processes_started,
        }
    }
}

impl From<&ProbeCost> for proto::ProbeCost {
    fn from(p: &ProbeCost) -> Self {
        Self {
            cpu_ns: p.cpu.0,
            resident_bytes: p.resident.map(|bytes| bytes.0),
            events_lost: p.events_lost,
            records_dropped: p.records_dropped,
            spool_depth_bytes: p.spool_depth.0,
        }
    }
}

impl From<proto::ProbeCost> for ProbeCost {
    fn from(p: proto::ProbeCost) -> Self {
        Self {
            cpu: CpuTime(p.cpu_ns),
            resident: p.resident_bytes.map(Bytes),
            events_lost: p.events_lost,
            records_dropped: p.records_dropped,
            spool_depth: Bytes(p.spool_depth_bytes),
        }
    }
}
