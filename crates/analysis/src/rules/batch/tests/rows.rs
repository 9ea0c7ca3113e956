//! Tests of the rules that need the inventory, or the inventory and the probe together.

use std::time::Duration;

use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::job::{Attempt, Job, JobId, JobStatus};
use ebb_model::inventory::batch::task::Task;
use ebb_model::inventory::batch::{ComputeEnvironment, FrontJob, JobQueue};
use ebb_model::inventory::instance::Instance;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::heartbeat::node_signals::Pressure;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::step::{StepEnd, StepUsage};
use ebb_telemetry::testing::{at, node, placed_step};
use ebb_telemetry::units::Bytes;

use crate::rules::batch::tests::check;
use crate::testing::{World, instance, region, requested, step};

/// The task of the job of [`World::with_job`].
fn task_arn() -> String {
    format!("arn:aws:ecs:us-east-1:1:task/b/{:032x}", 1)
}

/// An hour with constant CPU use on the worker and the tasks of `steps`.
fn watched(mut world: World, steps: impl Fn(u64) -> Vec<StepUsage>) -> World {
    world.watch(1, 0, 60, |minute, h| {
        h.workload.cpu = Some(ebb_telemetry::units::CpuTime::from_millis(30_000));
        h.steps = steps(minute * 60 + 60);
    });
    world
}

fn job(status: JobStatus) -> World {
    World::with([instance(1)]).with_job(status, requested(2, 4))
}

#[test]
fn a_runnable_job_at_the_head_of_its_queue_is_stuck_after_half_an_hour() {
    let world = |head: &str, since_s: u64, strangers: bool| {
        let mut world = job(JobStatus::Runnable);
        world.job().status_reason = Some("UNDETERMINED - no root cause".into());
        let front = FrontJob {
            job: JobId::new(head).expect("an id"),
            since: Some(at(since_s)),
        };
        let mut queue = JobQueue::new("q", region());
        queue.front = Some(vec![front]);
        queue.environments = vec!["env".to_owned()];
        world.inventory.batch.queues.push(queue);
        if strangers {
            world.inventory.instances.insert(node(2), stranger(1_000));
        }
        world.now = at(3_600);
        world
    };
    let verdict = |head: &str, since_s: u64, strangers: bool| {
        let of_job = |f: &&Finding| f.resource.id == "job-1";
        let report = world(head, since_s, strangers).evaluate();
        let found = report.findings.iter().find(of_job);
        found.map(|finding| finding.evidence.to_string())
    };
    let head = "RUNNABLE at the head of its queue for 33 min: ";
    let evidence = verdict("job-1", 1_600, false).expect("it is stuck");
    assert!(evidence.starts_with(head), "{evidence}");
    let evidence = verdict("job-1", 1_600, true).expect("it is stuck");
    assert!(
        evidence.ends_with("instances that started but never joined their cluster: 1"),
        "{evidence}"
    );
    let mut of_another = world("job-1", 1_600, true);
    of_another.inventory.batch.queues[0].environments = vec!["other".to_owned()];
    let found = of_another.evaluate().findings;
    assert!(
        found
            .iter()
            .all(|f| !f.evidence.to_string().contains("joined their cluster"))
    );
    assert_eq!(verdict("job-1", 2_000, false), None);
    assert_eq!(verdict("other", 0, false), None);
}

#[test]
fn the_head_of_a_queue_whose_environments_are_full_of_running_jobs_only_waits() {
    let is_stuck = |desired_vcpus: u32, other: JobStatus| {
        let mut world = job(JobStatus::Runnable);
        world.job().status_reason = Some("UNDETERMINED - no root cause".into());
        let head = world.job().id.clone();
        let environment = &mut world.inventory.batch.environments[0];
        (environment.desired_vcpus, environment.max_vcpus) = (Some(desired_vcpus), Some(16));
        let id = JobId::new("job-2").expect("an id");
        let batch = &mut world.inventory.batch;
        let of_other_queue = Job::new(id.clone(), "align", "shared", region(), other);
        batch.jobs.insert(id, of_other_queue);
        for name in ["q", "shared"] {
            let mut queue = JobQueue::new(name, region());
            queue.environments = vec!["env".to_owned()];
            queue.front = Some(vec![FrontJob {
                job: head.clone(),
                since: Some(at(0)),
            }]);
            batch.queues.push(queue);
        }
        world.now = at(3_600);
        let findings = world.evaluate().findings;
        findings.iter().any(|found| found.resource.id == "job-1")
    };
    assert!(!is_stuck(16, JobStatus::Running));
    assert!(is_stuck(16, JobStatus::Runnable));
    assert!(is_stuck(8, JobStatus::Running));
}

#[test]
fn a_starting_job_is_stuck_when_its_container_does_not_come() {
    let world = |created_s: Option<u64>, pulls: bool, waited_s: Option<u64>| {
        let mut world = job(JobStatus::Starting);
        world.job().started_at = None;
        let task = Task {
            created_at: created_s.map(at),
            pull_started_at: pulls.then(|| at(60)),
            ..Task::default()
        };
        world.inventory.batch.tasks.insert(task_arn(), task);
        world.now = at(3_600);
        world.memory.disconnected_since.clear();
        world.watch(1, 0, 60, |_, h| {
            h.workload.cpu = Some(ebb_telemetry::units::CpuTime::from_millis(30_000));
            h.background.disk = Some(Bytes::mib(6_000));
            h.detail.pressure = waited_s.map(|waited| Pressure {
                disk_some: Duration::from_secs(waited),
                ..Pressure::default()
            });
        });
        world
    };
    let pulling = "STARTING for 30 min: its container image is being pulled; no process of the \
                   task has started, and system processes on its machine transfer 100.0 MiB/s to \
                   and from disk";
    check(&world(Some(1_800), true, None), pulling);
    let some = format!("{pulling}; processes waited for the disk in 48 % of the time");
    check(&world(Some(1_800), true, Some(29)), &some);
    let most =
        format!("{pulling}; the disk is saturated: processes waited for it in 50 % of the time");
    let saturated = world(Some(1_800), true, Some(30));
    check(&saturated, &most);
    let advice = saturated.verdict().expect("it is stuck").remedy.advice;
    assert!(
        advice.starts_with("The container waits for the disk"),
        "{advice}"
    );
    check(
        &world(Some(1_800), false, None),
        "its container is being created",
    );
    check(&world(Some(3_000), true, Some(60)), "well");
    check(&world(None, true, None), "well");
}

#[test]
fn a_running_job_is_stuck_when_its_last_process_ended_long_ago() {
    let world = |ended_s: u64| {
        watched(job(JobStatus::Running), |observed| {
            let gone = observed >= ended_s;
            let usage = step(observed.min(ended_s), |s| {
                s.end = if gone {
                    StepEnd::Signalled(9)
                } else {
                    StepEnd::Running
                };
            });
            vec![usage]
        })
    };
    check(
        &world(3_000),
        "RUNNING in AWS Batch, but its last process was ended by signal 9 10 min ago",
    );
    check(&world(3_540), "does not observe the ECS task");
    // The state has dropped the task; the lake still contains it.
    let mut long_gone = watched(job(JobStatus::Running), |_| Vec::new());
    check(&long_gone, "does not observe the ECS task");
    let mut ended = ebb_telemetry::testing::placed_step(1, 10);
    ended.usage.id.key = format!("{:032x}", 1);
    long_gone.finished.push(ended);
    check(&long_gone, "but its last process exited with status 0");
}

#[test]
fn a_container_that_outlives_its_job_is_an_orphan() {
    let running = |observed| vec![step(observed, |_| ())];
    let world = |status, stopped_s: Option<u64>| {
        let mut world = watched(job(status), running);
        world.job().stopped_at = stopped_s.map(at);
        world
    };
    let orphan = "the container still runs, although its job ended 40 min ago";
    check(&world(JobStatus::Failed, Some(1_200)), orphan);
    check(&world(JobStatus::Succeeded, Some(1_200)), orphan);
    check(&world(JobStatus::Failed, Some(3_000)), "well");
    // The container belongs to an earlier attempt.
    let mut retried = world(JobStatus::Runnable, None);
    retried.job().task_arn = None;
    retried.job().attempts = vec![Attempt {
        task_arn: Some(task_arn()),
        stopped_at: Some(at(1_200)),
        ..Attempt::default()
    }];
    check(&retried, orphan);
}

#[test]
fn a_task_that_neither_batch_nor_ecs_knows_is_an_orphan_only_when_both_told_all() {
    let world = |ecs_tells: Option<&str>, gap: Option<&str>| {
        let mut world = watched(job(JobStatus::Running), |o| vec![step(o, |_| ())]);
        world.inventory.batch.jobs.clear();
        if let Some(task) = ecs_tells {
            let arn = format!("arn:aws:ecs:us-east-1:1:task/b/{task}");
            world.inventory.batch.tasks.insert(arn, Task::default());
        }
        world
            .inventory
            .gaps
            .extend(gap.map(|scope| Gap::new(scope.to_owned(), "AccessDenied")));
        world
    };
    let sweep = |world: &mut World| {
        world.memory = crate::sweep_memory::next_memory(&world.facts());
        world.now
    };
    let mut orphaned = world(Some("other"), None);
    let first = sweep(&mut orphaned);
    check(&orphaned, "reported after 2 consecutive sweeps, 1 so far");
    orphaned.watch(1, 60, 70, |minute, h| {
        h.steps = vec![step(minute * 60 + 60, |_| ())]
    });
    let second = orphaned.now;
    let mut interrupted = World {
        inventory: world(Some("other"), Some("us-east-1: ecs:ListTasks")).inventory,
        ..orphaned.clone()
    };
    sweep(&mut interrupted);
    interrupted.inventory.gaps.clear();
    sweep(&mut interrupted);
    check(&interrupted, "1 so far");
    sweep(&mut orphaned);
    let words = "the container still runs, but neither AWS Batch nor ECS lists its job";
    check(&orphaned, words);
    let orphan = orphaned.verdict().expect("an orphan");
    assert_eq!(orphan.window.from, first);
    assert!(orphan.window.to > first && orphan.window.to <= second);
    let known = |ecs_tells: Option<&str>, gap: Option<&str>| {
        let mut world = world(ecs_tells, gap);
        sweep(&mut world);
        sweep(&mut world);
        check(&world, "well");
    };
    known(Some(&format!("{:032x}", 1)), None);
    known(None, None);
    known(Some("other"), Some("us-east-1: ecs:ListTasks"));
    let of_another = "account 000000000002 us-east-1: ecs:ListTasks";
    known(Some("other"), Some(of_another));
}

fn stranger(launched_s: u64) -> Instance {
    let mut stranger = instance(2);
    stranger.launched_at = Some(at(launched_s));
    stranger
        .tags
        .insert("aws:batch:compute-environment".into(), "env".into());
    stranger
}

#[test]
fn a_machine_of_an_environment_that_never_joined_is_stuck() {
    let world = |launched_s: u64, gap: bool| {
        let mut world = World::with([stranger(launched_s)]);
        world.inventory.batch.environments.push(ComputeEnvironment {
            cluster_arn: Some("arn:cluster".to_owned()),
            ..ComputeEnvironment::new("env", instance(2).region)
        });
        if gap {
            world.inventory.gaps.push(Gap::new(
                "us-east-1: ecs:ListContainerInstances",
                "AccessDenied",
            ));
        }
        world.now = at(3_600);
        world
    };
    check(
        &world(600, false),
        "started 50 min ago, but its ECS cluster does not list it",
    );
    check(&world(3_000, false), "no probe and no metrics");
    let mut on_eks = world(600, false);
    on_eks.inventory.batch.environments[0].cluster_arn = None;
    check(&on_eks, "no probe and no metrics");
    check(&world(600, true), "no probe and no metrics");
    let mut alive = world(600, false);
    alive.watch(2, 0, 60, |_, _| {});
    check(&alive, "although its probe sends heartbeats");
}

#[test]
fn a_machine_that_its_cluster_lost_costs_nothing_while_it_works_or_before() {
    let found = |busy_minutes: u64, minutes: u64| {
        let mut world = World::with([stranger(0)]);
        world.inventory.batch.environments.push(ComputeEnvironment {
            cluster_arn: Some("arn:cluster".to_owned()),
            ..ComputeEnvironment::new("env", region())
        });
        world.watch(2, 0, minutes, |minute, h| {
            if minute < busy_minutes {
                h.workload.cpu = Some(ebb_telemetry::units::CpuTime::from_millis(30_000));
            }
        });
        world.now = at(3_600);
        world.verdict().expect("ECS does not list it")
    };
    let busy = found(60, 60);
    assert_eq!(busy.cost, None, "{busy:?}");
    assert!(busy.remedy.advice.contains("Its processes still work"));
    let text = busy.evidence.to_string();
    assert!(text.starts_with("started 60 min ago"), "{text}");
    let spent = |finding: Finding| finding.cost.expect("it has a price").spent;
    let over = |minutes: u64| {
        let per_hour = UsdPerHour::from_micros(192_000);
        per_hour.over(Duration::from_secs(minutes * 60))
    };
    assert_eq!(spent(found(20, 60)), over(40));
    assert_eq!(spent(found(0, 60)), over(60));
}

#[test]
fn a_machine_without_a_sign_of_work_wastes_its_cost_since_its_launch() {
    let spent = |has_task: bool| {
        let mut world = World::with([stranger(0)]);
        world.inventory.batch.environments.push(ComputeEnvironment {
            cluster_arn: Some("arn:cluster".to_owned()),
            ..ComputeEnvironment::new("env", region())
        });
        if has_task {
            world.finished.push(placed_step(2, 10));
        }
        world.now = at(3_600);
        let mut findings = world.evaluate().findings.into_iter();
        let finding = findings.find(|finding| finding.kind == FindingKind::StuckBatchJob);
        let finding = finding.expect("ECS does not list it");
        finding.cost.expect("it has a price").spent
    };
    assert_eq!(spent(false), Usd::from_micros(192_000));
    // The end of its work is not known.
    assert_eq!(spent(true), Usd::ZERO);
}

#[test]
fn what_batch_calls_invalid_is_told_on_sight() {
    let world = |status: &str| {
        let mut world = World::default().with_job(JobStatus::Succeeded, requested(1, 1));
        let environment = &mut world.inventory.batch.environments[0];
        environment.status = Some(status.into());
        environment.status_reason = Some("CLIENT_ERROR - Not authorized".into());
        world
    };
    check(&world("INVALID"), "INVALID: CLIENT_ERROR - Not authorized");
    check(&world("VALID"), "well");
    let queue = |status: &str| {
        let mut world = world("VALID");
        let mut queue = JobQueue::new("q", region());
        queue.status = Some(status.into());
        world.inventory.batch.queues.push(queue);
        world
    };
    let words = "INVALID: AWS Batch gives no reason";
    check(&queue("INVALID"), words);
    let mut with_reason = queue("INVALID");
    let last = with_reason.inventory.batch.queues.last_mut();
    let words = "its compute environments are of two kinds";
    last.expect("it was added").status_reason = Some(words.to_owned());
    check(&with_reason, words);
    check(&queue("VALID"), "well");
}
