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
        let answer = service.answer(&request, now).await;
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
