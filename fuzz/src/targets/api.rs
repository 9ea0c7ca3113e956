//! Input of the API: events of the gateway with claims, and requests to a server.

use std::sync::Arc;
use std::time::Instant;

use ebb_cloud::documents::inflate::{inflate, split_frames};
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::documents::run_tasks::{PartEntry, encode_head, run_key};
use ebb_cloud::fake::{FakeClock, FakeObjects};
use ebb_model::report::Report;
use ebb_model::report::task_brief::BriefList;
use ebb_model::report::task_detail::TaskList;

use ebb_api::gateway;
use ebb_api::gateway::{Event, Reply};
use ebb_api::service::Service;
use http::{HeaderMap, Request};
use jiff::Timestamp;

use crate::Outcome;
use crate::support::{block_on, first_line, zstd};
use ebb_report::json;

fn report() -> Report {
    crate::targets::files::demo_report()
}

fn bucket(now: Timestamp) -> FakeObjects {
    use std::sync::OnceLock;
    static JSON: OnceLock<String> = OnceLock::new();
    let objects = FakeObjects::new(FakeClock::at(now));
    let json = JSON.get_or_init(|| json::json(&report()));
    objects.insert(LATEST_JSON, json.as_bytes());
    objects
}

fn now() -> Timestamp {
    "2026-11-20T00:00:00Z".parse().expect("a time")
}

fn service() -> Service {
    Service::new(Arc::new(bucket(now())))
}

fn outcome(status: u16, headers: &HeaderMap, body: &[u8]) -> Outcome {
    assert!(status < 500, "{status} {headers:?} {body:?}");
    for (name, value) in headers {
        let is_safe = value
            .to_str()
            .is_ok_and(|value| !value.contains(['\r', '\n', '\0']));
        assert!(is_safe, "{name}: {value:?}");
    }
    let kind = headers
        .get("content-type")
        .and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.contains("json")) && !body.is_empty() {
        let body: Result<serde_json::Value, _> = serde_json::from_slice(body);
        assert!(body.is_ok(), "{body:?}");
    }
    match status {
        200..400 => Outcome::Accepted,
        _ => Outcome::Refused,
    }
}

/// An event of the gateway, with the caller's claims.
pub(super) fn event(input: &[u8]) -> Outcome {
    let Ok(event) = serde_json::from_slice::<Event>(input) else {
        return Outcome::Refused;
    };
    let reply: Reply = block_on(gateway::answer(&service(), event, Instant::now(), now()));
    let status = u16::try_from(reply.status_code).expect("a status");
    let body = reply.body.as_deref().unwrap_or_default();
    outcome(status, &reply.headers, body)
}

pub(super) fn events() -> Vec<Vec<u8>> {
    let event = |method: &str, path: &str, query: &str, body: &str| {
        serde_json::json!({
            "rawPath": path,
            "rawQueryString": query,
            "headers": {"if-none-match": "\"x\"", "content-type": "application/json"},
            "body": body,
            "isBase64Encoded": false,
            "requestContext": {
                "http": {"method": method},
                "authorizer": {"jwt": {"claims": {"email": "kim@example.org", "sub": "7"}}},
            },
        })
        .to_string()
        .into_bytes()
    };
    let report = report();
    let finding = &report.findings.first().expect("the demo has findings").id;
    let finding = finding.replace('/', "%2F");
    vec![
        event("GET", "/v1/findings", "limit=2&region=us-east-1", ""),
        event("GET", "/v1/prices", "limit=5", ""),
        event(
            "POST",
            &format!("/v1/findings/{finding}/snooze"),
            "",
            r#"{"reason":"licence server","until":"2026-12-01"}"#,
        ),
        event(
            "POST",
            &format!("/v1/findings/{finding}/dismiss"),
            "",
            r#"{"reason":"ours"}"#,
        ),
    ]
}

/// A request of a server of its own: method and target in the first line, then the body.
pub(super) fn request(input: &[u8]) -> Outcome {
    let (line, body) = first_line(input);
    let (method, target) = line.split_once(' ').unwrap_or((&line, "/"));
    let request = Request::builder().method(method).uri(target);
    let Ok(request) = request.body(body.to_vec().into()) else {
        return Outcome::Refused;
    };
    let answer = block_on(service().answer(request, Instant::now(), now()));
    outcome(answer.status().as_u16(), answer.headers(), answer.body())
}

pub(super) fn requests() -> Vec<Vec<u8>> {
    let mut targets: Vec<String> = [
        "findings",
        "recommendations",
        "nodes",
        "steps",
        "pipelines",
        "environments",
        "runs",
        "decisions",
        "prices",
    ]
    .map(|list| format!("GET /v1/{list}?limit=3"))
    .to_vec();
    targets.push("GET /v1/texts/nextflow?with_retry=true".to_owned());
    targets.push("GET /v1/texts/terraform?region=us-east-1".to_owned());
    for step in report().steps.iter().take(2) {
        targets.push(format!("GET /v1/steps/{}/recommendation", step.step));
    }
    targets.into_iter().map(String::into_bytes).collect()
}

/// The document of a large run, which a sweep stores: its opening in the first line, then its list of
/// tasks. The pages of the run read both. They are compressed here, so that the fuzzer changes their
/// fields and not their compression.
pub(super) fn run_document(input: &[u8]) -> Outcome {
    let (opening, head) = first_line(input);
    let objects = bucket(now());
    let frames = [zstd(opening.as_bytes()), zstd(head)].concat();
    objects.insert(run_key("r"), frames);
    let service = Service::new(Arc::new(objects));
    let mut all = Outcome::Accepted;
    for path in [
        "/runs/r",
        "/runs/r?page=2&log=2",
        "/runs/r/timeline.json?from=1",
    ] {
        let request = Request::get(path).body(Vec::<u8>::new().into());
        let request = request.expect("a request");
        let answer = block_on(service.answer(request, Instant::now(), now()));
        // A document that is not valid is an error of the server.
        if answer.status() == 500 {
            all = Outcome::Refused;
        } else {
            outcome(answer.status().as_u16(), answer.headers(), answer.body());
        }
    }
    all
}

pub(super) fn run_documents() -> Vec<Vec<u8>> {
    [1, 3].map(run_document_of).to_vec()
}

/// The document of a run with so many tasks: one failed, one runs, and one is its second attempt.
fn run_document_of(tasks: usize) -> Vec<u8> {
    let all = [
        ("failed", 1, serde_json::json!({"exited": 1})),
        ("runs", 1, serde_json::json!("running")),
        ("failed", 2, serde_json::json!({"exited": 0})),
    ];
    let tasks = all.into_iter().take(tasks).enumerate();
    let tasks = tasks.map(|(n, (job, attempt, end))| {
        serde_json::json!({
            "id": format!("i-1/b/{n}"), "step": "align", "name": "bwa", "kind": "ecs_task",
            "runtime": "batch", "run": "r", "pipeline": null, "sample": "S1", "node": "i-1",
            "job": job, "attempt": attempt, "user_id": null, "queued_at": "2026-11-19T00:00:00Z",
            "started_at": format!("2026-11-19T00:{n:02}:00Z"),
            "observed_at": "2026-11-19T01:00:00Z", "last_progress_at": "2026-11-19T00:30:00Z",
            "end": end, "typical_seconds": 60.0, "requested_cores": 2.0,
            "requested_memory_bytes": 1 << 30, "peak_cores": 1.5, "peak_memory_bytes": 1 << 29,
            "cpu_seconds": 1.0, "disk_read_bytes": null, "disk_written_bytes": null,
            "network_received_bytes": null, "network_sent_bytes": null,
            "gpu_busy_seconds": null, "states": {}, "tools": [], "points": [],
            "findings": ["stalled_step/us-east-1/align"],
        })
    });
    let tasks: Vec<serde_json::Value> = tasks.collect();
    let entry = PartEntry::new((0, tasks.len()), b"", None);
    let list = serde_json::json!({
        "schema": TaskList::SCHEMA, "at": now(), "origin": "measured", "tasks": tasks,
        "left_out": 0,
    });
    let list: TaskList = serde_json::from_value(list).expect("a list of tasks");
    let packed = encode_head("r", &BriefList::from(&list), &[entry]);
    let packed = packed.expect("JSON").expect("it fits");
    let (opening, head) = split_frames(&packed).expect("two frames");
    let text = |frame| inflate(frame, 1 << 20).expect("a small text");
    [text(opening), b"\n".to_vec(), text(head)].concat()
}
