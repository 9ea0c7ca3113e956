//! What version 1.2 added: of the node, and of a step's network, GPUs and run.

use ebb_telemetry::heartbeat::{GpuUse, NetworkDetail, NodeDetail, Pressure};
use ebb_telemetry::step::{RunName, StepGpu, StepNetwork};
use ebb_telemetry::units::Share;

use super::{name, nanos, number};
use crate::proto;

/// `None` when nothing more is known, as before 1.2.
pub(super) fn out(detail: &NodeDetail) -> Option<proto::NodeDetail> {
    if *detail == NodeDetail::default() {
        return None;
    }
    Some(proto::NodeDetail {
        sampled_because: detail.sampled_because.as_deref().map(name),
        gpus: detail.gpus.iter().map(Into::into).collect(),
        gpu_restarts: number(detail.gpu_restarts),
        network: detail.network.map(Into::into),
        pressure: detail.pressure.map(Into::into),
        reclaimed_bytes: detail.reclaimed.map(|bytes| number(bytes.0)),
        labels_refused: number(detail.labels_refused),
        memory_used_bytes: detail.memory_used.map(|bytes| number(bytes.0)),
        masked_because: detail.masked_because.as_deref().map(name),
    })
}

impl From<&GpuUse> for proto::GpuUse {
    fn from(gpu: &GpuUse) -> Self {
        Self {
            number: gpu.number,
            model: name(&gpu.model),
            busy_ppm: gpu.busy.map(Share::ppm),
            memory_held_bytes: gpu.memory_held.map(|bytes| number(bytes.0)),
            memory_bytes: gpu.memory.map(|bytes| number(bytes.0)),
            processes: gpu.processes,
        }
    }
}

impl From<NetworkDetail> for proto::NetworkDetail {
    fn from(network: NetworkDetail) -> Self {
        Self {
            owned_bytes: number(network.owned.0),
            unowned_bytes: number(network.unowned.0),
            retransmits: number(network.retransmits),
            connections: network.connections.map(number),
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

impl From<StepNetwork> for proto::StepNetwork {
    fn from(network: StepNetwork) -> Self {
        Self {
            received_bytes: number(network.received.0),
            sent_bytes: number(network.sent.0),
            retransmits: number(network.retransmits),
            connections: number(network.connections),
        }
    }
}

impl From<StepGpu> for proto::StepGpu {
    fn from(gpu: StepGpu) -> Self {
        Self {
            devices: gpu.devices,
            held_ns: nanos(gpu.held),
            busy_ns: gpu.busy.map(nanos),
            peak_memory_bytes: gpu.peak_memory.map(|bytes| number(bytes.0)),
        }
    }
}

impl From<&RunName> for proto::RunName {
    fn from(run: &RunName) -> Self {
        Self {
            launcher: name(&run.launcher),
            key: name(&run.key),
            pipeline: run.pipeline.as_deref().map(name),
        }
    }
}
