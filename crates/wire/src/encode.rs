//! Converts the telemetry types to the protobuf types.

pub(crate) mod node_signals;
pub(crate) mod resource_usage;
pub(crate) mod step;
pub(crate) mod values;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use ebb_telemetry::units::Share;

use crate::encode::values::{nanos, number, origin_out};
use crate::proto;

/// The lake stores signed numbers and refuses a heartbeat with a larger one, so larger counters
/// are sent as this value.
const LARGEST: u64 = i64::MAX.cast_unsigned();

impl From<&Sent> for proto::Sent {
    fn from(sent: &Sent) -> Self {
        Self {
            boot: sent.boot.as_str().to_owned(),
            clock_ns: number(sent.clock.as_nanos()),
            wall_us: sent.wall.as_microsecond(),
        }
    }
}

impl From<&Heartbeat> for proto::Heartbeat {
    fn from(h: &Heartbeat) -> Self {
        Self {
            node: h.node.as_str().to_owned(),
            boot: h.boot.as_str().to_owned(),
            probe_start: h.probe_start.as_str().to_owned(),
            sequence: h.sequence,
            start_ns: number(h.start.as_nanos()),
            end_ns: number(h.end.as_nanos()),
            wall_at_end_us: h.wall_at_end.as_microsecond(),
            origin: origin_out(h.origin),
            coverage: Some((&h.coverage).into()),
            hardware: Some((&h.hardware).into()),
            workload: Some((&h.workload).into()),
            background: Some((&h.background).into()),
            typed_ago_ms: h.typed_ago.map(|ago| nanos(ago) / 1_000_000),
            steps: h.steps.iter().map(Into::into).collect(),
            probe: Some((&h.probe).into()),
            detail: node_signals::out(&h.detail),
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
            milli_cores: number(h.cores.0),
            memory_bytes: number(h.memory.0),
            gpus: h.gpus,
        }
    }
}

impl From<&Usage> for proto::Usage {
    fn from(u: &Usage) -> Self {
        Self {
            cpu_ns: u.cpu.map(|cpu| number(cpu.0)),
            disk_bytes: u.disk.map(|bytes| number(bytes.0)),
            network_bytes: u.network.map(|bytes| number(bytes.0)),
            gpu_ppm: u.gpu.map(Share::ppm),
            processes_started: number(u.processes_started),
        }
    }
}

impl From<&ProbeCost> for proto::ProbeCost {
    fn from(p: &ProbeCost) -> Self {
        Self {
            cpu_ns: number(p.cpu.0),
            resident_bytes: p.resident.map(|bytes| number(bytes.0)),
            events_lost: number(p.events_lost),
            records_dropped: number(p.records_dropped),
            spool_depth_bytes: number(p.spool_depth.0),
            records_unreadable: p.records_unreadable.map(number),
            steps_left_out: p.steps_left_out.map(number),
            steps_shortened: p.steps_shortened.map(number),
            unclean_stops: p.unclean_stops.map(number),
            power_losses: p.power_losses.map(number),
        }
    }
}
