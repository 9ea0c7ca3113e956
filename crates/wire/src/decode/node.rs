//! Decodes the node-level fields of a heartbeat.

use std::time::Duration;

use ebb_telemetry::heartbeat::{
    Coverage, GpuUse, Hardware, NetworkDetail, NodeDetail, Pressure, ProbeCost, Usage,
};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};

use crate::contents::MAX_GPUS;
use crate::decode::fields::{Fields, List};
use crate::decode::values::text;
use crate::error::DecodeError;

pub(super) fn coverage(bytes: &[u8]) -> Result<Coverage, DecodeError> {
    let mut fields = Fields::new(bytes);
    let mut share = |tag| fields.small(tag).map(Share::from_ppm);
    let coverage = Coverage {
        cpu: share(1),
        memory: share(2),
        disk: share(3),
        network: share(4),
        gpu: share(5),
        short_processes: share(6),
    };
    fields.end(6)?;
    Ok(coverage)
}

pub(super) fn hardware(bytes: &[u8]) -> Result<Hardware, DecodeError> {
    let mut fields = Fields::new(bytes);
    let hardware = Hardware {
        cores: MilliCores(fields.or_zero(1)),
        memory: Bytes(fields.or_zero(2)),
        gpus: fields.small(3),
    };
    fields.end(3)?;
    Ok(hardware)
}

#[inline]
pub(super) fn usage(bytes: &[u8]) -> Result<Usage, DecodeError> {
    let mut fields = Fields::new(bytes);
    let usage = Usage {
        cpu: fields.get(1).map(CpuTime),
        disk: fields.get(2).map(Bytes),
        network: fields.get(3).map(Bytes),
        gpu: fields.small(4).map(Share::from_ppm),
        processes_started: fields.or_zero(5),
    };
    fields.end(5)?;
    Ok(usage)
}

#[inline]
pub(super) fn probe_cost(bytes: &[u8]) -> Result<ProbeCost, DecodeError> {
    let mut fields = Fields::new(bytes);
    let cost = ProbeCost {
        cpu: CpuTime(fields.or_zero(1)),
        resident: fields.get(2).map(Bytes),
        events_lost: fields.or_zero(3),
        records_dropped: fields.or_zero(4),
        spool_depth: Bytes(fields.or_zero(5)),
        records_unreadable: fields.get(6),
        steps_left_out: fields.get(7),
        steps_shortened: fields.get(8),
        unclean_stops: fields.get(9),
        power_losses: fields.get(10),
    };
    fields.end(10)?;
    Ok(cost)
}

/// Fields of version 1.2; the last four fields are from later versions.
#[inline]
pub(super) fn detail(bytes: &[u8], detail: &mut NodeDetail) -> Result<(), DecodeError> {
    let mut fields = Fields::new(bytes);
    detail.sampled_because = fields.last(1, |part| text("detail.sampled_because", part))?;
    let mut gpus = List::new("GPUs of a heartbeat", MAX_GPUS, 0);
    fields.each(2, |part| gpus.add(|_| gpu(part)))?;
    detail.gpus = gpus.all()?;
    detail.gpu_restarts = fields.or_zero(3);
    detail.network = fields.last(4, network)?;
    detail.pressure = fields.last(5, pressure)?;
    detail.reclaimed = fields.get(6).map(Bytes);
    detail.labels_refused = fields.or_zero(7);
    detail.memory_used = fields.get(8).map(Bytes);
    detail.masked_because = fields.last(9, |part| text("detail.masked_because", part))?;
    let version = fields.last(10, |part| text("detail.version", part))?;
    detail.version = version.and_then(|version| version.parse().ok());
    fields.end(10)
}

fn gpu(bytes: &[u8]) -> Result<GpuUse, DecodeError> {
    let mut fields = Fields::new(bytes);
    let gpu = GpuUse {
        number: fields.or_zero(1) as u32,
        model: text("gpu.model", fields.text(2))?,
        busy: fields.small(3).map(Share::from_ppm),
        memory_held: fields.get(4).map(Bytes),
        memory: fields.get(5).map(Bytes),
        processes: fields.small(6),
    };
    fields.end(6)?;
    Ok(gpu)
}

#[inline]
fn network(bytes: &[u8]) -> Result<NetworkDetail, DecodeError> {
    let mut fields = Fields::new(bytes);
    let network = NetworkDetail {
        owned: Bytes(fields.or_zero(1)),
        unowned: Bytes(fields.or_zero(2)),
        retransmits: fields.or_zero(3),
        connections: fields.get(4),
    };
    fields.end(4)?;
    Ok(network)
}

#[inline]
fn pressure(bytes: &[u8]) -> Result<Pressure, DecodeError> {
    let mut fields = Fields::new(bytes);
    let mut stalled = |tag| Duration::from_nanos(fields.or_zero(tag));
    let pressure = Pressure {
        cpu_some: stalled(1),
        memory_some: stalled(2),
        memory_full: stalled(3),
        disk_some: stalled(4),
        disk_full: stalled(5),
    };
    fields.end(5)?;
    Ok(pressure)
}
