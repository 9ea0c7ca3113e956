use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::fake::clock::FakeClock;
use ebb_cloud::fake::objects::FakeObjects;
use ebb_model::report::Report;
use ebb_model::visibility_gap::Gap;
use ebb_report::testing;
use http::Request;
use jiff::Timestamp;

use crate::pages::view::segment;
use crate::service::Service;

/// The status, content type and text of a page.
pub(super) async fn ask(bucket: FakeObjects, path: &str) -> (u16, String, String) {
    let service = Service::new(Arc::new(bucket));
    let request = Request::get(path).body(Bytes::new()).expect("a request");
    let answer = service
        .answer(request, Instant::now(), Timestamp::UNIX_EPOCH)
        .await;
    let header = |name: &str| {
        let value = answer.headers().get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    assert!(header("content-security-policy").contains("script-src 'self'"));
    let text = String::from_utf8(answer.body().to_vec()).expect("UTF-8");
    (answer.status().as_u16(), header("content-type"), text)
}

/// A page over a report; `None` is a bucket without a report.
async fn get(report: Option<&Report>, path: &str) -> (u16, String, String) {
    ask(bucket(report), path).await
}

/// A bucket that contains only this report.
pub(super) fn bucket(report: Option<&Report>) -> FakeObjects {
    let bucket = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
    if let Some(report) = report {
        bucket.insert(LATEST_JSON, ebb_report::json::json(report));
    }
    bucket
}

const LISTS: [&str; 9] = [
    "/",
    "/findings",
    "/nodes",
    "/steps",
    "/runs",
    "/costs",
    "/costs?by=step,user",
    "/probes",
    "/search?q=a",
];

#[tokio::test]
async fn every_list_is_a_page_of_bounded_size_and_hostile_names_are_text() {
    for report in [
        testing::empty(),
        testing::several_days(),
        testing::hostile(),
        testing::many(10_000),
    ] {
        for path in LISTS {
            let (status, kind, text) = get(Some(&report), path).await;
            assert_eq!(
                (status, &*kind),
                (200, "text/html; charset=utf-8"),
                "{path}"
            );
            assert!(
                !text.contains("<script>") && !text.contains("style=\""),
                "{path}"
            );
            assert!(text.len() < 300_000, "{path}: {} bytes", text.len());
        }
    }
}

#[tokio::test]
async fn costs_link_to_the_pages_of_their_names() {
    let mut report = testing::several_days();
    let (_, _, text) = get(Some(&report), "/costs").await;
    assert!(
        text.contains(r#"runs?pipeline=rnaseq">rnaseq</a>"#),
        "{text}"
    );
    assert!(
        text.contains("no task: idle") && text.contains("$10.00"),
        "{text}"
    );
    let (_, kind, text) = get(Some(&report), "/costs?by=run&format=csv").await;
    assert_eq!(&*kind, "text/csv; charset=utf-8");
    assert!(
        text.contains("2026-03-03,tasks,simulated,rnaseq,3,1,6.00,2.00,6.00"),
        "{text}"
    );
    assert!(!text.contains("incomplete"), "{text}");
    let gap = Gap::new("billing export b.csv:2: cost", "is missing");
    report.gaps.push(gap);
    let (_, _, text) = get(Some(&report), "/costs").await;
    let line = "The bill is incomplete: billing export b.csv:2: cost: is missing";
    assert!(text.contains(line), "{text}");
    report.costs.cost_centre_tag = None;
    let (status, _, text) = get(Some(&report), "/costs?by=cost_centre").await;
    assert_eq!(status, 404);
    assert!(text.contains("names no tag of cost centres"), "{text}");
}

#[tokio::test]
async fn the_results_of_a_search_are_also_csv_and_json() {
    let report = testing::several_days();
    let first = &report.findings[0];
    let q = segment(&first.resource.id);
    let (_, _, text) = get(Some(&report), &format!("/search?q={q}")).await;
    for format in ["csv", "json"] {
        let link = format!("/search?q={q}&amp;format={format}");
        assert!(text.replace("&#x2f;", "/").contains(&link), "{text}");
    }
    let (_, kind, text) = get(Some(&report), &format!("/search?q={q}&format=json")).await;
    let body: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&*kind, &body["schema"]),
        ("application/json", &"ebb.search/1".into())
    );
    assert_eq!(body["items"][0]["id"], first.id.as_str());
    let path = format!("/findings/{}", segment(&first.id));
    assert_eq!(body["items"][0]["page"], path.as_str());
    let total = body["items"].as_array().map(Vec::len);
    assert_eq!(body["total"].as_u64(), total.map(|total| total as u64));
    let (_, kind, text) = get(Some(&report), &format!("/search?q={q}&format=csv")).await;
    assert!(kind.starts_with("text/csv"), "{kind}");
    assert_eq!(text.lines().count(), 1 + total.expect("items"));
    assert!(
        text.starts_with("sort,id,name,region,account,page\r\nfinding,"),
        "{text}"
    );
    let (status, _, text) = get(Some(&report), "/search?format=json").await;
    assert!(status == 200 && text.contains("\"items\":[]"), "{text}");
    let (status, ..) = get(Some(&report), "/search?q=a&format=xml").await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_finding_has_a_page_also_with_a_hostile_id() {
    for report in [testing::several_days(), testing::hostile()] {
        for finding in &report.findings {
            let path = format!("/findings/{}", segment(&finding.id));
            let (status, _, text) = get(Some(&report), &path).await;
            assert_eq!(status, 200, "{path}");
            assert!(!text.contains("<script>"), "{path}");
        }
    }
}

#[tokio::test]
async fn a_problem_is_a_page_with_its_status() {
    let report = testing::several_days();
    let check = async |report: Option<&Report>, path: &str, status: u16| {
        let (found, kind, text) = get(report, path).await;
        assert_eq!(
            (found, &*kind),
            (status, "text/html; charset=utf-8"),
            "{path}"
        );
        assert!(text.contains("<h1>"), "{path}");
    };
    check(Some(&report), "/nothing", 404).await;
    check(Some(&report), "/findings/nothing", 404).await;
    check(Some(&report), "/nodes/%3Cscript%3E", 404).await;
    check(Some(&report), "/findings?kind=waste", 400).await;
    check(Some(&report), "/probes?mode=x", 400).await;
    for path in LISTS {
        check(None, path, 503).await;
    }
}
