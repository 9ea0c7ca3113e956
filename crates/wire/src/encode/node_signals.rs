//! Encodes the node-level fields: GPUs, network, pressure and state.

use ebb_telemetry::heartbeat::{GpuUse, NetworkDetail, NodeDetail, Pressure};
use ebb_telemetry::units::Share;

use crate::encode::values::{name, nanos, number};
use crate::proto;

/// `None` if there are no further observations, as before version 1.2.
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
        version: detail.version.map(|version| version.to_string()),
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
