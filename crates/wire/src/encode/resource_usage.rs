//! Encodes the further observations of a task.

use ebb_telemetry::safe_text::clean;
use ebb_telemetry::step::{
    CpuWithoutProgress, Namespaces, NetworkPeer, OptInDetail, Parallelism, PeerScope, Reclaim,
    RunName, SchedulerLabels, StepDetail, StepGpu, StepNetwork, SyscallIo, TaskState, WaitingTool,
};

use crate::encode::values::{name, nanos, number};
use crate::proto;

/// `None` if there are no further observations, as before version 1.1.
pub(super) fn out(detail: &StepDetail) -> Option<Box<proto::Detail>> {
    if *detail == StepDetail::default() {
        return None;
    }
    Some(Box::new(proto::Detail {
        user_cpu_ns: detail.user_cpu.map(|cpu| number(cpu.0)),
        system_cpu_ns: detail.system_cpu.map(|cpu| number(cpu.0)),
        run_queue_ns: detail.run_queue.map(nanos),
        voluntary_switches: detail.voluntary_switches.map(number),
        involuntary_switches: detail.involuntary_switches.map(number),
        minor_faults: detail.minor_faults.map(number),
        major_faults: detail.major_faults.map(number),
        disk_delay_ns: detail.disk_delay.map(nanos),
        parallelism: parallelism_out(&detail.parallelism),
        states: detail
            .states
            .iter()
            .map(|(state, sampled)| proto::Sampled {
                state: state_out(*state).into(),
                samples: number(sampled.samples),
                time_ns: nanos(sampled.time),
            })
            .collect(),
        network: detail.network.map(Into::into),
        gpu: detail.gpu.map(Into::into),
        run: detail.run.as_deref().map(Into::into),
        scheduler_labels: detail.scheduler_labels.as_deref().map(Into::into),
        opt_in_detail: detail.opt_in_detail.as_deref().map(Into::into),
        syscall_io: detail.syscall_io.map(Into::into),
        cpu_without_progress: detail.cpu_without_progress.map(Into::into),
        threads: detail.threads,
        user: detail.user,
        reclaim: detail.reclaim.map(Into::into),
        memory_now_bytes: detail.memory_now.map(|bytes| number(bytes.0)),
        namespaces: detail.namespaces.map(Namespaces::bits),
        waiting_tools: detail.waiting_tools.iter().map(Into::into).collect(),
        network_peers: detail.network_peers.iter().map(Into::into).collect(),
    }))
}

fn parallelism_out(parallelism: &Parallelism) -> Vec<proto::Busy> {
    let classes = parallelism.classes().iter();
    classes
        .map(|busy| proto::Busy {
            wall_ns: nanos(busy.wall),
            cpu_ns: number(busy.cpu.0),
        })
        .collect()
}

fn state_out(state: TaskState) -> proto::TaskState {
    match state {
        TaskState::Running => proto::TaskState::Running,
        TaskState::Runnable => proto::TaskState::Runnable,
        TaskState::PageFault => proto::TaskState::PageFault,
        TaskState::Disk => proto::TaskState::Disk,
        TaskState::RemoteFileSystem => proto::TaskState::RemoteFileSystem,
        TaskState::Network => proto::TaskState::Network,
        TaskState::Pipe => proto::TaskState::Pipe,
        TaskState::Poll => proto::TaskState::Poll,
        TaskState::Timer => proto::TaskState::Timer,
        TaskState::Lock => proto::TaskState::Lock,
        TaskState::Child => proto::TaskState::Child,
        TaskState::Other => proto::TaskState::Other,
    }
}

impl From<&WaitingTool> for proto::WaitingTool {
    fn from(waiting: &WaitingTool) -> Self {
        Self {
            state: state_out(waiting.state) as i32,
            tool: name(&waiting.tool),
            samples: number(waiting.samples),
        }
    }
}

impl From<&NetworkPeer> for proto::NetworkPeer {
    fn from(peer: &NetworkPeer) -> Self {
        let scope = match peer.scope {
            PeerScope::LinkLocal => proto::PeerScope::LinkLocal,
            PeerScope::Private => proto::PeerScope::Private,
            PeerScope::Public => proto::PeerScope::Public,
        };
        Self {
            port: peer.port.map(u32::from),
            scope: scope as i32,
            is_server: peer.is_server,
            received_bytes: number(peer.received.0),
            sent_bytes: number(peer.sent.0),
            connections: number(peer.connections),
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

fn short(text: &str, max_bytes: usize) -> String {
    clean(text, max_bytes).into_owned()
}

impl From<&SchedulerLabels> for proto::SchedulerLabels {
    fn from(scheduler_labels: &SchedulerLabels) -> Self {
        let label = |(key, value): (&String, &String)| proto::Label {
            key: short(key, SchedulerLabels::MAX_KEY_BYTES),
            value: short(value, SchedulerLabels::MAX_VALUE_BYTES),
        };
        let trace_id = scheduler_labels.trace_id.as_deref();
        Self {
            trace_id: trace_id.map(|id| short(id, SchedulerLabels::MAX_KEY_BYTES)),
            labels: scheduler_labels
                .labels
                .iter()
                .take(SchedulerLabels::MAX_LABELS)
                .map(label)
                .collect(),
        }
    }
}

impl From<&OptInDetail> for proto::OptInDetail {
    fn from(opt_in_detail: &OptInDetail) -> Self {
        let files = |(path, count): (&String, &u64)| proto::Files {
            path: short(path, OptInDetail::MAX_PATH_BYTES),
            count: number(*count),
        };
        let mut room = OptInDetail::MAX_ARGUMENT_BYTES;
        let arguments = opt_in_detail
            .arguments
            .iter()
            .take(OptInDetail::MAX_ARGUMENTS);
        Self {
            arguments: arguments
                .map(|argument| {
                    let argument = short(argument, room.min(crate::contents::MAX_TEXT_BYTES));
                    room -= argument.len();
                    argument
                })
                .collect(),
            files: opt_in_detail
                .files
                .iter()
                .take(OptInDetail::MAX_PATHS)
                .map(files)
                .collect(),
            files_left_out: number(opt_in_detail.files_left_out),
        }
    }
}

impl From<SyscallIo> for proto::SyscallIo {
    fn from(syscall_io: SyscallIo) -> Self {
        Self {
            read_bytes: number(syscall_io.read.0),
            written_bytes: number(syscall_io.written.0),
            read_calls: number(syscall_io.read_calls),
            write_calls: number(syscall_io.write_calls),
        }
    }
}

impl From<CpuWithoutProgress> for proto::CpuWithoutProgress {
    fn from(cpu_without_progress: CpuWithoutProgress) -> Self {
        Self {
            now_ns: nanos(cpu_without_progress.now),
            longest_ns: nanos(cpu_without_progress.longest),
        }
    }
}

impl From<Reclaim> for proto::Reclaim {
    fn from(reclaim: Reclaim) -> Self {
        Self {
            pages_reclaimed_bytes: reclaim.pages_reclaimed.map(|bytes| number(bytes.0)),
            limit_hits: number(reclaim.limit_hits),
        }
    }
}
