//! Test cases from arriving data to findings. Data is late or missing, or clocks differ. Nodes are
//! renamed or restarted, reuse an id, or get a new probe.

use crate::explain;
use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::{ComputeEnvironment, JobQueue};
use ebb_model::inventory::instance::Instance;
use ebb_model::inventory::storage::Volume;
use ebb_telemetry::arrival::{Arrival, Placed, Sent};
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::{AccountId, BootId, InstanceType, ProbeStart};
use ebb_telemetry::step::{MemorySource, PeakMemory};
use ebb_telemetry::testing::{at, clock, heartbeat, node, placed_step};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use jiff::Timestamp;

use crate::testing::{World, instance, region, requested, volume};

/// Minute `minute` of node 1: busy for the first twenty, then idle.
fn minute(minute: u64) -> Heartbeat {
    let mut h = heartbeat(clock(minute * 60), clock(minute * 60 + 60));
    h.node = node(1);
    h.sequence = minute;
    if minute < 20 {
        h.workload.cpu = Some(CpuTime::from_millis(30_000));
    }
    h
}

/// Adds a heartbeat that was sent `late_s` after its end by a node whose clock is `wrong_s` ahead.
fn arrive(world: &mut World, h: Heartbeat, late_s: u64, wrong_s: u64) {
    let ahead = Duration::from_secs(wrong_s);
    let boot_s = h.end.as_nanos() / 1_000_000_000 + late_s;
    let sent = Sent {
        boot: h.boot.clone(),
        clock: clock(boot_s),
        wall: at(boot_s).checked_add(ahead).expect("a time"),
    };
    let me = node(1);
    let arrival = Arrival {
        attested: &me,
        at: at(boot_s),
        sent: &sent,
    };
    let placed = Placed::new(arrival, h).expect("it can be placed");
    world.take(&placed);
}

/// The only finding, which is an idle node.
fn idle(world: &World) -> Finding {
    let finding = world.verdict().expect("one finding");
    assert_eq!(finding.kind, FindingKind::IdleNode);
    finding
}

fn seconds(finding: &Finding) -> (i64, i64) {
    let since = |time: Timestamp| time.as_second() - at(0).as_second();
    (since(finding.window.from), since(finding.window.to))
}

#[test]
fn late_heartbeats_change_nothing_but_when_it_is_known() {
    let mut world = World::with([instance(1)]);
    (0..60).for_each(|n| arrive(&mut world, minute(n), 2, 0));
    let in_time = idle(&world);
    assert_eq!(seconds(&in_time), (1_200, 3_600));

    let mut world = World::with([instance(1)]);
    // An hour without network: half of the heartbeats arrive an hour late, the newest first.
    (0..60)
        .filter(|n| n % 2 == 0)
        .for_each(|n| arrive(&mut world, minute(n), 2, 0));
    let reason = world.verdict().expect_err("half is not enough");
    assert!(
        reason.starts_with("the probe observed only 50 %"),
        "{reason}"
    );
    (0..60)
        .filter(|n| n % 2 == 1)
        .rev()
        .for_each(|n| arrive(&mut world, minute(n), 3_600, 0));
    world.now = at(3_605);
    assert_eq!(idle(&world), in_time);
}

#[test]
fn missing_heartbeats_make_nothing_idle() {
    let mut world = World::with([instance(1)]);
    (0..60)
        .filter(|n| !(30..40).contains(n))
        .for_each(|n| arrive(&mut world, minute(n), 2, 0));
    let reason = world
        .verdict()
        .expect_err("a quarter of the quiet time is missing");
    assert!(
        reason.starts_with("the probe observed only 75 %"),
        "{reason}"
    );
}

#[test]
fn a_node_whose_clock_is_minutes_off_is_judged_as_any_other() {
    let check = |wrong_s: u64| {
        let mut world = World::with([instance(1)]);
        for n in 0..60 {
            let mut h = minute(n);
            h.wall_at_end = at(n * 60 + 60 + wrong_s);
            arrive(&mut world, h, 2, wrong_s);
        }
        seconds(&idle(&world))
    };
    assert_eq!(check(0), (1_200, 3_600));
    assert_eq!(check(7 * 60), (1_200, 3_600));
}

#[test]
fn a_node_that_is_renamed_keeps_its_finding_under_its_new_name() {
    let mut world = World::with([instance(1)]);
    (0..60).for_each(|n| arrive(&mut world, minute(n), 2, 0));
    let before = idle(&world);
    let machine = world
        .inventory
        .instances
        .get_mut(&node(1))
        .expect("it is there");
    machine.tags.insert("Name".into(), "renamed".into());
    let after = idle(&world);
    assert_eq!((before.id, before.window), (after.id, after.window));
    assert_eq!(after.resource.name.as_deref(), Some("renamed"));
}

/// The same from a new boot, whose clock starts at `from_s`, and a new probe.
fn rebooted(minutes: std::ops::Range<u64>, from_s: u64, world: &mut World) {
    for n in minutes {
        let mut h = minute(20 + n);
        h.boot = BootId::new("boot-2").expect("a boot");
        h.probe_start = ProbeStart::new("probe-2").expect("a probe");
        h.sequence = n;
        (h.start, h.end) = (clock(n * 60), clock(n * 60 + 60));
        let placed = Placed {
            node: node(1),
            end: at(from_s + n * 60 + 60),
            heartbeat: h,
        };
        world.take(&placed);
    }
}

#[test]
fn a_node_that_was_stopped_and_started_is_idle_since_its_start_at_most() {
    let mut world = World::with([instance(1)]);
    (0..20).for_each(|n| arrive(&mut world, minute(n), 2, 0));
    // Off for a day, then on and idle.
    let start = 86_400;
    let machine = world
        .inventory
        .instances
        .get_mut(&node(1))
        .expect("it is there");
    machine.launched_at = Some(at(start));
    rebooted(0..25, start, &mut world);
    assert!(world.verdict().is_err(), "25 minutes are no half hour");
    rebooted(25..40, start, &mut world);
    let finding = idle(&world);
    assert_eq!(seconds(&finding), (86_400, 86_400 + 40 * 60));
    assert!(finding.cost.expect("a price").spent.micros() < 192_000);
}

#[test]
fn what_ran_under_an_id_before_it_was_used_again_is_not_the_new_machines() {
    // For example in an on-premises data centre, where the next machine gets the same name.
    let mut world = World::with([instance(1)]);
    (0..60).for_each(|n| arrive(&mut world, minute(n), 2, 0));
    assert_eq!(seconds(&idle(&world)).0, 1_200);
    let machine = world
        .inventory
        .instances
        .get_mut(&node(1))
        .expect("it is there");
    machine.launched_at = Some(at(3_000));
    let verdict = world.verdict();
    assert!(
        verdict.is_err(),
        "ten minutes are no half hour: {verdict:?}"
    );
}

#[test]
fn a_probe_that_was_upgraded_in_between_goes_on_where_the_old_one_was() {
    let mut world = World::with([instance(1)]);
    (0..30).for_each(|n| arrive(&mut world, minute(n), 2, 0));
    // One minute is missing; the new probe restarts its sequence at 0 and sends more fields.
    for n in 31..60 {
        let mut h = minute(n);
        h.probe_start = ProbeStart::new("probe-2").expect("a probe");
        h.sequence = n - 31;
        h.detail.reclaimed = Some(ebb_telemetry::units::Bytes(0));
        arrive(&mut world, h.clone(), 2, 0);
        arrive(&mut world, h, 5, 0);
    }
    let finding = idle(&world);
    assert_eq!(seconds(&finding), (1_200, 3_600));
    let coverage = finding.coverage.map(ebb_telemetry::units::Share::ppm);
    assert_eq!(coverage, Some(975_000));
    assert_eq!(world.state.nodes[&node(1)].missing(), 0);
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one scenario, read from top to bottom"
)]
fn what_has_the_same_name_in_two_accounts_is_two() {
    let account = |n: u8| AccountId::new(format!("{n:012}")).expect("an account");
    let kind = InstanceType::new("m5.4xlarge").expect("a type");
    let mut world = World::with([1, 2].map(|n| Instance {
        account: Some(account(n)),
        instance_type: kind.clone(),
        ..instance(n)
    }));
    world.now = at(86_400);
    for n in [1, 2] {
        let of = Some(account(n));
        let batch = &mut world.inventory.batch;
        batch.environments.push(ComputeEnvironment {
            account: of.clone(),
            status: Some("INVALID".into()),
            ..ComputeEnvironment::new("env", region())
        });
        batch.queues.push(JobQueue {
            account: of.clone(),
            status: Some("INVALID".into()),
            ..JobQueue::new("q", region())
        });
        let id = format!("vol-{n}");
        let name = BTreeMap::from([("Name".to_owned(), "scratch".to_owned())]);
        let lost = Volume {
            id: id.clone(),
            account: of,
            tags: name,
            ..volume(400, "gp3", 100)
        };
        world.inventory.storage.volumes.insert(id, lost);
        for run in 0..25 {
            let mut run = placed_step(n, 100 + run * 10);
            run.usage.requested = requested(16, 32);
            run.usage.peak_cores = Some(MilliCores(900 * u64::from(n)));
            run.usage.peak_memory = Some(PeakMemory {
                bytes: Bytes::gib(1),
                source: MemorySource::CgroupSampled,
            });
            world.finished.push(run);
        }
    }
    let report = world.evaluate();
    let mut found: Vec<&str> = report.findings.iter().map(|f| f.id.as_str()).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "overprovisioned_step/000000000001/us-east-1/align",
            "overprovisioned_step/000000000002/us-east-1/align",
            "stuck_batch_job/000000000001/us-east-1/environment/env",
            "stuck_batch_job/000000000001/us-east-1/queue/q",
            "stuck_batch_job/000000000002/us-east-1/environment/env",
            "stuck_batch_job/000000000002/us-east-1/queue/q",
            "unattached_volume/us-east-1/vol-1",
            "unattached_volume/us-east-1/vol-2",
        ]
    );
    for finding in &report.findings {
        let of = finding.resource.account.as_ref().expect("it is told");
        let named = finding.id.contains(of.as_str());
        assert!(named || finding.id.contains("vol-"), "{}", finding.id);
    }
    let runs: Vec<u32> = report.steps.iter().map(|step| step.samples).collect();
    assert_eq!(runs, [25, 25]);
    let explanation = explain::explain(&world.facts(), found[2]);
    assert_eq!(explanation.findings.len(), 1, "of the requested account");
}
