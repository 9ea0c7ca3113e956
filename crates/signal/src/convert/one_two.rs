//! What version 1.2 added: of the node, and of a step's network, GPUs and run.

use std::time::Duration;

use ebb_domain::heartbeat::{GpuUse, NetworkDetail, NodeDetail, Pressure};
use ebb_domain::step::{RunName, StepGpu, StepNetwork};
use ebb_domain::units::{Bytes, Share};

use super::{each, nanos, text, wire};
use crate::error::DecodeError;
use crate::message::{MAX_GPUS, allowed};
use crate::proto::{self, Text};

/// `None` when nothing more is known, as before 1.2.
pub(super) fn out(detail: &NodeDetail) -> Option<proto::NodeDetail> {
    if *detail == NodeDetail::default() {
        return None;
    }
    Some(proto::NodeDetail {
        sampled_because: detail.sampled_because.as_deref().map(wire),
        gpus: detail.gpus.iter().map(Into::into).collect(),
        gpu_restarts: detail.gpu_restarts,
        network: detail.network.map(Into::into),
        pressure: detail.pressure.map(Into::into),
        reclaimed_bytes: detail.reclaimed.map(|bytes| bytes.0),
        labels_refused: detail.labels_refused,
    })
}

pub(super) fn taken(detail: Option<proto::NodeDetail>) -> Result<NodeDetail, DecodeError> {
    let d = detail.unwrap_or_default();
    allowed("GPUs of a heartbeat", d.gpus.len(), MAX_GPUS)?;
    let because = |words: &Text| text("detail.sampled_because", words);
    Ok(NodeDetail {
        sampled_because: d.sampled_because.as_ref().map(because).transpose()?,
        gpus: each(&d.gpus)?,
        gpu_restarts: d.gpu_restarts,
        network: d.network.map(Into::into),
        pressure: d.pressure.map(Into::into),
        reclaimed: d.reclaimed_bytes.map(Bytes),
        labels_refused: d.labels_refused,
    })
}

impl From<&GpuUse> for proto::GpuUse {
    fn from(gpu: &GpuUse) -> Self {
        Self {
            number: gpu.number,
            model: wire(&gpu.model),
            busy_ppm: gpu.busy.map(Share::ppm),
            memory_held_bytes: gpu.memory_held.map(|bytes| bytes.0),
            memory_bytes: gpu.memory.map(|bytes| bytes.0),
            processes: gpu.processes,
        }
    }
}

impl TryFrom<&proto::GpuUse> for GpuUse {
    type Error = DecodeError;

    fn try_from(gpu: &proto::GpuUse) -> Result<Self, DecodeError> {
        Ok(Self {
            number: gpu.number,
            model: text("gpu.model", &gpu.model)?,
            busy: gpu.busy_ppm.map(Share::from_ppm),
            memory_held: gpu.memory_held_bytes.map(Bytes),
            memory: gpu.memory_bytes.map(Bytes),
            processes: gpu.processes,
        })
    }
}

impl From<NetworkDetail> for proto::NetworkDetail {
    fn from(network: NetworkDetail) -> Self {
        Self {
            owned_bytes: network.owned.0,
            unowned_bytes: network.unowned.0,
            retransmits: network.retransmits,
            connections: network.connections,
        }
    }
}

impl From<proto::NetworkDetail> for NetworkDetail {
    fn from(network: proto::NetworkDetail) -> Self {
        Self {
            owned: Bytes(network.owned_bytes),
            unowned: Bytes(network.unowned_bytes),
            retransmits: network.retransmits,
            connections: network.connections,
        }
    }
}

impl From<Pressure> for proto::Pressure {
    fn from(pressure: Pressure) -> Self {
        Self {
            cpu_some_ns: nanos(pressure.cpu_some),
            memory_some_ns: nanos(pressure.memory_some),
            memory_full_ns: nanos(pressure.memory_full),
            disk_some_ns: nanos(pressure.disk_some),
            disk_full_ns: nanos(pressure.disk_full),
        }
    }
}

impl From<proto::Pressure> for Pressure {
    fn from(pressure: proto::Pressure) -> Self {
        Self {
            cpu_some: Duration::from_nanos(pressure.cpu_some_ns),
            memory_some: Duration::from_nanos(pressure.memory_some_ns),
            memory_full: Duration::from_nanos(pressure.memory_full_ns),
            disk_some: Duration::from_nanos(pressure.disk_some_ns),
            disk_full: Duration::from_nanos(pressure.disk_full_ns),
        }
    }
}

impl From<StepNetwork> for proto::StepNetwork {
    fn from(network: StepNetwork) -> Self {
        Self {
            received_bytes: network.received.0,
            sent_bytes: network.sent.0,
            retransmits: network.retransmits,
            connections: network.connections,
        }
    }
}

impl From<proto::StepNetwork> for StepNetwork {
    fn from(network: proto::StepNetwork) -> Self {
        Self {
            received: Bytes(network.received_bytes),
            sent: Bytes(network.sent_bytes),
            retransmits: network.retransmits,
            connections: network.connections,
        }
    }
}

impl From<StepGpu> for proto::StepGpu {
    fn from(gpu: StepGpu) -> Self {
        Self {
            devices: gpu.devices,
            held_ns: nanos(gpu.held),
            busy_ns: gpu.busy.map(nanos),
            peak_memory_bytes: gpu.peak_memory.map(|bytes| bytes.0),
        }
    }
}

impl From<proto::StepGpu> for StepGpu {
    fn from(gpu: proto::StepGpu) -> Self {
        Self {
            devices: gpu.devices,
            held: Duration::from_nanos(gpu.held_ns),
            busy: gpu.busy_ns.map(Duration::from_nanos),
            peak_memory: gpu.peak_memory_bytes.map(Bytes),
        }
    }
}

impl From<&RunName> for proto::RunName {
    fn from(run: &RunName) -> Self {
        Self {
            launcher: wire(&run.launcher),
            key: wire(&run.key),
            pipeline: run.pipeline.as_deref().map(wire),
        }
    }
}

impl TryFrom<&proto::RunName> for RunName {
    type Error = DecodeError;

    fn try_from(run: &proto::RunName) -> Result<Self, DecodeError> {
        let pipeline = |name: &Text| text("run.pipeline", name);
        Ok(Self {
            launcher: text("run.launcher", &run.launcher)?,
            key: text("run.key", &run.key)?,
            pipeline: run.pipeline.as_ref().map(pipeline).transpose()?,
        })
    }
}
