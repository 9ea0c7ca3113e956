//! What is said of a step, and whole objects of finished ones.

mod detail;

use ebb_domain::heartbeat::BootClock;
use ebb_domain::step::{
    MemorySource, PeakMemory, Requested, StepBatch, StepEnd, StepId, StepKind, StepUsage, ToolUsage,
};
use ebb_domain::units::{Bytes, CpuTime, MilliCores};

use super::fields::{List, Numbers, bits};
use super::{NO_TEXT, named, origin, required, sent, text_again, wrong};
use crate::error::DecodeError;
use crate::message::{MAX_STEPS_AN_OBJECT, MAX_TOOLS_A_STEP, StepObject};
use crate::proto;

/// Reads what one object says.
pub(crate) fn steps(bytes: &[u8]) -> Result<StepObject, DecodeError> {
    let (mut sender, mut names) = (None, [NO_TEXT; 3]);
    let mut steps = List::of("steps", MAX_STEPS_AN_OBJECT, 0);
    let parts = bits(&[1, 2, 3, 4, 7]);
    let said = Numbers::<8>::read(bytes, 7, parts, |tag, part| {
        match tag {
            1 => sender = Some(sent(part)?),
            7 => steps.add(|_| usage(part, None))?,
            name => names[name - 2] = part,
        }
        Ok(())
    })?;
    let [node, boot, probe_start] = names;
    Ok(StepObject {
        sent: required("sent", sender)?,
        batch: StepBatch {
            node: named("node", node)?,
            boot: named("boot", boot)?,
            probe_start: named("probe_start", probe_start)?,
            sequence: said.or_zero(5),
            origin: origin(said.or_zero(6) as u32)?,
            steps: steps.all()?,
        },
    })
}

/// Reads one step; `before` is the one in its place in the heartbeat before, which is
/// the same step as a rule.
pub(super) fn usage(bytes: &[u8], before: Option<&StepUsage>) -> Result<StepUsage, DecodeError> {
    let (mut key, mut name, mut detail) = (String::new(), String::new(), None);
    let tools_before = before.map_or_else(Default::default, |before| before.tools.as_slice());
    let mut tools = List::of("tools of a step", MAX_TOOLS_A_STEP, tools_before.len());
    let said = Numbers::<20>::read(bytes, 19, bits(&[2, 3, 18, 19]), |tag, part| {
        match tag {
            2 => key = text_again("step.key", part, before.map(|before| &before.id.key))?,
            3 => name = text_again("step.name", part, before.map(|before| &before.name))?,
            18 => tools.add(|read| tool(part, tools_before.get(read.len())))?,
            _ => detail = Some(detail::read(part)?),
        }
        Ok(())
    })?;
    let (started, observed) = (said.or_zero(4), said.or_zero(5));
    if observed < started {
        return Err(wrong("step.observed_ns", "it lies before step.started_ns"));
    }
    let kind = step_kind(said.or_zero(1) as u32)?;
    let peak_memory = match said.get(10).map(Bytes) {
        Some(bytes) => {
            let source = memory_source(said.or_zero(11) as u32)?;
            Some(PeakMemory { bytes, source })
        }
        None => None,
    };
    Ok(StepUsage {
        id: StepId { kind, key },
        name,
        started: BootClock::from_nanos(started),
        observed: BootClock::from_nanos(observed),
        end: step_end(said.or_zero(6) as u32, said.or_zero(7) as u32)?,
        processes: said.or_zero(8),
        cpu: CpuTime(said.or_zero(9)),
        peak_memory,
        disk_read: said.get(12).map(Bytes),
        disk_written: said.get(13).map(Bytes),
        requested: Requested {
            cores: said.get(14).map(MilliCores),
            memory: said.get(15).map(Bytes),
        },
        peak_cores: said.get(16).map(MilliCores),
        last_progress: BootClock::from_nanos(said.or_zero(17)),
        tools: tools.all()?,
        detail: detail.unwrap_or_default(),
    })
}

fn tool(bytes: &[u8], before: Option<&ToolUsage>) -> Result<ToolUsage, DecodeError> {
    let mut name = String::new();
    let said = Numbers::<6>::read(bytes, 5, bits(&[1]), |_, part| {
        name = text_again("tool.name", part, before.map(|before| &before.name))?;
        Ok(())
    })?;
    Ok(ToolUsage {
        name,
        processes: said.or_zero(2),
        cpu: CpuTime(said.or_zero(3)),
        peak_memory: said.get(4).map(Bytes),
        disk: said.get(5).map(Bytes),
    })
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
