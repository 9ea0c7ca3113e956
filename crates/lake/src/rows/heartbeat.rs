//! `heartbeats`: one row for each node and interval, with times on AWS's clock.

use std::time::Duration;

use ebb_telemetry::arrival::Placed;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, NodeDetail, ProbeCost, Usage};
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepUsage;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};

use super::Record;
use super::column::{ColumnError, Micros, Parts, day};
use super::row::row;

row! {
    ArrivalRow for Placed without heartbeat: Heartbeat {
        node: NodeId = node,
        [started_at: Option<Micros>] = |placed| placed.start().map(|at| at.split().0),
        (ended_at: Micros, ended_at_submicro_ns: u16) = end,
    }
}

row! {
    HeartbeatRow for Heartbeat without detail: NodeDetail {
        claimed_node: NodeId = node,
        boot: BootId = boot,
        probe_start: ProbeStart = probe_start,
        sequence: u64 = sequence,
        origin: Origin = origin,
        start_boot_ns: BootClock = start,
        end_boot_ns: BootClock = end,
        (wall_at_end: Micros, wall_at_end_submicro_ns: u16) = wall_at_end,
        {
            workload_cpu_ns: Option<CpuTime> = cpu,
            workload_disk_bytes: Option<Bytes> = disk,
            workload_network_bytes: Option<Bytes> = network,
            workload_gpu_ppm: Option<Share> = gpu,
            workload_processes_started: u64 = processes_started,
        } = workload: Usage,
        {
            background_cpu_ns: Option<CpuTime> = cpu,
            background_disk_bytes: Option<Bytes> = disk,
            background_network_bytes: Option<Bytes> = network,
            background_gpu_ppm: Option<Share> = gpu,
            background_processes_started: u64 = processes_started,
        } = background: Usage,
        typed_ago_ns: Option<Duration> = typed_ago,
        {
            coverage_cpu_ppm: Option<Share> = cpu,
            coverage_memory_ppm: Option<Share> = memory,
            coverage_disk_ppm: Option<Share> = disk,
            coverage_network_ppm: Option<Share> = network,
            coverage_gpu_ppm: Option<Share> = gpu,
            coverage_short_processes_ppm: Option<Share> = short_processes,
        } = coverage: Coverage,
        {
            millicores: MilliCores = cores,
            memory_bytes: Bytes = memory,
            gpus: Option<u32> = gpus,
        } = hardware: Hardware,
        // The table has no columns for the counters of schema 1.6, so they are unknown.
        {
            probe_cpu_ns: CpuTime = cpu,
            probe_resident_bytes: Option<Bytes> = resident,
            probe_events_lost: u64 = events_lost,
            probe_records_dropped: u64 = records_dropped,
            probe_spool_bytes: Bytes = spool_depth,
        } = probe: ProbeCost {..},
        steps: Vec<StepUsage> = steps,
    }
}

impl Record for Placed {
    type Row = (ArrivalRow, HeartbeatRow);

    fn day(&self) -> i32 {
        day(self.end)
    }

    fn name(&self) -> String {
        let h = &self.heartbeat;
        format!("{}/{}/{}/{}", self.node, h.boot, h.probe_start, h.sequence)
    }

    fn name_row((arrival, h): &Self::Row) -> String {
        format!(
            "{}/{}/{}/{}",
            arrival.node, h.boot, h.probe_start, h.sequence
        )
    }

    fn put(&self) -> Result<Self::Row, ColumnError> {
        Ok((ArrivalRow::put(self)?, HeartbeatRow::put(&self.heartbeat)?))
    }

    fn get((arrival, heartbeat): Self::Row) -> Result<Self, ColumnError> {
        arrival.get(heartbeat.get(NodeDetail::default())?)
    }

    /// The times of the arrival come after the origin.
    fn arrange<T>(columns: &mut [T]) {
        columns[1..9].rotate_left(3);
    }
}
