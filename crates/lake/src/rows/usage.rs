//! The resource use of a task, as the columns of `steps` and of the list of running tasks in a
//! heartbeat.

use std::time::Duration;

use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{
    MemorySource, PeakMemory, Requested, StepEnd, StepId, StepKind, StepUsage, ToolEvents,
    ToolUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};

use super::column::{Parts, ValueError};
use super::row::columns;

// Columns are added at the end, because existing tables accept new ones only there.
columns! {
    UsageRow for StepUsage {
        {
            step_kind: StepKind = kind,
            step_key: String = key,
        } = id: StepId,
        step_name: String = name,
        started_boot_ns: BootClock = started,
        observed_boot_ns: BootClock = observed,
        last_progress_boot_ns: BootClock = last_progress,
        (end_state: String, exit_status: Option<u8>, exit_signal: Option<u8>) = end,
        processes: u64 = processes,
        cpu_ns: CpuTime = cpu,
        (peak_memory_bytes: Option<Bytes>, peak_memory_source: Option<MemorySource>) = peak_memory,
        disk_read_bytes: Option<Bytes> = disk_read,
        disk_written_bytes: Option<Bytes> = disk_written,
        {
            requested_millicores: Option<MilliCores> = cores,
            requested_memory_bytes: Option<Bytes> = memory,
        } = requested: Requested,
        peak_millicores: Option<MilliCores> = peak_cores,
        tools: Vec<ToolUsage> = tools,
        detail: StepDetail = detail,
    }
}

columns! {
    ToolRow for ToolUsage {
        name: String = name,
        processes: u64 = processes,
        cpu_ns: CpuTime = cpu,
        peak_memory_bytes: Option<Bytes> = peak_memory,
        disk_bytes: Option<Bytes> = disk,
        events: Option<ToolEvents> = events,
    }
}

columns! {
    ToolEventsRow for ToolEvents {
        started_after_ns: Duration = started_after,
        ended_after_ns: Option<Duration> = ended_after,
        failed: u64 = failed,
        oom_kills: u64 = oom_kills,
    }
}

/// The state, the exit status and the signal.
impl Parts for StepEnd {
    type Values = (String, Option<u8>, Option<u8>);

    fn split(&self) -> Self::Values {
        let (state, status, signal) = match *self {
            Self::Running => ("running", None, None),
            Self::Exited(status) => ("exited", Some(status), None),
            Self::Signalled(signal) => ("signalled", None, Some(signal)),
            Self::OutOfMemory => ("out_of_memory", None, None),
            Self::Unknown => ("unknown", None, None),
        };
        (state.to_owned(), status, signal)
    }

    fn join((state, status, signal): Self::Values) -> Result<Self, (usize, ValueError)> {
        Ok(match state.as_str() {
            "running" => Self::Running,
            "exited" => Self::Exited(status.ok_or((1, ValueError::Missing))?),
            "signalled" => Self::Signalled(signal.ok_or((2, ValueError::Missing))?),
            "out_of_memory" => Self::OutOfMemory,
            "unknown" => Self::Unknown,
            _ => return Err((0, ValueError::UnknownWord(state))),
        })
    }
}

/// The bytes and their source.
impl Parts for Option<PeakMemory> {
    type Values = (Option<Bytes>, Option<MemorySource>);

    fn split(&self) -> Self::Values {
        (self.map(|peak| peak.bytes), self.map(|peak| peak.source))
    }

    fn join((bytes, source): Self::Values) -> Result<Self, (usize, ValueError)> {
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let source = source.ok_or((1, ValueError::Missing))?;
        Ok(Some(PeakMemory { bytes, source }))
    }
}
