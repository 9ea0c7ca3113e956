//! What versions 1.1 to 1.5 added to a step.

mod one_four;

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_domain::step::{
    Busy, Handed, Namespaces, Opened, PARALLELISM_CLASSES, Parallelism, RunName, Sampled,
    StepDetail, StepGpu, StepNetwork, TaskState,
};
use ebb_domain::units::{Bytes, CpuTime};

use super::super::fields::{Fields, List};
use super::super::{NO_TEXT, text, wrong};
use crate::error::DecodeError;
use crate::message::allowed;
use crate::proto;

/// A state that a later version may have added is taken for `Other`: it is one of
/// several facts, and no reason to refuse them all.
pub(super) fn read(bytes: &[u8], detail: &mut StepDetail) -> Result<(), DecodeError> {
    let most = PARALLELISM_CLASSES;
    let mut parallelism = List::of("classes of parallelism", most, 0);
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => detail.user_cpu = Some(CpuTime(value.number()?)),
            2 => detail.system_cpu = Some(CpuTime(value.number()?)),
            3 => detail.run_queue = Some(Duration::from_nanos(value.number()?)),
            4 => detail.voluntary_switches = Some(value.number()?),
            5 => detail.involuntary_switches = Some(value.number()?),
            6 => detail.minor_faults = Some(value.number()?),
            7 => detail.major_faults = Some(value.number()?),
            8 => detail.disk_delay = Some(Duration::from_nanos(value.number()?)),
            9 => {
                let bytes = value.bytes()?;
                parallelism.add(|_| busy(bytes))?;
            }
            10 => {
                let (state, seen) = sampled(value.bytes()?)?;
                let sum = detail.states.entry(state).or_default();
                sum.samples = sum.samples.saturating_add(seen.samples);
                sum.time = sum.time.saturating_add(seen.time);
            }
            11 => detail.network = Some(network(value.bytes()?)?),
            12 => detail.gpu = Some(gpu(value.bytes()?)?),
            13 => detail.run = Some(Box::new(run(value.bytes()?)?)),
            14 => detail.handed = Some(Box::new(handed(value.bytes()?)?)),
            15 => detail.opened = Some(Box::new(opened(value.bytes()?)?)),
            16 => detail.asked = Some(one_four::asked(value.bytes()?)?),
            17 => detail.unmoved = Some(one_four::unmoved(value.bytes()?)?),
            18 => detail.threads = Some(value.small()?),
            19 => detail.user = Some(value.small()?),
            20 => detail.reclaim = Some(one_four::reclaim(value.bytes()?)?),
            21 => detail.memory_now = Some(Bytes(value.number()?)),
            22 => detail.namespaces = Some(Namespaces::from_bits(value.small()?)),
            _ => {}
        }
    }
    detail.parallelism = Parallelism::from_classes(parallelism.all()?);
    Ok(())
}

fn busy(bytes: &[u8]) -> Result<Busy, DecodeError> {
    let mut busy = Busy::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => busy.wall = Duration::from_nanos(value.number()?),
            2 => busy.cpu = CpuTime(value.number()?),
            _ => {}
        }
    }
    Ok(busy)
}

fn sampled(bytes: &[u8]) -> Result<(TaskState, Sampled), DecodeError> {
    let (mut state, mut sampled) = (0, Sampled::default());
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => state = value.small()?,
            2 => sampled.samples = value.number()?,
            3 => sampled.time = Duration::from_nanos(value.number()?),
            _ => {}
        }
    }
    Ok((task_state(state), sampled))
}

fn network(bytes: &[u8]) -> Result<StepNetwork, DecodeError> {
    let mut network = StepNetwork::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => network.received = Bytes(value.number()?),
            2 => network.sent = Bytes(value.number()?),
            3 => network.retransmits = value.number()?,
            4 => network.connections = value.number()?,
            _ => {}
        }
    }
    Ok(network)
}

fn gpu(bytes: &[u8]) -> Result<StepGpu, DecodeError> {
    let mut gpu = StepGpu::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => gpu.devices = value.small()?,
            2 => gpu.held = Duration::from_nanos(value.number()?),
            3 => gpu.busy = Some(Duration::from_nanos(value.number()?)),
            4 => gpu.peak_memory = Some(Bytes(value.number()?)),
            _ => {}
        }
    }
    Ok(gpu)
}

fn run(bytes: &[u8]) -> Result<RunName, DecodeError> {
    let (mut launcher, mut key, mut pipeline) = (NO_TEXT, NO_TEXT, None);
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => launcher = value.bytes()?,
            2 => key = value.bytes()?,
            3 => pipeline = Some(text("run.pipeline", value.bytes()?)?),
            _ => {}
        }
    }
    Ok(RunName {
        launcher: text("run.launcher", launcher)?,
        key: text("run.key", key)?,
        pipeline,
    })
}

fn handed(bytes: &[u8]) -> Result<Handed, DecodeError> {
    let mut trace_id = None;
    let mut labels = List::of("labels of a step", Handed::MAX_LABELS, 0);
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => {
                let id = short("handed.trace_id", value.bytes()?, Handed::MAX_KEY_BYTES)?;
                trace_id = Some(id);
            }
            2 => {
                let bytes = value.bytes()?;
                labels.add(|_| label(bytes))?;
            }
            _ => {}
        }
    }
    Ok(Handed {
        trace_id,
        labels: labels.all()?.into_iter().collect(),
    })
}

fn label(bytes: &[u8]) -> Result<(String, String), DecodeError> {
    let [mut key, mut value] = [NO_TEXT; 2];
    let mut fields = Fields(bytes);
    while let Some((tag, part)) = fields.next()? {
        match tag {
            1 => key = part.bytes()?,
            2 => value = part.bytes()?,
            _ => {}
        }
    }
    Ok((
        short("handed.labels.key", key, Handed::MAX_KEY_BYTES)?,
        short("handed.labels.value", value, Handed::MAX_VALUE_BYTES)?,
    ))
}

fn opened(bytes: &[u8]) -> Result<Opened, DecodeError> {
    let most = Opened::MAX_ARGUMENT_BYTES;
    let (mut argument_bytes, mut files_left_out) = (0, 0);
    let mut arguments = List::of("arguments of a step", most, 0);
    let mut files = List::of("paths of a step", Opened::MAX_PATHS, 0);
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => {
                let argument = value.bytes()?;
                argument_bytes += argument.len();
                arguments.add(|_| text("opened.arguments", argument))?;
            }
            2 => {
                let bytes = value.bytes()?;
                files.add(|_| path(bytes))?;
            }
            3 => files_left_out = value.number()?,
            _ => {}
        }
    }
    allowed("bytes of a step's arguments", argument_bytes, most)?;
    let files: BTreeMap<String, u64> = files.all()?.into_iter().collect();
    Ok(Opened {
        arguments: arguments.all()?,
        files,
        files_left_out,
    })
}

fn path(bytes: &[u8]) -> Result<(String, u64), DecodeError> {
    let (mut path, mut count) = (NO_TEXT, 0);
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => path = value.bytes()?,
            2 => count = value.number()?,
            _ => {}
        }
    }
    let path = short("opened.files.path", path, Opened::MAX_PATH_BYTES)?;
    Ok((path, count))
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
