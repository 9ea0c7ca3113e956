//! A simulated fleet. Of 100 nodes, 80 work on one task, 10 work on two, 5 have only idle services,
//! and 5 do nothing. All data is marked as simulated.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_model::policy::Policy;
use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, Usage};
use ebb_telemetry::identity::{BootId, InstanceType, NodeId, ProbeStart, Region};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{
    MemorySource, PeakMemory, Requested, StepEnd, StepId, StepKind, StepUsage, ToolEvents,
    ToolUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use jiff::Timestamp;

use crate::detail;

pub(crate) const MINUTE_NS: u64 = 60_000_000_000;
/// Heartbeats of a node in the measured ten minutes.
pub(crate) const MINUTES: u64 = 10;
/// When the measured heartbeats begin.
pub(crate) const BEGIN_S: i64 = 1_795_000_000;
/// The duration of a task; the next one follows.
pub(crate) const STEP_MINUTES: u64 = 40;

/// The kind of a node, by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Working(u64),
    Quiet,
    Idle,
}

fn kind(number: u32) -> Kind {
    match number % 100 {
        0..80 => Kind::Working(1),
        80..90 => Kind::Working(2),
        90..95 => Kind::Quiet,
        _ => Kind::Idle,
    }
}

/// Spreads a small number over 64 bits, so that ids compress as badly as real ones (the finalizer
/// of SplitMix64).
pub(crate) fn mixed(number: u64) -> u64 {
    let a = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ (c >> 31)
}

pub(crate) fn node(number: u32) -> NodeId {
    let id = mixed(u64::from(number));
    NodeId::new(format!("i-0{id:016x}")).expect("a name")
}

fn uuid(seed: u64) -> String {
    let (a, b) = (mixed(seed), mixed(seed ^ (1 << 40)));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 48,
        b & 0xffff_ffff_ffff
    )
}

fn boot(number: u32) -> BootId {
    BootId::new(uuid(u64::from(number) | 1 << 33)).expect("a name")
}

fn probe_start(number: u32) -> ProbeStart {
    ProbeStart::new(uuid(u64::from(number) | 1 << 34)).expect("a name")
}

pub(crate) fn region() -> Region {
    Region::new("eu-central-1").expect("a region")
}

/// A probe's intervals end some microseconds after the minute.
fn after(minutes: u64) -> BootClock {
    BootClock::from_nanos(minutes * MINUTE_NS + mixed(minutes) % 1_000_000)
}

/// All nodes boot at the same time, so that minute `m` is the same time for each.
pub(crate) fn at(minute: u64) -> Timestamp {
    let seconds = BEGIN_S + i64::try_from(minute * 60).expect("small");
    Timestamp::from_second(seconds).expect("a time")
}

pub(crate) fn sent(number: u32, minute: u64) -> Sent {
    Sent {
        boot: boot(number),
        clock: after(minute),
        wall: at(minute),
    }
}

/// The heartbeat of a node for the minute that ends at `minute`.
pub(crate) fn heartbeat(number: u32, minute: u64) -> Heartbeat {
    let all = Some(Share::ALL);
    let kind = kind(number);
    let noise = mixed(u64::from(number) << 20 | minute) % 1_000;
    let used = |cpu_ms, disk| Usage {
        cpu: Some(CpuTime::from_millis(cpu_ms)),
        disk: Some(Bytes(disk)),
        network: Some(Bytes(10 * noise)),
        gpu: None,
        processes_started: noise % 7,
    };
    let works = matches!(kind, Kind::Working(_));
    let steps = match kind {
        Kind::Working(steps) => (0..steps).map(|n| work(number, minute, n)).collect(),
        Kind::Quiet => vec![service(minute)],
        Kind::Idle => Vec::new(),
    };
    Heartbeat {
        node: node(number),
        boot: boot(number),
        probe_start: probe_start(number),
        sequence: minute,
        start: after(minute - 1),
        end: after(minute),
        wall_at_end: at(minute),
        origin: Origin::Simulated,
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
        workload: match works {
            true => used(60_000 + noise, 4_096 * noise),
            false => used(0, 0),
        },
        background: used(100 + noise, 512 * noise),
        typed_ago: None,
        detail: detail::node(noise),
        steps,
        probe: detail::probe(noise),
    }
}

fn work(number: u32, minute: u64, n: u64) -> StepUsage {
    let begin = (minute - 1) / STEP_MINUTES * STEP_MINUTES;
    let seed = mixed(u64::from(number) << 24 | begin << 4 | n);
    let ran = minute - begin;
    let cpu = CpuTime(ran * MINUTE_NS - seed % MINUTE_NS / 10);
    let tool = |name: &str, part: u64| ToolUsage {
        name: name.to_owned(),
        processes: 3 * part,
        cpu: CpuTime(cpu.0 / part),
        peak_memory: Some(Bytes(seed % 4_000_000_000 / part)),
        disk: Some(Bytes(ran * 1_000_000)),
        events: Some(ToolEvents {
            started_after: Duration::from_nanos(seed % 1_000_000_000),
            ended_after: Some(Duration::from_secs(60) + Duration::from_nanos(seed % 1_000_000_000)),
            failed: 0,
            oom_kills: 0,
        }),
    };
    StepUsage {
        id: StepId {
            kind: StepKind::EcsTask,
            key: format!("{seed:016x}{:016x}", mixed(seed)),
        },
        name: format!("align-{}", seed % 50),
        started: after(begin),
        observed: after(minute),
        end: StepEnd::Running,
        processes: 3 + ran,
        cpu,
        peak_memory: Some(PeakMemory {
            bytes: Bytes(seed % 4_000_000_000),
            source: MemorySource::CgroupSampled,
        }),
        disk_read: Some(Bytes(ran * 1_000_000 + seed % 997)),
        disk_written: Some(Bytes(ran * 300_000 + seed % 991)),
        requested: Requested {
            cores: Some(MilliCores::cores(4)),
            memory: Some(Bytes::gib(8)),
        },
        peak_cores: Some(MilliCores(1_000 + seed % 2_000)),
        last_progress: after(minute),
        tools: vec![tool("bwa", 1), tool("samtools", 4)],
        detail: detail::step(ran, cpu, seed),
    }
}

fn service(minute: u64) -> StepUsage {
    StepUsage {
        id: StepId {
            kind: StepKind::Service,
            key: "postgresql.service".to_owned(),
        },
        name: "postgresql.service".to_owned(),
        started: after(0),
        last_progress: after(0),
        tools: Vec::new(),
        requested: Requested::default(),
        ..work(0, minute, 0)
    }
}

/// The inventory of the fleet: running machines with eight owners.
pub(crate) fn inventory(nodes: u32) -> Inventory {
    let mut inventory = Inventory::default();
    for number in 0..nodes {
        let kind = InstanceType::new("m5.xlarge").expect("a type");
        let running = InstanceState::Running;
        let instance = Instance {
            tags: BTreeMap::from([
                ("Name".to_owned(), format!("worker-{number}")),
                ("Owner".to_owned(), format!("team-{}", number % 8)),
            ]),
            ..Instance::new(node(number), region(), kind, running, Market::OnDemand)
        };
        inventory.instances.insert(instance.id.clone(), instance);
    }
    inventory
}

/// Five idle minutes are enough here, because ten minutes cannot show half an hour.
pub(crate) fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.idle.after_seconds = 300;
    policy
}
