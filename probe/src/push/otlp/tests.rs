//! Tests with a local server that stores the requests.

use ebb_telemetry::heartbeat::Usage;
use ebb_telemetry::step::{
    Requested, StepDetail, StepEnd, StepId, StepKind, StepNetwork, StepUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, Share};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::tests::{batch, heartbeat, sent};
use super::*;

const TAKEN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

/// Reads one request, answers it, and returns the head and body of the request.
async fn answer(listener: &TcpListener, answer: &str) -> (String, Value) {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        let size = stream.read(&mut part).await.expect("readable");
        request.extend(&part[..size]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            stream.write_all(answer.as_bytes()).await.expect("answered");
            return (head.to_owned(), body);
        }
        assert!(size > 0, "cut off: {text}");
    }
}

async fn collector() -> (TcpListener, OtlpCollector) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let collector = OtlpCollector::at(&format!("http://{address}/")).expect("loopback");
    (listener, collector)
}

/// The metric of the first resource with this name.
fn metric<'a>(body: &'a Value, name: &str) -> &'a Value {
    let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let all = metrics.as_array().expect("metrics");
    let found = all.iter().find(|metric| metric["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {metrics:#}"))
}

fn message(cpu_s: u64) -> String {
    let mut heartbeat = heartbeat("i-1", 0);
    heartbeat.start = BootClock::from_nanos(1_000_000_000);
    heartbeat.end = BootClock::from_nanos(61_000_000_000);
    heartbeat.wall_at_end = Timestamp::from_second(1_000_000).expect("valid");
    heartbeat.workload = Usage {
        cpu: Some(CpuTime::from_millis(cpu_s * 1_000)),
        ..Usage::default()
    };
    heartbeat.coverage.cpu = Some(Share::ALL);
    heartbeat.steps = vec![step()];
    ebb_wire::encode_heartbeats(&sent(), &[heartbeat]).expect("it fits")
}

fn step() -> StepUsage {
    let at = BootClock::from_nanos(31_000_000_000);
    StepUsage {
        id: StepId {
            kind: StepKind::Container,
            key: "c0ffee".into(),
        },
        name: "bwa".into(),
        started: at,
        observed: BootClock::from_nanos(61_000_000_000),
        end: StepEnd::Running,
        processes: 3,
        cpu: CpuTime::from_millis(1_500),
        peak_memory: None,
        disk_read: None,
        disk_written: Some(Bytes(4_096)),
        requested: Requested::default(),
        peak_cores: None,
        last_progress: at,
        tools: Vec::new(),
        detail: StepDetail {
            network: Some(StepNetwork {
                received: Bytes(7),
                ..StepNetwork::default()
            }),
            ..StepDetail::default()
        },
    }
}

/// Field names and formats follow the JSON mapping of the OpenTelemetry protocol.
#[tokio::test]
async fn a_heartbeat_arrives_in_the_documented_form() {
    let (listener, collector) = collector().await;
    let text = message(30);
    let (request, result) = tokio::join!(answer(&listener, TAKEN), collector.message(&text));
    result.expect("it is taken");
    let (head, body) = request;
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    let head = head.to_lowercase();
    assert!(head.contains("content-type: application/json"), "{head}");
    let attributes = body["resourceMetrics"][0]["resource"]["attributes"].clone();
    let host = json!({ "key": "host.id", "value": { "stringValue": "i-1" } });
    let all = attributes.as_array().expect("attributes");
    assert!(all.contains(&host), "{attributes:#}");

    let cpu = metric(&body, "system.cpu.time");
    let expect = json!({
        "name": "system.cpu.time",
        "unit": "s",
        "sum": {
            "aggregationTemporality": 2,
            "isMonotonic": true,
            "dataPoints": [{
                "attributes": [{ "key": "ebb.side", "value": { "stringValue": "workload" } }],
                "startTimeUnixNano": "999940000000000",
                "timeUnixNano": "1000000000000000",
                "asDouble": 30.0,
            }],
        },
    });
    // The CPU time of the background is unknown, which differs from zero.
    assert_eq!(cpu, &expect);
    let coverage = &metric(&body, "ebb.coverage")["gauge"]["dataPoints"];
    assert_eq!(coverage.as_array().map(Vec::len), Some(1), "{coverage:#}");
    assert_eq!(coverage[0]["asDouble"], 1.0);

    let step = &metric(&body, "container.cpu.time")["sum"]["dataPoints"][0];
    assert_eq!(step["asDouble"], 1.5);
    assert_eq!(step["startTimeUnixNano"], "999970000000000");
    let id = json!({ "key": "container.id", "value": { "stringValue": "c0ffee" } });
    let which = step["attributes"].as_array().expect("attributes");
    assert!(which.contains(&id), "{which:#?}");
    let written = &metric(&body, "container.disk.io")["sum"]["dataPoints"];
    assert_eq!(written.as_array().map(Vec::len), Some(1), "{written:#}");
    assert_eq!(written[0]["asDouble"], 4_096.0);
    let network = &metric(&body, "container.network.io")["sum"]["dataPoints"];
    assert_eq!(network[0]["asDouble"], 7.0);
}

#[tokio::test]
async fn a_refused_heartbeat_counts_once_when_it_is_sent_again() {
    let (listener, collector) = collector().await;
    let check = async |words: &'static str, cpu_s: u64, sum: f64, taken: bool| {
        let text = message(cpu_s);
        let (request, result) = tokio::join!(answer(&listener, words), collector.message(&text));
        let points = &metric(&request.1, "system.cpu.time")["sum"]["dataPoints"];
        assert_eq!(points[0]["asDouble"], sum);
        assert_eq!(result.is_ok(), taken, "{result:?}");
    };
    check(TAKEN, 30, 30.0, true).await;
    check(BUSY, 12, 42.0, false).await;
    check(TAKEN, 12, 42.0, true).await;
    check(TAKEN, 1, 43.0, true).await;
}

#[tokio::test]
async fn finished_steps_arrive_and_those_of_an_earlier_boot_do_not() {
    let (listener, collector) = collector().await;
    let mut of_now = batch("i-1");
    of_now.steps = vec![step()];
    let object = ebb_wire::encode_steps(&sent(), &of_now).expect("it fits");
    let sending = collector.steps("a key", object);
    let (request, result) = tokio::join!(answer(&listener, TAKEN), sending);
    result.expect("it is taken");
    let made = &metric(&request.1, "ebb.step.process.created")["sum"]["dataPoints"][0];
    assert_eq!(made["asDouble"], 3.0);
    of_now.boot = "another".parse().expect("valid");
    let object = ebb_wire::encode_steps(&sent(), &of_now).expect("it fits");
    collector.steps("a key", object).await.expect("let go of");
}

#[test]
fn a_collector_is_reached_in_secret_or_on_this_machine() {
    for (address, expect) in [
        ("https://otel.example.org:4318", true),
        ("http://127.0.0.1:4318", true),
        ("http://otel.example.org:4318", false),
        ("otel", false),
    ] {
        assert_eq!(OtlpCollector::at(address).is_ok(), expect, "{address}");
    }
}
