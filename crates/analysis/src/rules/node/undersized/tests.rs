//! Test cases of the underprovisioned node.

use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::step::StepUsage;
use ebb_telemetry::testing::{clock, placed_step, usage};

use crate::testing::{World, instance};

use super::*;

/// A m5.xlarge (4 cores, 16 GiB) with a server that runs for `hours` hours. The server keeps
/// `milli_cores` busy and waits for a core for `waited_hours` of its hours.
fn server(hours: u64, milli_cores: u64, waited_hours: Option<u64>) -> World {
    let mut world = World::with([instance(1)]);
    world.watch(1, 0, hours * 60, |minute, h| {
        h.workload.cpu = Some(CpuTime::from_millis(60_000));
        h.hardware.cores = MilliCores::cores(4);
        h.hardware.memory = Bytes::gib(16);
        let mut it = usage(1, clock(minute * 60 + 60));
        it.id.kind = StepKind::Service;
        it.name = "api".into();
        it.cpu = CpuTime((minute + 1) * 60 * milli_cores * 1_000_000);
        let waited = waited_hours.map(|hours| Duration::from_secs(hours * 3600));
        it.detail.run_queue = waited;
        h.steps = vec![it];
    });
    world
}

/// Adds a session of `server` that was killed twice; the lake contains each record twice.
fn killed(mut world: World, change: fn(&mut StepUsage)) -> World {
    for sequence in [1_000, 1_001] {
        let mut step = placed_step(1, sequence);
        step.usage.id.kind = StepKind::Session;
        step.usage.started = clock(sequence);
        step.usage.name = "ada".into();
        step.usage.end = StepEnd::OutOfMemory;
        change(&mut step.usage);
        world.finished.extend([step.clone(), step]);
    }
    world
}

fn find_finding(world: &World) -> Option<Finding> {
    let mut findings = world.evaluate().findings.into_iter();
    findings.find(|finding| finding.kind == KIND)
}

fn find_evidence(world: &World) -> Option<String> {
    find_finding(world).map(|finding| finding.evidence.to_string())
}

#[test]
fn a_node_is_short_of_cores_when_all_are_busy_and_what_runs_for_a_day_waits_for_them() {
    let check = |name: &str, world: World, expect: Option<&str>| {
        assert_eq!(find_evidence(&world).as_deref(), expect, "{name}");
    };
    let short = "runnable threads waited 2 d 12 h for a core and used 5 d 20 h of CPU, with 3.7 of \
                 4 cores busy in the 38 h 00 min since the oldest of their tasks started; c6a.2xlarge \
                 is larger and costs $0.3060/h instead of $0.1920/h";
    check(
        "a third waited",
        server(19 * 2, 3_700, Some(60)),
        Some(short),
    );
    check("a tenth waited", server(38, 3_700, Some(15)), None);
    check("cores are left", server(38, 3_000, Some(60)), None);
    check("for less than a day", server(23, 3_700, Some(60)), None);
    check("unknown", server(38, 3_700, None), None);
    let mut new = server(38, 3_700, Some(60));
    for node in new.state.nodes.values_mut() {
        node.first_seen = node
            .latest
            .as_ref()
            .map(|it| it.end - SignedDuration::from_hours(23));
    }
    check("its probe came less than a day ago", new, None);
    let mut silent = server(38, 3_700, Some(60));
    silent.now += SignedDuration::from_hours(2);
    check("its probe is silent", silent, None);
    let mut unknown = server(38, 3_700, Some(60));
    for machine in unknown.inventory.instances.values_mut() {
        machine.instance_type = InstanceType::new("x99.huge").expect("a type");
    }
    check("its instance type is unknown", unknown, None);
    let mut old = server(38, 3_700, Some(60));
    for machine in old.inventory.instances.values_mut() {
        machine.instance_type = InstanceType::new("m4.xlarge").expect("a type");
    }
    let kinds: Vec<_> = old.evaluate().findings.iter().map(|f| f.kind).collect();
    assert_eq!(
        kinds,
        [KIND],
        "a larger type, and no second finding about its generation"
    );
}

#[test]
fn a_node_is_short_of_memory_when_what_had_no_limit_of_its_own_was_killed() {
    let works = || server(20, 1_000, None);
    let check = |name: &str, world: World, expect: Option<&str>| {
        assert_eq!(find_evidence(&world).as_deref(), expect, "{name}");
    };
    let short = "the kernel OOM-killed 2 sessions or services in the last 24 h 00 min, the last \
                 one ada, which had no memory limit except the 16.0 GiB of the machine; r6a.xlarge \
                 is larger and costs $0.2268/h instead of $0.1920/h";
    check("two sessions", killed(works(), |_| ()), Some(short));
    let limited = |it: &mut StepUsage| it.requested.memory = Some(Bytes::gib(1));
    check("its own limit", killed(works(), limited), None);
    let ended = |it: &mut StepUsage| it.end = StepEnd::Exited(137);
    check("not by the kernel", killed(works(), ended), None);
    let of_pipeline = |it: &mut StepUsage| it.id.kind = StepKind::SlurmJob;
    check("the step is told", killed(works(), of_pipeline), None);
    check("days ago", killed(server(43, 1_000, None), |_| ()), None);
}

#[test]
fn it_saves_nothing_and_a_controllers_machine_is_not_to_be_changed_by_hand() {
    let mut world = killed(server(38, 3_700, Some(60)), |_| ());
    let finding = find_finding(&world).expect("it is short");
    let cost = finding.cost.expect("a price is known");
    assert_eq!((cost.saving_a_month.micros(), cost.spent.micros()), (0, 0));
    let names: Vec<&str> = finding
        .steps
        .iter()
        .map(|step| step.name.as_str())
        .collect();
    assert_eq!(names, ["ada", "ada", "api"]);
    assert_eq!(finding.confidence.level, Level::High);
    let command = finding.remedy.command.expect("a command");
    assert!(command.contains("modify-instance-attribute"), "{command}");
    for machine in world.inventory.instances.values_mut() {
        machine.controller = Some(Controller::AutoScalingGroup("web".into()));
    }
    let remedy = find_finding(&world).expect("it is short").remedy;
    assert!(remedy.advice.starts_with("Configure "), "{}", remedy.advice);
    assert!(!remedy.command.is_some_and(|it| it.contains("modify")));
    let id = ebb_telemetry::testing::node(1).to_string();
    let checks = crate::explain::explain(&world.facts(), &id).checks;
    let ours = checks.iter().filter(|check| check.rule == KIND);
    assert_eq!(ours.count(), 4, "{checks:?}");
}
