//! What versions 1.1 to 1.5 added to a step.

use ebb_telemetry::step::{Namespaces, Parallelism, StepDetail, TaskState};

use super::super::{nanos, number};
use crate::proto;

/// `None` for a step of which nothing more is known, as before 1.1.
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
        handed: detail.handed.as_deref().map(Into::into),
        opened: detail.opened.as_deref().map(Into::into),
        asked: detail.asked.map(Into::into),
        unmoved: detail.unmoved.map(Into::into),
        threads: detail.threads,
        user: detail.user,
        reclaim: detail.reclaim.map(Into::into),
        memory_now_bytes: detail.memory_now.map(|bytes| number(bytes.0)),
        namespaces: detail.namespaces.map(Namespaces::bits),
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
        TaskState::Network => proto::TaskState::Network,
        TaskState::Pipe => proto::TaskState::Pipe,
        TaskState::Poll => proto::TaskState::Poll,
        TaskState::Timer => proto::TaskState::Timer,
        TaskState::Lock => proto::TaskState::Lock,
        TaskState::Child => proto::TaskState::Child,
        TaskState::Other => proto::TaskState::Other,
    }
}
