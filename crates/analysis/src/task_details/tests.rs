//! Tests of the details and groups of tasks.

use ebb_model::inventory::batch::job::{Attempt, Job, JobId, JobStatus};
use ebb_model::report::task_detail::TaskList;
use ebb_telemetry::step::resource_usage::RunName;
use ebb_telemetry::step::{PlacedStep, StepKind, ToolEvents};
use ebb_telemetry::testing::{at, clock, node, placed_step};
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::evaluate::evaluate_in_detail;
use crate::task_details::usage_points::continue_points;
use crate::testing::{World, instance, region};

use super::*;

/// A task on node 1 that ran for so many minutes.
fn task(n: u64, minutes: u64) -> PlacedStep {
    let mut step = placed_step(1, n);
    step.usage.id = StepId {
        kind: StepKind::EcsTask,
        key: format!("t{n}"),
    };
    step.usage.observed = clock(minutes * 60);
    step.observed_at = at(minutes * 60);
    step
}

fn groups(world: &World) -> TaskGroups {
    evaluate_in_detail(&world.facts()).1.tasks
}

#[test]
fn a_task_has_its_step_run_job_and_attempt() {
    let mut world = World::with([instance(1)]);
    let mut first = task(1, 5);
    first.usage.end = StepEnd::Exited(1);
    first.usage.disk_read = Some(Bytes(7));
    first.usage.detail.user = Some(1_000);
    world.finished = vec![first, task(2, 9)];
    let arn = |n: u32| Some(format!("arn:aws:ecs:us-east-1:1:task/b/t{n}"));
    let job = Job {
        created_at: Some(at(30)),
        attempts: vec![Attempt {
            task_arn: arn(1),
            ..Attempt::default()
        }],
        task_arn: arn(2),
        tags: [("ebb:run".to_owned(), "r1".to_owned())].into(),
        ..Job::new(
            JobId::new("j1").expect("an id"),
            "align",
            "q",
            region(),
            JobStatus::Running,
        )
    };
    world.inventory.batch.jobs.insert(job.id.clone(), job);
    let groups = groups(&world);
    let list = groups.list(&groups.runs["r1"]);
    assert_eq!(list.schema, TaskList::SCHEMA);
    let [first, second] = &list.tasks[..] else {
        panic!("{list:?}")
    };
    assert_eq!((first.attempt, second.attempt), (Some(1), Some(2)));
    assert_eq!(
        (first.step.as_str(), first.runtime),
        ("align", TaskRuntime::Batch)
    );
    assert_eq!(
        first.id,
        format!("{}/{:.8}/t1", first.node, world.finished[0].boot)
    );
    assert_eq!(
        (first.job.as_deref(), first.queued_at),
        (Some("j1"), Some(at(30)))
    );
    assert_eq!(
        (first.disk_read_bytes, first.disk_written_bytes),
        (Some(7), None)
    );
    assert_eq!(
        (first.user_id, first.end),
        (Some(1_000), StepEnd::Exited(1))
    );
    assert_eq!(first.points[0].disk_bytes, None, "one part is unknown");
}

#[test]
fn failures_of_an_executable_are_unknown_without_its_events() {
    let check = |events: Option<ToolEvents>, expect: (Option<u64>, Option<u64>)| {
        let usage = ToolUsage {
            name: "bwa".to_owned(),
            processes: 3,
            cpu: CpuTime(0),
            peak_memory: None,
            disk: None,
            events,
        };
        let detail = tool(&usage);
        assert_eq!((detail.failed, detail.oom_kills), expect);
    };
    let events = ToolEvents {
        started_after: Duration::ZERO,
        ended_after: None,
        failed: 0,
        oom_kills: 1,
    };
    check(Some(events), (Some(0), Some(1)));
    check(None, (None, None));
}

#[test]
fn the_typical_duration_is_the_median_of_three_successful_tasks() {
    let check = |tasks: &[(u64, StepEnd)], expect: Option<f64>| {
        let mut world = World::with([instance(1)]);
        for (n, (minutes, end)) in (1..).zip(tasks) {
            let mut step = task(n, *minutes);
            step.usage.end = *end;
            world.finished.push(step);
        }
        let groups = groups(&world);
        assert_eq!(groups.tasks.len(), tasks.len());
        let typical = groups.tasks.iter().map(|task| task.typical_seconds);
        typical.for_each(|typical| assert_eq!(typical, expect, "{tasks:?}"));
    };
    let (done, failed) = (StepEnd::Exited(0), StepEnd::Exited(1));
    check(&[(10, done), (20, done)], None);
    check(&[(10, done), (20, done), (90, failed)], None);
    check(&[(10, done), (20, done), (90, done)], Some(1_200.0));
    check(
        &[(10, done), (20, done), (30, done), (90, done)],
        Some(1_500.0),
    );
}

#[test]
fn groups_keep_the_newest_tasks_and_count_the_others() {
    let mut world = World::with([instance(1)]);
    world.finished = (0..600).map(|n| task(n, n + 1)).collect();
    world.finished[0].usage.detail.run = Some(Box::new(RunName {
        launcher: "nextflow".to_owned(),
        key: "7".to_owned(),
        pipeline: None,
    }));
    let groups = groups(&world);
    assert_eq!((groups.tasks.len(), groups.runs.len()), (600, 2));
    let sizes = |group: &TaskGroup| (group.tasks.len(), group.left_out);
    assert_eq!(sizes(&groups.runs[UNASSIGNED]), (599, 0));
    let node = groups.nodes.values().next().expect("a node");
    assert_eq!(sizes(node), (MAX_NODE_TASKS, 100));
    let oldest = groups.tasks_of(node).map(|task| task.observed_at).min();
    assert_eq!(oldest, Some(at(101 * 60)));
    let step = groups.steps.values().next().expect("a step");
    assert_eq!(sizes(step), (MAX_STEP_TASKS, 400));
    assert!(step.tasks.is_sorted() && groups.tasks.is_sorted_by_key(|task| task.started_at));
}

#[test]
fn a_node_with_many_newer_tasks_leaves_room_for_those_of_another_node() {
    let many = (0..300).map(|n| (Some(node(1)), 1_000 + n));
    let few = (0..10).map(|n| (Some(node(2)), n));
    let seconds = |second: &u64| at(*second);
    let (newest, others) = newest_in_turns(few.chain(many).collect(), 200, seconds);
    assert_eq!((newest.len(), others.len()), (200, 110));
    assert_eq!((newest[0].1, newest[190].1, newest[199].1), (1_299, 9, 0));
    assert!(others.iter().all(|(of, _)| *of == Some(node(1))));
}

#[test]
fn points_continue_while_a_task_runs_and_one_that_no_sweep_saw_has_none() {
    let mut world = World::with([instance(1)]);
    let list = |world: &World| {
        let groups = groups(world);
        groups.list(&groups.runs[UNASSIGNED])
    };
    let mut running = task(1, 10);
    running.usage.end = StepEnd::Running;
    running.usage.detail.memory_now = Some(Bytes(5));
    world.finished = vec![running, task(2, 10)];
    let mut first = list(&world);
    continue_points(&mut first.tasks, &[]);
    let counts = |list: &TaskList| -> Vec<usize> {
        list.tasks.iter().map(|task| task.points.len()).collect()
    };
    assert_eq!(counts(&first), [1, 0]);
    assert_eq!(first.tasks[0].points[0].memory_bytes, Some(5));
    world.finished[0] = task(1, 20);
    let mut second = list(&world);
    continue_points(&mut second.tasks, &first.tasks);
    assert_eq!(counts(&second), [2, 0]);
    assert_eq!(second.tasks[0].points[1].memory_bytes, None, "it ended");
    let mut again = list(&world);
    continue_points(&mut again.tasks, &second.tasks);
    assert_eq!(again, second);
    // Another attempt with the same id has no points of the earlier one.
    world.finished[0].started_at = at(60);
    let mut requeued = list(&world);
    continue_points(&mut requeued.tasks, &second.tasks);
    assert_eq!(counts(&requeued), [0, 0]);
}
