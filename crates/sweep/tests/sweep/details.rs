//! Documents of single tasks and explanations.

use std::time::Duration;

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::documents::run_tasks::{read_whole_run, run_key};
use ebb_cloud::documents::task_lists::{DetailFolder, INDEX, read_index, read_shared};
use ebb_cloud::failing::Fault;
use ebb_model::inventory::batch::job::{Job, JobId, JobStatus};
use ebb_model::report::Report;
use ebb_model::report::task_detail::TaskList;
use ebb_model::report::workflow_runs::UNASSIGNED;
use ebb_telemetry::step::StepEnd;
use serde_json::Value;

use crate::sample;
use crate::world::World;

async fn unassigned(world: &World) -> TaskList {
    let list = read_whole_run(&world.objects, UNASSIGNED).await;
    list.expect("it reads").expect("a list")
}

async fn sweep_after(world: &World, sequence: u64) {
    world.clock.advance(Duration::from_secs(60));
    world.send(1, &sample::running(1, sequence));
    let swept = world.sweep(&Fault::never()).await;
    let failures = swept.expect("it sweeps").failures;
    assert_eq!(failures, Vec::new());
}

#[tokio::test]
async fn a_running_task_gets_a_point_with_each_sweep() {
    let world = World::new();
    sweep_after(&world, 0).await;
    let list = unassigned(&world).await;
    let [task] = &list.tasks[..] else {
        panic!("{list:?}")
    };
    assert_eq!((task.end, task.points.len()), (StepEnd::Running, 1));
    sweep_after(&world, 1).await;
    let list = unassigned(&world).await;
    let points: Vec<_> = list.tasks[0].points.iter().map(|point| point.at).collect();
    assert_eq!(points.len(), 2);
    assert_eq!(points[1], list.tasks[0].observed_at);
    assert!(points.is_sorted(), "{points:?}");
    // Without news, the document of the run stays.
    let before = world.objects.stored(&run_key(UNASSIGNED));
    world.clock.advance(Duration::from_secs(60));
    world.sweep(&Fault::never()).await.expect("it sweeps");
    assert_eq!(world.objects.stored(&run_key(UNASSIGNED)), before);
}

#[tokio::test]
async fn a_batch_job_names_its_task_after_it_left_the_inventory() {
    let world = World::new();
    world.fill();
    let without = sample::inventory(&[1, 2]).remove(&sample::region());
    let without = without.expect("the region");
    let mut with_job = without.clone();
    let job = Job {
        task_arn: Some("arn:aws:ecs:eu-central-1:1:task/b/one-0".to_owned()),
        tags: [("ebb:run".to_owned(), "r7".to_owned())].into(),
        ..Job::new(
            JobId::new("job-1").expect("an id"),
            "align",
            "q",
            sample::region(),
            JobStatus::Succeeded,
        )
    };
    with_job.batch.jobs.insert(job.id.clone(), job);
    let tasks_of_run = async || {
        world.sweep(&Fault::never()).await.expect("it sweeps");
        let report = world.objects.stored(LATEST_JSON).expect("a report");
        let report: Report = serde_json::from_slice(&report.bytes).expect("a report");
        let mut runs = report.runs.runs.into_iter();
        let run = runs.find(|run| run.run == "r7").map(|run| run.steps);
        (report.totals.jobs, run)
    };
    world.inventory.set(sample::region(), Ok(with_job));
    assert_eq!(tasks_of_run().await, (1, Some(1)));
    world.inventory.set(sample::region(), Ok(without));
    for _ in 0..2 {
        world.clock.advance(Duration::from_secs(30 * 3_600));
        assert_eq!(tasks_of_run().await, (0, Some(1)));
    }
}

#[tokio::test]
async fn nodes_steps_and_explanations_are_found_by_the_index() {
    let world = World::new();
    world.fill();
    world.sweep(&Fault::never()).await.expect("it sweeps");
    let index = read_index(&world.objects).await.expect("it reads");
    let index = index.expect("an index").content;
    assert!(!index.runs.is_empty());
    let tasks = unassigned(&world).await.tasks;
    let task = tasks.first().expect("a task");
    for (folder, name) in [
        (DetailFolder::Nodes, task.node.as_str()),
        (DetailFolder::Steps, task.step.as_str()),
    ] {
        let number = folder.count(&index).number_of(name);
        let lists = read_shared::<TaskList>(&world.objects, (folder, number)).await;
        let lists = lists.expect("it reads").expect("lists").content;
        assert!(lists[name].tasks.iter().any(|one| one.id == task.id));
        assert!(lists[name].tasks.iter().all(|one| one.points.is_empty()));
    }
    let report = world.objects.stored(LATEST_JSON).expect("a report");
    let report: Report = serde_json::from_slice(&report.bytes).expect("a report");
    let of_findings = report.findings.iter().map(|finding| &finding.resource.id);
    let refused = report.not_evaluated.iter().map(|reason| &reason.resource);
    let mut explained = 0;
    for resource in of_findings.chain(refused) {
        let folder = DetailFolder::Explanations;
        let number = folder.count(&index).number_of(resource);
        let all = read_shared::<Value>(&world.objects, (folder, number)).await;
        let all = all.expect("it reads").expect("explanations").content;
        assert_eq!(all[resource]["resource"], **resource);
        explained += 1;
    }
    assert!(explained > 0, "{report:?}");
}

#[tokio::test]
async fn a_failed_write_is_one_failure_and_invalid_documents_are_replaced() {
    let world = World::new();
    world.objects.insert(INDEX, "{");
    world.objects.insert(run_key(UNASSIGNED), "no zstd");
    sweep_after(&world, 0).await;
    assert_eq!(unassigned(&world).await.tasks.len(), 1);
    world.objects.insert(run_key(UNASSIGNED), "no zstd");
    sweep_after(&world, 1).await;
    assert_eq!(unassigned(&world).await.tasks[0].points.len(), 1);
}
