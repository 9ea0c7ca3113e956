//! The resource use of a task, as the columns of `steps` and of the list of running tasks in a
//! heartbeat.

use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{PeakMemory, Requested, StepEnd, StepId, StepUsage, ToolUsage};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use serde::{Deserialize, Serialize};

use super::column::{
    ColumnError, get, get_clock, get_kind, get_small, get_some, get_source, put, put_clock,
    put_kind, put_some, put_source,
};
use super::detail::DetailRow;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UsageRow {
    step_kind: String,
    step_key: String,
    step_name: String,
    started_boot_ns: i64,
    observed_boot_ns: i64,
    last_progress_boot_ns: i64,
    end_state: String,
    exit_status: Option<i32>,
    exit_signal: Option<i32>,
    processes: i64,
    cpu_ns: i64,
    peak_memory_bytes: Option<i64>,
    peak_memory_source: Option<String>,
    disk_read_bytes: Option<i64>,
    disk_written_bytes: Option<i64>,
    requested_millicores: Option<i64>,
    requested_memory_bytes: Option<i64>,
    peak_millicores: Option<i64>,
    tools: Vec<ToolRow>,
    /// Null if the probe sent no details. Columns are added at the end, because existing tables
    /// accept new ones only there.
    detail: Option<DetailRow>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ToolRow {
    name: String,
    processes: i64,
    cpu_ns: i64,
    peak_memory_bytes: Option<i64>,
    disk_bytes: Option<i64>,
}

impl TryFrom<&StepUsage> for UsageRow {
    type Error = ColumnError;

    fn try_from(usage: &StepUsage) -> Result<Self, ColumnError> {
        let (end_state, exit_status, exit_signal) = put_end(usage.end);
        let bytes = |b: Option<Bytes>| b.map(|b| b.0);
        let cores = |c: Option<MilliCores>| c.map(|c| c.0);
        let peak = usage.peak_memory;
        Ok(Self {
            step_kind: put_kind(usage.id.kind),
            step_key: usage.id.key.clone(),
            step_name: usage.name.clone(),
            started_boot_ns: put_clock("started_boot_ns", usage.started)?,
            observed_boot_ns: put_clock("observed_boot_ns", usage.observed)?,
            last_progress_boot_ns: put_clock("last_progress_boot_ns", usage.last_progress)?,
            end_state,
            exit_status,
            exit_signal,
            processes: put("processes", usage.processes)?,
            cpu_ns: put("cpu_ns", usage.cpu.0)?,
            peak_memory_bytes: put_some("peak_memory_bytes", peak.map(|p| p.bytes.0))?,
            peak_memory_source: peak.map(|p| put_source(p.source)),
            disk_read_bytes: put_some("disk_read_bytes", bytes(usage.disk_read))?,
            disk_written_bytes: put_some("disk_written_bytes", bytes(usage.disk_written))?,
            requested_millicores: put_some("requested_millicores", cores(usage.requested.cores))?,
            requested_memory_bytes: put_some(
                "requested_memory_bytes",
                bytes(usage.requested.memory),
            )?,
            peak_millicores: put_some("peak_millicores", cores(usage.peak_cores))?,
            tools: usage
                .tools
                .iter()
                .map(ToolRow::try_from)
                .collect::<Result<_, _>>()?,
            detail: (usage.detail != StepDetail::default())
                .then(|| DetailRow::try_from(&usage.detail))
                .transpose()?,
        })
    }
}

impl TryFrom<UsageRow> for StepUsage {
    type Error = ColumnError;

    fn try_from(row: UsageRow) -> Result<Self, ColumnError> {
        let bytes = |column, value| Ok(get_some(column, value)?.map(Bytes));
        let cores = |column, value| Ok(get_some(column, value)?.map(MilliCores));
        Ok(Self {
            end: row.end()?,
            peak_memory: row.peak_memory()?,
            id: StepId {
                kind: get_kind("step_kind", &row.step_kind)?,
                key: row.step_key,
            },
            name: row.step_name,
            started: get_clock("started_boot_ns", row.started_boot_ns)?,
            observed: get_clock("observed_boot_ns", row.observed_boot_ns)?,
            last_progress: get_clock("last_progress_boot_ns", row.last_progress_boot_ns)?,
            processes: get("processes", row.processes)?,
            cpu: CpuTime(get("cpu_ns", row.cpu_ns)?),
            disk_read: bytes("disk_read_bytes", row.disk_read_bytes)?,
            disk_written: bytes("disk_written_bytes", row.disk_written_bytes)?,
            requested: Requested {
                cores: cores("requested_millicores", row.requested_millicores)?,
                memory: bytes("requested_memory_bytes", row.requested_memory_bytes)?,
            },
            peak_cores: cores("peak_millicores", row.peak_millicores)?,
            tools: row
                .tools
                .into_iter()
                .map(ToolUsage::try_from)
                .collect::<Result<_, _>>()?,
            detail: match row.detail {
                Some(detail) => detail.try_into()?,
                None => StepDetail::default(),
            },
        })
    }
}

impl UsageRow {
    fn end(&self) -> Result<StepEnd, ColumnError> {
        let code = |column, value: Option<i32>| {
            get_small::<u8, _>(column, value.ok_or(ColumnError::Missing { column })?)
        };
        match self.end_state.as_str() {
            "running" => Ok(StepEnd::Running),
            "exited" => Ok(StepEnd::Exited(code("exit_status", self.exit_status)?)),
            "signalled" => Ok(StepEnd::Signalled(code("exit_signal", self.exit_signal)?)),
            "out_of_memory" => Ok(StepEnd::OutOfMemory),
            "unknown" => Ok(StepEnd::Unknown),
            word => Err(ColumnError::UnknownWord {
                column: "end_state",
                word: word.to_owned(),
            }),
        }
    }

    fn peak_memory(&self) -> Result<Option<PeakMemory>, ColumnError> {
        let Some(bytes) = get_some("peak_memory_bytes", self.peak_memory_bytes)? else {
            return Ok(None);
        };
        let column = "peak_memory_source";
        let word = self.peak_memory_source.as_deref();
        Ok(Some(PeakMemory {
            bytes: Bytes(bytes),
            source: get_source(column, word.ok_or(ColumnError::Missing { column })?)?,
        }))
    }
}

fn put_end(end: StepEnd) -> (String, Option<i32>, Option<i32>) {
    let (word, status, signal) = match end {
        StepEnd::Running => ("running", None, None),
        StepEnd::Exited(status) => ("exited", Some(status), None),
        StepEnd::Signalled(signal) => ("signalled", None, Some(signal)),
        StepEnd::OutOfMemory => ("out_of_memory", None, None),
        StepEnd::Unknown => ("unknown", None, None),
    };
    (
        word.to_owned(),
        status.map(i32::from),
        signal.map(i32::from),
    )
}

impl TryFrom<&ToolUsage> for ToolRow {
    type Error = ColumnError;

    fn try_from(tool: &ToolUsage) -> Result<Self, ColumnError> {
        Ok(Self {
            name: tool.name.clone(),
            processes: put("tools.processes", tool.processes)?,
            cpu_ns: put("tools.cpu_ns", tool.cpu.0)?,
            peak_memory_bytes: put_some("tools.peak_memory_bytes", tool.peak_memory.map(|b| b.0))?,
            disk_bytes: put_some("tools.disk_bytes", tool.disk.map(|b| b.0))?,
        })
    }
}

impl TryFrom<ToolRow> for ToolUsage {
    type Error = ColumnError;

    fn try_from(row: ToolRow) -> Result<Self, ColumnError> {
        Ok(Self {
            name: row.name,
            processes: get("tools.processes", row.processes)?,
            cpu: CpuTime(get("tools.cpu_ns", row.cpu_ns)?),
            peak_memory: get_some("tools.peak_memory_bytes", row.peak_memory_bytes)?.map(Bytes),
            disk: get_some("tools.disk_bytes", row.disk_bytes)?.map(Bytes),
        })
    }
}
