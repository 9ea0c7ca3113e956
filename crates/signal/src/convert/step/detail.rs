//! What versions 1.1 to 1.3 added to a step.

use std::time::Duration;

use ebb_domain::step::{Busy, PARALLELISM_CLASSES, Parallelism, Sampled, StepDetail, TaskState};
use ebb_domain::units::CpuTime;

use super::super::nanos;
use crate::error::DecodeError;
use crate::message::allowed;
use crate::proto;

/// `None` for a step of which nothing more is known, as before 1.1.
pub(super) fn out(detail: &StepDetail) -> Option<Box<proto::Detail>> {
    if *detail == StepDetail::default() {
        return None;
    }
    Some(Box::new(proto::Detail {
        user_cpu_ns: detail.user_cpu.map(|cpu| cpu.0),
        system_cpu_ns: detail.system_cpu.map(|cpu| cpu.0),
        run_queue_ns: detail.run_queue.map(nanos),
        voluntary_switches: detail.voluntary_switches,
        involuntary_switches: detail.involuntary_switches,
        minor_faults: detail.minor_faults,
        major_faults: detail.major_faults,
        disk_delay_ns: detail.disk_delay.map(nanos),
        parallelism: parallelism_out(&detail.parallelism),
        states: detail
            .states
            .iter()
            .map(|(state, sampled)| proto::Sampled {
                state: state_out(*state).into(),
                samples: sampled.samples,
                time_ns: nanos(sampled.time),
            })
            .collect(),
        network: detail.network.map(Into::into),
        gpu: detail.gpu.map(Into::into),
        run: detail.run.as_deref().map(Into::into),
        handed: detail.handed.as_deref().map(Into::into),
        opened: detail.opened.as_deref().map(Into::into),
    }))
}

/// A state that a later version may have added is taken for `Other`: it is one of
/// several facts, and no reason to refuse them all.
pub(super) fn taken(detail: Option<&proto::Detail>) -> Result<StepDetail, DecodeError> {
    let Some(d) = detail else {
        return Ok(StepDetail::default());
    };
    let mut taken = StepDetail {
        user_cpu: d.user_cpu_ns.map(CpuTime),
        system_cpu: d.system_cpu_ns.map(CpuTime),
        run_queue: d.run_queue_ns.map(Duration::from_nanos),
        voluntary_switches: d.voluntary_switches,
        involuntary_switches: d.involuntary_switches,
        minor_faults: d.minor_faults,
        major_faults: d.major_faults,
        disk_delay: d.disk_delay_ns.map(Duration::from_nanos),
        parallelism: parallelism_in(&d.parallelism)?,
        network: d.network.map(Into::into),
        gpu: d.gpu.map(Into::into),
        run: boxed(d.run.as_ref())?,
        handed: boxed(d.handed.as_ref())?,
        opened: boxed(d.opened.as_ref())?,
        ..StepDetail::default()
    };
    for seen in &d.states {
        let sum: &mut Sampled = taken.states.entry(state_in(seen.state)).or_default();
        sum.samples = sum.samples.saturating_add(seen.samples);
        sum.time = sum.time.saturating_add(Duration::from_nanos(seen.time_ns));
    }
    Ok(taken)
}

fn boxed<'a, W, T: TryFrom<&'a W>>(part: Option<&'a W>) -> Result<Option<Box<T>>, T::Error> {
    part.map(|part| part.try_into().map(Box::new)).transpose()
}

fn parallelism_out(parallelism: &Parallelism) -> Vec<proto::Busy> {
    let classes = parallelism.classes().iter();
    classes
        .map(|busy| proto::Busy {
            wall_ns: nanos(busy.wall),
            cpu_ns: busy.cpu.0,
        })
        .collect()
}

fn parallelism_in(classes: &[proto::Busy]) -> Result<Parallelism, DecodeError> {
    allowed("classes of parallelism", classes.len(), PARALLELISM_CLASSES)?;
    let classes = classes.iter().map(|busy| Busy {
        wall: Duration::from_nanos(busy.wall_ns),
        cpu: CpuTime(busy.cpu_ns),
    });
    Ok(Parallelism::from_classes(classes.collect()))
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

fn state_in(state: i32) -> TaskState {
    match proto::TaskState::try_from(state) {
        Ok(proto::TaskState::Running) => TaskState::Running,
        Ok(proto::TaskState::Runnable) => TaskState::Runnable,
        Ok(proto::TaskState::PageFault) => TaskState::PageFault,
        Ok(proto::TaskState::Disk) => TaskState::Disk,
        Ok(proto::TaskState::Network) => TaskState::Network,
        Ok(proto::TaskState::Pipe) => TaskState::Pipe,
        Ok(proto::TaskState::Poll) => TaskState::Poll,
        Ok(proto::TaskState::Timer) => TaskState::Timer,
        Ok(proto::TaskState::Lock) => TaskState::Lock,
        Ok(proto::TaskState::Child) => TaskState::Child,
        Ok(proto::TaskState::Other | proto::TaskState::Unspecified) | Err(_) => TaskState::Other,
    }
}
