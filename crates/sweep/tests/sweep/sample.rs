//! Data of probes: heartbeats of one minute each, idle or busy, and finished tasks.

use std::collections::BTreeMap;

use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use ebb_telemetry::identity::{BootId, InstanceType, NodeId, ProbeStart, Region};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{Requested, StepBatch, StepEnd, StepId, StepKind, StepUsage};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use ebb_wire::{encode_heartbeats, encode_steps, encode_steps_message};
use jiff::Timestamp;

const MINUTE_NS: u64 = 60_000_000_000;

/// The first heartbeat begins an hour after boot.
const BOOTED_NS: u64 = 60 * MINUTE_NS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Idle,
    Busy,
}

pub(crate) fn node(number: u32) -> NodeId {
    NodeId::new(format!("i-{number:017x}")).expect("a name")
}

pub(crate) fn sender(number: u32) -> String {
    format!("AROAEXAMPLE:{}", node(number))
}

pub(crate) fn region() -> Region {
    Region::new("eu-central-1").expect("a region")
}

pub(crate) fn boot(number: u32) -> BootId {
    BootId::new(format!("boot-{number}")).expect("a name")
}

pub(crate) fn probe_start() -> ProbeStart {
    ProbeStart::new("start").expect("a name")
}

fn after(minutes: u64) -> BootClock {
    BootClock::from_nanos(BOOTED_NS + minutes * MINUTE_NS)
}

/// The clocks of a message that is sent at the end of heartbeat `sequence`.
pub(crate) fn sent(number: u32, sequence: u64) -> Sent {
    Sent {
        boot: boot(number),
        clock: after(sequence + 1),
        wall: Timestamp::UNIX_EPOCH,
    }
}

pub(crate) fn heartbeat(number: u32, sequence: u64, work: Work) -> Heartbeat {
    let all = Some(Share::from_ppm(1_000_000));
    let used = |cpu_ms| Usage {
        cpu: Some(CpuTime::from_millis(cpu_ms)),
        disk: Some(Bytes(0)),
        network: Some(Bytes(0)),
        gpu: None,
        processes_started: 0,
    };
    Heartbeat {
        node: node(number),
        boot: boot(number),
        probe_start: probe_start(),
        sequence,
        start: after(sequence),
        end: after(sequence + 1),
        wall_at_end: Timestamp::UNIX_EPOCH,
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
        workload: used(if work == Work::Busy { 90_000 } else { 0 }),
        background: used(100),
        typed_ago: None,
        detail: Default::default(),
        steps: Vec::new(),
        probe: ProbeCost::default(),
    }
}

/// A message with heartbeats of a node.
pub(crate) fn message(number: u32, sequences: std::ops::Range<u64>, work: Work) -> String {
    let last = sequences.end - 1;
    let heartbeats: Vec<_> = sequences.map(|s| heartbeat(number, s, work)).collect();
    encode_heartbeats(&sent(number, last), &heartbeats).expect("it fits")
}

/// A message of a node whose heartbeat contains a running container task.
pub(crate) fn running(number: u32, sequence: u64) -> String {
    let mut heartbeat = heartbeat(number, sequence, Work::Busy);
    heartbeat.steps = vec![StepUsage {
        end: StepEnd::Running,
        observed: after(sequence + 1),
        last_progress: after(sequence + 1),
        ..step("lost", 0)
    }];
    encode_heartbeats(&sent(number, sequence), &[heartbeat]).expect("it fits")
}

/// The only heartbeat after a probe start.
pub(crate) fn first_of_start(number: u32, start: u64) -> String {
    let heartbeat = Heartbeat {
        probe_start: ProbeStart::new(format!("start-{start:03}")).expect("a name"),
        ..heartbeat(number, start, Work::Idle)
    };
    encode_heartbeats(&sent(number, start), &[heartbeat]).expect("it fits")
}

/// A heartbeat that was in the spool for this number of days.
pub(crate) fn late_message(number: u32, days: u64) -> String {
    let sent = sent(number, days * 24 * 60);
    encode_heartbeats(&sent, &[heartbeat(number, 0, Work::Idle)]).expect("it fits")
}

/// A finished task of two minutes.
pub(crate) fn step(key: &str, sequence: u64) -> StepUsage {
    StepUsage {
        id: StepId {
            kind: StepKind::EcsTask,
            key: format!("{key}-{sequence}"),
        },
        name: "align".to_owned(),
        started: after(0),
        observed: after(2),
        end: StepEnd::Exited(0),
        processes: 3,
        cpu: CpuTime::from_millis(500),
        peak_memory: None,
        disk_read: None,
        disk_written: None,
        requested: Requested::default(),
        peak_cores: None,
        last_progress: after(2),
        tools: Vec::new(),
        detail: StepDetail::default(),
    }
}

/// Two finished tasks.
fn batch(number: u32, sequence: u64) -> StepBatch {
    StepBatch {
        node: node(number),
        boot: boot(number),
        probe_start: probe_start(),
        sequence,
        origin: Origin::Simulated,
        steps: vec![step("one", sequence), step("two", sequence)],
    }
}

/// A message with the finished tasks of [`object`].
pub(crate) fn steps_message(number: u32, sequence: u64) -> String {
    encode_steps_message(&sent(number, 2), &batch(number, sequence)).expect("it fits")
}

/// Key and bytes of an object with two finished tasks.
pub(crate) fn object(number: u32, sequence: u64) -> (String, Vec<u8>) {
    let batch = batch(number, sequence);
    let key = format!(
        "ingest/v1/{}/{}/{}/{sequence}.steps.zst",
        sender(number),
        batch.boot,
        batch.probe_start
    );
    (
        key,
        encode_steps(&sent(number, 2), &batch).expect("it fits"),
    )
}

/// Running machines.
pub(crate) fn inventory(numbers: &[u32]) -> BTreeMap<Region, Inventory> {
    let mut inventory = Inventory::default();
    for number in numbers {
        let kind = InstanceType::new("m5.xlarge").expect("a type");
        let running = InstanceState::Running;
        let instance = Instance::new(node(*number), region(), kind, running, Market::OnDemand);
        inventory.instances.insert(node(*number), instance);
    }
    BTreeMap::from([(region(), inventory)])
}
