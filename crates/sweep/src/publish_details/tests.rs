//! Tests of documents over a bucket in memory.

use ebb_analysis::explain::Explanations;
use ebb_cloud::documents::run_tasks::{PartEntry, PartSide, part_key, read_whole_run};
use ebb_cloud::failing::{Failing, Fault};
use ebb_cloud::fake::clock::FakeClock;
use ebb_cloud::fake::objects::FakeObjects;
use ebb_model::report::task_brief::BriefList;
use ebb_model::report::task_detail::{TaskDetail, UsagePoint};
use ebb_model::report::workflow_runs::TaskRuntime;
use ebb_model::spend_history::SpendHistory;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{StepEnd, StepKind};
use jiff::Timestamp;

use super::*;

fn at(second: usize) -> Timestamp {
    let second = i64::try_from(second).expect("a small number");
    Timestamp::from_second(second).expect("a time")
}

/// A running task, observed in this second.
fn task(n: usize) -> TaskDetail {
    let point = UsagePoint {
        at: at(n),
        cpu_seconds: 1.0,
        memory_bytes: None,
        disk_bytes: None,
        network_bytes: None,
        gpu_busy_seconds: None,
    };
    TaskDetail {
        id: format!("i-1/b/{n}"),
        step: "align".to_owned(),
        name: "align".to_owned(),
        kind: StepKind::Tree,
        runtime: TaskRuntime::Script,
        run: Some(format!("r{n}")),
        pipeline: None,
        sample: None,
        node: NodeId::new("i-1").expect("an id"),
        job: None,
        attempt: None,
        user_id: None,
        queued_at: None,
        started_at: at(0),
        observed_at: at(n),
        last_progress_at: at(n),
        end: StepEnd::Running,
        typical_seconds: None,
        requested_cores: None,
        requested_memory_bytes: None,
        peak_cores: None,
        peak_memory_bytes: None,
        cpu_seconds: 1.0,
        disk_read_bytes: None,
        disk_written_bytes: None,
        network_received_bytes: None,
        network_sent_bytes: None,
        gpu_busy_seconds: None,
        states: BTreeMap::new(),
        tools: Vec::new(),
        points: vec![point],
        findings: Vec::new(),
    }
}

/// Tasks that each have a run of their own.
fn details(count: usize) -> Details {
    let group = |tasks: Vec<usize>| TaskGroup {
        origin: Origin::Measured,
        tasks,
        left_out: 0,
    };
    let runs = (0..count).map(|n| (format!("r{n}"), group(vec![n])));
    let all = || group((0..count).collect());
    Details {
        tasks: TaskGroups {
            at: at(count),
            tasks: (0..count).map(task).collect(),
            runs: runs.collect(),
            nodes: [("i-1".to_owned(), all())].into(),
            steps: [("align".to_owned(), all())].into(),
        },
        explanations: Explanations::default(),
        spend: SpendHistory::default(),
        cost_rows: Vec::new(),
        node_hours: None,
    }
}

fn bucket() -> FakeObjects {
    FakeObjects::new(FakeClock::at(at(0)))
}

async fn index(bucket: &FakeObjects) -> DetailIndex {
    let index = read_index(bucket).await.expect("it reads");
    index.expect("an index").content
}

#[tokio::test]
async fn a_sweep_writes_the_newest_runs_and_later_sweeps_write_the_others() {
    let (bucket, details) = (bucket(), details(1_200));
    write(&bucket, &details).await.expect("it writes");
    let first = index(&bucket).await;
    assert_eq!((first.runs.len(), first.runs_left_out), (500, 700));
    assert!(first.runs.contains_key("r1199") && !first.runs.contains_key("r0"));
    write(&bucket, &details).await.expect("it writes");
    write(&bucket, &details).await.expect("it writes");
    let last = index(&bucket).await;
    assert_eq!((last.runs.len(), last.runs_left_out), (1_200, 0));
    let fault = Fault::never();
    let counting = Failing::new(bucket.clone(), &fault);
    write(&counting, &details).await.expect("it writes");
    // Nodes, steps, explanations and the index.
    let writes = fault
        .calls()
        .into_iter()
        .filter(|call| *call == "objects.put");
    assert_eq!(writes.count(), 4);
}

/// Runs of one task each: the first `few` of a second node, and `many` newer ones that each sweep
/// changes.
fn of_two_nodes((few, many): (usize, usize), sweep: usize) -> Details {
    let mut details = details(few + many);
    for (n, task) in details.tasks.tasks.iter_mut().enumerate() {
        match n < few {
            true => task.node = NodeId::new("i-2").expect("an id"),
            false => task.observed_at = at(few + many + sweep),
        }
    }
    details
}

#[tokio::test]
async fn a_node_with_many_runs_hides_none_of_another_node() {
    let bucket = bucket();
    let of_other = |index: &DetailIndex| (0..5).all(|n| index.runs.contains_key(&format!("r{n}")));
    write(&bucket, &of_two_nodes((5, 600), 1))
        .await
        .expect("it writes");
    let first = index(&bucket).await;
    assert!(of_other(&first) && first.runs_left_out == 105);
    let mut changed = of_two_nodes((5, 600), 2);
    changed.tasks.tasks[2].observed_at = at(9_999);
    write(&bucket, &changed).await.expect("it writes");
    assert_eq!(index(&bucket).await.runs["r2"].newest, at(9_999));
    // More runs than the index has room for.
    write(&bucket, &of_two_nodes((5, 2_500), 3))
        .await
        .expect("it writes");
    assert!(of_other(&index(&bucket).await));
}

#[tokio::test]
async fn runs_that_waited_longest_are_written_first() {
    let bucket = bucket();
    for sweep in 1..=6 {
        let details = of_two_nodes((0, 1_200), sweep);
        write(&bucket, &details).await.expect("it writes");
        if sweep == 3 {
            assert_eq!(index(&bucket).await.runs.len(), 1_200);
        }
    }
    let oldest = index(&bucket).await.runs.into_values();
    assert_eq!(oldest.map(|entry| entry.newest).min(), Some(at(1_204)));
}

#[tokio::test]
async fn every_failed_document_is_counted_and_written_by_the_next_sweep() {
    let (bucket, details) = (bucket(), details(3));
    let failing = Failing::new(bucket.clone(), &Fault::always("objects.put"));
    let error = write(&failing, &details).await.expect_err("no write");
    assert!(matches!(error, PublishError::Index(_)), "{error}");
    let failing = Failing::new(bucket.clone(), &Fault::always("objects.get"));
    let error = write(&failing, &details).await.expect_err("no read");
    assert!(error.to_string().contains("details/index.json"), "{error}");
    assert_eq!(bucket.keys().len(), 0);
    // The second call of all is the first write.
    let fault = Fault::at(
        1,
        ebb_cloud::failing::Moment::Before,
        ebb_cloud::failing::Then::Recovers,
    );
    let failing = Failing::new(bucket.clone(), &fault);
    let error = write(&failing, &details).await.expect_err("one failed");
    assert!(
        matches!(error, PublishError::Documents { count: 1, .. }),
        "{error}"
    );
    assert_eq!(index(&bucket).await.runs.len(), 2);
    write(&bucket, &details).await.expect("it writes");
    assert_eq!(index(&bucket).await.runs.len(), 3);
}

#[test]
fn what_is_too_large_loses_points_and_then_the_older_tasks() {
    let details = details(5);
    let mut list = details.tasks.list(&details.tasks.nodes["i-1"]);
    let point = list.tasks[0].points[0].clone();
    list.tasks[2].points = vec![point; 8];
    let mut sizes = Vec::new();
    while shorten(&mut list) {
        sizes.push((
            list.tasks.len(),
            list.tasks.get(2).map(|task| task.points.len()),
        ));
    }
    let thinned = [
        (5, Some(5)),
        (5, Some(3)),
        (5, Some(2)),
        (3, Some(1)),
        (2, None),
        (1, None),
    ];
    assert_eq!(sizes, thinned);
    assert_eq!((list.left_out, list.tasks[0].id.as_str()), (4, "i-1/b/4"));
}

/// Tasks of one run. The last one runs.
fn large_run(count: usize, sweep: usize) -> Details {
    let mut details = details(count);
    let last = count - 1;
    for (n, task) in details.tasks.tasks.iter_mut().enumerate() {
        task.run = Some("r".to_owned());
        task.started_at = at(n);
        task.observed_at = at(n + 1);
        if n < last {
            task.end = StepEnd::Exited(0);
        }
    }
    details.tasks.tasks[last].observed_at = at(last + sweep);
    details.tasks.tasks[last].points[0].at = at(last + sweep);
    let all = details.tasks.nodes["i-1"].clone();
    details.tasks.runs = [("r".to_owned(), all)].into();
    details
}

async fn written_run(bucket: &FakeObjects) -> TaskList {
    let list = read_whole_run(bucket, "r").await.expect("it reads");
    list.expect("a run")
}

#[tokio::test]
async fn a_large_run_is_in_parts_and_a_sweep_writes_those_that_changed() {
    let bucket = bucket();
    write(&bucket, &large_run(2_500, 1))
        .await
        .expect("it writes");
    let part = |number, side| bucket.stored(&part_key("r", number, side));
    let first = [part(0, PartSide::A), part(2, PartSide::A)];
    assert!(first.iter().all(Option::is_some) && part(3, PartSide::A).is_none());
    let list = written_run(&bucket).await;
    assert_eq!((list.tasks.len(), list.left_out), (2_500, 0));
    assert_eq!(list.tasks[2_499].points.len(), 1);
    write(&bucket, &large_run(2_500, 2))
        .await
        .expect("it writes");
    assert!(part(0, PartSide::B).is_none() && part(2, PartSide::B).is_some());
    assert_eq!([part(0, PartSide::A), part(2, PartSide::A)], first);
    let list = written_run(&bucket).await;
    assert_eq!(
        (list.tasks.len(), list.tasks[2_499].points.len()),
        (2_500, 2)
    );
    // A part that is not valid has no earlier points, and is replaced.
    bucket.insert(part_key("r", 2, PartSide::B), "no zstd");
    write(&bucket, &large_run(2_500, 3))
        .await
        .expect("it writes");
    assert_eq!(written_run(&bucket).await.tasks[2_499].points.len(), 1);
}

#[tokio::test]
async fn points_stay_when_a_run_becomes_large() {
    let bucket = bucket();
    write(&bucket, &large_run(900, 1)).await.expect("it writes");
    let mut grown = large_run(1_100, 1);
    let task = &mut grown.tasks.tasks[899];
    (task.end, task.observed_at) = (StepEnd::Running, at(2_000));
    task.points[0].at = at(2_000);
    write(&bucket, &grown).await.expect("it writes");
    let list = written_run(&bucket).await;
    assert_eq!((list.tasks.len(), list.tasks[899].points.len()), (1_100, 2));
}

#[tokio::test]
async fn what_does_not_fit_into_a_part_is_counted() {
    let bucket = bucket();
    let mut details = large_run(1_500, 1);
    for task in &mut details.tasks.tasks[..1_000] {
        task.findings = vec!["f".repeat(10_000)];
    }
    write(&bucket, &details).await.expect("it writes");
    let list = written_run(&bucket).await;
    assert_eq!((list.tasks.len(), list.left_out), (1_000, 500));
    assert_eq!(list.tasks[0].id, "i-1/b/500");
}

#[test]
fn a_head_that_is_too_large_loses_its_first_parts() {
    let details = large_run(5, 1);
    let mut list = BriefList::from(&details.tasks.list(&details.tasks.nodes["i-1"]));
    let entry = |number, tasks| PartEntry::new((number, tasks), b"", None);
    let mut entries = vec![entry(0, 2), entry(1, 2), entry(2, 1)];
    run_parts::drop_older_half(&mut list, &mut entries);
    assert_eq!((entries.len(), entries[0].number), (2, 1));
    assert_eq!((list.tasks.len(), list.left_out), (3, 2));
    assert_eq!(list.tasks[0].id, "i-1/b/2");
}
