//! Prices, texts, and the report that is kept between requests.

use super::*;

#[tokio::test]
async fn prices_are_of_the_catalogue_and_need_no_report() {
    let nothing = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
    let url = "/v1/prices?family=c7a&region=us-east-1&limit=2";
    let (answer, body) = ask(&nothing, get(url)).await;
    assert_eq!(
        (answer.status, body["items"].as_array().map(Vec::len)),
        (200, Some(2))
    );
    for item in body["items"].as_array().expect("a list") {
        assert!(
            item["instance_type"]
                .as_str()
                .is_some_and(|t| t.starts_with("c7a.")),
            "{item}"
        );
        assert_eq!(item["region"], "us-east-1");
    }
    let next = body["next"].as_str().expect("more");
    let (_, second) = ask(&nothing, get(&format!("{url}&after={next}"))).await;
    assert_ne!(second["items"][0], body["items"][0]);
    let (_, none) = ask(&nothing, get("/v1/prices?region=mars")).await;
    assert_eq!(none["total"], 0);
}

#[tokio::test]
async fn text_is_of_the_steps_asked_for() {
    let bucket = bucket(&report());
    let (answer, _) = ask(&bucket, get("/v1/texts/nextflow?step=bwa")).await;
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    assert!(answer.body.contains("withName: 'bwa'") && !answer.body.contains("star"));
    let (answer, body) = ask(&bucket, get("/v1/texts/batch?step=bwa")).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(body["jobDefinitionName"], "bwa");
}

#[tokio::test]
async fn the_report_is_read_anew_when_there_is_another() {
    let clock = FakeClock::at(Timestamp::UNIX_EPOCH);
    let bucket = FakeObjects::new(clock.clone());
    bucket.insert(LATEST_JSON, crate::render::json(&report()));
    let service = Service::new(&bucket);
    let ask = async |now| {
        let request = Request::new("GET", "/v1/findings", BTreeMap::new());
        let answer = service.answer(&request, now, Timestamp::UNIX_EPOCH).await;
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        body["total"].as_u64()
    };
    let begin = Instant::now();
    assert_eq!(ask(begin).await, Some(5));
    let fewer = Report {
        findings: Vec::new(),
        ..report()
    };
    clock.advance(Duration::from_secs(29));
    bucket.insert(LATEST_JSON, crate::render::json(&fewer));
    assert_eq!(ask(begin + Duration::from_secs(29)).await, Some(5));
    assert_eq!(ask(begin + Duration::from_secs(31)).await, Some(0));
}

#[tokio::test]
async fn a_finding_is_dismissed_snoozed_and_reopened() {
    let bucket = bucket(&report());
    let finding = report().findings[0].id.clone();
    let check = async |act: &str, body: Value, status: u16, said: &str| {
        let (answer, told) = ask(&bucket, post(&finding, act, body)).await;
        assert_eq!(answer.status, status, "{act}: {told}");
        assert!(answer.body.contains(said), "{told} should say: {said}");
    };
    let snooze = json!({"reason": "a course", "until": "1970-02-01"});
    check("reopen", json!({}), 404, "urn:ebb:problem:decision").await;
    check("snooze", snooze, 200, "\"holds\":true").await;
    let stored = bucket.stored(crate::decisions::KEY).expect("it is kept");
    let stored = String::from_utf8_lossy(&stored.bytes).into_owned();
    assert!(stored.contains("arn:aws:iam::1:user/ana") && stored.contains(&finding));
    check("reopen", json!({}), 200, "\"holds\":false").await;
    let reason = json!({"reason": "a course"});
    check("snooze", reason.clone(), 400, "a snooze needs an end").await;
    check("dismiss", reason, 200, "\"dismiss\"").await;
    let past = json!({"reason": "a course", "until": "1969-01-01"});
    check("snooze", past, 409, "ended by now").await;
    check("dismiss", json!({}), 400, "the reason is empty").await;
    check("dismiss", json!({"reasn": "a"}), 400, "unknown field").await;
    let long = json!({"reason": "x".repeat(20_000)});
    check("dismiss", long, 400, "at most").await;
}

#[tokio::test]
async fn a_decision_is_about_a_finding_and_said_to_be_json() {
    let (bucket, reason) = (bucket(&report()), json!({"reason": "a course"}));
    let check = async |event: Value, status: u16, kind: &str| {
        let (answer, body) = ask(&bucket, event).await;
        assert_eq!(answer.status, status, "{body}");
        assert_eq!(body["type"], format!("urn:ebb:problem:{kind}"), "{body}");
        assert!(bucket.stored(crate::decisions::KEY).is_none());
    };
    check(
        post("idle_node/mars/i-9", "dismiss", reason.clone()),
        404,
        "finding",
    )
    .await;
    let finding = report().findings[0].id.clone();
    let mut plain = post(&finding, "dismiss", reason.clone());
    plain["headers"]["content-type"] = json!("text/plain");
    check(plain, 415, "media-type").await;
    let mut get = post(&finding, "dismiss", reason);
    get["requestContext"]["http"]["method"] = json!("GET");
    check(get, 405, "method").await;
}

fn post(finding: &str, act: &str, body: Value) -> Value {
    json!({
        "rawPath": format!("/v1/findings/{finding}/{act}"),
        "headers": {"content-type": "application/json"},
        "body": body.to_string(),
        "isBase64Encoded": false,
        "requestContext": {
            "http": {"method": "POST"},
            "authorizer": {"iam": {"userArn": "arn:aws:iam::1:user/ana"}},
        },
    })
}
