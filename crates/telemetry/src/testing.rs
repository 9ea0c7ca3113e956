//! Heartbeats and tasks for tests, in one place.

use jiff::Timestamp;

use crate::arrival::Placed;
use crate::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use crate::identity::{BootId, NodeId, ProbeStart};
use crate::origin::Origin;
use crate::step::{PlacedStep, Requested, StepDetail, StepEnd, StepId, StepKind, StepUsage};
use crate::time::BootClock;
use crate::units::{Bytes, CpuTime, MilliCores, Share};

/// The time `seconds` after a fixed time.
pub fn at(seconds: u64) -> Timestamp {
    let since = i64::try_from(seconds).expect("a small number");
    Timestamp::from_second(1_790_000_040 + since).expect("a time of this century")
}

/// The boot clock `seconds` after boot.
pub fn clock(seconds: u64) -> BootClock {
    BootClock::from_nanos(seconds * 1_000_000_000)
}

/// The node with number `n`.
pub fn node(n: u8) -> NodeId {
    NodeId::new(format!("i-{n:08x}")).expect("a node id")
}

fn boot() -> BootId {
    BootId::new("boot-1").expect("a boot id")
}

fn probe_start() -> ProbeStart {
    ProbeStart::new("probe-1").expect("a probe start")
}

/// An idle heartbeat with full coverage of a machine without a GPU.
pub fn heartbeat(start: BootClock, end: BootClock) -> Heartbeat {
    let all = Some(Share::ALL);
    Heartbeat {
        node: node(0),
        boot: boot(),
        probe_start: probe_start(),
        sequence: 0,
        start,
        end,
        wall_at_end: at(0),
        origin: Origin::Measured,
        coverage: Coverage {
            cpu: all,
            memory: all,
            disk: all,
            network: all,
            gpu: None,
            short_processes: all,
        },
        hardware: Hardware {
            cores: MilliCores::cores(4),
            memory: Bytes::gib(16),
            gpus: Some(0),
        },
        workload: Usage {
            cpu: Some(CpuTime(0)),
            ..Usage::default()
        },
        background: Usage {
            cpu: Some(CpuTime::from_millis(300)),
            ..Usage::default()
        },
        typed_ago: None,
        detail: Default::default(),
        steps: Vec::new(),
        probe: ProbeCost::default(),
    }
}

/// Heartbeat `sequence` of a node, for minute `sequence` after boot. Every seventh heartbeat is
/// active, and each contains one task.
pub fn placed(n: u8, sequence: u64) -> Placed {
    let mut h = heartbeat(clock(sequence * 60), clock(sequence * 60 + 60));
    h.node = node(n);
    h.sequence = sequence;
    if sequence.is_multiple_of(7) {
        h.workload.cpu = Some(CpuTime::from_millis(30_000));
    }
    h.steps = vec![usage(sequence / 10, h.end)];
    Placed {
        node: node(n),
        end: at(sequence * 60 + 60),
        heartbeat: h,
    }
}

/// A task that started at boot and ran until `observed`.
pub fn usage(key: u64, observed: BootClock) -> StepUsage {
    StepUsage {
        id: StepId {
            kind: StepKind::EcsTask,
            key: format!("{key:032x}"),
        },
        name: "align".into(),
        started: BootClock::default(),
        observed,
        end: StepEnd::Running,
        processes: 1,
        cpu: CpuTime(observed.as_nanos()),
        peak_memory: None,
        disk_read: None,
        disk_written: None,
        requested: Requested::default(),
        peak_cores: Some(MilliCores::cores(1)),
        last_progress: observed,
        tools: Vec::new(),
        detail: StepDetail::default(),
    }
}

/// An ended task in batch `sequence` of a node.
pub fn placed_step(n: u8, sequence: u64) -> PlacedStep {
    let end = clock(sequence * 60 + 30);
    let usage = StepUsage {
        end: StepEnd::Exited(0),
        ..usage(sequence / 10, end)
    };
    PlacedStep {
        node: node(n),
        boot: boot(),
        probe_start: probe_start(),
        sequence,
        origin: Origin::Measured,
        started_at: at(0),
        observed_at: at(sequence * 60 + 30),
        last_progress_at: at(sequence * 60 + 30),
        usage,
    }
}
