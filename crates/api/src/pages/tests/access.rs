//! Access of browsers behind the gateway.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use ebb_cloud::documents::decisions;
use ebb_cloud::fake::objects::FakeObjects;
use ebb_report::testing;
use http::Request;
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::walk::bucket;
use crate::caller::Caller;
use crate::gateway;
use crate::page_access::{PageAccess, PagesSecret};
use crate::pages::view::segment;
use crate::service::Service;

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn with_link(bucket: &FakeObjects) -> Service {
    let secret = PagesSecret::new("0123456789abcdef0123456789abcdef").expect("a secret");
    let pages = PageAccess::WithLink(secret);
    Service::with_secrets(Arc::new(bucket.clone()), None, pages)
}

type Answer = http::Response<Bytes>;

async fn send(service: &Service, request: Request<Bytes>, after_hours: i64) -> Answer {
    let at = START + SignedDuration::from_hours(after_hours);
    service.answer(request, Instant::now(), at).await
}

fn request(method: &str, path: &str, cookie: Option<&str>) -> Request<Bytes> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(cookie) = cookie {
        request = request.header(COOKIE, cookie);
    }
    let body = json!({"reason": "a course"}).to_string();
    let request = request.header(CONTENT_TYPE, "application/json");
    request.body(body.into()).expect("a request")
}

/// The path of a link that the API makes for a caller.
async fn link(service: &Service) -> String {
    let mut request = request("POST", "/v1/pages/link", None);
    request
        .extensions_mut()
        .insert(Caller("arn:aws:iam::1:user/ana".to_owned()));
    let answer = send(service, request, 0).await;
    assert_eq!(answer.status(), 200);
    let body: Value = serde_json::from_slice(answer.body()).expect("JSON");
    assert_eq!(body["until"], "1970-01-01T00:15:00Z");
    body["path"].as_str().expect("a path").to_owned()
}

/// The cookie that a link sets.
async fn cookie(service: &Service) -> String {
    let path = link(service).await;
    let answer = send(service, request("GET", &path, None), 0).await;
    assert_eq!(answer.status(), 303);
    assert_eq!(answer.headers()[LOCATION], "/");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let set = answer.headers()[SET_COOKIE].to_str().expect("text");
    set.split(';').next().expect("a cookie").to_owned()
}

#[tokio::test]
async fn a_page_needs_the_cookie_of_a_link_until_its_end() {
    let service = with_link(&bucket(Some(&testing::several_days())));
    let cookie = cookie(&service).await;
    let check = async |path: &str, cookie: Option<&str>, hours: i64, status: u16| {
        let answer = send(&service, request("GET", path, cookie), hours).await;
        assert_eq!(answer.status(), status, "{path} {cookie:?} {hours}");
        answer
    };
    for path in [
        "/",
        "/findings",
        "/live",
        "/probes",
        "/data/findings",
        "/data/report",
    ] {
        check(path, Some(&cookie), 11, 200).await;
        check(path, Some(&cookie), 12, 403).await;
        check(path, Some(&format!("{cookie}x")), 0, 403).await;
        check(path, None, 0, 403).await;
    }
    // Others do not learn whether a page exists.
    check("/nothing", None, 0, 403).await;
    check("//v1/findings", None, 0, 403).await;
    check("/nothing", Some(&cookie), 0, 404).await;
    check("/data/nothing", Some(&cookie), 0, 404).await;
    let refused = check("/", None, 0, 403).await;
    let text = String::from_utf8_lossy(refused.body());
    assert!(text.contains("ebb pages --api URL"), "{text}");
    let style = text.split("href=\"/assets/").nth(1).expect("a style");
    let style = style.split('"').next().expect("its name");
    check(&format!("/assets/{style}"), None, 0, 200).await;
    let path = link(&service).await;
    check(&path, None, 1, 403).await;
    check("/open?token=x", Some(&cookie), 0, 403).await;
    let token = path.split('=').nth(1).expect("a token");
    check("/", Some(&format!("__Host-ebb={token}")), 0, 403).await;
}

#[tokio::test]
async fn a_decision_on_a_page_is_that_of_the_caller_of_the_link() {
    let report = testing::several_days();
    let bucket = bucket(Some(&report));
    let service = with_link(&bucket);
    let cookie = cookie(&service).await;
    let finding = &report.findings[0].id;
    let path = format!("/findings/{}/dismiss", segment(finding));
    let check = async |request: Request<Bytes>, status: u16| {
        let answer = send(&service, request, 0).await;
        assert_eq!(answer.status(), status);
        let body: Value = serde_json::from_slice(answer.body()).expect("JSON");
        body
    };
    check(request("POST", &path, None), 403).await;
    let mut form = request("POST", &path, Some(&cookie));
    let kind = "application/x-www-form-urlencoded"
        .parse()
        .expect("a value");
    form.headers_mut().insert(CONTENT_TYPE, kind);
    check(form, 415).await;
    let id = segment(finding);
    let other = format!("/data/findings/{id}/dismiss");
    check(request("POST", &other, Some(&cookie)), 405).await;
    check(request("POST", "/data/pages/link", Some(&cookie)), 405).await;
    let body = check(request("POST", &path, Some(&cookie)), 200).await;
    assert_eq!(body["decision"]["by"], "arn:aws:iam::1:user/ana");
    let stored = decisions::load(&bucket).await.expect("decisions");
    assert_eq!(stored.findings[finding].by, "arn:aws:iam::1:user/ana");
}

#[tokio::test]
async fn without_a_secret_there_is_no_page_and_no_link() {
    let objects = bucket(Some(&testing::several_days()));
    let service = Service::with_secrets(Arc::new(objects.clone()), None, PageAccess::Nobody);
    let check = async |service: &Service, method: &str, path: &str, status: u16| {
        let answer = send(service, request(method, path, None), 0).await;
        assert_eq!(answer.status(), status, "{path}");
    };
    for path in ["/", "/open?token=x", "/data/findings", "/assets/x", "/live"] {
        check(&service, "GET", path, 404).await;
    }
    check(&service, "POST", "/v1/pages/link", 404).await;
    check(&service, "GET", "/v1/findings", 200).await;
    // A server on loopback needs no link.
    let local = Service::new(Arc::new(objects));
    check(&local, "GET", "/", 200).await;
    check(&local, "GET", "/data/findings", 200).await;
    check(&local, "GET", "/open?token=x", 404).await;
    check(&local, "POST", "/v1/pages/link", 404).await;
}

#[tokio::test]
async fn the_gateway_has_cookies_of_its_own() {
    let service = with_link(&bucket(Some(&testing::several_days())));
    let event = |path: &str, query: &str, cookies: &[&str]| {
        let value = json!({
            "version": "2.0", "rawPath": path, "rawQueryString": query, "cookies": cookies,
            "headers": {}, "isBase64Encoded": false,
            "requestContext": {"http": {"method": "GET", "path": path}},
        });
        serde_json::from_value::<gateway::Event>(value).expect("an event")
    };
    let path = link(&service).await;
    let (path, query) = path.split_once('?').expect("a query");
    let now = Instant::now();
    let opened = gateway::answer(&service, event(path, query, &[]), now, START).await;
    assert_eq!(opened.status_code, 303);
    let [set] = &opened.cookies[..] else {
        panic!("{:?}", opened.cookies)
    };
    let cookie = set.split(';').next().expect("a cookie");
    let with = event("/", "", &["theme=dark", cookie]);
    let shown = gateway::answer(&service, with, now, START).await;
    assert_eq!(shown.status_code, 200);
    let without = event("/", "", &["theme=dark"]);
    let refused = gateway::answer(&service, without, now, START).await;
    assert_eq!(refused.status_code, 403);
}
