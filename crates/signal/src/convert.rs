//! From the domain's words to the wire's.

mod one_four;
mod one_three;
mod one_two;
mod step;

pub(crate) use step::steps;

use std::time::Duration;

use ebb_domain::heartbeat::{Coverage, Hardware, Heartbeat, Origin, ProbeCost, Sent, Usage};
use ebb_domain::safe_text::clean;
use ebb_domain::units::Share;

use crate::proto;
use crate::read::MAX_TEXT_BYTES;

/// More than 584 years are as many.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A name as readers take it: nothing of a node may be refused for what its users call
/// their programs.
pub(crate) fn name(name: &str) -> String {
    clean(name, MAX_TEXT_BYTES).into_owned()
}

impl From<&Sent> for proto::Sent {
    fn from(sent: &Sent) -> Self {
        Self {
            boot: sent.boot.as_str().to_owned(),
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

impl From<&Heartbeat> for proto::Heartbeat {
    fn from(h: &Heartbeat) -> Self {
        Self {
            node: h.node.as_str().to_owned(),
            boot: h.boot.as_str().to_owned(),
            probe_start: h.probe_start.as_str().to_owned(),
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

impl From<&Hardware> for proto::Hardware {
    fn from(h: &Hardware) -> Self {
        Self {
            milli_cores: h.cores.0,
            memory_bytes: h.memory.0,
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
