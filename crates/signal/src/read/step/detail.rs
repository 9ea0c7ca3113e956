//! What versions 1.1 to 1.5 added to a step.

mod one_four;

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_domain::step::{
    Busy, Handed, Namespaces, Opened, PARALLELISM_CLASSES, Parallelism, RunName, Sampled,
    StepDetail, StepGpu, StepNetwork, TaskState,
};
use ebb_domain::units::{Bytes, CpuTime};

use super::super::fields::{List, Numbers, bits, numbers, texts};
use super::super::{NO_TEXT, text, wrong};
use crate::error::DecodeError;
use crate::message::allowed;
use crate::proto;

/// A state that a later version may have added is taken for `Other`: it is one of
/// several facts, and no reason to refuse them all.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Result<StepDetail, DecodeError> {
    let mut detail = StepDetail::default();
    let most = PARALLELISM_CLASSES;
    let mut parallelism = List::of("classes of parallelism", most, 0);
    let parts = bits(&[9, 10, 11, 12, 13, 14, 15, 16, 17, 20]);
    let said = Numbers::<23>::read(bytes, 22, parts, |tag, part| {
        match tag {
            9 => parallelism.add(|_| busy(part))?,
            10 => {
                let (state, seen) = sampled(part)?;
                let sum = detail.states.entry(state).or_default();
                sum.samples = sum.samples.saturating_add(seen.samples);
                sum.time = sum.time.saturating_add(seen.time);
            }
            11 => detail.network = Some(network(part)?),
            12 => detail.gpu = Some(gpu(part)?),
            13 => detail.run = Some(Box::new(run(part)?)),
            14 => detail.handed = Some(Box::new(handed(part)?)),
            15 => detail.opened = Some(Box::new(opened(part)?)),
            16 => detail.asked = Some(one_four::asked(part)?),
            17 => detail.unmoved = Some(one_four::unmoved(part)?),
            _ => detail.reclaim = Some(one_four::reclaim(part)?),
        }
        Ok(())
    })?;
    Ok(StepDetail {
        user_cpu: said.get(1).map(CpuTime),
        system_cpu: said.get(2).map(CpuTime),
        run_queue: said.get(3).map(Duration::from_nanos),
        voluntary_switches: said.get(4),
        involuntary_switches: said.get(5),
        minor_faults: said.get(6),
        major_faults: said.get(7),
        disk_delay: said.get(8).map(Duration::from_nanos),
        parallelism: Parallelism::from_classes(parallelism.all()?),
        threads: said.small(18),
        user: said.small(19),
        memory_now: said.get(21).map(Bytes),
        namespaces: said.small(22).map(Namespaces::from_bits),
        ..detail
    })
}

#[inline]
fn busy(bytes: &[u8]) -> Result<Busy, DecodeError> {
    let said = numbers(bytes, 2)?;
    Ok(Busy {
        wall: Duration::from_nanos(said.or_zero(1)),
        cpu: CpuTime(said.or_zero(2)),
    })
}

#[inline]
fn sampled(bytes: &[u8]) -> Result<(TaskState, Sampled), DecodeError> {
    let said = numbers(bytes, 3)?;
    let sampled = Sampled {
        samples: said.or_zero(2),
        time: Duration::from_nanos(said.or_zero(3)),
    };
    Ok((task_state(said.or_zero(1) as u32), sampled))
}

#[inline]
fn network(bytes: &[u8]) -> Result<StepNetwork, DecodeError> {
    let said = numbers(bytes, 4)?;
    Ok(StepNetwork {
        received: Bytes(said.or_zero(1)),
        sent: Bytes(said.or_zero(2)),
        retransmits: said.or_zero(3),
        connections: said.or_zero(4),
    })
}

fn gpu(bytes: &[u8]) -> Result<StepGpu, DecodeError> {
    let said = numbers(bytes, 4)?;
    Ok(StepGpu {
        devices: said.or_zero(1) as u32,
        held: Duration::from_nanos(said.or_zero(2)),
        busy: said.get(3).map(Duration::from_nanos),
        peak_memory: said.get(4).map(Bytes),
    })
}

fn run(bytes: &[u8]) -> Result<RunName, DecodeError> {
    let (mut launcher, mut key, mut pipeline) = (NO_TEXT, NO_TEXT, None);
    texts(bytes, 3, |tag, part| {
        match tag {
            1 => launcher = part,
            2 => key = part,
            _ => pipeline = Some(text("run.pipeline", part)?),
        }
        Ok(())
    })?;
    Ok(RunName {
        launcher: text("run.launcher", launcher)?,
        key: text("run.key", key)?,
        pipeline,
    })
}

fn handed(bytes: &[u8]) -> Result<Handed, DecodeError> {
    let mut trace_id = None;
    let mut labels = List::of("labels of a step", Handed::MAX_LABELS, 0);
    texts(bytes, 2, |tag, part| {
        match tag {
            1 => trace_id = Some(short("handed.trace_id", part, Handed::MAX_KEY_BYTES)?),
            _ => labels.add(|_| label(part))?,
        }
        Ok(())
    })?;
    Ok(Handed {
        trace_id,
        labels: labels.all()?.into_iter().collect(),
    })
}

fn label(bytes: &[u8]) -> Result<(String, String), DecodeError> {
    let [mut key, mut value] = [NO_TEXT; 2];
    texts(bytes, 2, |tag, part| {
        match tag {
            1 => key = part,
            _ => value = part,
        }
        Ok(())
    })?;
    Ok((
        short("handed.labels.key", key, Handed::MAX_KEY_BYTES)?,
        short("handed.labels.value", value, Handed::MAX_VALUE_BYTES)?,
    ))
}

fn opened(bytes: &[u8]) -> Result<Opened, DecodeError> {
    let most = Opened::MAX_ARGUMENT_BYTES;
    let mut argument_bytes = 0;
    let mut arguments = List::of("arguments of a step", most, 0);
    let mut files = List::of("paths of a step", Opened::MAX_PATHS, 0);
    let said = Numbers::<4>::read(bytes, 3, bits(&[1, 2]), |tag, part| match tag {
        1 => {
            argument_bytes += part.len();
            arguments.add(|_| text("opened.arguments", part))
        }
        _ => files.add(|_| path(part)),
    })?;
    allowed("bytes of a step's arguments", argument_bytes, most)?;
    let files: BTreeMap<String, u64> = files.all()?.into_iter().collect();
    Ok(Opened {
        arguments: arguments.all()?,
        files,
        files_left_out: said.or_zero(3),
    })
}

fn path(bytes: &[u8]) -> Result<(String, u64), DecodeError> {
    let mut path = NO_TEXT;
    let said = Numbers::<3>::read(bytes, 2, bits(&[1]), |_, part| {
        path = part;
        Ok(())
    })?;
    let path = short("opened.files.path", path, Opened::MAX_PATH_BYTES)?;
    Ok((path, said.or_zero(2)))
}

fn short(field: &'static str, value: &[u8], max: usize) -> Result<String, DecodeError> {
    match value.len() > max {
        true => Err(wrong(field, format!("more than {max} bytes"))),
        false => text(field, value),
    }
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
