//! Steps between the domain and the wire.

mod detail;

use ebb_domain::heartbeat::{BootClock, Sent};
use ebb_domain::step::{
    MemorySource, PeakMemory, Requested, StepBatch, StepEnd, StepId, StepKind, StepUsage, ToolUsage,
};
use ebb_domain::units::{Bytes, CpuTime, MilliCores};

use super::{each, named, origin_in, origin_out, text, wire, wrong};
use crate::error::DecodeError;
use crate::message::{MAX_TOOLS_A_STEP, StepObject, allowed};
use crate::proto;

pub(crate) fn steps(sent: &Sent, batch: &StepBatch) -> proto::Steps {
    proto::Steps {
        sent: Some(sent.into()),
        node: wire(batch.node.as_str()),
        boot: wire(batch.boot.as_str()),
        probe_start: wire(batch.probe_start.as_str()),
        sequence: batch.sequence,
        origin: origin_out(batch.origin),
        steps: batch.steps.iter().map(Into::into).collect(),
    }
}

impl TryFrom<proto::Steps> for StepObject {
    type Error = DecodeError;

    fn try_from(s: proto::Steps) -> Result<Self, DecodeError> {
        Ok(Self {
            sent: super::sent(s.sent)?,
            batch: StepBatch {
                node: named("node", &s.node)?,
                boot: named("boot", &s.boot)?,
                probe_start: named("probe_start", &s.probe_start)?,
                sequence: s.sequence,
                origin: origin_in(s.origin)?,
                steps: each(&s.steps)?,
            },
        })
    }
}

impl From<&StepUsage> for proto::Step {
    fn from(s: &StepUsage) -> Self {
        let (end, end_code) = end_out(s.end);
        Self {
            kind: kind_out(s.id.kind).into(),
            key: wire(&s.id.key),
            name: wire(&s.name),
            started_ns: s.started.as_nanos(),
            observed_ns: s.observed.as_nanos(),
            end: end.into(),
            end_code,
            processes: s.processes,
            cpu_ns: s.cpu.0,
            peak_memory_bytes: s.peak_memory.map(|peak| peak.bytes.0),
            peak_memory_source: s
                .peak_memory
                .map_or(proto::MemorySource::Unspecified, |peak| {
                    source_out(peak.source)
                }) as i32,
            disk_read_bytes: s.disk_read.map(|bytes| bytes.0),
            disk_written_bytes: s.disk_written.map(|bytes| bytes.0),
            requested_milli_cores: s.requested.cores.map(|cores| cores.0),
            requested_memory_bytes: s.requested.memory.map(|bytes| bytes.0),
            peak_milli_cores: s.peak_cores.map(|cores| cores.0),
            last_progress_ns: s.last_progress.as_nanos(),
            tools: s.tools.iter().map(Into::into).collect(),
            detail: detail::out(&s.detail),
        }
    }
}

impl TryFrom<&proto::Step> for StepUsage {
    type Error = DecodeError;

    fn try_from(s: &proto::Step) -> Result<Self, DecodeError> {
        allowed("tools of a step", s.tools.len(), MAX_TOOLS_A_STEP)?;
        let peak_memory = match s.peak_memory_bytes {
            None => None,
            Some(bytes) => Some(PeakMemory {
                bytes: Bytes(bytes),
                source: source_in(s.peak_memory_source)?,
            }),
        };
        if s.observed_ns < s.started_ns {
            return Err(wrong("step.observed_ns", "it lies before step.started_ns"));
        }
        Ok(Self {
            id: StepId {
                kind: kind_in(s.kind)?,
                key: text("step.key", &s.key)?,
            },
            name: text("step.name", &s.name)?,
            started: BootClock::from_nanos(s.started_ns),
            observed: BootClock::from_nanos(s.observed_ns),
            end: end_in(s.end, s.end_code)?,
            processes: s.processes,
            cpu: CpuTime(s.cpu_ns),
            peak_memory,
            disk_read: s.disk_read_bytes.map(Bytes),
            disk_written: s.disk_written_bytes.map(Bytes),
            requested: Requested {
                cores: s.requested_milli_cores.map(MilliCores),
                memory: s.requested_memory_bytes.map(Bytes),
            },
            peak_cores: s.peak_milli_cores.map(MilliCores),
            last_progress: BootClock::from_nanos(s.last_progress_ns),
            tools: each(&s.tools)?,
            detail: detail::taken(s.detail.as_deref())?,
        })
    }
}

impl From<&ToolUsage> for proto::Tool {
    fn from(t: &ToolUsage) -> Self {
        Self {
            name: wire(&t.name),
            processes: t.processes,
            cpu_ns: t.cpu.0,
            peak_memory_bytes: t.peak_memory.map(|bytes| bytes.0),
            disk_bytes: t.disk.map(|bytes| bytes.0),
        }
    }
}

impl TryFrom<&proto::Tool> for ToolUsage {
    type Error = DecodeError;

    fn try_from(t: &proto::Tool) -> Result<Self, DecodeError> {
        Ok(Self {
            name: text("tool.name", &t.name)?,
            processes: t.processes,
            cpu: CpuTime(t.cpu_ns),
            peak_memory: t.peak_memory_bytes.map(Bytes),
            disk: t.disk_bytes.map(Bytes),
        })
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

fn kind_in(kind: i32) -> Result<StepKind, DecodeError> {
    Ok(match proto::StepKind::try_from(kind) {
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

fn end_out(end: StepEnd) -> (proto::EndKind, u32) {
    match end {
        StepEnd::Running => (proto::EndKind::Running, 0),
        StepEnd::Exited(status) => (proto::EndKind::Exited, status.into()),
        StepEnd::Signalled(signal) => (proto::EndKind::Signalled, signal.into()),
        StepEnd::OutOfMemory => (proto::EndKind::OutOfMemory, 0),
        StepEnd::Unknown => (proto::EndKind::Unknown, 0),
    }
}

fn end_in(end: i32, code: u32) -> Result<StepEnd, DecodeError> {
    let small = || u8::try_from(code).map_err(|_| wrong("step.end_code", format!("{code} > 255")));
    Ok(match proto::EndKind::try_from(end) {
        Ok(proto::EndKind::Running) => StepEnd::Running,
        Ok(proto::EndKind::Exited) => StepEnd::Exited(small()?),
        Ok(proto::EndKind::Signalled) => StepEnd::Signalled(small()?),
        Ok(proto::EndKind::OutOfMemory) => StepEnd::OutOfMemory,
        Ok(proto::EndKind::Unknown) => StepEnd::Unknown,
        _ => return Err(wrong("step.end", format!("{end} is not known here"))),
    })
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

fn source_in(source: i32) -> Result<MemorySource, DecodeError> {
    Ok(match proto::MemorySource::try_from(source) {
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
