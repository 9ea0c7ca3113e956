//! Decodes the further observations of a task.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::step::{
    Asked, Busy, Handed, Namespaces, Opened, PARALLELISM_CLASSES, Parallelism, Reclaim, RunName,
    Sampled, StepDetail, StepGpu, StepNetwork, TaskState, Unmoved,
};
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::contents::allowed;
use crate::decode::fields::{Fields, List};
use crate::decode::values::{text, text_of};
use crate::error::DecodeError;
use crate::proto;

/// An unknown state, which a later version may have added, becomes `Other`. It is one of several
/// values, and so no reason to refuse the task.
#[inline]
pub(super) fn read(bytes: &[u8], detail: &mut StepDetail) -> Result<(), DecodeError> {
    let mut said = Fields::of(bytes);
    detail.user_cpu = said.get(1).map(CpuTime);
    detail.system_cpu = said.get(2).map(CpuTime);
    detail.run_queue = said.get(3).map(Duration::from_nanos);
    detail.voluntary_switches = said.get(4);
    detail.involuntary_switches = said.get(5);
    detail.minor_faults = said.get(6);
    detail.major_faults = said.get(7);
    detail.disk_delay = said.get(8).map(Duration::from_nanos);
    let most = PARALLELISM_CLASSES;
    let mut parallelism = List::of("classes of parallelism", most, 0);
    said.each(9, |part| parallelism.add(|_| busy(part)))?;
    detail.parallelism = Parallelism::from_classes(parallelism.all()?);
    detail.states = BTreeMap::new();
    said.each(10, |part| {
        let (state, seen) = sampled(part)?;
        let sum = detail.states.entry(state).or_default();
        sum.samples = sum.samples.saturating_add(seen.samples);
        sum.time = sum.time.saturating_add(seen.time);
        Ok(())
    })?;
    detail.network = said.last(11, network)?;
    detail.gpu = said.last(12, gpu)?;
    detail.run = said.last(13, |part| run(part).map(Box::new))?;
    detail.handed = said.last(14, |part| handed(part).map(Box::new))?;
    detail.opened = said.last(15, |part| opened(part).map(Box::new))?;
    detail.asked = said.last(16, asked)?;
    detail.unmoved = said.last(17, unmoved)?;
    detail.threads = said.small(18);
    detail.user = said.small(19);
    detail.reclaim = said.last(20, reclaim)?;
    detail.memory_now = said.get(21).map(Bytes);
    detail.namespaces = said.small(22).map(Namespaces::from_bits);
    said.end(22)
}

#[inline]
fn busy(bytes: &[u8]) -> Result<Busy, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Busy {
        wall: Duration::from_nanos(said.or_zero(1)),
        cpu: CpuTime(said.or_zero(2)),
    };
    said.end(2)?;
    Ok(told)
}

#[inline]
fn sampled(bytes: &[u8]) -> Result<(TaskState, Sampled), DecodeError> {
    let mut said = Fields::of(bytes);
    let state = task_state(said.or_zero(1) as u32);
    let sampled = Sampled {
        samples: said.or_zero(2),
        time: Duration::from_nanos(said.or_zero(3)),
    };
    said.end(3)?;
    Ok((state, sampled))
}

#[inline]
fn network(bytes: &[u8]) -> Result<StepNetwork, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = StepNetwork {
        received: Bytes(said.or_zero(1)),
        sent: Bytes(said.or_zero(2)),
        retransmits: said.or_zero(3),
        connections: said.or_zero(4),
    };
    said.end(4)?;
    Ok(told)
}

fn gpu(bytes: &[u8]) -> Result<StepGpu, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = StepGpu {
        devices: said.or_zero(1) as u32,
        held: Duration::from_nanos(said.or_zero(2)),
        busy: said.get(3).map(Duration::from_nanos),
        peak_memory: said.get(4).map(Bytes),
    };
    said.end(4)?;
    Ok(told)
}

fn run(bytes: &[u8]) -> Result<RunName, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = RunName {
        launcher: text("run.launcher", said.text(1))?,
        key: text("run.key", said.text(2))?,
        pipeline: said.last(3, |part| text("run.pipeline", part))?,
    };
    said.end(3)?;
    Ok(told)
}

fn handed(bytes: &[u8]) -> Result<Handed, DecodeError> {
    let mut said = Fields::of(bytes);
    let most = Handed::MAX_KEY_BYTES;
    let trace_id = said.last(1, |part| text_of("handed.trace_id", part, most))?;
    let mut labels = List::of("labels of a step", Handed::MAX_LABELS, 0);
    said.each(2, |part| labels.add(|_| label(part)))?;
    let told = Handed {
        trace_id,
        labels: labels.all()?.into_iter().collect(),
    };
    said.end(2)?;
    Ok(told)
}

fn label(bytes: &[u8]) -> Result<(String, String), DecodeError> {
    let mut said = Fields::of(bytes);
    let (key, value) = (said.text(1), said.text(2));
    let told = (
        text_of("handed.labels.key", key, Handed::MAX_KEY_BYTES)?,
        text_of("handed.labels.value", value, Handed::MAX_VALUE_BYTES)?,
    );
    said.end(2)?;
    Ok(told)
}

fn opened(bytes: &[u8]) -> Result<Opened, DecodeError> {
    let mut said = Fields::of(bytes);
    let most = Opened::MAX_ARGUMENT_BYTES;
    let mut argument_bytes = 0;
    let mut arguments = List::of("arguments of a step", Opened::MAX_ARGUMENTS, 0);
    said.each(1, |part| {
        argument_bytes += part.len();
        arguments.add(|_| text("opened.arguments", part))
    })?;
    allowed("bytes of a step's arguments", argument_bytes, most)?;
    let mut files = List::of("paths of a step", Opened::MAX_PATHS, 0);
    said.each(2, |part| files.add(|_| path(part)))?;
    let files: BTreeMap<String, u64> = files.all()?.into_iter().collect();
    let told = Opened {
        arguments: arguments.all()?,
        files,
        files_left_out: said.or_zero(3),
    };
    said.end(3)?;
    Ok(told)
}

fn path(bytes: &[u8]) -> Result<(String, u64), DecodeError> {
    let mut said = Fields::of(bytes);
    let path = text_of("opened.files.path", said.text(1), Opened::MAX_PATH_BYTES)?;
    let told = (path, said.or_zero(2));
    said.end(2)?;
    Ok(told)
}

fn task_state(state: u32) -> TaskState {
    match proto::TaskState::try_from(state.cast_signed()) {
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

#[inline]
fn asked(bytes: &[u8]) -> Result<Asked, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Asked {
        read: Bytes(said.or_zero(1)),
        written: Bytes(said.or_zero(2)),
        read_calls: said.or_zero(3),
        write_calls: said.or_zero(4),
    };
    said.end(4)?;
    Ok(told)
}

#[inline]
fn unmoved(bytes: &[u8]) -> Result<Unmoved, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Unmoved {
        now: Duration::from_nanos(said.or_zero(1)),
        longest: Duration::from_nanos(said.or_zero(2)),
    };
    said.end(2)?;
    Ok(told)
}

#[inline]
fn reclaim(bytes: &[u8]) -> Result<Reclaim, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Reclaim {
        taken: said.get(1).map(Bytes),
        limit_hits: said.or_zero(2),
    };
    said.end(2)?;
    Ok(told)
}
