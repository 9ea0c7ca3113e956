//! Details of a task in addition to its totals, as columns: how its CPU time divides, what it
//! waited for and its parallelism. A column keeps its first name, so that tables of earlier
//! versions stay readable.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::step::namespaces::Namespaces;
use ebb_telemetry::step::parallelism::{Busy, PARALLELISM_CLASSES, Parallelism};
use ebb_telemetry::step::resource_usage::{
    CpuWithoutProgress, NetworkPeer, OptInDetail, PeerScope, Reclaim, RunName, Sampled,
    SchedulerLabels, StepDetail, StepGpu, StepNetwork, SyscallIo, TaskState, WaitingTool,
};
use ebb_telemetry::units::{Bytes, CpuTime};

use super::column::{Column, ColumnError, Entry, Parts, ValueError};
use super::row::{columns, row};

row! {
    DetailRow for StepDetail {
        user_cpu_ns: Option<CpuTime> = user_cpu,
        system_cpu_ns: Option<CpuTime> = system_cpu,
        run_queue_ns: Option<Duration> = run_queue,
        voluntary_switches: Option<u64> = voluntary_switches,
        involuntary_switches: Option<u64> = involuntary_switches,
        minor_faults: Option<u64> = minor_faults,
        major_faults: Option<u64> = major_faults,
        disk_delay_ns: Option<Duration> = disk_delay,
        parallelism: Parallelism = parallelism,
        states: BTreeMap<TaskState, Sampled> = states,
        network: Option<StepNetwork> = network,
        gpu: Option<StepGpu> = gpu,
        run: Option<Box<RunName>> = run,
        handed: Option<Box<SchedulerLabels>> = scheduler_labels,
        opened: Option<Box<OptInDetail>> = opt_in_detail,
        asked: Option<SyscallIo> = syscall_io,
        unmoved: Option<CpuWithoutProgress> = cpu_without_progress,
        threads: Option<u32> = threads,
        user_id: Option<u32> = user,
        reclaim: Option<Reclaim> = reclaim,
        memory_now_bytes: Option<Bytes> = memory_now,
        namespaces: Option<Namespaces> = namespaces,
        (waiting_tools: Option<Vec<WaitingTool>>) = waiting_tools,
        (network_peers: Option<Vec<NetworkPeer>>) = network_peers,
    }
}

/// Null if the probe sent no details.
impl Column for StepDetail {
    type Stored = Option<DetailRow>;

    fn put(&self) -> Result<Self::Stored, ColumnError> {
        (*self != Self::default())
            .then(|| DetailRow::put(self))
            .transpose()
    }

    fn get(stored: Self::Stored) -> Result<Self, ColumnError> {
        stored.map_or_else(|| Ok(Self::default()), DetailRow::get)
    }
}

columns! {
    StateRow for Entry<TaskState, Sampled> {
        state: TaskState = 0,
        {
            samples: u64 = samples,
            time_ns: Duration = time,
        } = 1: Sampled,
    }
}

columns! {
    WaitingToolRow for WaitingTool {
        state: TaskState = state,
        tool: String = tool,
        samples: u64 = samples,
    }
}

/// Null if there are none. A column that a table may lack must be nullable.
impl<T: Clone> Parts for Vec<T> {
    type Values = (Option<Self>,);

    fn split(&self) -> Self::Values {
        ((!self.is_empty()).then(|| self.clone()),)
    }

    fn join((all,): Self::Values) -> Result<Self, (usize, ValueError)> {
        Ok(all.unwrap_or_default())
    }
}

columns! {
    NetworkPeerRow for NetworkPeer {
        port: Option<u16> = port,
        scope: PeerScope = scope,
        is_server: bool = is_server,
        received_bytes: Bytes = received,
        sent_bytes: Bytes = sent,
        connections: u64 = connections,
    }
}

columns! {
    /// TCP payload.
    NetworkRow for StepNetwork {
        received_bytes: Bytes = received,
        sent_bytes: Bytes = sent,
        retransmits: u64 = retransmits,
        connections: u64 = connections,
    }
}

columns! {
    GpuRow for StepGpu {
        devices: u32 = devices,
        held_ns: Duration = held,
        busy_ns: Option<Duration> = busy,
        peak_memory_bytes: Option<Bytes> = peak_memory,
    }
}

columns! {
    RunRow for RunName {
        launcher: String = launcher,
        key: String = key,
        pipeline: Option<String> = pipeline,
    }
}

columns! {
    SchedulerLabelsRow for SchedulerLabels {
        trace_id: Option<String> = trace_id,
        labels: BTreeMap<String, String> = labels,
    }
}

columns! {
    LabelRow for Entry<String, String> {
        key: String = 0,
        value: String = 1,
    }
}

columns! {
    OptInDetailRow for OptInDetail {
        arguments: Vec<String> = arguments,
        files: BTreeMap<String, u64> = files,
        files_left_out: u64 = files_left_out,
    }
}

columns! {
    FilesRow for Entry<String, u64> {
        path: String = 0,
        count: u64 = 1,
    }
}

columns! {
    SyscallIoRow for SyscallIo {
        read_bytes: Bytes = read,
        written_bytes: Bytes = written,
        read_calls: u64 = read_calls,
        write_calls: u64 = write_calls,
    }
}

columns! {
    CpuWithoutProgressRow for CpuWithoutProgress {
        now_ns: Duration = now,
        longest_ns: Duration = longest,
    }
}

columns! {
    ReclaimRow for Reclaim {
        taken_bytes: Option<Bytes> = pages_reclaimed,
        limit_hits: u64 = limit_hits,
    }
}

columns! {
    /// A class of parallelism by its number; 0 has the fewest cores.
    BusyRow for Entry<u8, Busy> {
        class: u8 = 0,
        {
            wall_ns: Duration = wall,
            cpu_ns: CpuTime = cpu,
        } = 1: Busy,
    }
}

/// The classes that were observed.
impl Column for Parallelism {
    type Stored = Vec<BusyRow>;

    fn put(&self) -> Result<Self::Stored, ColumnError> {
        let classes = (0..).zip(self.classes());
        let observed = classes.filter(|(_, busy)| **busy != Busy::default());
        observed
            .map(|(class, busy)| Entry(class, *busy).put())
            .collect()
    }

    fn get(stored: Self::Stored) -> Result<Self, ColumnError> {
        let mut classes = vec![Busy::default(); PARALLELISM_CLASSES];
        for row in stored {
            let Entry(class, busy): Entry<u8, Busy> = Entry::get(row)?;
            let Some(entry) = classes.get_mut(usize::from(class)) else {
                let error = ColumnError::from(ValueError::OutOfRange(class.into()));
                return Err(error.within("class"));
            };
            *entry = busy;
        }
        Ok(Self::from_classes(classes))
    }
}
