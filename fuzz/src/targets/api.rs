//! Input of the API: events of the gateway with claims, and requests to a server.

use std::sync::Arc;
use std::time::Instant;

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::fake::{FakeClock, FakeObjects};
use ebb_model::report::Report;

use ebb_api::gateway;
use ebb_api::gateway::{Event, Reply};
use ebb_api::service::Service;
use http::{HeaderMap, Request};
use jiff::Timestamp;

use crate::Outcome;
use crate::support::{block_on, first_line};
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
