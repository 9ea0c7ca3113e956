//! `heartbeats`: one row for each node and interval, with times on AWS's clock.

use deltalake_core::arrow::array::RecordBatch;
use deltalake_core::arrow::datatypes::FieldRef;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use serde::{Deserialize, Serialize};

use super::column::{
    ColumnError, Instant, get, get_boot, get_clock, get_node, get_origin, get_probe_start,
    get_share, get_some, get_span, put, put_clock, put_origin, put_share, put_some, put_span,
};
use super::usage::UsageRow;
use super::{Record, RowError, RowsError, date_field, side_by_side, traced};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeartbeatRow {
    node: String,
    claimed_node: String,
    boot: String,
    probe_start: String,
    sequence: i64,
    origin: String,
    started_at: Option<i64>,
    ended_at: i64,
    ended_at_submicro_ns: i32,
    start_boot_ns: i64,
    end_boot_ns: i64,
    wall_at_end: i64,
    wall_at_end_submicro_ns: i32,
    workload_cpu_ns: Option<i64>,
    workload_disk_bytes: Option<i64>,
    workload_network_bytes: Option<i64>,
    workload_gpu_ppm: Option<i32>,
    workload_processes_started: i64,
    background_cpu_ns: Option<i64>,
    background_disk_bytes: Option<i64>,
    background_network_bytes: Option<i64>,
    background_gpu_ppm: Option<i32>,
    background_processes_started: i64,
    typed_ago_ns: Option<i64>,
    coverage_cpu_ppm: Option<i32>,
    coverage_memory_ppm: Option<i32>,
    coverage_disk_ppm: Option<i32>,
    coverage_network_ppm: Option<i32>,
    coverage_gpu_ppm: Option<i32>,
    coverage_short_processes_ppm: Option<i32>,
    millicores: i64,
    memory_bytes: i64,
    gpus: Option<i64>,
    probe_cpu_ns: i64,
    probe_resident_bytes: Option<i64>,
    probe_events_lost: i64,
    probe_records_dropped: i64,
    probe_spool_bytes: i64,
    steps: Vec<UsageRow>,
}

impl HeartbeatRow {
    pub(super) fn new(placed: &Placed) -> Result<Self, RowError> {
        Self::columns(placed).map_err(|source| {
            let h = &placed.heartbeat;
            RowError {
                row: format!(
                    "{}/{}/{}/{}",
                    placed.node, h.boot, h.probe_start, h.sequence
                ),
                source,
            }
        })
    }

    fn columns(placed: &Placed) -> Result<Self, ColumnError> {
        let h = &placed.heartbeat;
        let ended = Instant::of(placed.end);
        let wall = Instant::of(h.wall_at_end);
        let (work, rest, seen) = (&h.workload, &h.background, &h.coverage);
        let bytes = |b: Option<Bytes>| b.map(|b| b.0);
        let cpu = |c: Option<CpuTime>| c.map(|c| c.0);
        Ok(Self {
            node: placed.node.to_string(),
            claimed_node: h.node.to_string(),
            boot: h.boot.to_string(),
            probe_start: h.probe_start.to_string(),
            sequence: put("sequence", h.sequence)?,
            origin: put_origin(h.origin),
            started_at: placed.start().map(|at| Instant::of(at).us),
            ended_at: ended.us,
            ended_at_submicro_ns: ended.submicro_ns,
            start_boot_ns: put_clock("start_boot_ns", h.start)?,
            end_boot_ns: put_clock("end_boot_ns", h.end)?,
            wall_at_end: wall.us,
            wall_at_end_submicro_ns: wall.submicro_ns,
            workload_cpu_ns: put_some("workload_cpu_ns", cpu(work.cpu))?,
            workload_disk_bytes: put_some("workload_disk_bytes", bytes(work.disk))?,
            workload_network_bytes: put_some("workload_network_bytes", bytes(work.network))?,
            workload_gpu_ppm: put_share(work.gpu),
            workload_processes_started: put("workload_processes_started", work.processes_started)?,
            background_cpu_ns: put_some("background_cpu_ns", cpu(rest.cpu))?,
            background_disk_bytes: put_some("background_disk_bytes", bytes(rest.disk))?,
            background_network_bytes: put_some("background_network_bytes", bytes(rest.network))?,
            background_gpu_ppm: put_share(rest.gpu),
            background_processes_started: put(
                "background_processes_started",
                rest.processes_started,
            )?,
            typed_ago_ns: put_span("typed_ago_ns", h.typed_ago)?,
            coverage_cpu_ppm: put_share(seen.cpu),
            coverage_memory_ppm: put_share(seen.memory),
            coverage_disk_ppm: put_share(seen.disk),
            coverage_network_ppm: put_share(seen.network),
            coverage_gpu_ppm: put_share(seen.gpu),
            coverage_short_processes_ppm: put_share(seen.short_processes),
            millicores: put("millicores", h.hardware.cores.0)?,
            memory_bytes: put("memory_bytes", h.hardware.memory.0)?,
            gpus: h.hardware.gpus.map(i64::from),
            probe_cpu_ns: put("probe_cpu_ns", h.probe.cpu.0)?,
            probe_resident_bytes: put_some("probe_resident_bytes", bytes(h.probe.resident))?,
            probe_events_lost: put("probe_events_lost", h.probe.events_lost)?,
            probe_records_dropped: put("probe_records_dropped", h.probe.records_dropped)?,
            probe_spool_bytes: put("probe_spool_bytes", h.probe.spool_depth.0)?,
            steps: h
                .steps
                .iter()
                .map(UsageRow::try_from)
                .collect::<Result<_, _>>()?,
        })
    }

    fn placed(self) -> Result<Placed, ColumnError> {
        let at = |column, us, submicro_ns| Instant { us, submicro_ns }.at(column);
        Ok(Placed {
            node: get_node("node", self.node.clone())?,
            end: at("ended_at", self.ended_at, self.ended_at_submicro_ns)?,
            heartbeat: Heartbeat {
                node: get_node("claimed_node", self.claimed_node.clone())?,
                boot: get_boot("boot", self.boot.clone())?,
                probe_start: get_probe_start("probe_start", self.probe_start.clone())?,
                sequence: get("sequence", self.sequence)?,
                start: get_clock("start_boot_ns", self.start_boot_ns)?,
                end: get_clock("end_boot_ns", self.end_boot_ns)?,
                wall_at_end: at(
                    "wall_at_end",
                    self.wall_at_end,
                    self.wall_at_end_submicro_ns,
                )?,
                origin: get_origin("origin", &self.origin)?,
                coverage: self.coverage()?,
                hardware: self.hardware()?,
                workload: self.workload()?,
                background: self.background()?,
                typed_ago: get_span("typed_ago_ns", self.typed_ago_ns)?,
                detail: Default::default(),
                probe: self.probe()?,
                steps: self
                    .steps
                    .into_iter()
                    .map(TryInto::try_into)
                    .collect::<Result<_, _>>()?,
            },
        })
    }

    fn coverage(&self) -> Result<Coverage, ColumnError> {
        let short = self.coverage_short_processes_ppm;
        Ok(Coverage {
            cpu: get_share("coverage_cpu_ppm", self.coverage_cpu_ppm)?,
            memory: get_share("coverage_memory_ppm", self.coverage_memory_ppm)?,
            disk: get_share("coverage_disk_ppm", self.coverage_disk_ppm)?,
            network: get_share("coverage_network_ppm", self.coverage_network_ppm)?,
            gpu: get_share("coverage_gpu_ppm", self.coverage_gpu_ppm)?,
            short_processes: get_share("coverage_short_processes_ppm", short)?,
        })
    }

    fn hardware(&self) -> Result<Hardware, ColumnError> {
        let gpus = |value: i64| {
            let column = "gpus";
            u32::try_from(value).map_err(|_| ColumnError::OutOfRange { column, value })
        };
        Ok(Hardware {
            cores: MilliCores(get("millicores", self.millicores)?),
            memory: Bytes(get("memory_bytes", self.memory_bytes)?),
            gpus: self.gpus.map(gpus).transpose()?,
        })
    }

    fn workload(&self) -> Result<Usage, ColumnError> {
        let started = self.workload_processes_started;
        Ok(Usage {
            cpu: get_some("workload_cpu_ns", self.workload_cpu_ns)?.map(CpuTime),
            disk: get_some("workload_disk_bytes", self.workload_disk_bytes)?.map(Bytes),
            network: get_some("workload_network_bytes", self.workload_network_bytes)?.map(Bytes),
            gpu: get_share("workload_gpu_ppm", self.workload_gpu_ppm)?,
            processes_started: get("workload_processes_started", started)?,
        })
    }

    fn background(&self) -> Result<Usage, ColumnError> {
        let network = self.background_network_bytes;
        let started = self.background_processes_started;
        Ok(Usage {
            cpu: get_some("background_cpu_ns", self.background_cpu_ns)?.map(CpuTime),
            disk: get_some("background_disk_bytes", self.background_disk_bytes)?.map(Bytes),
            network: get_some("background_network_bytes", network)?.map(Bytes),
            gpu: get_share("background_gpu_ppm", self.background_gpu_ppm)?,
            processes_started: get("background_processes_started", started)?,
        })
    }

    fn probe(&self) -> Result<ProbeCost, ColumnError> {
        Ok(ProbeCost {
            cpu: CpuTime(get("probe_cpu_ns", self.probe_cpu_ns)?),
            resident: get_some("probe_resident_bytes", self.probe_resident_bytes)?.map(Bytes),
            events_lost: get("probe_events_lost", self.probe_events_lost)?,
            records_dropped: get("probe_records_dropped", self.probe_records_dropped)?,
            spool_depth: Bytes(get("probe_spool_bytes", self.probe_spool_bytes)?),
            // The table has no columns for the counters of schema 1.6, so they are unknown.
            ..ProbeCost::default()
        })
    }
}

fn row_fields() -> Result<Vec<FieldRef>, serde_arrow::Error> {
    traced::<HeartbeatRow>(&["ended_at", "wall_at_end"], &["started_at"])
}

impl Record for Placed {
    fn fields() -> Result<Vec<FieldRef>, serde_arrow::Error> {
        let mut fields = vec![date_field()?];
        fields.extend(row_fields()?);
        Ok(fields)
    }

    fn pack(placed: &[Self]) -> Result<RecordBatch, RowsError> {
        let rows = placed
            .iter()
            .map(HeartbeatRow::new)
            .collect::<Result<Vec<_>, _>>()?;
        let days = placed.iter().map(|p| Instant::of(p.end).day()).collect();
        let fields = row_fields()?;
        let arrays = serde_arrow::to_arrow(&fields, &rows)?;
        side_by_side(days, vec![(fields, arrays)])
    }

    fn unpack(batch: &RecordBatch) -> Result<Vec<Self>, RowsError> {
        let rows: Vec<HeartbeatRow> = serde_arrow::from_record_batch(batch)?;
        let placed = |row: HeartbeatRow| {
            let name = format!(
                "{}/{}/{}/{}",
                row.node, row.boot, row.probe_start, row.sequence
            );
            let placed = row.placed();
            placed.map_err(|source| RowsError::Row(RowError { row: name, source }))
        };
        rows.into_iter().map(placed).collect()
    }
}
