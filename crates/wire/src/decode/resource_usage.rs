//! Decodes the further observations of a task.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::step::{
    Busy, CpuWithoutProgress, Namespaces, NetworkPeer, OptInDetail, PARALLELISM_CLASSES,
    Parallelism, PeerScope, Reclaim, RunName, Sampled, SchedulerLabels, StepDetail, StepGpu,
    StepNetwork, SyscallIo, TaskState, WaitingTool,
};
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::contents::allowed;
use crate::decode::fields::{Fields, List};
use crate::decode::values::{text, text_of, wrong};
use crate::error::DecodeError;
use crate::proto;

/// An unknown state, which a later version may have added, becomes `Other`. It is one of several
/// values, and so no reason to refuse the task.
#[inline]
pub(super) fn read(bytes: &[u8], detail: &mut StepDetail) -> Result<(), DecodeError> {
    let mut fields = Fields::new(bytes);
    detail.user_cpu = fields.get(1).map(CpuTime);
    detail.system_cpu = fields.get(2).map(CpuTime);
    detail.run_queue = fields.get(3).map(Duration::from_nanos);
    detail.voluntary_switches = fields.get(4);
    detail.involuntary_switches = fields.get(5);
    detail.minor_faults = fields.get(6);
    detail.major_faults = fields.get(7);
    detail.disk_delay = fields.get(8).map(Duration::from_nanos);
    let most = PARALLELISM_CLASSES;
    let mut parallelism = List::new("classes of parallelism", most, 0);
    fields.each(9, |part| parallelism.add(|_| busy(part)))?;
    detail.parallelism = Parallelism::from_classes(parallelism.all()?);
    detail.states = BTreeMap::new();
    fields.each(10, |part| {
        let (state, observation) = sampled(part)?;
        let sum = detail.states.entry(state).or_default();
        sum.samples = sum.samples.saturating_add(observation.samples);
        sum.time = sum.time.saturating_add(observation.time);
        Ok(())
    })?;
    detail.network = fields.last(11, network)?;
    detail.gpu = fields.last(12, gpu)?;
    detail.run = fields.last(13, |part| run(part).map(Box::new))?;
    detail.scheduler_labels = fields.last(14, |part| scheduler_labels(part).map(Box::new))?;
    detail.opt_in_detail = fields.last(15, |part| opt_in_detail(part).map(Box::new))?;
    detail.syscall_io = fields.last(16, syscall_io)?;
    detail.cpu_without_progress = fields.last(17, cpu_without_progress)?;
    detail.threads = fields.small(18);
    detail.user = fields.small(19);
    detail.reclaim = fields.last(20, reclaim)?;
    detail.memory_now = fields.get(21).map(Bytes);
    detail.namespaces = fields.small(22).map(Namespaces::from_bits);
    let most = StepDetail::MAX_WAITING_TOOLS;
    let mut waiting_tools = List::new("waiting tools of a step", most, 0);
    fields.each(23, |part| waiting_tools.add(|_| waiting_tool(part)))?;
    detail.waiting_tools = waiting_tools.all()?;
    let mut peers = List::new("network peers of a step", StepDetail::MAX_NETWORK_PEERS, 0);
    fields.each(24, |part| peers.add(|_| network_peer(part)))?;
    detail.network_peers = peers.all()?;
    fields.end(24)
}

fn network_peer(bytes: &[u8]) -> Result<NetworkPeer, DecodeError> {
    let mut fields = Fields::new(bytes);
    let port = match fields.small(1).map(u16::try_from) {
        Some(Err(_)) => return Err(wrong("network_peer.port", "it is not a port")),
        Some(Ok(port)) => Some(port),
        None => None,
    };
    let scope = fields.or_zero(2) as u32;
    let peer = NetworkPeer {
        port,
        scope: match proto::PeerScope::try_from(scope.cast_signed()) {
            Ok(proto::PeerScope::LinkLocal) => PeerScope::LinkLocal,
            Ok(proto::PeerScope::Private) => PeerScope::Private,
            Ok(proto::PeerScope::Public) => PeerScope::Public,
            _ => {
                let problem = format!("unknown value {scope}");
                return Err(wrong("network_peer.scope", problem));
            }
        },
        is_server: fields.or_zero(3) != 0,
        received: Bytes(fields.or_zero(4)),
        sent: Bytes(fields.or_zero(5)),
        connections: fields.or_zero(6),
    };
    fields.end(6)?;
    Ok(peer)
}

fn waiting_tool(bytes: &[u8]) -> Result<WaitingTool, DecodeError> {
    let mut fields = Fields::new(bytes);
    let tool = WaitingTool {
        state: task_state(fields.or_zero(1) as u32),
        tool: text("waiting_tool.tool", fields.text(2))?,
        samples: fields.or_zero(3),
    };
    fields.end(3)?;
    Ok(tool)
}

#[inline]
fn busy(bytes: &[u8]) -> Result<Busy, DecodeError> {
    let mut fields = Fields::new(bytes);
    let busy = Busy {
        wall: Duration::from_nanos(fields.or_zero(1)),
        cpu: CpuTime(fields.or_zero(2)),
    };
    fields.end(2)?;
    Ok(busy)
}

#[inline]
fn sampled(bytes: &[u8]) -> Result<(TaskState, Sampled), DecodeError> {
    let mut fields = Fields::new(bytes);
    let state = task_state(fields.or_zero(1) as u32);
    let sampled = Sampled {
        samples: fields.or_zero(2),
        time: Duration::from_nanos(fields.or_zero(3)),
    };
    fields.end(3)?;
    Ok((state, sampled))
}

#[inline]
fn network(bytes: &[u8]) -> Result<StepNetwork, DecodeError> {
    let mut fields = Fields::new(bytes);
    let network = StepNetwork {
        received: Bytes(fields.or_zero(1)),
        sent: Bytes(fields.or_zero(2)),
        retransmits: fields.or_zero(3),
        connections: fields.or_zero(4),
    };
    fields.end(4)?;
    Ok(network)
}

fn gpu(bytes: &[u8]) -> Result<StepGpu, DecodeError> {
    let mut fields = Fields::new(bytes);
    let gpu = StepGpu {
        devices: fields.or_zero(1) as u32,
        held: Duration::from_nanos(fields.or_zero(2)),
        busy: fields.get(3).map(Duration::from_nanos),
        peak_memory: fields.get(4).map(Bytes),
    };
    fields.end(4)?;
    Ok(gpu)
}

fn run(bytes: &[u8]) -> Result<RunName, DecodeError> {
    let mut fields = Fields::new(bytes);
    let name = RunName {
        launcher: text("run.launcher", fields.text(1))?,
        key: text("run.key", fields.text(2))?,
        pipeline: fields.last(3, |part| text("run.pipeline", part))?,
    };
    fields.end(3)?;
    Ok(name)
}

fn scheduler_labels(bytes: &[u8]) -> Result<SchedulerLabels, DecodeError> {
    let mut fields = Fields::new(bytes);
    let most = SchedulerLabels::MAX_KEY_BYTES;
    let trace_id = fields.last(1, |part| text_of("scheduler_labels.trace_id", part, most))?;
    let mut labels = List::new("labels of a step", SchedulerLabels::MAX_LABELS, 0);
    fields.each(2, |part| labels.add(|_| label(part)))?;
    let scheduler_labels = SchedulerLabels {
        trace_id,
        labels: labels.all()?.into_iter().collect(),
    };
    fields.end(2)?;
    Ok(scheduler_labels)
}

fn label(bytes: &[u8]) -> Result<(String, String), DecodeError> {
    let mut fields = Fields::new(bytes);
    let (key, value) = (fields.text(1), fields.text(2));
    let label = (
        text_of(
            "scheduler_labels.labels.key",
            key,
            SchedulerLabels::MAX_KEY_BYTES,
        )?,
        text_of(
            "scheduler_labels.labels.value",
            value,
            SchedulerLabels::MAX_VALUE_BYTES,
        )?,
    );
    fields.end(2)?;
    Ok(label)
}

fn opt_in_detail(bytes: &[u8]) -> Result<OptInDetail, DecodeError> {
    let mut fields = Fields::new(bytes);
    let most = OptInDetail::MAX_ARGUMENT_BYTES;
    let mut argument_bytes = 0;
    let mut arguments = List::new("arguments of a step", OptInDetail::MAX_ARGUMENTS, 0);
    fields.each(1, |part| {
        argument_bytes += part.len();
        arguments.add(|_| text("opt_in_detail.arguments", part))
    })?;
    allowed("bytes of a step's arguments", argument_bytes, most)?;
    let mut files = List::new("paths of a step", OptInDetail::MAX_PATHS, 0);
    fields.each(2, |part| files.add(|_| path(part)))?;
    let files: BTreeMap<String, u64> = files.all()?.into_iter().collect();
    let detail = OptInDetail {
        arguments: arguments.all()?,
        files,
        files_left_out: fields.or_zero(3),
    };
    fields.end(3)?;
    Ok(detail)
}

fn path(bytes: &[u8]) -> Result<(String, u64), DecodeError> {
    let mut fields = Fields::new(bytes);
    let path = text_of(
        "opt_in_detail.files.path",
        fields.text(1),
        OptInDetail::MAX_PATH_BYTES,
    )?;
    let file = (path, fields.or_zero(2));
    fields.end(2)?;
    Ok(file)
}

fn task_state(state: u32) -> TaskState {
    match proto::TaskState::try_from(state.cast_signed()) {
        Ok(proto::TaskState::Running) => TaskState::Running,
        Ok(proto::TaskState::Runnable) => TaskState::Runnable,
        Ok(proto::TaskState::PageFault) => TaskState::PageFault,
        Ok(proto::TaskState::Disk) => TaskState::Disk,
        Ok(proto::TaskState::RemoteFileSystem) => TaskState::RemoteFileSystem,
        Ok(proto::TaskState::Network) => TaskState::Network,
        Ok(proto::TaskState::Pipe) => TaskState::Pipe,
        Ok(proto::TaskState::Poll) => TaskState::Poll,
        Ok(proto::TaskState::Timer) => TaskState::Timer,
        Ok(proto::TaskState::Lock) => TaskState::Lock,
        Ok(proto::TaskState::Child) => TaskState::Child,
        Ok(proto::TaskState::Other | proto::TaskState::Unspecified) | Err(_) => TaskState::Other,
    }
}

#[inline]
fn syscall_io(bytes: &[u8]) -> Result<SyscallIo, DecodeError> {
    let mut fields = Fields::new(bytes);
    let io = SyscallIo {
        read: Bytes(fields.or_zero(1)),
        written: Bytes(fields.or_zero(2)),
        read_calls: fields.or_zero(3),
        write_calls: fields.or_zero(4),
    };
    fields.end(4)?;
    Ok(io)
}

#[inline]
fn cpu_without_progress(bytes: &[u8]) -> Result<CpuWithoutProgress, DecodeError> {
    let mut fields = Fields::new(bytes);
    let cpu_without_progress = CpuWithoutProgress {
        now: Duration::from_nanos(fields.or_zero(1)),
        longest: Duration::from_nanos(fields.or_zero(2)),
    };
    fields.end(2)?;
    Ok(cpu_without_progress)
}

#[inline]
fn reclaim(bytes: &[u8]) -> Result<Reclaim, DecodeError> {
    let mut fields = Fields::new(bytes);
    let reclaim = Reclaim {
        pages_reclaimed: fields.get(1).map(Bytes),
        limit_hits: fields.or_zero(2),
    };
    fields.end(2)?;
    Ok(reclaim)
}
