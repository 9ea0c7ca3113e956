//! Details of a task in addition to its totals, as columns: how its CPU time divides, what it
//! waited for and its parallelism.

use ebb_telemetry::step::namespaces::Namespaces;
use ebb_telemetry::step::parallelism::{Busy, PARALLELISM_CLASSES, Parallelism};
use ebb_telemetry::step::resource_usage::{
    OptInDetail, RunName, Sampled, SchedulerLabels, StepDetail, StepGpu, StepNetwork,
};
use ebb_telemetry::units::{Bytes, CpuTime};
use serde::{Deserialize, Serialize};

mod one_four;

use one_four::{CpuWithoutProgressRow, ReclaimRow, SyscallIoRow};

use super::column::{
    ColumnError, get, get_namespace, get_small, get_some, get_span, get_state, get_time, put,
    put_namespace, put_some, put_span, put_state, put_time,
};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DetailRow {
    user_cpu_ns: Option<i64>,
    system_cpu_ns: Option<i64>,
    run_queue_ns: Option<i64>,
    voluntary_switches: Option<i64>,
    involuntary_switches: Option<i64>,
    minor_faults: Option<i64>,
    major_faults: Option<i64>,
    disk_delay_ns: Option<i64>,
    parallelism: Vec<BusyRow>,
    states: Vec<StateRow>,
    network: Option<NetworkRow>,
    gpu: Option<GpuRow>,
    run: Option<RunRow>,
    // Columns keep their first names, so that tables of earlier versions stay readable.
    #[serde(rename = "handed")]
    scheduler_labels: Option<SchedulerLabelsRow>,
    #[serde(rename = "opened")]
    opt_in_detail: Option<OptInDetailRow>,
    #[serde(rename = "asked")]
    syscall_io: Option<SyscallIoRow>,
    #[serde(rename = "unmoved")]
    cpu_without_progress: Option<CpuWithoutProgressRow>,
    threads: Option<i64>,
    user_id: Option<i64>,
    reclaim: Option<ReclaimRow>,
    memory_now_bytes: Option<i64>,
    namespaces: Option<Vec<String>>,
}

/// TCP payload.
#[derive(Debug, Serialize, Deserialize)]
struct NetworkRow {
    received_bytes: i64,
    sent_bytes: i64,
    retransmits: i64,
    connections: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct GpuRow {
    devices: i64,
    held_ns: i64,
    busy_ns: Option<i64>,
    peak_memory_bytes: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RunRow {
    launcher: String,
    key: String,
    pipeline: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SchedulerLabelsRow {
    trace_id: Option<String>,
    labels: Vec<LabelRow>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LabelRow {
    key: String,
    value: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct OptInDetailRow {
    arguments: Vec<String>,
    files: Vec<FilesRow>,
    files_left_out: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct FilesRow {
    path: String,
    count: i64,
}

/// A class of parallelism that was observed; other classes are left out.
#[derive(Debug, Serialize, Deserialize)]
struct BusyRow {
    /// The number of the class; 0 has the fewest cores.
    class: i32,
    wall_ns: i64,
    cpu_ns: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct StateRow {
    state: String,
    samples: i64,
    time_ns: i64,
}

impl TryFrom<&StepDetail> for DetailRow {
    type Error = ColumnError;

    fn try_from(detail: &StepDetail) -> Result<Self, ColumnError> {
        let cpu = |cpu: Option<CpuTime>| cpu.map(|cpu| cpu.0);
        let (forced, faults) = (detail.involuntary_switches, detail.minor_faults);
        let busy = (0..).zip(detail.parallelism.classes());
        let seen = busy.filter(|(_, busy)| **busy != Busy::default());
        Ok(Self {
            user_cpu_ns: put_some("detail.user_cpu_ns", cpu(detail.user_cpu))?,
            system_cpu_ns: put_some("detail.system_cpu_ns", cpu(detail.system_cpu))?,
            run_queue_ns: put_span("detail.run_queue_ns", detail.run_queue)?,
            voluntary_switches: put_some("detail.voluntary_switches", detail.voluntary_switches)?,
            involuntary_switches: put_some("detail.involuntary_switches", forced)?,
            minor_faults: put_some("detail.minor_faults", faults)?,
            major_faults: put_some("detail.major_faults", detail.major_faults)?,
            disk_delay_ns: put_span("detail.disk_delay_ns", detail.disk_delay)?,
            parallelism: seen.map(BusyRow::new).collect::<Result<_, _>>()?,
            states: detail
                .states
                .iter()
                .map(|(state, seen)| {
                    Ok(StateRow {
                        state: put_state(*state),
                        samples: put("detail.states.samples", seen.samples)?,
                        time_ns: put_time("detail.states.time_ns", seen.time)?,
                    })
                })
                .collect::<Result<_, ColumnError>>()?,
            network: detail.network.as_ref().map(put_network).transpose()?,
            gpu: detail.gpu.as_ref().map(put_gpu).transpose()?,
            run: detail.run.as_deref().cloned().map(put_run),
            scheduler_labels: detail.scheduler_labels.as_deref().map(put_scheduler_labels),
            opt_in_detail: detail
                .opt_in_detail
                .as_deref()
                .map(put_opt_in_detail)
                .transpose()?,
            syscall_io: detail
                .syscall_io
                .as_ref()
                .map(SyscallIoRow::new)
                .transpose()?,
            cpu_without_progress: detail
                .cpu_without_progress
                .as_ref()
                .map(CpuWithoutProgressRow::new)
                .transpose()?,
            threads: detail.threads.map(Into::into),
            user_id: detail.user.map(Into::into),
            reclaim: detail.reclaim.as_ref().map(ReclaimRow::new).transpose()?,
            memory_now_bytes: put_some("detail.memory_now_bytes", detail.memory_now.map(|b| b.0))?,
            namespaces: (detail.namespaces).map(|all| all.kinds().map(put_namespace).collect()),
        })
    }
}

fn get_namespaces(words: Vec<String>) -> Result<Namespaces, ColumnError> {
    let kind = |word: String| get_namespace("detail.namespaces", &word);
    words.into_iter().map(kind).collect()
}

fn put_network(network: &StepNetwork) -> Result<NetworkRow, ColumnError> {
    Ok(NetworkRow {
        received_bytes: put("detail.network.received_bytes", network.received.0)?,
        sent_bytes: put("detail.network.sent_bytes", network.sent.0)?,
        retransmits: put("detail.network.retransmits", network.retransmits)?,
        connections: put("detail.network.connections", network.connections)?,
    })
}

fn get_network(row: &NetworkRow) -> Result<StepNetwork, ColumnError> {
    Ok(StepNetwork {
        received: Bytes(get("detail.network.received_bytes", row.received_bytes)?),
        sent: Bytes(get("detail.network.sent_bytes", row.sent_bytes)?),
        retransmits: get("detail.network.retransmits", row.retransmits)?,
        connections: get("detail.network.connections", row.connections)?,
    })
}

fn put_gpu(gpu: &StepGpu) -> Result<GpuRow, ColumnError> {
    let memory = gpu.peak_memory.map(|bytes| bytes.0);
    Ok(GpuRow {
        devices: gpu.devices.into(),
        held_ns: put_time("detail.gpu.held_ns", gpu.held)?,
        busy_ns: put_span("detail.gpu.busy_ns", gpu.busy)?,
        peak_memory_bytes: put_some("detail.gpu.peak_memory_bytes", memory)?,
    })
}

fn get_gpu(row: &GpuRow) -> Result<StepGpu, ColumnError> {
    let memory = get_some("detail.gpu.peak_memory_bytes", row.peak_memory_bytes)?;
    Ok(StepGpu {
        devices: get_small("detail.gpu.devices", row.devices)?,
        held: get_time("detail.gpu.held_ns", row.held_ns)?,
        busy: get_span("detail.gpu.busy_ns", row.busy_ns)?,
        peak_memory: memory.map(Bytes),
    })
}

fn put_run(run: RunName) -> RunRow {
    RunRow {
        launcher: run.launcher,
        key: run.key,
        pipeline: run.pipeline,
    }
}

fn put_scheduler_labels(from: &SchedulerLabels) -> SchedulerLabelsRow {
    let label = |(key, value): (&String, &String)| LabelRow {
        key: key.clone(),
        value: value.clone(),
    };
    SchedulerLabelsRow {
        trace_id: from.trace_id.clone(),
        labels: from.labels.iter().map(label).collect(),
    }
}

fn get_scheduler_labels(row: SchedulerLabelsRow) -> SchedulerLabels {
    let labels = row.labels.into_iter();
    SchedulerLabels {
        trace_id: row.trace_id,
        labels: labels.map(|label| (label.key, label.value)).collect(),
    }
}

fn put_opt_in_detail(opened: &OptInDetail) -> Result<OptInDetailRow, ColumnError> {
    let files = |(path, count): (&String, &u64)| {
        Ok(FilesRow {
            path: path.clone(),
            count: put("detail.opened.files.count", *count)?,
        })
    };
    Ok(OptInDetailRow {
        arguments: opened.arguments.clone(),
        files: (opened.files.iter())
            .map(files)
            .collect::<Result<_, ColumnError>>()?,
        files_left_out: put("detail.opened.files_left_out", opened.files_left_out)?,
    })
}

fn get_opt_in_detail(row: OptInDetailRow) -> Result<OptInDetail, ColumnError> {
    let files = |row: FilesRow| Ok((row.path, get("detail.opened.files.count", row.count)?));
    Ok(OptInDetail {
        arguments: row.arguments,
        files: (row.files.into_iter())
            .map(files)
            .collect::<Result<_, ColumnError>>()?,
        files_left_out: get("detail.opened.files_left_out", row.files_left_out)?,
    })
}

impl BusyRow {
    fn new((class, busy): (i32, &Busy)) -> Result<Self, ColumnError> {
        Ok(Self {
            class,
            wall_ns: put_time("detail.parallelism.wall_ns", busy.wall)?,
            cpu_ns: put("detail.parallelism.cpu_ns", busy.cpu.0)?,
        })
    }
}

impl TryFrom<DetailRow> for StepDetail {
    type Error = ColumnError;

    fn try_from(row: DetailRow) -> Result<Self, ColumnError> {
        let forced = row.involuntary_switches;
        Ok(Self {
            user_cpu: get_some("detail.user_cpu_ns", row.user_cpu_ns)?.map(CpuTime),
            system_cpu: get_some("detail.system_cpu_ns", row.system_cpu_ns)?.map(CpuTime),
            run_queue: get_span("detail.run_queue_ns", row.run_queue_ns)?,
            voluntary_switches: get_some("detail.voluntary_switches", row.voluntary_switches)?,
            involuntary_switches: get_some("detail.involuntary_switches", forced)?,
            minor_faults: get_some("detail.minor_faults", row.minor_faults)?,
            major_faults: get_some("detail.major_faults", row.major_faults)?,
            disk_delay: get_span("detail.disk_delay_ns", row.disk_delay_ns)?,
            parallelism: parallelism(row.parallelism)?,
            states: row
                .states
                .into_iter()
                .map(|row| {
                    let seen = Sampled {
                        samples: get("detail.states.samples", row.samples)?,
                        time: get_time("detail.states.time_ns", row.time_ns)?,
                    };
                    Ok((get_state("detail.states.state", &row.state)?, seen))
                })
                .collect::<Result<_, ColumnError>>()?,
            network: row.network.as_ref().map(get_network).transpose()?,
            gpu: row.gpu.as_ref().map(get_gpu).transpose()?,
            run: row.run.map(|run| {
                Box::new(RunName {
                    launcher: run.launcher,
                    key: run.key,
                    pipeline: run.pipeline,
                })
            }),
            scheduler_labels: row
                .scheduler_labels
                .map(|row| Box::new(get_scheduler_labels(row))),
            opt_in_detail: (row
                .opt_in_detail
                .map(|row| get_opt_in_detail(row).map(Box::new)))
            .transpose()?,
            syscall_io: row.syscall_io.as_ref().map(SyscallIoRow::get).transpose()?,
            cpu_without_progress: row
                .cpu_without_progress
                .as_ref()
                .map(CpuWithoutProgressRow::get)
                .transpose()?,
            threads: (row.threads.map(|n| get_small("detail.threads", n))).transpose()?,
            user: (row.user_id.map(|id| get_small("detail.user_id", id))).transpose()?,
            reclaim: row.reclaim.as_ref().map(ReclaimRow::get).transpose()?,
            memory_now: get_some("detail.memory_now_bytes", row.memory_now_bytes)?.map(Bytes),
            namespaces: row.namespaces.map(get_namespaces).transpose()?,
        })
    }
}

fn parallelism(rows: Vec<BusyRow>) -> Result<Parallelism, ColumnError> {
    let mut classes = [Busy::default(); PARALLELISM_CLASSES];
    for row in rows {
        let class = usize::try_from(row.class).ok();
        let Some(busy) = class.and_then(|class| classes.get_mut(class)) else {
            return Err(ColumnError::OutOfRange {
                column: "detail.parallelism.class",
                value: row.class.into(),
            });
        };
        busy.wall = get_time("detail.parallelism.wall_ns", row.wall_ns)?;
        busy.cpu = CpuTime(get("detail.parallelism.cpu_ns", row.cpu_ns)?);
    }
    Ok(Parallelism::from_classes(classes.to_vec()))
}
