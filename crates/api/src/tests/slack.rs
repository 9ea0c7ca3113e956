//! Actions of Slack: only signed, recent requests change something, and each only once.

use ebb_cloud::documents::decisions;
use ebb_model::decision::{Decisions, Verb};
use ebb_model::slack_action::block_id;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::parts::post;
use super::*;
use crate::page_access::PageAccess;
use crate::slack_signature::SigningSecret;

const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

fn sign(secret: &str, at: i64, body: &str) -> String {
    let key = <Hmac<Sha256>>::new_from_slice(secret.as_bytes()).expect("a key");
    let signed = key.chain_update(format!("v0:{at}:{body}")).finalize();
    let hex = signed.into_bytes();
    let hex: String = hex.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v0={hex}")
}

/// An event as the gateway passes it: a form in Base64.
fn event(at: i64, body: &str, signature: &str) -> Value {
    use base64::Engine;
    json!({
        "rawPath": "/v1/slack/actions",
        "headers": {
            "content-type": "application/x-www-form-urlencoded",
            "x-slack-request-timestamp": at.to_string(),
            "x-slack-signature": signature,
        },
        "body": base64::prelude::BASE64_STANDARD.encode(body),
        "isBase64Encoded": true,
        "requestContext": {"http": {"method": "POST"}},
    })
}

fn form(payload: &Value) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("payload", &payload.to_string()).finish()
}

fn payload(finding: &str, action: Value) -> Value {
    let mut action = action;
    action["block_id"] = block_id(finding).into();
    json!({
        "type": "block_actions",
        "user": {"id": "U0ANA", "username": "ana", "team_id": "T1"},
        "response_url": "https://hooks.example.org/x",
        "actions": [action],
    })
}

fn signed(payload: &Value) -> Value {
    let body = form(payload);
    event(0, &body, &sign(SECRET, 0, &body))
}

struct Bench {
    bucket: FakeObjects,
    service: Service,
}

impl Bench {
    fn new(secret: Option<&str>) -> Self {
        let bucket = bucket(&report());
        let secret = secret.and_then(SigningSecret::new);
        let service = Service::with_secrets(Arc::new(bucket.clone()), secret, PageAccess::Nobody);
        Self { bucket, service }
    }

    async fn ask(&self, event: Value) -> (u16, Value) {
        let (answer, body) = ask_at(&self.service, event, Instant::now()).await;
        (answer.status, body)
    }

    async fn decided(&self) -> Decisions {
        decisions::load(&self.bucket).await.expect("readable")
    }
}

#[tokio::test]
async fn a_button_stores_the_decision_of_its_user() {
    let bench = Bench::new(Some(SECRET));
    let finding = report().findings[0].id.clone();
    let check = async |action: Value, expect: &str| {
        let (status, body) = bench.ask(signed(&payload(&finding, action))).await;
        assert_eq!((status, &body["response_type"]), (200, &json!("ephemeral")));
        let text = body["text"].as_str().unwrap_or_default();
        assert!(text.contains(expect), "{text}");
    };
    check(json!({"action_id": "ebb_dismiss"}), "Dismissed").await;
    let stored = bench.decided().await.findings[&finding].clone();
    assert_eq!((stored.verb, stored.until), (Verb::Dismiss, None));
    assert_eq!(stored.by, "slack:U0ANA (ana)");
    let (_, list) = bench.ask(get("/v1/findings")).await;
    assert!(
        !list.to_string().contains(&finding),
        "it is set aside at once"
    );
    check(json!({"action_id": "ebb_snooze"}), "Snoozed for 7 days").await;
    let stored = bench.decided().await.findings[&finding].clone();
    let week = "1970-01-08T00:00:00Z".parse().ok();
    assert_eq!((stored.verb, stored.until), (Verb::Snooze, week));
    let assign = json!({"action_id": "ebb_assign", "selected_user": "U0BEN"});
    check(assign, "Assigned to <@U0BEN>").await;
    let assignee = bench.decided().await.assignees[&finding].clone();
    assert_eq!(assignee.slack_user(), Some("U0BEN"));
    check(json!({"action_id": "another"}), "no such button").await;
    let gone = signed(&payload(
        "idle_node/r/gone",
        json!({"action_id": "ebb_dismiss"}),
    ));
    let (status, body) = bench.ask(gone).await;
    assert_eq!(status, 200);
    assert!(
        body["text"]
            .as_str()
            .is_some_and(|text| text.contains("no longer"))
    );
}

#[tokio::test]
async fn what_slack_did_not_sign_changes_nothing() {
    let bench = Bench::new(Some(SECRET));
    let finding = report().findings[0].id.clone();
    let body = form(&payload(&finding, json!({"action_id": "ebb_dismiss"})));
    let good = sign(SECRET, 0, &body);
    let check = async |event: Value, status: u16, kind: &str| {
        let (got, answer) = bench.ask(event).await;
        assert_eq!(got, status, "{answer}");
        assert_eq!(answer["type"], format!("urn:ebb:problem:{kind}"));
        assert_eq!(bench.decided().await, Decisions::default());
    };
    check(event(0, &body, &sign("other", 0, &body)), 401, "signature").await;
    check(event(0, &format!("{body}&x=1"), &good), 401, "signature").await;
    check(event(1, &body, &good), 401, "signature").await;
    for at in [-301, 301, i64::MIN, i64::MAX] {
        check(event(at, &body, &sign(SECRET, at, &body)), 401, "signature").await;
    }
    for signature in [
        "",
        "v0=",
        "v1=00",
        &good[..66],
        &format!("{good}0"),
        &good[3..],
    ] {
        check(event(0, &body, signature), 401, "signature").await;
    }
    let mut missing = event(0, &body, &good);
    missing["headers"]["x-slack-signature"] = Value::Null;
    missing["headers"]
        .as_object_mut()
        .expect("headers")
        .remove("x-slack-signature");
    check(missing, 401, "signature").await;
    for text in [
        "",
        "payload=",
        "payload=%7B%7D",
        "payload=[]",
        "x=1",
        "payload=%FF",
    ] {
        check(event(0, text, &sign(SECRET, 0, text)), 400, "query").await;
    }
    let long = format!("payload={}", "x".repeat(300_000));
    check(event(0, &long, &sign(SECRET, 0, &long)), 400, "query").await;
    let mut user = payload(&finding, json!({"action_id": "ebb_dismiss"}));
    user["user"]["id"] = json!("<!channel>");
    check(signed(&user), 400, "query").await;
    let nobody = json!({"action_id": "ebb_assign", "selected_user": "x> <!here"});
    check(signed(&payload(&finding, nobody)), 400, "query").await;
    let mut get = event(0, &body, &good);
    get["requestContext"]["http"]["method"] = json!("GET");
    check(get, 405, "method").await;
}

#[tokio::test]
async fn a_repeated_request_is_refused_also_after_the_decision_was_withdrawn() {
    let bench = Bench::new(Some(SECRET));
    let finding = report().findings[0].id.clone();
    let request = signed(&payload(&finding, json!({"action_id": "ebb_dismiss"})));
    assert_eq!(bench.ask(request.clone()).await.0, 200);
    let (status, _) = bench.ask(post(&finding, "reopen", json!({}))).await;
    assert_eq!(status, 200);
    let (status, body) = bench.ask(request).await;
    assert_eq!(
        (status, &body["type"]),
        (409, &json!("urn:ebb:problem:undecidable"))
    );
    assert!(bench.decided().await.findings.is_empty());
}

#[tokio::test]
async fn without_a_secret_the_path_does_not_exist() {
    for secret in [None, Some(""), Some(" ")] {
        let bench = Bench::new(secret);
        let finding = report().findings[0].id.clone();
        let body = form(&payload(&finding, json!({"action_id": "ebb_dismiss"})));
        let signature = sign(secret.unwrap_or_default(), 0, &body);
        let (status, answer) = bench.ask(event(0, &body, &signature)).await;
        assert_eq!(
            (status, &answer["type"]),
            (404, &json!("urn:ebb:problem:path"))
        );
    }
}

/// The example of Slack's page "Verifying requests from Slack".
#[tokio::test]
async fn a_signature_is_the_one_of_slacks_example() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
        &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner\
        &command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands\
        %2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
        &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let expect = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    assert_eq!(sign(SECRET, 1_531_420_618, body), expect);
    let bench = Bench::new(Some(SECRET));
    let event = serde_json::from_value(event(1_531_420_618, body, expect)).expect("an event");
    let at = Timestamp::from_second(1_531_420_700).expect("a time");
    let reply = gateway::answer(&bench.service, event, Instant::now(), at).await;
    assert_eq!(
        reply.status_code, 400,
        "signed, but a command and no action"
    );
}

#[tokio::test]
async fn a_finding_shows_its_assignee() {
    let mut report = report();
    let finding = report.findings[0].id.clone();
    let assignee = ebb_model::decision::Assignee {
        who: "slack:U0BEN".to_owned(),
        by: "ana".to_owned(),
        at: Timestamp::UNIX_EPOCH,
    };
    report.history.assigned.insert(finding.clone(), assignee);
    let (_, body) = ask(&bucket(&report), get("/v1/findings")).await;
    let items = body["items"].as_array().expect("a list");
    for item in items {
        let is_it = item["id"] == finding.as_str();
        assert_eq!(item["assignee"]["who"] == "slack:U0BEN", is_it, "{item}");
    }
}
