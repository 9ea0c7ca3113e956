//! Test cases of the Batch rule.

#[cfg(test)]
mod rows;

use crate::explain;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::JobQueue;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::batch::task::{Health, Task, TaskFamily};
use ebb_model::inventory::instance::InstanceState;
use ebb_model::metric_series::MetricPoint;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::step::ToolUsage;
use ebb_telemetry::testing::{at, clock, node};
use ebb_telemetry::units::{CpuTime, Share};

use crate::rules::trace::Speaks;
use crate::sweep_memory::next_memory;
use crate::testing::{World, instance, requested, step};

fn running() -> World {
    World::with([instance(1)]).with_job(JobStatus::Running, requested(2, 4))
}

fn check(world: &World, expect: &str) {
    let got = match world.verdict() {
        Ok(finding) => finding.evidence.to_string(),
        Err(reason) => reason,
    };
    assert!(got.contains(expect), "'{got}' should say '{expect}'");
}

/// Observes an hour in which the task of the job makes progress until `progress_s`.
fn watch_step(world: &mut World, progress_s: u64) {
    world.watch(1, 0, 60, |minute, h| {
        let observed = minute * 60 + 60;
        h.workload.cpu = Some(CpuTime::from_millis(2_000));
        h.steps = vec![step(observed, |s| {
            s.last_progress = clock(observed.min(progress_s))
        })];
    });
}

#[test]
fn a_running_job_is_stuck_when_its_step_did_nothing_for_long_enough() {
    let mut world = running();
    watch_step(&mut world, 30 * 60);
    check(
        &world,
        "RUNNING without CPU usage, I/O or a new process for 30 min",
    );

    let mut world = running();
    watch_step(&mut world, 50 * 60);
    check(&world, "well");
}

#[test]
fn what_a_stuck_job_mostly_runs_is_told_by_its_own_heartbeats() {
    let check_end = |tools: &[(&str, u64)], expect: &str| {
        let mut world = running();
        let tool = |(name, ms): &(&str, u64)| ToolUsage {
            name: (*name).to_owned(),
            processes: 1,
            cpu: CpuTime::from_millis(*ms),
            peak_memory: None,
            disk: None,
            events: None,
        };
        world.watch(1, 0, 60, |minute, h| {
            let observed = minute * 60 + 60;
            h.workload.cpu = Some(CpuTime::from_millis(2_000));
            h.steps = vec![step(observed, |s| {
                s.last_progress = clock(observed.min(30 * 60));
                s.tools = tools.iter().map(tool).collect();
            })];
        });
        let evidence = world.verdict().expect("it is stuck").evidence.to_string();
        assert!(evidence.ends_with(expect), "{evidence}");
    };
    check_end(&[("sort", 10), ("bwa", 90)], ", most of it in bwa");
    check_end(&[], " of CPU");
}

#[test]
fn a_job_that_alone_holds_its_node_costs_the_whole_node() {
    let per_hour = |tasks_on_node: u32| {
        let mut world = running();
        world.watch(1, 0, 60, |minute, h| {
            let observed = minute * 60 + 60;
            h.workload.cpu = Some(CpuTime::from_millis(2_000));
            h.steps = vec![step(observed, |s| {
                s.last_progress = clock(observed.min(30 * 60));
            })];
        });
        let workers = &mut world.inventory.batch.container_instances;
        workers.change(|worker| worker.running_tasks = Some(tasks_on_node));
        let cost = world.verdict().expect("it is stuck").cost;
        cost.expect("it has a price").per_hour
    };
    let (alone, with_another) = (per_hour(1), per_hour(2));
    assert_eq!(alone, UsdPerHour::from_micros(192_000));
    assert!(with_another < alone, "{with_another}");
}

#[test]
fn what_runs_on_fargate_is_listed_as_not_evaluated() {
    let mut world = running();
    world.now = at(3_600);
    world.job().container_instance_arn = None;
    let batch = &mut world.inventory.batch;
    let environment = &mut batch.environments[0];
    environment.kind = Some("FARGATE_SPOT".into());
    let queue = JobQueue {
        environments: vec![environment.name.clone()],
        ..JobQueue::new("q", environment.region.clone())
    };
    batch.queues.push(queue);
    let task = |kind: &str, status: &str| Task {
        launch_type: Some(kind.into()),
        last_status: Some(status.into()),
        group: Some("service:web".into()),
        ..Task::default()
    };
    let arn = |n: u32| format!("arn:aws:ecs:us-east-1:1:task/web/{n}");
    batch.tasks.insert(arn(1), task("FARGATE", "RUNNING"));
    batch.tasks.insert(arn(2), task("FARGATE", "STOPPED"));
    batch.tasks.insert(arn(3), task("EC2", "RUNNING"));
    let report = world.evaluate();
    let not_evaluated = report
        .not_evaluated
        .iter()
        .filter(|one| one.reason.contains("Fargate"));
    let mut ids: Vec<_> = not_evaluated.map(|one| one.resource.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [arn(1).as_str(), "job-1"]);
}

#[test]
fn tasks_on_fargate_are_judged_together_where_container_insights_tells_of_them() {
    let cluster = "arn:aws:ecs:us-east-1:111122223333:cluster/web";
    let check = |cpu: u32, hours: u64, network: bool, expect: (usize, &str)| {
        let mut world = World {
            now: at(hours * 3_600),
            ..World::default()
        };
        let task = Task {
            region: Some(Region::new("us-east-1").expect("a region")),
            cluster_arn: Some(cluster.into()),
            family: Some("api".into()),
            launch_type: Some("FARGATE".into()),
            last_status: Some("RUNNING".into()),
            ..Task::default()
        };
        let batch = &mut world.inventory.batch;
        for n in 1..3 {
            let arn = format!("arn:aws:ecs:us-east-1:111122223333:task/web/{n}");
            batch.tasks.insert(arn, task.clone());
        }
        let points = (1..=hours * 12).map(|n| MetricPoint {
            cpu_max: Some(Share::from_ppm(cpu)),
            network_bytes: network.then_some(0),
            ..MetricPoint::new(at(n * 300), 300)
        });
        let family = TaskFamily::new(cluster, "api");
        let id = family.as_str().to_owned();
        batch.insights.insert(family, points.collect());
        let report = world.evaluate();
        let outcome: String = match (report.findings.first(), report.not_evaluated.first()) {
            (Some(finding), _) => {
                assert!(finding.cost.is_none(), "the price is unknown");
                finding.remedy.advice.clone()
            }
            (None, Some(one)) => one.reason.clone(),
            (None, None) => "well".to_owned(),
        };
        let checks = explain::explain(&world.facts(), &id).checks;
        let last = checks.last().expect("a check").speaks;
        let expected = match (expect.0, outcome.as_str()) {
            (0, "well") => Speaks::Against,
            (0, _) => Speaks::Unknown,
            _ => Speaks::ForWaste,
        };
        assert_eq!(last, expected, "{checks:?}");
        assert_eq!(report.findings.len(), expect.0, "{outcome}");
        assert!(
            outcome.contains(expect.1),
            "'{outcome}' should say '{}'",
            expect.1
        );
    };
    check(
        1_000,
        8,
        true,
        (1, "2 tasks of api on Fargate in cluster web"),
    );
    check(600_000, 8, true, (0, "well"));
    check(1_000, 3, true, (0, "metrics cover only"));
    check(1_000, 8, false, (0, "metrics of network cover only"));
}

#[test]
fn what_cannot_be_told_of_a_running_job_is_said() {
    let mut world = running();
    world.now = at(3_600);
    check(&world, "no probe runs on its machine");

    let mut world = running();
    watch_step(&mut world, 0);
    world.job().task_arn = Some("arn:aws:ecs:us-east-1:1:task/b/other".into());
    check(&world, "does not observe the ECS task");

    let mut world = running();
    world.job().container_instance_arn = None;
    world.now = at(3_600);
    let reasons: Vec<String> = world
        .evaluate()
        .not_evaluated
        .into_iter()
        .map(|refused| refused.reason)
        .collect();
    assert!(
        reasons
            .iter()
            .any(|r| r == "the machine of the job is unknown"),
        "{reasons:?}"
    );

    let mut world = running();
    watch_step(&mut world, 0);
    world.now = at(7_200);
    check(&world, "sent its last heartbeat");
}

#[test]
fn a_runnable_job_is_reported_only_when_batch_says_that_it_cannot_start() {
    let check = |reason: Option<&str>, expect: &str| {
        let mut world = World::default().with_job(JobStatus::Runnable, requested(2, 4));
        world.job().status_reason = reason.map(str::to_owned);
        world.now = at(900);
        check(&world, expect);
    };
    check(
        Some("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - too large"),
        "RUNNABLE for 15 min and cannot start: MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    );
    check(
        Some("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"),
        "cannot start: CAPACITY",
    );
    check(Some("UNDETERMINED"), "well");
    check(None, "well");
}

#[test]
fn the_time_in_which_other_jobs_had_to_end_first_is_none_of_being_stuck() {
    let mut world = World::default().with_job(JobStatus::Runnable, requested(2, 4));
    let mut first = world.job().clone();
    first.id = ebb_model::inventory::batch::job::JobId::new("job-0").expect("an id");
    (first.status, first.stopped_at) = (JobStatus::Succeeded, Some(at(600)));
    let job = world.job();
    (job.depends_on, job.started_at) = (vec![first.id.clone()], None);
    job.status_reason = Some("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - of it".to_owned());
    let jobs = &mut world.inventory.batch.jobs;
    jobs.insert(first.id.clone(), first);
    world.now = at(900);
    check(&world, "RUNNABLE for 5 min and cannot start");
}

#[test]
fn each_reason_that_keeps_a_job_from_starting_is_told_on_sight() {
    for reason in [
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
        "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS",
    ] {
        let mut world = World::default().with_job(JobStatus::Runnable, requested(2, 4));
        world.job().status_reason = Some(format!("{reason} - of it"));
        world.now = at(30);
        check(
            &world,
            &format!("RUNNABLE for 30 s and cannot start: {reason}"),
        );
    }
}

#[test]
fn an_agent_is_lost_when_sweeps_keep_finding_it_disconnected_and_its_host_lives() {
    let lost = |since_s: Option<u64>, last_heartbeat_minute: u64| {
        let mut world = World::with([instance(1)]).with_job(JobStatus::Succeeded, requested(2, 4));
        world.watch(1, 0, last_heartbeat_minute, |_, _| ());
        world.now = at(3_600);
        let workers = &mut world.inventory.batch.container_instances;
        workers.change(|worker| worker.agent_connected = Some(false));
        if let Some(since) = since_s {
            world.memory.disconnected_since.insert(node(1), at(since));
        }
        world
    };
    let world = lost(Some(3_000), 60);
    let finding = world.verdict().expect("it is lost");
    assert!(matches!(
        finding.evidence,
        Evidence::StuckJob(ref e) if e.stuck == Stuck::AgentDisconnected
    ));
    assert!(finding.cost.is_some());
    let mut at_work = lost(Some(3_000), 0);
    at_work.watch(1, 0, 60, |_, h| {
        h.workload.cpu = Some(CpuTime::from_millis(30_000))
    });
    at_work.now = at(3_600);
    let finding = at_work.verdict().expect("new jobs cannot start on it");
    assert_eq!(finding.cost, None, "its tasks continue");
    assert!(
        finding
            .remedy
            .advice
            .contains("they end if the instance is replaced")
    );
    check(
        &lost(Some(3_500), 60),
        "was first found disconnected 100 s ago",
    );
    // Both the agent and the probe are silent, so the host fails.
    check(
        &lost(Some(3_000), 10),
        "no heartbeat from the probe for 50 min; the instance hangs or has no network",
    );
    let mut no_probe = lost(Some(3_000), 10);
    no_probe.state = Default::default();
    check(
        &no_probe,
        "there is no probe to show whether the instance works",
    );
}

#[test]
fn a_sweep_that_cannot_read_the_workers_keeps_the_time_of_a_disconnected_agent() {
    let mut world = World::with([instance(1)]).with_job(JobStatus::Succeeded, requested(2, 4));
    world.watch(1, 0, 60, |_, h| {
        h.workload.cpu = Some(CpuTime::from_millis(30_000))
    });
    world.memory.disconnected_since.insert(node(1), at(3_000));
    world.inventory.batch.container_instances = Default::default();
    let refused = "us-east-1: ecs:DescribeContainerInstances";
    world.inventory.gaps = vec![Gap::new(refused, "ThrottlingException")];
    world.memory = next_memory(&world.facts());
    assert_eq!(
        world.memory.disconnected_since.get(&node(1)),
        Some(&at(3_000))
    );
    let report = world.evaluate();
    assert_eq!(report.findings, []);
    let mut reasons = report.not_evaluated.iter().map(|one| &one.reason);
    assert!(reasons.any(|reason| reason.contains("this sweep could not read")));
    world.inventory.gaps.clear();
    let left = next_memory(&world.facts());
    assert!(left.disconnected_since.is_empty());
}

#[test]
fn a_refusal_that_lasts_keeps_no_quiet_node_from_the_idle_rule() {
    let mut world = World::with([instance(1)]).with_job(JobStatus::Succeeded, requested(2, 4));
    world.watch(1, 0, 60, |_, _| ());
    world.memory.disconnected_since.insert(node(1), at(0));
    world.inventory.batch.container_instances = Default::default();
    let refused = "us-east-1: ecs:DescribeContainerInstances";
    world.inventory.gaps = vec![Gap::new(refused, "AccessDenied")];
    let finding = world.verdict().expect("it is idle");
    assert_eq!(finding.kind, FindingKind::IdleNode);
}

#[test]
fn a_region_that_cannot_be_read_keeps_the_time_of_a_disconnected_agent() {
    let mut world = World::default();
    world.memory.disconnected_since.insert(node(1), at(3_000));
    let check = |scope: &str, expect: Option<u64>| {
        let mut world = world.clone();
        world.inventory.gaps = vec![Gap::new(scope, "timeout")];
        let memory = next_memory(&world.facts());
        let since = memory.disconnected_since.get(&node(1));
        assert_eq!(since.copied(), expect.map(at), "{scope}");
    };
    check("us-east-1: inventory", Some(3_000));
    check("us-east-1: ec2:DescribeInstances", Some(3_000));
    check("us-east-1: ecs:DescribeContainerInstances", None);
}

#[test]
fn a_worker_is_unread_only_if_it_runs_and_a_failed_call_may_hide_it() {
    let mut world = World::with([instance(1)]).with_job(JobStatus::Succeeded, requested(2, 4));
    world.memory.disconnected_since.insert(node(1), at(0));
    world.inventory.batch.container_instances = Default::default();
    let check = |world: &World, expect: bool| {
        let report = world.evaluate();
        let mut reasons = report.not_evaluated.iter().map(|one| &one.reason);
        let is_unread = reasons.any(|reason| reason.contains("this sweep could not read"));
        assert_eq!(is_unread, expect, "{:?}", report.not_evaluated);
    };
    check(&world, false);
    let refused = "us-east-1: ecs:ListContainerInstances";
    world.inventory.gaps = vec![Gap::new(refused, "ThrottlingException")];
    check(&world, true);
    let mut instances = world.inventory.instances.values_mut();
    let machine = instances.next().expect("one is listed");
    machine.state = InstanceState::Stopped;
    check(&world, false);
}

#[test]
fn a_container_runtime_is_impaired_for_as_long_as_ecs_says_and_claims_no_money() {
    let impaired = |since_s: Option<u64>, health: Health| {
        let mut world = World::with([instance(1)]).with_job(JobStatus::Succeeded, requested(2, 4));
        world.watch(1, 0, 60, |_, h| {
            h.workload.cpu = Some(CpuTime::from_millis(30_000))
        });
        world.now = at(3_600);
        let workers = &mut world.inventory.batch.container_instances;
        workers.change(|worker| {
            worker.health = Some(health);
            worker.health_since = since_s.map(at);
        });
        world
    };
    let long = impaired(Some(600), Health::Impaired);
    check(
        &long,
        "ECS reports an impaired container runtime for 50 min",
    );
    assert_eq!(long.verdict().expect("it is told").cost, None);
    let checks = explain::explain(&long.facts(), node(1).as_str()).checks;
    let of_runtime = checks.iter().any(|check| check.value == "impaired");
    assert!(of_runtime, "{checks:?}");
    let why = "an impaired container runtime, for 100 s; reported after 5 min";
    check(&impaired(Some(3_500), Health::Impaired), why);
    let why = "an impaired container runtime, but not since when";
    check(&impaired(None, Health::Impaired), why);
    check(&impaired(Some(600), Health::Ok), "well");
}
