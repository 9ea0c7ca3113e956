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
    let mut said = Fields::of(bytes);
    let mut share = |tag| said.small(tag).map(Share::from_ppm);
    let told = Coverage {
        cpu: share(1),
        memory: share(2),
        disk: share(3),
        network: share(4),
        gpu: share(5),
        short_processes: share(6),
    };
    said.end(6)?;
    Ok(told)
}

pub(super) fn hardware(bytes: &[u8]) -> Result<Hardware, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Hardware {
        cores: MilliCores(said.or_zero(1)),
        memory: Bytes(said.or_zero(2)),
        gpus: said.small(3),
    };
    said.end(3)?;
    Ok(told)
}

#[inline]
pub(super) fn usage(bytes: &[u8]) -> Result<Usage, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Usage {
        cpu: said.get(1).map(CpuTime),
        disk: said.get(2).map(Bytes),
        network: said.get(3).map(Bytes),
        gpu: said.small(4).map(Share::from_ppm),
        processes_started: said.or_zero(5),
    };
    said.end(5)?;
    Ok(told)
}

#[inline]
pub(super) fn probe_cost(bytes: &[u8]) -> Result<ProbeCost, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = ProbeCost {
        cpu: CpuTime(said.or_zero(1)),
        resident: said.get(2).map(Bytes),
        events_lost: said.or_zero(3),
        records_dropped: said.or_zero(4),
        spool_depth: Bytes(said.or_zero(5)),
        records_unreadable: said.get(6),
        steps_left_out: said.get(7),
        steps_shortened: said.get(8),
        unclean_stops: said.get(9),
        power_losses: said.get(10),
    };
    said.end(10)?;
    Ok(told)
}

/// Fields of version 1.2; the last three fields are from later versions.
#[inline]
pub(super) fn detail(bytes: &[u8], detail: &mut NodeDetail) -> Result<(), DecodeError> {
    let mut said = Fields::of(bytes);
    detail.sampled_because = said.last(1, |part| text("detail.sampled_because", part))?;
    let mut gpus = List::of("GPUs of a heartbeat", MAX_GPUS, 0);
    said.each(2, |part| gpus.add(|_| gpu(part)))?;
    detail.gpus = gpus.all()?;
    detail.gpu_restarts = said.or_zero(3);
    detail.network = said.last(4, network)?;
    detail.pressure = said.last(5, pressure)?;
    detail.reclaimed = said.get(6).map(Bytes);
    detail.labels_refused = said.or_zero(7);
    detail.memory_used = said.get(8).map(Bytes);
    detail.masked_because = said.last(9, |part| text("detail.masked_because", part))?;
    said.end(9)
}

fn gpu(bytes: &[u8]) -> Result<GpuUse, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = GpuUse {
        number: said.or_zero(1) as u32,
        model: text("gpu.model", said.text(2))?,
        busy: said.small(3).map(Share::from_ppm),
        memory_held: said.get(4).map(Bytes),
        memory: said.get(5).map(Bytes),
        processes: said.small(6),
    };
    said.end(6)?;
    Ok(told)
}

#[inline]
fn network(bytes: &[u8]) -> Result<NetworkDetail, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = NetworkDetail {
        owned: Bytes(said.or_zero(1)),
        unowned: Bytes(said.or_zero(2)),
        retransmits: said.or_zero(3),
        connections: said.get(4),
    };
    said.end(4)?;
    Ok(told)
}

#[inline]
fn pressure(bytes: &[u8]) -> Result<Pressure, DecodeError> {
    let mut said = Fields::of(bytes);
    let mut stalled = |tag| Duration::from_nanos(said.or_zero(tag));
    let told = Pressure {
        cpu_some: stalled(1),
        memory_some: stalled(2),
        memory_full: stalled(3),
        disk_some: stalled(4),
        disk_full: stalled(5),
    };
    said.end(5)?;
    Ok(told)
}
