//! What a heartbeat says of its node.

use std::time::Duration;

use ebb_domain::heartbeat::{
    Coverage, GpuUse, Hardware, NetworkDetail, NodeDetail, Pressure, ProbeCost, Usage,
};
use ebb_domain::units::{Bytes, CpuTime, MilliCores, Share};

use super::fields::{Fields, List};
use super::text;
use crate::error::DecodeError;
use crate::message::MAX_GPUS;

pub(super) fn coverage(bytes: &[u8]) -> Result<Coverage, DecodeError> {
    let mut signals = [None; 6];
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        if let tag @ 1..=6 = tag {
            signals[tag as usize - 1] = Some(Share::from_ppm(value.small()?));
        }
    }
    let [cpu, memory, disk, network, gpu, short_processes] = signals;
    Ok(Coverage {
        cpu,
        memory,
        disk,
        network,
        gpu,
        short_processes,
    })
}

pub(super) fn hardware(bytes: &[u8]) -> Result<Hardware, DecodeError> {
    let mut hardware = Hardware {
        cores: MilliCores(0),
        memory: Bytes(0),
        gpus: None,
    };
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => hardware.cores = MilliCores(value.number()?),
            2 => hardware.memory = Bytes(value.number()?),
            3 => hardware.gpus = Some(value.small()?),
            _ => {}
        }
    }
    Ok(hardware)
}

pub(super) fn usage(bytes: &[u8]) -> Result<Usage, DecodeError> {
    let mut usage = Usage::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => usage.cpu = Some(CpuTime(value.number()?)),
            2 => usage.disk = Some(Bytes(value.number()?)),
            3 => usage.network = Some(Bytes(value.number()?)),
            4 => usage.gpu = Some(Share::from_ppm(value.small()?)),
            5 => usage.processes_started = value.number()?,
            _ => {}
        }
    }
    Ok(usage)
}

pub(super) fn probe_cost(bytes: &[u8]) -> Result<ProbeCost, DecodeError> {
    let mut cost = ProbeCost::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => cost.cpu = CpuTime(value.number()?),
            2 => cost.resident = Some(Bytes(value.number()?)),
            3 => cost.events_lost = value.number()?,
            4 => cost.records_dropped = value.number()?,
            5 => cost.spool_depth = Bytes(value.number()?),
            _ => {}
        }
    }
    Ok(cost)
}

/// What version 1.2 added, and 1.3 and 1.4 in the last two fields.
pub(super) fn detail(bytes: &[u8]) -> Result<NodeDetail, DecodeError> {
    let mut detail = NodeDetail::default();
    let mut gpus = List::of("GPUs of a heartbeat", MAX_GPUS, 0);
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => detail.sampled_because = Some(text("detail.sampled_because", value.bytes()?)?),
            2 => {
                let bytes = value.bytes()?;
                gpus.add(|_| gpu(bytes))?;
            }
            3 => detail.gpu_restarts = value.number()?,
            4 => detail.network = Some(network(value.bytes()?)?),
            5 => detail.pressure = Some(pressure(value.bytes()?)?),
            6 => detail.reclaimed = Some(Bytes(value.number()?)),
            7 => detail.labels_refused = value.number()?,
            8 => detail.memory_used = Some(Bytes(value.number()?)),
            _ => {}
        }
    }
    detail.gpus = gpus.all()?;
    Ok(detail)
}

fn gpu(bytes: &[u8]) -> Result<GpuUse, DecodeError> {
    let mut gpu = GpuUse::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => gpu.number = value.small()?,
            2 => gpu.model = text("gpu.model", value.bytes()?)?,
            3 => gpu.busy = Some(Share::from_ppm(value.small()?)),
            4 => gpu.memory_held = Some(Bytes(value.number()?)),
            5 => gpu.memory = Some(Bytes(value.number()?)),
            6 => gpu.processes = Some(value.small()?),
            _ => {}
        }
    }
    Ok(gpu)
}

fn network(bytes: &[u8]) -> Result<NetworkDetail, DecodeError> {
    let mut network = NetworkDetail::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => network.owned = Bytes(value.number()?),
            2 => network.unowned = Bytes(value.number()?),
            3 => network.retransmits = value.number()?,
            4 => network.connections = Some(value.number()?),
            _ => {}
        }
    }
    Ok(network)
}

fn pressure(bytes: &[u8]) -> Result<Pressure, DecodeError> {
    let mut pressure = Pressure::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        let stalled = match tag {
            1 => &mut pressure.cpu_some,
            2 => &mut pressure.memory_some,
            3 => &mut pressure.memory_full,
            4 => &mut pressure.disk_some,
            5 => &mut pressure.disk_full,
            _ => continue,
        };
        *stalled = Duration::from_nanos(value.number()?);
    }
    Ok(pressure)
}
