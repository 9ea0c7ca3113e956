//! Single tasks and explanations, from documents as a sweep writes them.

use ebb_cloud::documents::run_tasks::{PartSide, part_key, run_key};
use ebb_cloud::documents::task_lists::{
    DetailFolder, DetailIndex, INDEX, MAX_DOCUMENT_BYTES, SHARED_SCHEMA, ShardCount,
    SharedDocument, encode, write_index, write_packed,
};
use ebb_cloud::fake::run_parts::insert_run;
use ebb_model::finding_history::{Resolved, SetAside, Stage, Standing};
use ebb_model::report::probe_summary::{ProbeMode, ProbeSummary};
use ebb_model::report::task_detail::{TaskDetail, TaskList};
use ebb_model::report::timeline::NodeHours;
use ebb_telemetry::identity::NodeId;
use serde::Serialize;

use super::*;

pub(crate) const RUN: &str = "nextflow i-1/0123abcd/7";

fn task(n: usize, end: Value) -> TaskDetail {
    let at = |n: usize| format!("2026-01-01T00:{n:02}:00Z");
    let value = json!({
        "id": format!("i-1/boot/{n}"), "step": "salmon/quant 100%", "name": "quant",
        "kind": "ecs_task", "runtime": "batch", "run": RUN, "pipeline": "rna", "sample": null,
        "node": "i-1", "job": null, "attempt": 1, "user_id": null, "queued_at": null,
        "started_at": at(n), "observed_at": at(n + 1), "last_progress_at": at(n + 1), "end": end,
        "typical_seconds": null, "requested_cores": 2.0, "requested_memory_bytes": null,
        "peak_cores": null, "peak_memory_bytes": null, "cpu_seconds": 1.5,
        "disk_read_bytes": null, "disk_written_bytes": null, "network_received_bytes": null,
        "network_sent_bytes": null, "gpu_busy_seconds": null, "states": {}, "tools": [],
        "points": [], "findings": [],
    });
    serde_json::from_value(value).expect("a task")
}

fn list() -> TaskList {
    TaskList {
        schema: TaskList::SCHEMA.to_owned(),
        at: Timestamp::UNIX_EPOCH,
        origin: Origin::Simulated,
        tasks: vec![
            task(0, json!({"exited": 0})),
            task(1, json!({"exited": 1})),
            task(2, json!("unknown")),
            task(3, json!("running")),
        ],
        left_out: 7,
    }
}

async fn put(bucket: &FakeObjects, key: String, value: &impl Serialize) {
    let packed = encode(value).expect("it encodes").expect("it fits");
    write_packed(bucket, key, packed).await.expect("written");
}

async fn put_shared(bucket: &FakeObjects, folder: DetailFolder, entries: Value) {
    let document = SharedDocument {
        schema: SHARED_SCHEMA.to_owned(),
        at: Timestamp::UNIX_EPOCH,
        entries,
    };
    put(bucket, folder.key(0), &document).await;
}

/// The documents of one run, node, step and explanation.
pub(crate) async fn detailed(report: &Report) -> FakeObjects {
    let bucket = bucket(report);
    put(&bucket, run_key(RUN), &list()).await;
    put_shared(&bucket, DetailFolder::Nodes, json!({"i-1": list()})).await;
    put_shared(
        &bucket,
        DetailFolder::Steps,
        json!({"salmon/quant 100%": list()}),
    )
    .await;
    let explanation = json!({"resource": "i-1", "checks": []});
    put_shared(
        &bucket,
        DetailFolder::Explanations,
        json!({"i-1": explanation}),
    )
    .await;
    let one = ShardCount::from_counts(1, 1);
    let index = DetailIndex {
        schema: DetailIndex::SCHEMA.to_owned(),
        at: Timestamp::UNIX_EPOCH,
        nodes: one,
        steps: one,
        explanations: one,
        explanations_left_out: 5,
        runs: BTreeMap::new(),
        runs_left_out: 0,
    };
    write_index(&bucket, &index).await.expect("written");
    bucket
}

#[tokio::test]
async fn tasks_come_page_by_page_with_filters() {
    let bucket = detailed(&report()).await;
    let run = "/v1/runs/nextflow i-1/0123abcd/7";
    let check = async |url: &str, expect: &[usize], total: usize| {
        let (answer, body) = ask(&bucket, get(url)).await;
        assert_eq!(answer.status, 200, "{url}: {body}");
        let expect: Vec<String> = expect.iter().map(|n| format!("i-1/boot/{n}")).collect();
        assert_eq!(
            (ids(&body, "id"), &body["total"]),
            (expect, &json!(total)),
            "{url}"
        );
        assert_eq!(body["tasks_left_out"], 7);
        body
    };
    let body = check(run, &[0, 1, 2, 3], 4).await;
    assert_eq!(
        (&body["run"], &body["summary"], &body["cost"]),
        (&json!(RUN), &Value::Null, &Value::Null)
    );
    check(&format!("{run}?state=running"), &[3], 1).await;
    check(&format!("{run}?state=failed"), &[1], 1).await;
    check(&format!("{run}?state=done"), &[0, 2], 2).await;
    check(&format!("{run}?step=other"), &[], 0).await;
    let body = check(&format!("{run}?limit=3"), &[0, 1, 2], 4).await;
    let next = body["next"]
        .as_str()
        .expect("a next page")
        .replace(' ', "%20");
    let body = check(&format!("{run}?limit=3&after={next}"), &[3], 4).await;
    assert_eq!(body["next"], Value::Null);
    let body = check("/v1/steps/salmon/quant 100%25/tasks?limit=1", &[0], 4).await;
    assert_eq!(body["step"], "salmon/quant 100%");
    let body = check("/v1/nodes/i-1/activity?state=failed", &[1], 1).await;
    assert_eq!(
        (&body["hours"], &body["hours_from"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn a_run_in_parts_is_read_page_by_page() {
    let bucket = bucket(&report());
    let mut list = list();
    list.tasks = (0..60)
        .map(|n| task(n % 59, json!({"exited": u8::from(n % 2 == 0)})))
        .enumerate()
        .map(|(n, mut task)| {
            task.id = format!("i-1/boot/{n:02}");
            task
        })
        .collect();
    insert_run(&bucket, (RUN, &list), 2);
    let ids_of = async |filter: &str| {
        let (mut found, mut after, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let url = format!("/v1/runs/nextflow i-1/0123abcd/7?limit=40{filter}{after}");
            let (answer, body) = ask(&bucket, get(&url)).await;
            assert_eq!(answer.status, 200, "{url}: {body}");
            assert_eq!(body["tasks_left_out"], 7);
            found.extend(ids(&body, "id"));
            pages += 1;
            let Some(next) = body["next"].as_str() else {
                return (found, pages);
            };
            after = format!("&after={}", next.replace(' ', "%20"));
        }
    };
    let expect = |step| -> Vec<String> {
        let numbers = (0..60).step_by(step);
        numbers.map(|n| format!("i-1/boot/{n:02}")).collect()
    };
    // A page reads ten parts.
    assert_eq!(ids_of("").await, (expect(1), 3));
    assert_eq!(ids_of("&state=failed").await, (expect(2), 3));
    assert_eq!(ids_of("&step=other").await, (Vec::new(), 1));
    let gone = part_key(RUN, 1, PartSide::A);
    bucket.delete(&[gone]).await.expect("deleted");
    let url = "/v1/runs/nextflow i-1/0123abcd/7";
    let (answer, _) = ask(&bucket, get(url)).await;
    assert_eq!(answer.status, 502);
    let (answer, _) = ask(&bucket, get(&format!("{url}?limit=2"))).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn what_no_sweep_wrote_is_unknown_and_not_empty() {
    let mut report = report();
    report.timeline.from = Some(Timestamp::UNIX_EPOCH);
    report.timeline.nodes.push(NodeHours {
        node: NodeId::new("i-7").expect("an id"),
        name: None,
        hours: vec![None, Some(0), Some(50)],
    });
    let bucket = bucket(&report);
    let (answer, body) = ask(&bucket, get("/v1/nodes/i-7/activity")).await;
    assert_eq!(
        (answer.status, &body["tasks_at"]),
        (200, &Value::Null),
        "{body}"
    );
    assert_eq!(body["hours"], json!([null, 0, 50]));
    let check = async |url: &str, kind: &str| {
        let (answer, body) = ask(&bucket, get(url)).await;
        assert_eq!(answer.status, 404, "{body}");
        assert_eq!(body["type"], format!("urn:ebb:problem:{kind}"), "{body}");
    };
    check("/v1/nodes/i-8/activity", "node").await;
    check("/v1/runs/gone", "run").await;
    check("/v1/steps/gone/tasks", "step").await;
    check("/v1/explain/gone", "explanation").await;
    check("/v1/findings/idle_node/us-east-1/gone", "finding").await;
}

#[tokio::test]
async fn documents_that_no_sweep_wrote_are_a_problem() {
    let good = detailed(&report()).await;
    let (run, node) = ("/v1/runs/nextflow i-1/0123abcd/7", "/v1/nodes/i-1/activity");
    let check = async |key: &str, bytes: &[u8], url: &str| {
        let bucket = detailed(&report()).await;
        bucket.insert(key, bytes);
        let (answer, body) = ask(&bucket, get(url)).await;
        assert_eq!(answer.status, 500, "{key}: {body}");
        let detail = body["detail"].as_str().expect("a text");
        assert!(
            detail.contains(key) && !detail.contains(char::is_control),
            "{detail:?}"
        );
    };
    let packed = |text: &[u8]| zstd::bulk::compress(text, 1).expect("it packs");
    check(&run_key(RUN), b"no zstd", run).await;
    check(&run_key(RUN), &packed(b"{\x1b"), run).await;
    let of_another = TaskList {
        tasks: vec![TaskDetail {
            run: None,
            ..task(0, json!("running"))
        }],
        ..list()
    };
    let text = serde_json::to_vec(&of_another).expect("JSON");
    check(&run_key(RUN), &packed(&text), run).await;
    let size = usize::try_from(MAX_DOCUMENT_BYTES).expect("a size") + 1;
    check(
        &DetailFolder::Nodes.key(0),
        &packed(&vec![b' '; size]),
        node,
    )
    .await;
    check(INDEX, b"{\"nodes\": 0}", node).await;
    let fault = Fault::at(1, Moment::Before, Then::StaysDead);
    let (answer, _) = ask(&Failing::new(good, &fault), get(run)).await;
    assert_eq!(answer.status, 502);
}

#[tokio::test]
async fn a_finding_has_its_history_and_a_resource_its_explanation() {
    let mut report = report();
    let id = report.findings[0].id.clone();
    let standing = Standing {
        stage: Stage::Grown,
        first_seen: Timestamp::UNIX_EPOCH,
    };
    report.history.life.insert(id.clone(), standing);
    let resolved: Resolved = serde_json::from_value(json!({
        "id": "idle_node/us-east-1/i-9", "kind": "idle_node", "resource": "i-9", "name": null,
        "owner": null, "region": "us-east-1", "origin": "measured",
        "first_seen": "2026-01-01T00:00:00Z", "resolved_at": "2026-01-02T00:00:00Z",
        "ending": "gone", "saved": null,
    }))
    .expect("a resolved finding");
    report.history.resolved.push(resolved);
    let aside = report.findings.pop().expect("a finding");
    let aside_id = aside.id.clone();
    report.history.set_aside.push(SetAside {
        finding: aside,
        decision: serde_json::from_value(json!({
            "verb": "dismiss", "reason": "known", "by": "ana", "at": "2026-01-01T00:00:00Z",
            "until": null,
        }))
        .expect("a decision"),
    });
    let bucket = detailed(&report).await;
    let finding = async |id: &str| ask(&bucket, get(&format!("/v1/findings/{id}"))).await.1;
    let body = finding(&id).await;
    assert_eq!(
        (&body["finding"]["id"], &body["stage"]),
        (&json!(id), &json!("grown"))
    );
    assert_eq!(
        (&body["decision"], &body["resolved"]),
        (&Value::Null, &Value::Null)
    );
    let body = finding(&aside_id).await;
    assert_eq!(body["decision"]["reason"], "known", "{body}");
    let body = finding("idle_node/us-east-1/i-9").await;
    assert_eq!(
        (&body["finding"], &body["resolved"]["ending"]),
        (&Value::Null, &json!("gone"))
    );
    for name in ["i-1", &id] {
        let (_, body) = ask(&bucket, get(&format!("/v1/explain/{name}"))).await;
        assert_eq!(body["explanation"]["resource"], "i-1", "{body}");
    }
    let (answer, body) = ask(&bucket, get("/v1/explain/i-2")).await;
    let detail = body["detail"].as_str().expect("a text");
    assert!(
        answer.status == 404 && detail.contains("left out 5"),
        "{detail}"
    );
}

#[tokio::test]
async fn probes_are_listed_by_mode() {
    let mut report = report();
    let probe = |node: &str, mode| ProbeSummary {
        node: NodeId::new(node).expect("an id"),
        origin: Origin::Measured,
        mode,
        heard_at: Timestamp::UNIX_EPOCH,
        events_lost: 3,
        records_dropped: 0,
        spool_bytes: Bytes(0),
        resident_bytes: None,
        cpu_share: None,
        clock_ahead_seconds: 0,
        version: None,
        problems: Vec::new(),
    };
    report.probes = vec![
        probe("i-1", ProbeMode::Ebpf),
        probe("i-2", ProbeMode::Procfs),
    ];
    let bucket = bucket(&report);
    let (_, body) = ask(&bucket, get("/v1/probes")).await;
    assert_eq!(ids(&body, "node"), ["i-1", "i-2"]);
    let (_, body) = ask(&bucket, get("/v1/probes?mode=procfs")).await;
    assert_eq!(ids(&body, "node"), ["i-2"]);
    assert_eq!(body["items"][0]["resident_bytes"], Value::Null);
}

#[tokio::test]
async fn documents_are_read_again_only_after_a_while_and_few_stay_in_memory() {
    let fault = Fault::never();
    let bucket = detailed(&report()).await;
    let service = Service::new(Arc::new(Failing::new(bucket.clone(), &fault)));
    let begun = Instant::now();
    let count_calls = async |url: &str, seconds: u64| {
        let before = fault.calls().len();
        ask_at(&service, get(url), begun + Duration::from_secs(seconds)).await;
        fault.calls().len() - before
    };
    let node = "/v1/nodes/i-1/activity";
    // The report, the index and the lists.
    assert_eq!(count_calls(node, 0).await, 3);
    assert_eq!(count_calls(node, 10).await, 0);
    for n in 0..20 {
        assert_eq!(count_calls(&format!("/v1/runs/none{n}"), 10).await, 1);
    }
    assert_eq!(count_calls(node, 10).await, 2, "others took the room");
    // The times of the report, the index and the lists, which did not change.
    assert_eq!(count_calls(node, 60).await, 3);
    let lists = DetailFolder::Nodes.key(0);
    bucket.delete(&[lists]).await.expect("deleted");
    assert_eq!(count_calls(node, 120).await, 4, "the lists changed");
}
