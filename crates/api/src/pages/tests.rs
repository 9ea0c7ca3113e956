//! Every page over a bucket in memory.

mod access;
mod details;
mod walk;

use ebb_model::report::Report;
use ebb_model::report::node_summary::NodeSummary;
use ebb_model::report::task_detail::{TaskDetail, TaskList, UsagePoint};
use ebb_model::report::workflow_runs::TaskRuntime;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{StepEnd, StepKind};
use ebb_telemetry::units::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// The text of a page over a report.
pub(crate) async fn page(report: &Report, path: &str) -> String {
    let (status, _, text) = walk::ask(walk::bucket(Some(report)), path).await;
    assert_eq!(status, 200, "{path}: {text}");
    text
}

fn at(clock: &str) -> Timestamp {
    format!("2026-03-04T{clock}Z").parse().expect("a time")
}

fn task(step: &str, node: &str, (from, to): (&str, &str), end: StepEnd) -> TaskDetail {
    TaskDetail {
        id: format!("{node}/0b00b007/{step}-{from}"),
        step: step.to_owned(),
        name: step.to_owned(),
        kind: StepKind::EcsTask,
        runtime: TaskRuntime::Batch,
        run: Some("r".to_owned()),
        pipeline: None,
        sample: None,
        node: NodeId::new(node).expect("a node id"),
        job: None,
        attempt: None,
        user_id: None,
        queued_at: None,
        started_at: at(from),
        observed_at: at(to),
        last_progress_at: at(to),
        end,
        typical_seconds: None,
        requested_cores: None,
        requested_memory_bytes: None,
        peak_cores: None,
        peak_memory_bytes: None,
        cpu_seconds: 0.0,
        disk_read_bytes: None,
        disk_written_bytes: None,
        network_received_bytes: None,
        network_sent_bytes: None,
        gpu_busy_seconds: None,
        states: Default::default(),
        tools: Vec::new(),
        points: Vec::new(),
        findings: Vec::new(),
    }
}

fn point(clock: &str, cpu_seconds: f64, disk_bytes: u64) -> UsagePoint {
    UsagePoint {
        at: at(clock),
        cpu_seconds,
        memory_bytes: Some(1_000),
        disk_bytes: Some(disk_bytes),
        network_bytes: None,
        gpu_busy_seconds: None,
    }
}

/// A run with a task that was OOM-killed and retried, and a task without progress.
pub(crate) fn task_list() -> TaskList {
    let mut killed = task(
        "align",
        "i-0aaa",
        ("08:01:00", "08:40:00"),
        StepEnd::OutOfMemory,
    );
    killed.sample = Some("S1".to_owned());
    killed.attempt = Some(1);
    killed.queued_at = Some(at("08:00:00"));
    killed.requested_memory_bytes = Some(Bytes::gib(16).0);
    killed.peak_memory_bytes = Some(17_072_495_001);
    killed.points = vec![
        point("08:10:00", 0.0, 0),
        point("08:20:00", 1_200.0, 60_000),
        point("08:30:00", 3_600.0, 0),
    ];
    let mut again = task(
        "align",
        "i-0aaa",
        ("08:41:00", "09:20:00"),
        StepEnd::Exited(0),
    );
    again.sample = Some("S1".to_owned());
    again.attempt = Some(2);
    again.typical_seconds = Some(1_800.0);
    let mut stalled = task("sort", "i-0bbb", ("09:00:00", "09:30:00"), StepEnd::Running);
    stalled.last_progress_at = at("09:10:00");
    stalled.findings = vec!["stalled_step/us-east-1/sort".to_owned()];
    TaskList {
        schema: TaskList::SCHEMA.to_owned(),
        at: at("09:30:00"),
        origin: Origin::Measured,
        tasks: vec![killed, again, stalled],
        left_out: 0,
    }
}

/// A node of which nothing else is known.
pub(crate) fn node_summary(id: &str) -> NodeSummary {
    let unknown = json!({
        "id": id, "name": null, "region": null, "instance_type": null, "market": null,
        "state": null, "owner": null, "controller": null, "origin": "measured",
        "heard_at": null, "per_hour_usd": null, "basis": null, "findings": [],
    });
    serde_json::from_value(unknown).expect("a node")
}

/// Tasks of one step; every second one begins a second later, and every hundredth failed.
pub(crate) fn many_tasks(n: usize) -> TaskList {
    let tasks = (0..n).map(|n| {
        let mut task = task(
            "count",
            "i-0aaa",
            ("08:00:00", "08:01:00"),
            StepEnd::Exited(u8::from(n % 100 == 0)),
        );
        let after = SignedDuration::from_secs(i64::try_from(n / 2).expect("small"));
        task.id = format!("i-0aaa/0b00b007/{n}");
        task.started_at += after;
        task.observed_at += after;
        task
    });
    TaskList {
        tasks: tasks.collect(),
        ..task_list()
    }
}
