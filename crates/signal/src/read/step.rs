//! What is said of a step, and whole objects of finished ones.

mod detail;

use ebb_domain::heartbeat::BootClock;
use ebb_domain::step::{
    MemorySource, PeakMemory, Requested, StepBatch, StepEnd, StepId, StepKind, StepUsage, ToolUsage,
};
use ebb_domain::units::{Bytes, CpuTime, MilliCores};

use super::fields::{Fields, List};
use super::{NO_TEXT, named, origin, required, sent, text_again, wrong};
use crate::error::DecodeError;
use crate::message::{MAX_STEPS_AN_OBJECT, MAX_TOOLS_A_STEP, StepObject};
use crate::proto;

/// Reads what one object says.
pub(crate) fn steps(bytes: &[u8]) -> Result<StepObject, DecodeError> {
    let (mut sender, mut names, mut sequence, mut source) = (None, [NO_TEXT; 3], 0, 0);
    let mut steps = List::of("steps", MAX_STEPS_AN_OBJECT, 0);
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => sender = Some(sent(value.bytes()?)?),
            2 => names[0] = value.bytes()?,
            3 => names[1] = value.bytes()?,
            4 => names[2] = value.bytes()?,
            5 => sequence = value.number()?,
            6 => source = value.small()?,
            7 => {
                let bytes = value.bytes()?;
                steps.add(|_| usage(bytes, None))?;
            }
            _ => {}
        }
    }
    let [node, boot, probe_start] = names;
    Ok(StepObject {
        sent: required("sent", sender)?,
        batch: StepBatch {
            node: named("node", node)?,
            boot: named("boot", boot)?,
            probe_start: named("probe_start", probe_start)?,
            sequence,
            origin: origin(source)?,
            steps: steps.all()?,
        },
    })
}

/// Reads one step; `before` is the one in its place in the heartbeat before, which is
/// the same step as a rule.
pub(super) fn usage(bytes: &[u8], before: Option<&StepUsage>) -> Result<StepUsage, DecodeError> {
    let mut usage = StepUsage {
        id: StepId {
            kind: StepKind::Tree,
            key: String::new(),
        },
        name: String::new(),
        started: BootClock::default(),
        observed: BootClock::default(),
        end: StepEnd::Unknown,
        processes: 0,
        cpu: CpuTime(0),
        peak_memory: None,
        disk_read: None,
        disk_written: None,
        requested: Requested::default(),
        peak_cores: None,
        last_progress: BootClock::default(),
        tools: Vec::new(),
        detail: Default::default(),
    };
    let (mut kind, mut end, mut end_code) = (0, 0, 0);
    let (mut peak, mut peak_source) = (None, 0);
    let tools_before = before.map_or_else(Default::default, |before| before.tools.as_slice());
    let mut tools = List::of("tools of a step", MAX_TOOLS_A_STEP, tools_before.len());
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => kind = value.small()?,
            2 => {
                let key = before.map(|before| &before.id.key);
                usage.id.key = text_again("step.key", value.bytes()?, key)?;
            }
            3 => {
                let name = before.map(|before| &before.name);
                usage.name = text_again("step.name", value.bytes()?, name)?;
            }
            4 => usage.started = BootClock::from_nanos(value.number()?),
            5 => usage.observed = BootClock::from_nanos(value.number()?),
            6 => end = value.small()?,
            7 => end_code = value.small()?,
            8 => usage.processes = value.number()?,
            9 => usage.cpu = CpuTime(value.number()?),
            10 => peak = Some(Bytes(value.number()?)),
            11 => peak_source = value.small()?,
            12 => usage.disk_read = Some(Bytes(value.number()?)),
            13 => usage.disk_written = Some(Bytes(value.number()?)),
            14 => usage.requested.cores = Some(MilliCores(value.number()?)),
            15 => usage.requested.memory = Some(Bytes(value.number()?)),
            16 => usage.peak_cores = Some(MilliCores(value.number()?)),
            17 => usage.last_progress = BootClock::from_nanos(value.number()?),
            18 => {
                let bytes = value.bytes()?;
                tools.add(|read| tool(bytes, tools_before.get(read.len())))?;
            }
            19 => detail::read(value.bytes()?, &mut usage.detail)?,
            _ => {}
        }
    }
    if usage.observed < usage.started {
        return Err(wrong("step.observed_ns", "it lies before step.started_ns"));
    }
    usage.id.kind = step_kind(kind)?;
    usage.end = step_end(end, end_code)?;
    if let Some(bytes) = peak {
        let source = memory_source(peak_source)?;
        usage.peak_memory = Some(PeakMemory { bytes, source });
    }
    usage.tools = tools.all()?;
    Ok(usage)
}

fn tool(bytes: &[u8], before: Option<&ToolUsage>) -> Result<ToolUsage, DecodeError> {
    let mut tool = ToolUsage {
        name: String::new(),
        processes: 0,
        cpu: CpuTime(0),
        peak_memory: None,
        disk: None,
    };
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => {
                let name = before.map(|before| &before.name);
                tool.name = text_again("tool.name", value.bytes()?, name)?;
            }
            2 => tool.processes = value.number()?,
            3 => tool.cpu = CpuTime(value.number()?),
            4 => tool.peak_memory = Some(Bytes(value.number()?)),
            5 => tool.disk = Some(Bytes(value.number()?)),
            _ => {}
        }
    }
    Ok(tool)
}

fn step_kind(kind: u32) -> Result<StepKind, DecodeError> {
    Ok(match proto::StepKind::try_from(kind.cast_signed()) {
        Ok(proto::StepKind::EcsTask) => StepKind::EcsTask,
        Ok(proto::StepKind::Pod) => StepKind::Pod,
        Ok(proto::StepKind::Container) => StepKind::Container,
        Ok(proto::StepKind::SlurmJob) => StepKind::SlurmJob,
        Ok(proto::StepKind::NextflowTask) => StepKind::NextflowTask,
        Ok(proto::StepKind::SnakemakeJob) => StepKind::SnakemakeJob,
        Ok(proto::StepKind::Session) => StepKind::Session,
        Ok(proto::StepKind::Service) => StepKind::Service,
        Ok(proto::StepKind::Tree) => StepKind::Tree,
        _ => return Err(wrong("step.kind", format!("{kind} is not known here"))),
    })
}

fn step_end(end: u32, code: u32) -> Result<StepEnd, DecodeError> {
    let small = || u8::try_from(code).map_err(|_| wrong("step.end_code", format!("{code} > 255")));
    Ok(match proto::EndKind::try_from(end.cast_signed()) {
        Ok(proto::EndKind::Running) => StepEnd::Running,
        Ok(proto::EndKind::Exited) => StepEnd::Exited(small()?),
        Ok(proto::EndKind::Signalled) => StepEnd::Signalled(small()?),
        Ok(proto::EndKind::OutOfMemory) => StepEnd::OutOfMemory,
        Ok(proto::EndKind::Unknown) => StepEnd::Unknown,
        _ => return Err(wrong("step.end", format!("{end} is not known here"))),
    })
}

fn memory_source(source: u32) -> Result<MemorySource, DecodeError> {
    Ok(match proto::MemorySource::try_from(source.cast_signed()) {
        Ok(proto::MemorySource::CgroupSampled) => MemorySource::CgroupSampled,
        Ok(proto::MemorySource::CgroupPeak) => MemorySource::CgroupPeak,
        Ok(proto::MemorySource::ProcessesSampled) => MemorySource::ProcessesSampled,
        Ok(proto::MemorySource::HighWaterAtExit) => MemorySource::HighWaterAtExit,
        Ok(proto::MemorySource::MaxRssUpperBound) => MemorySource::MaxRssUpperBound,
        _ => {
            return Err(wrong(
                "step.peak_memory_source",
                format!("{source} is not known here"),
            ));
        }
    })
}
