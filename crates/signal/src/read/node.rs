//! What a heartbeat says of its node.

use std::time::Duration;

use ebb_domain::heartbeat::{
    Coverage, GpuUse, Hardware, NetworkDetail, NodeDetail, Pressure, ProbeCost, Usage,
};
use ebb_domain::units::{Bytes, CpuTime, MilliCores, Share};

use super::fields::{List, Numbers, bits, numbers};
use super::text;
use crate::error::DecodeError;
use crate::message::MAX_GPUS;

pub(super) fn coverage(bytes: &[u8]) -> Result<Coverage, DecodeError> {
    let said = numbers(bytes, 6)?;
    let share = |tag| said.small(tag).map(Share::from_ppm);
    Ok(Coverage {
        cpu: share(1),
        memory: share(2),
        disk: share(3),
        network: share(4),
        gpu: share(5),
        short_processes: share(6),
    })
}

pub(super) fn hardware(bytes: &[u8]) -> Result<Hardware, DecodeError> {
    let said = numbers(bytes, 3)?;
    Ok(Hardware {
        cores: MilliCores(said.or_zero(1)),
        memory: Bytes(said.or_zero(2)),
        gpus: said.small(3),
    })
}

#[inline]
pub(super) fn usage(bytes: &[u8]) -> Result<Usage, DecodeError> {
    let said = numbers(bytes, 5)?;
    Ok(Usage {
        cpu: said.get(1).map(CpuTime),
        disk: said.get(2).map(Bytes),
        network: said.get(3).map(Bytes),
        gpu: said.small(4).map(Share::from_ppm),
        processes_started: said.or_zero(5),
    })
}

#[inline]
pub(super) fn probe_cost(bytes: &[u8]) -> Result<ProbeCost, DecodeError> {
    let said = numbers(bytes, 5)?;
    Ok(ProbeCost {
        cpu: CpuTime(said.or_zero(1)),
        resident: said.get(2).map(Bytes),
        events_lost: said.or_zero(3),
        records_dropped: said.or_zero(4),
        spool_depth: Bytes(said.or_zero(5)),
    })
}

/// What version 1.2 added, and 1.3 and 1.4 in the last two fields.
#[inline]
pub(super) fn detail(bytes: &[u8]) -> Result<NodeDetail, DecodeError> {
    let (mut sampled_because, mut on_network, mut waited) = (None, None, None);
    let mut gpus = List::of("GPUs of a heartbeat", MAX_GPUS, 0);
    let said = Numbers::<9>::read(bytes, 8, bits(&[1, 2, 4, 5]), |tag, part| {
        match tag {
            1 => sampled_because = Some(text("detail.sampled_because", part)?),
            2 => gpus.add(|_| gpu(part))?,
            4 => on_network = Some(network(part)?),
            _ => waited = Some(pressure(part)?),
        }
        Ok(())
    })?;
    Ok(NodeDetail {
        sampled_because,
        gpus: gpus.all()?,
        gpu_restarts: said.or_zero(3),
        network: on_network,
        pressure: waited,
        reclaimed: said.get(6).map(Bytes),
        labels_refused: said.or_zero(7),
        memory_used: said.get(8).map(Bytes),
    })
}

fn gpu(bytes: &[u8]) -> Result<GpuUse, DecodeError> {
    let mut model = String::new();
    let said = Numbers::<7>::read(bytes, 6, bits(&[2]), |_, part| {
        model = text("gpu.model", part)?;
        Ok(())
    })?;
    Ok(GpuUse {
        number: said.or_zero(1) as u32,
        model,
        busy: said.small(3).map(Share::from_ppm),
        memory_held: said.get(4).map(Bytes),
        memory: said.get(5).map(Bytes),
        processes: said.small(6),
    })
}

#[inline]
fn network(bytes: &[u8]) -> Result<NetworkDetail, DecodeError> {
    let said = numbers(bytes, 4)?;
    Ok(NetworkDetail {
        owned: Bytes(said.or_zero(1)),
        unowned: Bytes(said.or_zero(2)),
        retransmits: said.or_zero(3),
        connections: said.get(4),
    })
}

#[inline]
fn pressure(bytes: &[u8]) -> Result<Pressure, DecodeError> {
    let said = numbers(bytes, 5)?;
    let stalled = |tag| Duration::from_nanos(said.or_zero(tag));
    Ok(Pressure {
        cpu_some: stalled(1),
        memory_some: stalled(2),
        memory_full: stalled(3),
        disk_some: stalled(4),
        disk_full: stalled(5),
    })
}
