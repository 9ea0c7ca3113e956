//! Encodes tasks.

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::step::{
    MemorySource, StepBatch, StepEnd, StepKind, StepUsage, ToolEvents, ToolUsage,
};

use crate::encode::resource_usage;
use crate::encode::values::{name, nanos, number, origin_out};
use crate::proto;

pub(crate) fn steps(sent: &Sent, batch: &StepBatch) -> proto::Steps {
    proto::Steps {
        sent: Some(sent.into()),
        node: batch.node.as_str().to_owned(),
        boot: batch.boot.as_str().to_owned(),
        probe_start: batch.probe_start.as_str().to_owned(),
        sequence: batch.sequence,
        origin: origin_out(batch.origin),
        steps: batch.steps.iter().map(Into::into).collect(),
    }
}

impl From<&StepUsage> for proto::Step {
    fn from(s: &StepUsage) -> Self {
        let (end, end_code) = end_out(s.end);
        Self {
            kind: kind_out(s.id.kind).into(),
            key: name(&s.id.key),
            name: name(&s.name),
            started_ns: number(s.started.as_nanos()),
            observed_ns: number(s.observed.as_nanos()),
            end: end.into(),
            end_code,
            processes: number(s.processes),
            cpu_ns: number(s.cpu.0),
            peak_memory_bytes: s.peak_memory.map(|peak| number(peak.bytes.0)),
            peak_memory_source: s
                .peak_memory
                .map_or(proto::MemorySource::Unspecified, |peak| {
                    source_out(peak.source)
                }) as i32,
            disk_read_bytes: s.disk_read.map(|bytes| number(bytes.0)),
            disk_written_bytes: s.disk_written.map(|bytes| number(bytes.0)),
            requested_milli_cores: s.requested.cores.map(|cores| number(cores.0)),
            requested_memory_bytes: s.requested.memory.map(|bytes| number(bytes.0)),
            peak_milli_cores: s.peak_cores.map(|cores| number(cores.0)),
            last_progress_ns: number(s.last_progress.as_nanos()),
            tools: s.tools.iter().map(Into::into).collect(),
            detail: resource_usage::out(&s.detail),
        }
    }
}

impl From<&ToolUsage> for proto::Tool {
    fn from(t: &ToolUsage) -> Self {
        Self {
            name: name(&t.name),
            processes: number(t.processes),
            cpu_ns: number(t.cpu.0),
            peak_memory_bytes: t.peak_memory.map(|bytes| number(bytes.0)),
            disk_bytes: t.disk.map(|bytes| number(bytes.0)),
            events: t.events.map(Into::into),
        }
    }
}

impl From<ToolEvents> for proto::ToolEvents {
    fn from(events: ToolEvents) -> Self {
        Self {
            started_after_ns: nanos(events.started_after),
            ended_after_ns: events.ended_after.map(nanos),
            failed: number(events.failed),
            oom_kills: number(events.oom_kills),
        }
    }
}

fn kind_out(kind: StepKind) -> proto::StepKind {
    match kind {
        StepKind::EcsTask => proto::StepKind::EcsTask,
        StepKind::Pod => proto::StepKind::Pod,
        StepKind::Container => proto::StepKind::Container,
        StepKind::SlurmJob => proto::StepKind::SlurmJob,
        StepKind::NextflowTask => proto::StepKind::NextflowTask,
        StepKind::SnakemakeJob => proto::StepKind::SnakemakeJob,
        StepKind::Session => proto::StepKind::Session,
        StepKind::Service => proto::StepKind::Service,
        StepKind::Tree => proto::StepKind::Tree,
    }
}

fn end_out(end: StepEnd) -> (proto::EndKind, u32) {
    match end {
        StepEnd::Running => (proto::EndKind::Running, 0),
        StepEnd::Exited(status) => (proto::EndKind::Exited, status.into()),
        StepEnd::Signalled(signal) => (proto::EndKind::Signalled, signal.into()),
        StepEnd::OutOfMemory => (proto::EndKind::OutOfMemory, 0),
        StepEnd::Unknown => (proto::EndKind::Unknown, 0),
    }
}

fn source_out(source: MemorySource) -> proto::MemorySource {
    match source {
        MemorySource::CgroupSampled => proto::MemorySource::CgroupSampled,
        MemorySource::CgroupPeak => proto::MemorySource::CgroupPeak,
        MemorySource::ProcessesSampled => proto::MemorySource::ProcessesSampled,
        MemorySource::HighWaterAtExit => proto::MemorySource::HighWaterAtExit,
        MemorySource::MaxRssUpperBound => proto::MemorySource::MaxRssUpperBound,
    }
}
