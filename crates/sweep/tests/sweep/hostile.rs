//! A sender that floods, or whose message crashes the sweep, does not affect other senders.

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::failing::Fault;
use ebb_ingest::fold::folder::Limits;
use ebb_ingest::fold::intake::{Excess, Quotas};
use ebb_model::report::Report;
use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::ProbeStart;
use ebb_telemetry::step::{MemorySource, PeakMemory, StepBatch, StepEnd, StepUsage};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use ebb_wire::{encode_heartbeats, encode_steps};

use crate::lake::TestLake;
use crate::sample::{self, Work};
use crate::world::World;

#[tokio::test]
async fn a_flood_is_cut_at_its_senders_quota_and_reported() {
    let mut world = World::new();
    world.limits.quotas = Quotas {
        messages: 10,
        objects: 3,
        left_messages: 5,
        ..Quotas::default()
    };
    for sequence in 0..30 {
        world.send(9, &sample::message(9, sequence..sequence + 1, Work::Busy));
        let (key, bytes) = sample::object(9, sequence);
        world.objects.insert(key, bytes);
    }
    world.fill();
    let swept = world.sweep(&Fault::never()).await;
    let folding = swept.expect("nothing fails it").folding;

    // Twelve heartbeats of the good nodes and ten of the other.
    assert_eq!((folding.heartbeats, folding.steps), (22, 4 + 6));
    let excess = &folding.over_quota.by_sender[&sample::node(9).to_string()];
    let expected = Excess {
        // Five messages, and the folder of its objects.
        left: 6,
        dropped: 15,
    };
    assert_eq!(*excess, expected);
    assert_eq!(world.queue.messages().len(), 5);
    let report = world.objects.stored(LATEST_JSON).expect("a report");
    let report: Report = serde_json::from_slice(&report.bytes).expect("a report");
    let gap = report
        .gaps
        .iter()
        .find(|gap| gap.scope.contains("ingestion"));
    let reason = &gap.expect("a gap").reason;
    assert!(
        reason.contains("15 messages were deleted unread"),
        "{reason}"
    );

    world.queue.make_visible();
    let swept = world.sweep(&Fault::never()).await;
    let folding = swept.expect("nothing fails it").folding;
    assert_eq!(
        (folding.heartbeats, folding.steps),
        (5, 6),
        "the next sweep goes on"
    );
}

#[tokio::test]
async fn finished_tasks_in_messages_are_cut_at_the_quota_of_their_sender() {
    let mut world = World::new();
    world.limits.messages = 2;
    world.limits.quotas.step_rows = 4;
    for sequence in 0..10 {
        world.send(9, &sample::steps_message(9, sequence));
    }
    let swept = world.sweep(&Fault::never()).await;
    let folding = swept.expect("nothing fails it").folding;
    assert_eq!(folding.steps, 4);
    let excess = &folding.over_quota.by_sender[&sample::node(9).to_string()];
    assert_eq!((excess.left, excess.dropped), (8, 0));
    assert_eq!(world.queue.messages().len(), 8);
}

#[tokio::test]
async fn finished_tasks_that_arrive_as_messages_and_as_an_object_count_once() {
    let world = World::new();
    for _ in 0..2 {
        world.send(1, &sample::steps_message(1, 0));
    }
    let (key, bytes) = sample::object(1, 0);
    world.objects.insert(key.clone(), bytes.clone());
    let swept = world.sweep(&Fault::never()).await;
    let folding = swept.expect("nothing fails it").folding;
    assert_eq!((folding.steps, folding.messages), (2, 2));
    assert!(world.queue.messages().is_empty() && world.objects.stored(&key).is_none());

    world.send(1, &sample::steps_message(1, 0));
    world.objects.insert(key, bytes);
    let swept = world.sweep(&Fault::never()).await;
    let folding = swept.expect("nothing fails it").folding;
    assert_eq!((folding.steps, folding.duplicates), (0, 2));
    assert!(world.queue.messages().is_empty());
    // A node can send for itself only.
    world.send(2, &sample::steps_message(1, 1));
    let swept = world.sweep(&Fault::never()).await;
    let folding = swept.expect("nothing fails it").folding;
    assert_eq!(
        (folding.steps, folding.refused["claims_another_node"]),
        (0, 1)
    );
}

#[tokio::test]
async fn a_message_that_crashes_the_sweep_is_found_and_refused_by_name() {
    let mut world = World::new();
    world.limits = Limits {
        messages: 50,
        ..world.limits
    };
    for number in 10..60 {
        world.send(number, &sample::message(number, 0..1, Work::Busy));
    }
    let killer = sample::node(33);
    for sweeps in 1.. {
        assert!(sweeps < 10, "the culprit is not found");
        let fault = Fault::never();
        let lake = TestLake::new(world.lake().await, &fault, None).killed_by(killer.clone());
        world.queue.make_visible();
        let swept = world.sweep_over(&lake, &fault).await;
        if let Ok(summary) = swept {
            assert_eq!(summary.folding.refused.get("crashes"), Some(&1));
            break;
        }
    }
    let dead = world.dead_letters.messages();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].attributes["sender"], sample::sender(33));
    assert!(dead[0].attributes["reason"].contains("two sweeps crashed"));
    let heartbeats = world.heartbeats().await;
    assert_eq!(heartbeats.len(), 49, "all others are in the lake");
    assert!(heartbeats.values().all(|times| *times == 1));
    let left = world.objects.keys();
    let left = left.iter().filter(|key| key.starts_with("state/opening"));
    assert_eq!(left.count(), 0);
}

#[tokio::test]
async fn a_batch_holds_what_its_memory_allows() {
    let mut world = World::new();
    world.limits = Limits {
        messages: 100,
        objects: 100,
        // Less than one heartbeat: one message or object a core and batch.
        batch_bytes: 1,
        ..world.limits
    };
    world.fill();
    let swept = world.sweep(&Fault::never()).await;
    let folding = swept.expect("nothing fails it").folding;
    assert!(folding.batches >= 4, "{folding:?}");
    world.holds_all_once("in small batches").await;
}

const GOOD_NODES: std::ops::RangeInclusive<u32> = 1..=100;
const HOSTILE_NODE: u32 = 666;

/// A step of the good nodes, of which the hostile node reports tasks too.
const SHARED_STEP: &str = "merge";

/// The largest report that the API answers with.
const MOST_REPORT_BYTES: usize = 4 << 20;

/// The largest number that the lake can store.
const MOST: u64 = i64::MAX as u64;

/// The longest time since boot that a boot clock may report.
const NINETEEN_YEARS_NS: u64 = 19 * 365 * 24 * 3600 * 1_000_000_000;

fn hostile_step(key: &str, end: StepEnd) -> StepUsage {
    let mut step = StepUsage {
        name: "\u{1b}[2J<script>".repeat(9),
        started: BootClock::from_nanos(0),
        observed: BootClock::from_nanos(NINETEEN_YEARS_NS),
        last_progress: BootClock::from_nanos(0),
        end,
        processes: MOST,
        cpu: CpuTime::from_millis(MOST / 1_000_000),
        disk_read: Some(Bytes(MOST)),
        disk_written: Some(Bytes(MOST)),
        peak_cores: Some(MilliCores(MOST)),
        ..sample::step(key, 0)
    };
    step.id.key = key.to_owned();
    step.requested.memory = Some(Bytes(MOST));
    step.requested.cores = Some(MilliCores(MOST));
    step
}

fn hostile_heartbeat(start: u32, sequence: u64) -> Heartbeat {
    let clock = BootClock::from_nanos(NINETEEN_YEARS_NS);
    let mut heartbeat = Heartbeat {
        probe_start: ProbeStart::new(format!("start-{start}")).expect("a name"),
        sequence,
        start: BootClock::from_nanos(NINETEEN_YEARS_NS - 13 * 24 * 3_600_000_000_000),
        end: clock,
        ..sample::heartbeat(HOSTILE_NODE, 0, Work::Busy)
    };
    heartbeat.workload.cpu = Some(CpuTime::from_millis(MOST / 1_000_000));
    heartbeat.workload.processes_started = MOST;
    heartbeat.hardware.memory = Bytes(MOST);
    heartbeat.steps = (0..100)
        .map(|n| hostile_step(&format!("running-{n}"), StepEnd::Running))
        .collect();
    heartbeat
}

/// Key and bytes of an object with finished tasks of this node.
fn tasks_of(number: u32, sequence: u64, steps: Vec<StepUsage>) -> (String, Vec<u8>) {
    let sent = match number {
        HOSTILE_NODE => hostile_clock(),
        _ => sample::sent(number, 2),
    };
    let batch = StepBatch {
        node: sample::node(number),
        boot: sent.boot.clone(),
        probe_start: sample::probe_start(),
        sequence,
        origin: ebb_telemetry::origin::Origin::Measured,
        steps,
    };
    let key = format!(
        "ingest/v1/{}/{}/start/{sequence}.steps.zst",
        sample::sender(number),
        batch.boot
    );
    (key, encode_steps(&sent, &batch).expect("it fits"))
}

fn hostile_clock() -> Sent {
    Sent {
        clock: BootClock::from_nanos(NINETEEN_YEARS_NS),
        ..sample::sent(HOSTILE_NODE, 0)
    }
}

fn with_peak(mut step: StepUsage, name: &str, peak: Bytes) -> StepUsage {
    name.clone_into(&mut step.name);
    step.requested.memory = Some(Bytes::gib(5));
    step.requested.cores = Some(MilliCores::cores(1));
    step.peak_memory = Some(PeakMemory {
        bytes: peak,
        source: MemorySource::CgroupSampled,
    });
    step
}

/// Tasks of a good node: four of the shared step, and one of a step of good nodes only.
fn good_tasks(number: u32) -> (String, Vec<u8>) {
    let names = [SHARED_STEP; 4].into_iter().chain(["sort"]);
    let steps = (1..).zip(names).map(|(n, name)| {
        let mut step = with_peak(sample::step("good", n), name, Bytes::gib(4));
        step.cpu = CpuTime::from_millis(120_000);
        step.peak_cores = Some(MilliCores::cores(1));
        step
    });
    tasks_of(number, 1, steps.collect())
}

/// Tasks with a new name each, tasks of the shared step, and tasks of one hostile name.
fn hostile_task(sequence: u64, n: u64) -> StepUsage {
    let step = hostile_step(&format!("{sequence}-{n}"), StepEnd::Exited(0));
    match sequence {
        0 => StepUsage {
            name: format!("{}{n}", step.name),
            ..step
        },
        1 => with_peak(step, SHARED_STEP, Bytes::mib(1)),
        _ => step,
    }
}

fn attack(world: &World) {
    let sent = hostile_clock();
    for start in 0..40 {
        let heartbeats = [hostile_heartbeat(start, u64::from(start) * 7)];
        let message = encode_heartbeats(&sent, &heartbeats).expect("it fits");
        world.send(HOSTILE_NODE, &message);
    }
    for sequence in 0..4 {
        let steps = (0..9_000).map(|n| hostile_task(sequence, n)).collect();
        let (key, bytes) = tasks_of(HOSTILE_NODE, sequence, steps);
        world.objects.insert(key, bytes);
    }
}

/// The part of the report about the good nodes, as JSON.
async fn report_of_good_nodes(is_attacked: bool) -> String {
    let mut world = World::new();
    world.limits = Limits {
        messages: 500,
        objects: 50,
        ..Limits::default()
    };
    let all: Vec<u32> = GOOD_NODES.chain([HOSTILE_NODE]).collect();
    world.inventory.set(
        sample::region(),
        Ok(sample::inventory(&all)[&sample::region()].clone()),
    );
    world.clock.advance(std::time::Duration::from_secs(600));
    for number in GOOD_NODES {
        let work = match number % 3 {
            0 => Work::Idle,
            _ => Work::Busy,
        };
        for part in [0..5, 5..10] {
            world.send(number, &sample::message(number, part, work));
        }
        for (key, bytes) in [sample::object(number, 0), good_tasks(number)] {
            world.objects.insert(key, bytes);
        }
    }
    if is_attacked {
        attack(&world);
    }
    let swept = world
        .sweep(&Fault::never())
        .await
        .expect("nothing fails it");
    if is_attacked {
        assert!(swept.folding.steps > 20_000, "{:?}", swept.folding);
        assert_eq!(swept.folding.heartbeats, 1_000 + 40);
    }
    let report = world.objects.stored(LATEST_JSON).expect("a report");
    let size = report.bytes.len();
    assert!(size < MOST_REPORT_BYTES * 3 / 4, "{size}");
    part_of_good_nodes(serde_json::from_slice(&report.bytes).expect("JSON"))
}

fn part_of_good_nodes(mut report: serde_json::Value) -> String {
    let hostile = sample::node(HOSTILE_NODE).to_string();
    let is_hostile = |row: &serde_json::Value| {
        let row = row.to_string();
        row.contains(&hostile) || row.contains("<script>")
    };
    let mut of_good = serde_json::Map::new();
    for part in ["findings", "not_evaluated", "steps"] {
        let mut rows = report[part].take();
        let rows = rows.as_array_mut().expect("rows");
        rows.retain(|row| !is_hostile(row));
        for row in rows.iter_mut().filter(|row| row["step"] == SHARED_STEP) {
            // Its numbers of tasks contain those of the hostile node.
            *row = serde_json::json!([row["asks"], row["should_ask"]]);
        }
        of_good.insert(part.to_owned(), std::mem::take(rows).into());
    }
    serde_json::to_string_pretty(&of_good).expect("JSON")
}

#[tokio::test]
async fn a_hostile_node_changes_nothing_in_what_is_reported_of_others() {
    let peaceful = report_of_good_nodes(false).await;
    assert!(
        peaceful.contains("idle_node") && peaceful.contains("sort"),
        "{peaceful}"
    );
    let attacked = report_of_good_nodes(true).await;
    assert!(attacked == peaceful, "{attacked}");
}
