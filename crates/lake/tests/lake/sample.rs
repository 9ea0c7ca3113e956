//! Rows with every field set to a value of its own, and with every field that
//! can be unknown unknown.

use std::time::Duration;

use ebb_telemetry::arrival::Placed;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{
    MemorySource, PeakMemory, PlacedStep, Requested, StepEnd, StepId, StepKind, StepUsage,
    ToolEvents, ToolUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use jiff::Timestamp;

/// 2026-11-20T23:59:58.123456789Z, so that two seconds later it is another day.
pub(crate) const EVENING_NS: i128 = 1_795_219_198_123_456_789;

pub(crate) fn at(ns: i128) -> Timestamp {
    Timestamp::from_nanosecond(ns).expect("in range")
}

/// Heartbeat `sequence` of node `i-<node>`, a second after the one before it.
pub(crate) fn heartbeat(node: u32, sequence: u64) -> Placed {
    let node = NodeId::new(format!("i-{node:08x}")).expect("a name");
    let start = 1_000_000_000_000 + sequence * 1_000_000_000;
    let share = |ppm| Some(Share::from_ppm(ppm));
    let usage = |scale: u64| Usage {
        cpu: Some(CpuTime(700 * scale)),
        disk: Some(Bytes(11 * scale)),
        network: Some(Bytes(13 * scale)),
        gpu: share(17),
        processes_started: 19 * scale,
    };
    Placed {
        end: at(EVENING_NS + i128::from(sequence) * 1_000_000_000),
        heartbeat: Heartbeat {
            node: node.clone(),
            boot: BootId::new("0b5c-boot").expect("a name"),
            probe_start: ProbeStart::new("b00b").expect("a name"),
            sequence,
            start: BootClock::from_nanos(start),
            end: BootClock::from_nanos(start + 999_999_999),
            wall_at_end: at(EVENING_NS - 5_000_000_001),
            origin: Origin::Simulated,
            coverage: Coverage {
                cpu: share(1),
                memory: share(2),
                disk: share(3),
                network: share(4),
                gpu: share(5),
                short_processes: share(1_000_000),
            },
            hardware: Hardware {
                cores: MilliCores(64_000),
                memory: Bytes(256 << 30),
                gpus: Some(8),
            },
            workload: usage(1),
            background: usage(3),
            typed_ago: Some(Duration::from_nanos(61_000_000_007)),
            detail: Default::default(),
            steps: vec![step_usage("task-1", StepEnd::Running), bare_usage("task-2")],
            probe: ProbeCost {
                cpu: CpuTime(23),
                resident: Some(Bytes(29)),
                events_lost: 31,
                records_dropped: 37,
                spool_depth: Bytes(41),
                ..ProbeCost::default()
            },
        },
        node,
    }
}

/// The same with all that can be unknown unknown, and counts of nothing.
pub(crate) fn bare_heartbeat(node: u32, sequence: u64) -> Placed {
    let mut placed = heartbeat(node, sequence);
    let h = &mut placed.heartbeat;
    h.node = NodeId::new("somebody-else").expect("a name");
    h.coverage = Coverage {
        cpu: None,
        memory: None,
        disk: None,
        network: None,
        gpu: None,
        short_processes: None,
    };
    h.hardware.gpus = None;
    h.workload = Usage::default();
    h.background = Usage {
        cpu: Some(CpuTime(0)),
        disk: Some(Bytes(0)),
        network: Some(Bytes(0)),
        gpu: Some(Share::NONE),
        processes_started: 0,
    };
    h.origin = Origin::Measured;
    h.typed_ago = None;
    h.steps = Vec::new();
    h.probe = ProbeCost::default();
    placed
}

pub(crate) fn step_usage(key: &str, end: StepEnd) -> StepUsage {
    StepUsage {
        id: StepId {
            kind: StepKind::EcsTask,
            key: key.to_owned(),
        },
        name: "align \"α\"\n".to_owned(),
        started: BootClock::from_nanos(1),
        observed: BootClock::from_nanos(i64::MAX as u64),
        end,
        processes: 1_000,
        cpu: CpuTime(43),
        peak_memory: Some(PeakMemory {
            bytes: Bytes(0),
            source: MemorySource::CgroupPeak,
        }),
        disk_read: Some(Bytes(0)),
        disk_written: Some(Bytes(47)),
        requested: Requested {
            cores: Some(MilliCores(8_000)),
            memory: Some(Bytes(32 << 30)),
        },
        peak_cores: Some(MilliCores(1_500)),
        last_progress: BootClock::from_nanos(53),
        tools: vec![
            ToolUsage {
                name: "bwa".to_owned(),
                processes: 59,
                cpu: CpuTime(61),
                peak_memory: Some(Bytes(67)),
                disk: Some(Bytes(0)),
                events: Some(ToolEvents {
                    started_after: Duration::from_nanos(191),
                    ended_after: Some(Duration::from_nanos(193)),
                    failed: 197,
                    oom_kills: 199,
                }),
            },
            ToolUsage {
                name: String::new(),
                processes: 0,
                cpu: CpuTime(0),
                peak_memory: None,
                disk: None,
                events: None,
            },
        ],
        detail: StepDetail::sample(),
    }
}

pub(crate) fn bare_usage(key: &str) -> StepUsage {
    StepUsage {
        peak_memory: None,
        disk_read: None,
        disk_written: None,
        requested: Requested::default(),
        peak_cores: None,
        tools: Vec::new(),
        detail: StepDetail::default(),
        ..step_usage(key, StepEnd::Unknown)
    }
}

/// A step that ended `days` after the evening.
pub(crate) fn step(days: i128, usage: StepUsage) -> PlacedStep {
    let placed = heartbeat(7, 3).heartbeat;
    let ended = EVENING_NS + days * 86_400_000_000_000;
    PlacedStep {
        node: placed.node,
        boot: placed.boot,
        probe_start: placed.probe_start,
        sequence: 71,
        origin: Origin::Measured,
        started_at: at(-1),
        observed_at: at(ended),
        last_progress_at: at(ended - 1),
        usage,
    }
}
