//! The routes over a bucket in memory.

#[cfg(test)]
mod details;
#[cfg(test)]
mod parts;
mod slack;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::failing::{Failing, Fault, Moment, Then};
use ebb_cloud::fake::clock::FakeClock;
use ebb_cloud::fake::objects::FakeObjects;
use ebb_cloud::ports::Objects;
use ebb_model::advice::offer::Offers;
use ebb_model::advice::sized_request::{Risk, SizedRequest};
use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::{Cost, PriceBasis};
use ebb_model::finding::evidence::idle::{IdleNode, SeenBy};
use ebb_model::finding::evidence::{Evidence, Overprovisioned};
use ebb_model::finding::{Action, Finding, Recommendation, Remedy, Resource};
use ebb_model::finding_history::History;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::timeline::Timeline;
use ebb_model::report::{Report, Totals};
use ebb_model::savings::{Counted, Sums};
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::Requested;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::answer::MAX_BODY_BYTES;
use crate::gateway;
use crate::service::Service;

#[expect(clippy::too_many_lines, reason = "one value with all its fields")]
fn finding(kind: FindingKind, region: &str, id: &str, name: &str) -> Finding {
    let region = Region::new(region).expect("a region");
    let sized = |cores, gib| SizedRequest {
        cores: Some(MilliCores::cores(cores)),
        memory: Some(Bytes::gib(gib)),
    };
    let is_step = kind == FindingKind::OverprovisionedStep;
    Finding {
        id: Finding::id_of(kind, &region, id),
        kind,
        resource: Resource {
            tags: Default::default(),
            id: id.to_owned(),
            name: Some(name.to_owned()),
            region,
            account: None,
            node: None,
            owner: None,
            instance_type: None,
            market: None,
            controller: None,
            origin: Origin::Measured,
        },
        window: Window {
            from: Timestamp::UNIX_EPOCH,
            to: Timestamp::UNIX_EPOCH,
        },
        coverage: None,
        evidence: match is_step {
            true => Evidence::Overprovisioned(Overprovisioned {
                requested: Requested::default(),
                peak_cores: None,
                mean_cores: None,
                peak_memory: None,
                samples: 3,
                observed_for: Duration::from_secs(60),
            }),
            false => Evidence::IdleNode(IdleNode {
                idle_for: Duration::from_secs(3600),
                is_longer: false,
                never_active: None,
                background_cores: None,
                kept_alive_by: None,
                seen_by: SeenBy::Probe,
            }),
        },
        confidence: Confidence {
            level: Level::High,
            reason: "seen".to_owned(),
        },
        cost: None,
        remedy: Remedy {
            action: Action::Rightsize,
            advice: "Ask for less.".to_owned(),
            command: None,
        },
        steps: Vec::new(),
        recommendation: is_step.then(|| Recommendation {
            current: sized(16, 64),
            recommended: sized(2, 4),
            samples: 3,
            placement: None,
            current_per_hour: None,
            recommended_per_hour: None,
            risk: Risk::default(),
            offers: Offers::default(),
            assumptions: Vec::new(),
        }),
    }
}

fn report() -> Report {
    use ebb_model::finding_kind::FindingKind::{IdleNode, OverprovisionedStep};
    Report {
        schema: Report::SCHEMA.to_owned(),
        at: Timestamp::UNIX_EPOCH,
        origin: Origin::Simulated,
        findings: vec![
            finding(IdleNode, "us-east-1", "i-1", "notebook"),
            finding(
                OverprovisionedStep,
                "us-east-1",
                "salmon/quant 100%",
                "salmon",
            ),
            finding(OverprovisionedStep, "us-east-1", "star", "align"),
            finding(OverprovisionedStep, "eu-central-1", "star", "align"),
            finding(OverprovisionedStep, "us-east-1", "bwa", "align"),
        ],
        exempt: Vec::new(),
        not_evaluated: Vec::new(),
        gaps: Vec::new(),
        totals: Totals::default(),
        steps: Vec::new(),
        steps_left_out: 0,
        targets: Default::default(),
        nodes: Vec::new(),
        nodes_left_out: 0,
        timeline: Timeline::default(),
        history: History::default(),
        ledger: Vec::new(),
        billed: Default::default(),
        costs: Default::default(),
        own_cost: Default::default(),
        second_opinions: Vec::new(),
        price_ages: Vec::new(),
        runs: Default::default(),
        probes: Vec::new(),
        probes_left_out: 0,
        probe_problems: Default::default(),
        unwatched: Default::default(),
        fargate: Default::default(),
        selected: None,
        shared_costs: Vec::new(),
    }
}

fn bucket(report: &Report) -> FakeObjects {
    let bucket = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
    let text = ebb_report::json::json(report);
    bucket.insert(LATEST_JSON, text);
    bucket
}

/// An answer, as the gateway receives it.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

/// Asks as the gateway does: the escapes of the path are decoded, except `%25`.
async fn ask(objects: &(impl Objects + Clone + 'static), event: Value) -> (Answer, Value) {
    let service = Service::new(Arc::new(objects.clone()));
    ask_at(&service, event, Instant::now()).await
}

async fn ask_at(service: &Service, event: Value, now: Instant) -> (Answer, Value) {
    let event = serde_json::from_value(event).expect("an event");
    let reply = gateway::answer(service, event, now, Timestamp::UNIX_EPOCH).await;
    let reply = serde_json::to_value(reply).expect("JSON");
    let headers = serde_json::from_value(reply["headers"].clone());
    let answer = Answer {
        status: u16::try_from(reply["statusCode"].as_u64().unwrap_or_default()).expect("a status"),
        headers: headers.expect("names and values"),
        body: reply["body"].as_str().unwrap_or_default().to_owned(),
    };
    let body = serde_json::from_str(&answer.body).unwrap_or(Value::Null);
    if !body.is_null() {
        let keys: Result<UniqueKeys, _> = serde_json::from_str(&answer.body);
        keys.expect("each key once");
    }
    (answer, body)
}

/// JSON without an object that has a key twice, which `serde_json::Value` does not notice.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, Self)) = map.next_entry::<String, Self>()? {
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("the key {key} is there twice")));
            }
        }
        Ok(self)
    }
}

fn get(url: &str) -> Value {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    json!({
        "rawPath": path,
        "rawQueryString": query,
        "headers": {},
        "requestContext": {"http": {"method": "GET"}},
    })
}

fn ids(body: &Value, field: &str) -> Vec<String> {
    let items = body["items"].as_array().expect("a list");
    let id = |item: &Value| item[field].as_str().expect("an id").to_owned();
    items.iter().map(id).collect()
}

#[tokio::test]
async fn findings_come_page_by_page_as_the_report_has_them() {
    let (report, mut url) = (report(), "/v1/findings?limit=2".to_owned());
    let bucket = bucket(&report);
    let mut page_ids = Vec::new();
    for expect in [2, 2, 1] {
        let (answer, body) = ask(&bucket, get(&url)).await;
        assert_eq!((answer.status, &body["total"]), (200, &json!(5)));
        assert_eq!(body["origin"], "simulated");
        let page = ids(&body, "id");
        assert_eq!(page.len(), expect);
        page_ids.extend(page);
        url = format!(
            "/v1/findings?limit=2&after={}",
            body["next"].as_str().unwrap_or("end")
        );
    }
    let report_ids: Vec<_> = report.findings.iter().map(|f| f.id.clone()).collect();
    assert_eq!(page_ids, report_ids);
    assert!(
        url.ends_with("after=end"),
        "the last page names no next: {url}"
    );
}

#[tokio::test]
async fn findings_are_recommendations_in_the_fields_of_the_hub() {
    let (_, body) = ask(&bucket(&report()), get("/v1/recommendations")).await;
    assert_eq!(body["total"], 5);
    let (idle, step) = (&body["items"][0], &body["items"][1]);
    assert_eq!(idle["currentResourceType"], "Ec2Instance");
    assert_eq!(
        (&idle["recommendation"], &idle["reasons"]),
        (&Value::Null, &Value::Null)
    );
    let cores = &step["recommendation"]["recommended"]["cores"];
    let whole = serde_json::to_value(MilliCores::cores(2)).expect("a number");
    assert_eq!(cores, &whole);
    assert_eq!(step["actionType"], "Rightsize");
    assert_eq!(step["recommendedResourceSummary"], "2 vCPU, 4.0 GiB");
    assert_eq!(step["reasons"]["reason_codes"][0], "CPUOverprovisioned");
    assert_eq!(step["lastRefreshTimestamp"], body["at"]);
}

#[tokio::test]
async fn a_step_is_found_by_definition_or_name() {
    let bucket = bucket(&report());
    let check = async |step: &str, expect: &str| {
        let url = format!("/v1/steps/{step}");
        let (_, body) = ask(&bucket, get(&url)).await;
        let value = body.get("finding").or(body.get("type"));
        assert_eq!(value.and_then(Value::as_str), Some(expect), "{url}: {body}");
    };
    let salmon = "overprovisioned_step/us-east-1/salmon/quant 100%";
    check("salmon/quant 100%25/recommendation", salmon).await;
    check("salmon%2Fquant%20100%25/recommendation", salmon).await;
    check("salmon/recommendation", salmon).await;
    let bwa = "overprovisioned_step/us-east-1/bwa";
    check("bwa/recommendation", bwa).await;
    let star = "overprovisioned_step/eu-central-1/star";
    check("star/recommendation?region=eu-central-1", star).await;
    check("star/recommendation", "urn:ebb:problem:ambiguous").await;
    check("align/recommendation", "urn:ebb:problem:ambiguous").await;
    check(
        "star/recommendation?region=eu-west-1",
        "urn:ebb:problem:step",
    )
    .await;
    check("notebook/recommendation", "urn:ebb:problem:step").await;
}

#[tokio::test]
async fn what_is_known_is_not_sent_again() {
    let bucket = bucket(&report());
    let (first, _) = ask(&bucket, get("/v1/findings")).await;
    let etag = first.headers["etag"].clone();
    let check = async |known: &str, status: u16| {
        let mut event = get("/v1/findings");
        event["headers"]["if-none-match"] = json!(known);
        let (answer, _) = ask(&bucket, event).await;
        assert_eq!(answer.status, status, "{known}");
        assert_eq!(answer.headers["etag"], etag);
        assert_eq!(answer.body.is_empty(), status == 304);
    };
    check(&etag, 304).await;
    check(&format!("\"other\", W/{etag}"), 304).await;
    check("*", 304).await;
    check("\"other\"", 200).await;
    let changed = Report {
        findings: Vec::new(),
        ..report()
    };
    bucket.insert(LATEST_JSON, ebb_report::json::json(&changed));
    let (second, _) = ask(&bucket, get("/v1/findings")).await;
    assert_ne!(second.headers["etag"], etag);
}

#[tokio::test]
async fn the_whole_report_is_answered_as_it_is_stored() {
    let (answer, _) = ask(&bucket(&report()), get("/v1/report")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, ebb_report::json::json(&report()));
    assert!(answer.headers["etag"].starts_with('"'), "{answer:?}");
    let (answer, _) = ask(&bucket(&report()), get("/v1/report?limit=1")).await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn what_goes_wrong_is_a_problem_with_its_status() {
    let check = async |objects: &Arc<dyn Objects>, event: Value, status: u16, kind: &str| {
        let service = Service::new(Arc::clone(objects));
        let (answer, body) = ask_at(&service, event, Instant::now()).await;
        assert_eq!(
            (answer.status, &body["status"]),
            (status, &json!(status)),
            "{body}"
        );
        assert_eq!(body["type"], format!("urn:ebb:problem:{kind}"), "{body}");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        assert_eq!(answer.headers["cache-control"], "no-store");
    };
    let bucket_of = |report: &Report| -> Arc<dyn Objects> { Arc::new(bucket(report)) };
    let (whole, findings) = (bucket_of(&report()), || get("/v1/findings"));
    check(&whole, get("/v1/clouds"), 404, "path").await;
    check(&whole, get("/v1/texts/cobol"), 404, "path").await;
    check(&whole, get("/v1/nodes?state=tired"), 400, "query").await;
    check(&whole, get("/v1/prices?after=gone"), 404, "cursor").await;
    check(&whole, get("/v1/steps//recommendation"), 404, "path").await;
    check(&whole, get("/v1/findings?limit=0"), 400, "query").await;
    check(&whole, get("/v1/findings?limit=501"), 400, "query").await;
    check(&whole, get("/v1/findings?limt=1"), 400, "query").await;
    check(&whole, get("/v1/findings?after=gone"), 404, "cursor").await;
    check(&whole, get("/v1/findings?kind=waste"), 400, "query").await;
    check(&whole, get("/v1/findings?region=a&region=b"), 400, "query").await;
    check(
        &whole,
        get("/v1/steps/star/recommendation"),
        409,
        "ambiguous",
    )
    .await;
    let mut post = findings();
    post["requestContext"]["http"]["method"] = json!("POST");
    check(&whole, post, 405, "method").await;

    let nothing = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
    let empty: Arc<dyn Objects> = Arc::new(nothing.clone());
    check(&empty, findings(), 503, "no-report").await;
    let fault = Fault::at(0, Moment::Before, Then::StaysDead);
    let down: Arc<dyn Objects> = Arc::new(Failing::new(bucket(&report()), &fault));
    check(&down, findings(), 502, "bucket").await;
    nothing.insert(LATEST_JSON, *b"{}");
    check(&empty, findings(), 500, "report").await;
    let newer = Report {
        schema: "ebb.report/3".to_owned(),
        ..report()
    };
    check(&bucket_of(&newer), findings(), 500, "report").await;

    let mut huge = report();
    huge.findings[0].remedy.advice = "x".repeat(MAX_BODY_BYTES);
    check(&bucket_of(&huge), findings(), 400, "size").await;
    let whole_report = || get("/v1/report");
    check(&bucket_of(&huge), whole_report(), 413, "report-size").await;
    check(&down, whole_report(), 502, "bucket").await;
    let none = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
    let none: Arc<dyn Objects> = Arc::new(none);
    check(&none, whole_report(), 503, "no-report").await;
}

#[tokio::test]
async fn lists_are_filtered_by_region_kind_and_owner() {
    let mut report = report();
    report.findings[0].resource.owner = Some("ana".to_owned());
    let bucket = bucket(&report);
    let check = async |query: &str, expect: usize| {
        let url = format!("/v1/findings?{query}");
        let (answer, body) = ask(&bucket, get(&url)).await;
        assert_eq!(
            (answer.status, &body["total"]),
            (200, &json!(expect)),
            "{query}"
        );
        assert_eq!(ids(&body, "id").len(), expect);
    };
    check("region=us-east-1", 4).await;
    check("region=mars", 0).await;
    check("kind=idle_node", 1).await;
    check("owner=ana", 1).await;
    check("owner=ana&kind=overprovisioned_step", 0).await;
    check("kind=low_duty_node", 0).await;
    check("region=us-east-1&kind=overprovisioned_step", 3).await;
}

/// A monthly cost in dollars; the totals contain `counted` of it.
fn cost(dollars: i64, counted: i64, basis: PriceBasis) -> Cost {
    let usd = |dollars: i64| Usd::from_micros(dollars * 1_000_000);
    Cost {
        per_hour: UsdPerHour::default(),
        basis,
        list_per_hour: None,
        spent: usd(1),
        saving_a_month: usd(dollars),
        counted: Some(Counted {
            sums: Sums {
                saving_a_month: usd(counted),
                ..Sums::default()
            },
            rest_counted_by: None,
        }),
        price_as_of: None,
        list_as_of: None,
    }
}

/// One finding of Ana, one of Ben that is partly hers, and one of Ben's spot machine.
fn of_two_owners() -> Report {
    let mut report = report();
    let costs = [
        ("ana", cost(100, 100, PriceBasis::Bill)),
        ("ben", cost(50, 20, PriceBasis::ListPrice)),
        ("ben", cost(30, 30, PriceBasis::ListPriceAsUpperBound)),
    ];
    for (finding, (owner, cost)) in report.findings.iter_mut().zip(costs) {
        finding.resource.owner = Some(owner.to_owned());
        finding.cost = Some(cost);
    }
    let findings = report.findings.clone();
    report.totals.sum_up(&findings);
    report
}

#[tokio::test]
async fn totals_are_those_of_the_findings_that_the_filters_let_through() {
    let bucket = bucket(&of_two_owners());
    let check = async |url: &str, saving: &str, at_most: &str, without: u64| {
        let (_, body) = ask(&bucket, get(url)).await;
        let totals = &body["totals"];
        let amounts = [
            &totals["saving_a_month_usd"],
            &totals["at_most"]["saving_a_month_usd"],
        ];
        assert_eq!(amounts, [saving, at_most], "{url}");
        assert_eq!(totals["without_price"], without, "{url}");
    };
    check("/v1/findings", "120.00", "30.00", 2).await;
    check("/v1/findings?limit=1", "120.00", "30.00", 2).await;
    check("/v1/findings?owner=ana", "100.00", "0.00", 0).await;
    check("/v1/findings?owner=ben", "20.00", "30.00", 0).await;
    check("/v1/recommendations?owner=ben", "20.00", "30.00", 0).await;
    check("/v1/findings?owner=ben&kind=idle_node", "0.00", "0.00", 0).await;
    check("/v1/findings?owner=nobody", "0.00", "0.00", 0).await;
    check("/v1/steps?owner=ben", "20.00", "30.00", 0).await;
    check("/v1/pipelines?owner=ana", "100.00", "0.00", 0).await;
    check("/v1/nodes", "120.00", "30.00", 2).await;
}

#[tokio::test]
async fn what_is_dismissed_leaves_the_lists_and_the_totals_at_once() {
    let bucket = bucket(&of_two_owners());
    let service = Service::new(Arc::new(bucket));
    let ask = async |event: Value| ask_at(&service, event, Instant::now()).await;
    let (first, body) = ask(get("/v1/findings")).await;
    let id = body["items"][0]["id"].as_str().expect("an id").to_owned();
    let path = id.replace('/', "%2F");
    let act = |verb: &str, body: Value| {
        let mut event = get(&format!("/v1/findings/{path}/{verb}"));
        event["requestContext"]["http"]["method"] = json!("POST");
        event["headers"]["content-type"] = json!("application/json");
        event["body"] = json!(body.to_string());
        event
    };
    let (answer, _) = ask(act("dismiss", json!({"reason": "a course"}))).await;
    assert_eq!(answer.status, 200);
    for list in ["findings", "recommendations"] {
        let (after, body) = ask(get(&format!("/v1/{list}"))).await;
        assert_eq!(body["total"], 4, "{list}");
        assert_eq!(body["totals"]["saving_a_month_usd"], "20.00", "{list}");
        assert!(!body["items"].to_string().contains(&id), "{list}");
        assert_ne!(after.headers["etag"], first.headers["etag"]);
    }
    let (answer, _) = ask(act("reopen", json!({}))).await;
    assert_eq!(answer.status, 200);
    let (_, body) = ask(get("/v1/findings")).await;
    assert_eq!(body["total"], 5);
}

#[tokio::test]
async fn a_step_that_is_not_there_is_404_wherever_it_is_named() {
    let bucket = bucket(&report());
    for url in [
        "/v1/steps/nope/recommendation",
        "/v1/texts/nextflow?step=nope",
        "/v1/texts/batch?step=bwa&region=eu-central-1",
    ] {
        let (answer, body) = ask(&bucket, get(url)).await;
        assert_eq!(
            (answer.status, &body["type"]),
            (404, &json!("urn:ebb:problem:step")),
            "{url}"
        );
    }
    let (answer, _) = ask(&bucket, get("/v1/texts/nextflow?owner=nobody")).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn steps_come_with_advice_of_an_earlier_releases_report_too() {
    let (answer, body) = ask(
        &bucket(&report()),
        get("/v1/steps?region=us-east-1&limit=2"),
    )
    .await;
    assert_eq!((answer.status, &body["total"]), (200, &json!(3)));
    assert_eq!(body["items"][0]["step"], "salmon/quant 100%");
    assert_eq!(body["next"], "us-east-1/star");
    let next = "/v1/steps?region=us-east-1&after=us-east-1/star";
    let (_, body) = ask(&bucket(&report()), get(next)).await;
    assert_eq!(body["items"][0]["step"], "bwa");
    assert_eq!(body["next"], Value::Null);
}

#[tokio::test]
async fn the_document_lists_every_path_and_needs_no_report() {
    let nothing = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
    let (answer, body) = ask(&nothing, get("/v1/openapi.json")).await;
    assert_eq!((answer.status, &body["openapi"]), (200, &json!("3.1.0")));
    let paths = body["paths"].as_object().expect("paths");
    let reads = paths
        .iter()
        .filter(|(_, path_item)| path_item["get"].is_object());
    for (path, path_item) in reads {
        let named = [("{step}", "bwa"), ("{form}", "batch"), ("{node}", "i-1")];
        let named = named
            .into_iter()
            .chain([("{pipeline}", "rna"), ("{environment}", "rna")])
            .chain([("{run}", details::RUN), ("{resource}", "i-1")])
            .chain([("{finding}", "idle_node/us-east-1/i-1")]);
        let url = named.fold(path.clone(), |url, (name, value)| url.replace(name, value));
        let mut report = report();
        report.targets = parts::targets();
        let (answer, _) = ask(&details::detailed(&report).await, get(&url)).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(path_item["get"]["responses"]["200"].is_object(), "{path}");
    }
    assert_eq!(paths.len(), 29);
}

/// The document in the documentation; `EBB_UPDATE=1` writes it.
#[tokio::test]
async fn the_documentation_has_the_document() {
    let nothing = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
    let (_, body) = ask(&nothing, get("/v1/openapi.json")).await;
    let mut text = serde_json::to_string_pretty(&body).expect("JSON");
    text.push('\n');
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/openapi.json");
    if std::env::var_os("EBB_UPDATE").is_some() {
        std::fs::write(path, &text).expect("it is written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == text,
        "docs/src/openapi.json is not current: run EBB_UPDATE=1 cargo test -p ebb-api"
    );
}
