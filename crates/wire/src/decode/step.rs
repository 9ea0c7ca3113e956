//! Decodes tasks, and whole objects of finished tasks.

use std::time::Duration;

use ebb_telemetry::step::{
    MemorySource, PeakMemory, Requested, StepBatch, StepDetail, StepEnd, StepId, StepKind,
    StepUsage, ToolEvents, ToolUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};

use crate::contents::{
    MAX_DECODED_OBJECT_BYTES, MAX_STEPS_AN_OBJECT, MAX_TOOLS_A_STEP, StepObject, allowed,
};
use crate::decode::fields::{Fields, List};
use crate::decode::resource_usage;
use crate::decode::values::{Room, named, origin, required, sent, text_again, wrong};
use crate::error::DecodeError;
use crate::proto;

pub(super) fn steps(bytes: &[u8]) -> Result<StepObject, DecodeError> {
    let mut fields = Fields::new(bytes);
    let sender = fields.last(1, sent)?;
    let mut count = 0;
    let mut refused_steps = 0;
    let mut steps = Vec::new();
    let mut room = Room::new(MAX_DECODED_OBJECT_BYTES);
    let object = StepObject {
        sent: required("sent", sender)?,
        batch: StepBatch {
            node: named("node", fields.text(2))?,
            boot: named("boot", fields.text(3))?,
            probe_start: named("probe_start", fields.text(4))?,
            sequence: fields.or_zero(5),
            origin: origin(fields.or_zero(6) as u32)?,
            steps: {
                fields.each(7, |part| {
                    count += 1;
                    if count > MAX_STEPS_AN_OBJECT {
                        return Ok(());
                    }
                    match usage(part, None) {
                        Ok(step) => {
                            room.take(step.memory_bytes())?;
                            steps.push(step);
                        }
                        Err(refused) if refused.is_of_one_step() => refused_steps += 1,
                        Err(broken) => return Err(broken),
                    }
                    Ok(())
                })?;
                allowed("steps", count, MAX_STEPS_AN_OBJECT)?;
                steps
            },
        },
        refused_steps: 0,
    };
    fields.end(7)?;
    Ok(StepObject {
        refused_steps,
        ..object
    })
}

/// Decodes one task; `before` is the task at the same position in the previous heartbeat, which is
/// usually the same task.
pub(super) fn usage(bytes: &[u8], before: Option<&StepUsage>) -> Result<StepUsage, DecodeError> {
    let mut fields = Fields::new(bytes);
    let kind = step_kind(fields.or_zero(1) as u32)?;
    let same_key = before.map(|before| &before.id.key);
    let key = text_again("step.key", fields.text(2), same_key)?;
    let same_name = before.map(|before| &before.name);
    let name = text_again("step.name", fields.text(3), same_name)?;
    let (started, observed) = (fields.or_zero(4), fields.or_zero(5));
    let end = step_end(fields.or_zero(6) as u32, fields.or_zero(7) as u32)?;
    let (processes, cpu) = (fields.or_zero(8), CpuTime(fields.or_zero(9)));
    let peak_memory = peak_memory(fields.get(10), fields.or_zero(11) as u32)?;
    let [disk_read, disk_written] = [12, 13].map(|tag| fields.get(tag).map(Bytes));
    let requested = Requested {
        cores: fields.get(14).map(MilliCores),
        memory: fields.get(15).map(Bytes),
    };
    let peak_cores = fields.get(16).map(MilliCores);
    let last_progress = BootClock::from_nanos(fields.or_zero(17));
    let tools_before = before.map_or_else(Default::default, |before| before.tools.as_slice());
    let mut tools = List::new("tools of a step", MAX_TOOLS_A_STEP, tools_before.len());
    fields.each(18, |part| {
        tools.add(|read| tool(part, tools_before.get(read.len())))
    })?;
    let mut detail = StepDetail::default();
    fields.each(19, |part| resource_usage::read(part, &mut detail))?;
    fields.end(19)?;
    if observed < started {
        return Err(wrong("step.observed_ns", "it lies before step.started_ns"));
    }
    Ok(StepUsage {
        id: StepId { kind, key },
        name,
        started: BootClock::from_nanos(started),
        observed: BootClock::from_nanos(observed),
        end,
        processes,
        cpu,
        peak_memory,
        disk_read,
        disk_written,
        requested,
        peak_cores,
        last_progress,
        tools: tools.all()?,
        detail,
    })
}

fn tool(bytes: &[u8], before: Option<&ToolUsage>) -> Result<ToolUsage, DecodeError> {
    let mut fields = Fields::new(bytes);
    let name = fields.text(1);
    let tool = ToolUsage {
        name: text_again("tool.name", name, before.map(|before| &before.name))?,
        processes: fields.or_zero(2),
        cpu: CpuTime(fields.or_zero(3)),
        peak_memory: fields.get(4).map(Bytes),
        disk: fields.get(5).map(Bytes),
        events: fields.last(6, tool_events)?,
    };
    fields.end(6)?;
    Ok(tool)
}

fn tool_events(bytes: &[u8]) -> Result<ToolEvents, DecodeError> {
    let mut fields = Fields::new(bytes);
    let events = ToolEvents {
        started_after: Duration::from_nanos(fields.or_zero(1)),
        ended_after: fields.get(2).map(Duration::from_nanos),
        failed: fields.or_zero(3),
        oom_kills: fields.or_zero(4),
    };
    fields.end(4)?;
    Ok(events)
}

#[inline]
fn peak_memory(bytes: Option<u64>, source: u32) -> Result<Option<PeakMemory>, DecodeError> {
    let Some(bytes) = bytes.map(Bytes) else {
        return Ok(None);
    };
    let source = memory_source(source)?;
    Ok(Some(PeakMemory { bytes, source }))
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
        _ => return Err(wrong("step.kind", format!("unknown value {kind}"))),
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
        _ => return Err(wrong("step.end", format!("unknown value {end}"))),
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
                format!("unknown value {source}"),
            ));
        }
    })
}
