//! Prices, texts, and the report that is kept between requests.

use ebb_model::advice::Targets;
use ebb_model::report::workflow_runs::{
    JoinedBy, Runs, StepNameSource, TaskLabels, UNASSIGNED, WorkflowRun,
};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{AccountId, NodeId};
use ebb_telemetry::step::resource_usage::SchedulerLabels;
use ebb_telemetry::units::CpuTime;

use super::*;

/// A pipeline, an environment of the same name and a node.
pub(crate) fn targets() -> Targets {
    let time = json!({"secs": 7_200, "nanos": 0});
    let fleet = |name: &str, market: &str, usd: i64| {
        json!({
            "instance_type": name, "market": market, "per_hour": 80_000, "machines": 2,
            "machine_time": time, "usd": usd, "basis": "learned",
            "together": [{"step": "align", "runs": 3}],
        })
    };
    let spot = ["m7i.large", "m7a.large", "m6i.large"];
    let group = json!({
        "name": "rna", "region": "us-east-1", "owner": "ana", "origin": "measured",
        "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "runs": 3,
        "steps": [], "allowed": ["m5"], "allocation": "BEST_FIT_PROGRESSIVE",
        "now": fleet("m5.4xlarge", "on_demand", 9_000_000), "resized": null,
        "offers": [fleet("m7i.large", "on_demand", 3_000_000)],
        "spot": spot.map(|name| fleet(name, "spot", 1_000_000)),
        "saving_a_month": 240_000_000, "seen_by_replayed_ppm": 1_000_000,
        "confidence": "medium", "assumed": [], "refused": null,
    });
    let used = json!({"cores": 2_000, "memory": 1_000});
    let node = json!({
        "node": "i-1", "name": null, "region": "us-east-1", "instance_type": "m5.4xlarge",
        "market": "on_demand", "owner": null, "origin": "measured", "hours_seen": 30,
        "used": used, "needs": used, "per_hour": 768_000, "basis": "bill",
        "list_per_hour": 900_000, "offers": [], "saving_a_month": null, "assumed": [],
        "refused": "no cheaper instance type fits the observed work",
    });
    let all = json!({
        "pipelines": [group], "environments": [group], "nodes": [node], "left_out": 3,
    });
    serde_json::from_value(all).expect("targets")
}

#[tokio::test]
async fn pipelines_environments_and_nodes_are_answered_by_name() {
    let mut report = report();
    report.targets = targets();
    let bucket = bucket(&report);
    let (_, pipeline) = ask(&bucket, get("/v1/pipelines/rna/recommendation")).await;
    assert_eq!(pipeline["now"]["machines"], 2, "{pipeline}");
    assert_eq!(
        (&pipeline["update"], &pipeline["left_out"]),
        (&Value::Null, &json!(3))
    );
    let (_, environment) = ask(&bucket, get("/v1/environments/rna/recommendation")).await;
    let resources = &environment["update"]["computeResources"];
    assert_eq!(resources["type"], "SPOT", "{environment}");
    assert_eq!(resources["instanceTypes"].as_array().map(Vec::len), Some(3));
    assert_eq!(environment["update"]["computeEnvironment"], "rna");
    let (_, node) = ask(&bucket, get("/v1/nodes/i-1/recommendation")).await;
    assert_eq!(
        (&node["node"], &node["per_hour_usd"]),
        (&json!("i-1"), &json!("0.768"))
    );
    let check = async |url: &str, status: u16, kind: &str| {
        let (answer, body) = ask(&bucket, get(url)).await;
        assert_eq!(answer.status, status, "{body}");
        assert_eq!(body["type"], format!("urn:ebb:problem:{kind}"), "{body}");
    };
    check("/v1/pipelines/dna/recommendation", 404, "pipeline").await;
    check("/v1/environments/dna/recommendation", 404, "environment").await;
    check("/v1/nodes/i-2/recommendation", 404, "node").await;
    let there = "/v1/pipelines/rna/recommendation?region=eu-west-1";
    check(there, 404, "pipeline").await;
    let there = "/v1/environments/rna/recommendation?account=000000000001";
    check(there, 404, "environment").await;
    let mut other = report.targets.environments[0].clone();
    other.account = AccountId::new("000000000001").ok();
    report.targets.environments.push(other);
    let bucket = crate::tests::bucket(&report);
    let check = async |url: &str, status: u16| {
        let (answer, body) = ask(&bucket, get(url)).await;
        assert_eq!(answer.status, status, "{body}");
    };
    check("/v1/environments/rna/recommendation", 409).await;
    check(there, 200).await;
    let (_, none) = ask(&bucket, get("/v1/pipelines?owner=ben")).await;
    assert_eq!(none["total"], 0);
}

#[tokio::test]
async fn what_saves_nothing_is_no_change_to_make() {
    let mut report = report();
    report.targets = targets();
    for saving in [Some(ebb_telemetry::money::Usd::ZERO), None] {
        report.targets.environments[0].saving_a_month = saving;
        let url = "/v1/environments/rna/recommendation";
        let (_, body) = ask(&bucket(&report), get(url)).await;
        assert_eq!(body["update"], Value::Null);
    }
}

#[tokio::test]
async fn a_step_without_a_finding_is_answered_or_says_how_many_runs_it_takes() {
    let mut report = report();
    let align = ebb_workflows::testing::step("align");
    let mut hung = ebb_workflows::testing::step("hung");
    (hung.samples, hung.risk.samples_needed) = (0, 20);
    report.steps = vec![align, hung];
    let bucket = bucket(&report);
    let (answer, body) = ask(&bucket, get("/v1/steps/align/recommendation")).await;
    assert_eq!(answer.status, 200, "{body}");
    assert_eq!(body["step"]["should_ask"]["cores"], 3_000);
    assert!(body.get("recommendationId").is_none());
    let (answer, body) = ask(&bucket, get("/v1/steps/hung/recommendation")).await;
    assert_eq!(
        (answer.status, &body["type"]),
        (409, &json!("urn:ebb:problem:samples"))
    );
    assert!(answer.body.contains("20 more"), "{body}");
}

#[tokio::test]
async fn decisions_are_listed_page_by_page_with_filters() {
    let bucket = bucket(&report());
    let reason = json!({"reason": "a course"});
    for finding in &report().findings[..3] {
        let (answer, body) = ask(&bucket, post(&finding.id, "dismiss", reason.clone())).await;
        assert_eq!(answer.status, 200, "{body}");
    }
    let until = json!({"reason": "a course", "until": "1970-01-02"});
    ask(&bucket, post(&report().findings[3].id, "snooze", until)).await;
    let check = async |query: &str, total: u64, here: usize| {
        let (answer, body) = ask(&bucket, get(&format!("/v1/decisions?{query}"))).await;
        assert_eq!(
            (answer.status, &body["total"]),
            (200, &json!(total)),
            "{query}"
        );
        assert_eq!(ids(&body, "finding").len(), here, "{query}");
        body["next"].as_str().map(str::to_owned)
    };
    let next = check("limit=3", 4, 3).await.expect("another page");
    assert_eq!(check(&format!("limit=3&after={next}"), 4, 1).await, None);
    check("verb=dismiss", 3, 3).await;
    check("verb=snooze&holds=true", 1, 1).await;
    check("holds=false", 0, 0).await;
    check("by=arn:aws:iam::1:user/ana", 4, 4).await;
    check("by=ben", 0, 0).await;
    let (answer, _) = ask(&bucket, get("/v1/decisions")).await;
    let mut again = get("/v1/decisions");
    again["headers"]["if-none-match"] = json!(answer.headers["etag"]);
    assert_eq!(ask(&bucket, again).await.0.status, 304);
}

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
    // Newer prices of AWS replace the built-in ones, and other prices change the version.
    let new_prices = json!({"regions": {"us-east-1": {
        "at": "2026-11-22T00:00:00Z", "on_demand": {"m5.large": 99_000},
    }}});
    let refreshed = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
    refreshed.insert(ebb_cloud::documents::prices::KEY, new_prices.to_string());
    let url = "/v1/prices?instance_type=m5.large&region=us-east-1";
    let (later, body) = ask(&refreshed, get(url)).await;
    assert_eq!(body["items"][0]["basis"], "refresh");
    assert_ne!(later.headers["etag"], answer.headers["etag"]);
}

#[tokio::test]
async fn text_is_of_the_steps_asked_for() {
    let bucket = bucket(&report());
    let (answer, _) = ask(&bucket, get("/v1/texts/nextflow?step=bwa")).await;
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    assert!(answer.body.contains("withName: 'bwa'") && !answer.body.contains("star"));
    assert!(!answer.body.contains("errorStrategy ="), "{}", answer.body);
    let (answer, _) = ask(&bucket, get("/v1/texts/nextflow?with_retry=true")).await;
    assert!(answer.body.contains("errorStrategy ="), "{}", answer.body);
    let (answer, body) = ask(&bucket, get("/v1/texts/nextflow?with_retry=1")).await;
    assert_eq!(answer.status, 400, "{body}");
    let (answer, _) = ask(&bucket, get("/v1/texts/batch?step=bwa")).await;
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    assert!(answer.body.contains("\nresize ") && answer.body.contains(" bwa "));
    let (answer, _) = ask(&bucket, get("/v1/texts/asg")).await;
    assert_eq!(answer.headers["content-type"], "application/json");
}

#[tokio::test]
async fn the_report_is_read_anew_when_there_is_another() {
    let clock = FakeClock::at(Timestamp::UNIX_EPOCH);
    let bucket = FakeObjects::new(clock.clone());
    bucket.insert(LATEST_JSON, ebb_report::json::json(&report()));
    let service = Service::new(Arc::new(bucket.clone()));
    let ask = async |now| {
        let (_, body) = ask_at(&service, get("/v1/findings"), now).await;
        body["total"].as_u64()
    };
    let begin = Instant::now();
    assert_eq!(ask(begin).await, Some(5));
    let fewer = Report {
        findings: Vec::new(),
        ..report()
    };
    clock.advance(Duration::from_secs(29));
    bucket.insert(LATEST_JSON, ebb_report::json::json(&fewer));
    assert_eq!(ask(begin + Duration::from_secs(29)).await, Some(5));
    assert_eq!(ask(begin + Duration::from_secs(31)).await, Some(0));
}

#[tokio::test]
async fn a_finding_is_dismissed_snoozed_and_reopened() {
    let bucket = bucket(&report());
    let finding = report().findings[0].id.clone();
    let check = async |act: &str, body: Value, status: u16, expect: &str| {
        let (answer, answer_body) = ask(&bucket, post(&finding, act, body)).await;
        assert_eq!(answer.status, status, "{act}: {answer_body}");
        assert!(
            answer.body.contains(expect),
            "{answer_body} should say: {expect}"
        );
    };
    let snooze = json!({"reason": "a course", "until": "1970-02-01"});
    check("reopen", json!({}), 404, "urn:ebb:problem:decision").await;
    check("snooze", snooze, 200, "\"holds\":true").await;
    let stored = bucket
        .stored(ebb_cloud::documents::decisions::KEY)
        .expect("it is kept");
    let stored = String::from_utf8_lossy(&stored.bytes).into_owned();
    assert!(stored.contains("arn:aws:iam::1:user/ana") && stored.contains(&finding));
    check("reopen", json!({}), 200, "\"holds\":false").await;
    let reason = json!({"reason": "a course"});
    check("snooze", reason.clone(), 400, "a snooze needs an end").await;
    check("dismiss", reason, 200, "\"dismiss\"").await;
    let past = json!({"reason": "a course", "until": "1969-01-01"});
    check("snooze", past, 409, "in the past").await;
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
        assert!(
            bucket
                .stored(ebb_cloud::documents::decisions::KEY)
                .is_none()
        );
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

pub(super) fn post(finding: &str, act: &str, body: Value) -> Value {
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

#[tokio::test]
async fn runs_are_listed_with_the_labels_of_their_steps_and_the_share_that_is_joined() {
    let make_run = |run: &str, by| WorkflowRun {
        run: run.to_owned(),
        by,
        pipeline: by.map(|_| "rna".to_owned()),
        steps: 2,
        running: 0,
        failed: 0,
        cpu: CpuTime(0),
        from: Timestamp::UNIX_EPOCH,
        to: Timestamp::UNIX_EPOCH,
        samples: Vec::new(),
        samples_left_out: 0,
        origin: Origin::Simulated,
        cost_breakdown: None,
    };
    let mut report = report();
    report.runs = Runs {
        steps: 4,
        joined: [(JoinedBy::Label, 2)].into(),
        named: [(StepNameSource::Label, 2)].into(),
        runs: vec![
            make_run("r7", Some(JoinedBy::Label)),
            make_run(UNASSIGNED, None),
        ],
        task_labels: vec![TaskLabels {
            node: NodeId::new("i-1").expect("a node id"),
            step: "align".to_owned(),
            key: "t1".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            run: "r7".to_owned(),
            sample: None,
            scheduler_labels: SchedulerLabels {
                trace_id: Some("4bf9".to_owned()),
                labels: [("<b>".to_owned(), "\u{1b}".to_owned())].into(),
            },
        }],
        ..Runs::default()
    };
    let bucket = bucket(&report);
    let (_, all) = ask(&bucket, get("/v1/runs")).await;
    assert_eq!(
        (&all["joined_ppm"], &all["total"]),
        (&json!(500_000), &json!(2))
    );
    let labels = &all["items"][0]["task_labels"][0];
    assert_eq!(
        (&labels["trace_id"], &labels["labels"]),
        (&json!("4bf9"), &json!({"<b>": "\u{1b}"}))
    );
    let (_, one) = ask(&bucket, get("/v1/runs?by=label&pipeline=rna")).await;
    assert_eq!(
        (&one["total"], &one["items"][0]["run"]),
        (&json!(1), &json!("r7"))
    );
    let (_, none) = ask(&bucket, get("/v1/runs?by=name")).await;
    assert_eq!(none["total"], 0);
}

#[tokio::test]
async fn costs_are_divided_by_the_wanted_names() {
    let mut report = report();
    report.costs = ebb_report::testing::costs("rnaseq");
    let gap = Gap::new("cost export bills 2026-03-02", "only a part");
    report.gaps.push(gap);
    let bucket = bucket(&report);
    let check = async |query: &str, by: Value, names: Value, total: &str| {
        let (answer, body) = ask(&bucket, get(&format!("/v1/costs{query}"))).await;
        assert_eq!(answer.status, 200, "{query}: {body}");
        let costs = &body["costs"];
        assert_eq!(
            (&body["schema"], &costs["by"]),
            (&json!("ebb.costs/1"), &by)
        );
        assert_eq!(costs["rows"][0]["names"], names, "{query}");
        assert_eq!(costs["total_usd"], total, "{query}");
        let gaps = json!([{"scope": "cost export bills 2026-03-02", "reason": "only a part", "denied": null}]);
        assert_eq!(body["bill_gaps"], gaps);
    };
    let name = json!({"name": "rnaseq"});
    check("", json!(["pipeline"]), json!([name]), "10.00").await;
    let both = json!(["step", "user"]);
    check(
        "?by=step,user&month=2026-03",
        both,
        json!([name, name]),
        "10.00",
    )
    .await;
    let none = json!(["cost_centre"]);
    check("?by=cost_centre&month=2026-02", none, Value::Null, "0.00").await;
    for (query, expect) in [
        ("by=team", "costs have no 'team'"),
        ("by=run,step", "no costs by run and step together"),
        ("month=march", "'march' is no month"),
        ("year=2026", "unknown field `year`"),
    ] {
        let (answer, body) = ask(&bucket, get(&format!("/v1/costs?{query}"))).await;
        assert_eq!(answer.status, 400, "{query}");
        let detail = body["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(expect), "{detail}");
    }
}

/// The event is the example of the developer guide, with the caller of a signed request.
#[tokio::test]
async fn a_whole_event_of_the_gateway_is_a_request() {
    let iam = json!({
        "accessKey": "AKIAEXAMPLE", "accountId": "000000000001", "callerId": "AIDAEXAMPLE",
        "cognitoIdentity": null, "principalOrgId": null,
        "userArn": "arn:aws:iam::000000000001:user/ana", "userId": "AIDAEXAMPLE",
    });
    let event = json!({
        "version": "2.0",
        "routeKey": "POST /v1/findings/{finding}/dismiss",
        "rawPath": format!("/v1/findings/{}/dismiss", report().findings[0].id),
        "rawQueryString": "",
        "headers": {"Content-Type": "application/json", "X-Amz-Date": "20260101T000000Z"},
        "requestContext": {
            "accountId": "000000000001", "apiId": "api-id", "authentication": null,
            "authorizer": {"iam": iam},
            "domainName": "id.execute-api.us-east-1.amazonaws.com", "domainPrefix": "id",
            "http": {
                "method": "POST", "path": "/v1/findings", "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1", "userAgent": "agent",
            },
            "requestId": "id", "routeKey": "$default", "stage": "$default",
            "time": "12/Mar/2020:19:03:58 +0000", "timeEpoch": 1_583_348_638_390_i64,
        },
        "pathParameters": {"finding": report().findings[0].id},
        "body": "eyJyZWFzb24iOiAiYSBjb3Vyc2UifQ==",
        "isBase64Encoded": true,
    });
    let (answer, body) = ask(&bucket(&report()), event.clone()).await;
    assert_eq!(answer.status, 200, "{body}");
    assert_eq!(body["decision"]["by"], "arn:aws:iam::000000000001:user/ana");
    assert_eq!(body["decision"]["reason"], "a course");
    let mut broken = event;
    broken["body"] = json!("?");
    let (answer, body) = ask(&bucket(&report()), broken).await;
    assert_eq!(answer.status, 400, "{body}");
}
