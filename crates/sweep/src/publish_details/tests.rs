//! Tests of documents over a bucket in memory.

use ebb_analysis::explain::Explanations;
use ebb_cloud::failing::{Failing, Fault};
use ebb_cloud::fake::clock::FakeClock;
use ebb_cloud::fake::objects::FakeObjects;
use ebb_model::report::task_detail::{TaskDetail, UsagePoint};
use ebb_model::report::workflow_runs::TaskRuntime;
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
