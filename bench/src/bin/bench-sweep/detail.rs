//! Details of the simulated nodes and tasks. They contain every field that a probe with default
//! settings sends on a kernel that supports all of them. A sweep spends most of its reading on
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::heartbeat::ProbeCost;
use ebb_telemetry::heartbeat::node_signals::{NetworkDetail, NodeDetail, Pressure};
use ebb_telemetry::step::namespaces::Namespaces;
use ebb_telemetry::step::parallelism::Parallelism;
use ebb_telemetry::step::resource_usage::{
    CpuWithoutProgress, NetworkPeer, PeerScope, Reclaim, Sampled, StepDetail, StepNetwork,
    SyscallIo, TaskState, WaitingTool,
};
use ebb_telemetry::units::{Bytes, CpuTime};

/// A probe samples every ten seconds by default.
const PASSES_A_MINUTE: u64 = 6;
const PASS_NS: u64 = crate::fleet::MINUTE_NS / PASSES_A_MINUTE;

/// The details of a node's minute; `noise` below 1,000 makes one minute differ from the next.
pub(crate) fn node(noise: u64) -> NodeDetail {
    let stalled = |part: u64| Duration::from_micros(noise * 37_123 / part);
    NodeDetail {
        network: Some(NetworkDetail {
            owned: Bytes(9 * noise),
            unowned: Bytes(noise),
            retransmits: noise % 3,
            connections: Some(2 + noise % 5),
        }),
        pressure: Some(Pressure {
            cpu_some: stalled(1),
            memory_some: Duration::ZERO,
            memory_full: Duration::ZERO,
            disk_some: stalled(3),
            disk_full: stalled(4),
        }),
        reclaimed: Some(Bytes(0)),
        memory_used: Some(Bytes(3_000_000_000 + noise * 4_096)),
        ..NodeDetail::default()
    }
}

/// The cost of the probe itself.
pub(crate) fn probe(noise: u64) -> ProbeCost {
    ProbeCost {
        cpu: CpuTime(80_000_000 + noise * 12_347),
        resident: Some(Bytes::mib(14)),
        ..ProbeCost::default()
    }
}

/// The details of a task some minutes after its start, with `cpu` of CPU time.
pub(crate) fn step(minutes: u64, cpu: CpuTime, seed: u64) -> StepDetail {
    let passes = minutes * PASSES_A_MINUTE;
    let system = CpuTime(cpu.0 / (20 + seed % 30));
    StepDetail {
        user_cpu: Some(CpuTime(cpu.0 - system.0)),
        system_cpu: Some(system),
        run_queue: Some(Duration::from_nanos(cpu.0 / (50 + seed % 100))),
        voluntary_switches: Some(minutes * (300 + seed % 700)),
        involuntary_switches: Some(minutes * (50 + seed % 90)),
        minor_faults: Some(90_000 + minutes * (1_000 + seed % 7_000)),
        major_faults: Some(seed % 20),
        // Known only if `kernel.task_delayacct` is on.
        disk_delay: None,
        parallelism: parallelism(passes, cpu, seed),
        states: states(passes, seed),
        waiting_tools: vec![WaitingTool {
            state: TaskState::Disk,
            tool: "bwa".to_owned(),
            samples: passes / 9,
        }],
        network_peers: vec![NetworkPeer {
            port: Some(443),
            scope: PeerScope::Public,
            is_server: false,
            received: Bytes(minutes * (seed % 2_000_000)),
            sent: Bytes(minutes * (seed % 90_000)),
            connections: 1 + seed % 3,
        }],
        network: Some(StepNetwork {
            received: Bytes(minutes * (seed % 2_000_000)),
            sent: Bytes(minutes * (seed % 90_000)),
            retransmits: seed % 7,
            connections: 1 + seed % 3,
        }),
        syscall_io: Some(SyscallIo {
            read: Bytes(minutes * (seed % 9_000_000)),
            written: Bytes(minutes * (seed % 5_000_000)),
            read_calls: minutes * (seed % 7_000),
            write_calls: minutes * (seed % 3_000),
        }),
        namespaces: Some(Namespaces::from_bits(0b111_0111)),
        cpu_without_progress: Some(CpuWithoutProgress {
            now: Duration::ZERO,
            longest: Duration::from_nanos(10_000_123_457 * (seed % 4)),
        }),
        threads: Some(2 + (seed % 30) as u32),
        user: Some(1_000),
        memory_now: Some(Bytes::mib(100 + seed % 3_000)),
        reclaim: Some(Reclaim {
            pages_reclaimed: Some(Bytes((seed % 3) * 40_960)),
            limit_hits: seed % 2,
        }),
        ..StepDetail::default()
    }
}

/// A task that sometimes waits for input, and computes on one or two cores.
fn parallelism(passes: u64, cpu: CpuTime, seed: u64) -> Parallelism {
    let mut seen = Parallelism::default();
    let (between, a_pass) = (passes - 1, cpu.0 / passes);
    let (waits, on_two) = (between / 9, between * 2 / 9);
    let all = [
        (waits, a_pass / 5),
        (between - waits - on_two, a_pass),
        (on_two, 2 * a_pass),
    ];
    for (times, used) in all {
        let wall = Duration::from_nanos(times * PASS_NS);
        seen.add(wall, CpuTime(times * used + seed % 1_000));
    }
    seen
}

fn states(passes: u64, seed: u64) -> BTreeMap<TaskState, Sampled> {
    let rare = passes / (7 + seed % 5);
    let all = [
        (TaskState::Running, passes - 2 * rare),
        (TaskState::Disk, rare),
        (TaskState::Pipe, rare),
    ];
    let seen = all.into_iter().filter(|(_, samples)| *samples > 0);
    seen.map(|(state, samples)| {
        let time = Duration::from_nanos(samples * PASS_NS + seed % 1_000_000);
        (state, Sampled { samples, time })
    })
    .collect()
}
