//! A message that shows whether each channel works. It needs no report, and it changes no record of
//! deliveries. Like the welcome message, it goes to the places of findings without a route.

use ebb_cloud::ports::{Chat, ChatPost, Email};
use ebb_model::policy::webhook::{BuiltinTemplate, Webhook};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cloud_event::event_id;
use crate::digest::{Channels, SLACK, TOPIC, WEBHOOK, email_channel, hook_channel};
use crate::retry::{Failure, attempt, attempt_without_id};
use crate::webhook_template::WebhookTemplate;

/// The event with which a sweeper function sends test messages instead of a sweep.
pub const REQUEST: &str = r#"{"send_test_message":true}"#;

const SUBJECT: &str = "Ebb: test message";

/// Whether the event of a function is [`REQUEST`].
pub fn is_request(event: &Value) -> bool {
    event["send_test_message"] == true
}

/// The answer of a sweeper function to [`REQUEST`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestAnswer {
    /// One entry for each channel; empty if none is configured.
    pub channel_tests: Vec<ChannelTest>,
}

/// The test of one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelTest {
    /// Name of the channel, as in the delivery state.
    pub channel: String,
    /// The result.
    #[serde(flatten)]
    pub result: ChannelResult,
}

/// The result of one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", content = "reason", rename_all = "snake_case")]
pub enum ChannelResult {
    /// The service of the channel accepted the message.
    Accepted,
    /// The message could not be sent, with the reason.
    Refused(String),
    /// The settings are valid, and nothing was sent, with the reason.
    NotSent(String),
}

/// Sends the test message to each channel. The time is that of the message.
pub async fn send(
    channels: &Channels<'_>,
    webhooks: &[Webhook],
    now: Timestamp,
) -> Vec<ChannelTest> {
    let mut tests = Vec::new();
    if let Some(chat) = channels.chat {
        tests.push(sent(SLACK, post(chat, now).await));
    }
    if let Some((mailer, addresses)) = channels.mail {
        for to in &addresses.to {
            let channel = email_channel(to);
            let email = email(&addresses.from, to, now);
            let done = attempt_without_id(&channel, || mailer.send(&email)).await;
            tests.push(sent(&channel, done));
        }
    }
    let (id, event) = event(now);
    if let Some(topic) = channels.topic {
        let done = attempt(TOPIC, || topic.publish(SUBJECT, &event)).await;
        tests.push(sent(TOPIC, done));
    }
    if let Some(events) = channels.webhook {
        let done = attempt(WEBHOOK, || events.send(&id, &event)).await;
        tests.push(sent(WEBHOOK, done));
    }
    for webhook in webhooks {
        let channel = hook_channel(webhook);
        let result = check_hook(channels, webhook, &channel).await;
        let result = match result {
            Ok(()) => ChannelResult::NotSent(
                "secret and template are valid; a request would create an alert or an issue"
                    .to_owned(),
            ),
            Err(failure) => ChannelResult::Refused(failure.reason),
        };
        tests.push(ChannelTest { channel, result });
    }
    tests
}

fn sent(channel: &str, done: Result<(), Failure>) -> ChannelTest {
    ChannelTest {
        channel: channel.to_owned(),
        result: match done {
            Ok(()) => ChannelResult::Accepted,
            Err(failure) => ChannelResult::Refused(failure.reason),
        },
    }
}

async fn post(chat: &dyn Chat, now: Timestamp) -> Result<(), Failure> {
    let post = ChatPost {
        channel: None,
        thread: None,
        body: json!({"text": text(now)}),
        id: None,
    };
    let done = attempt_without_id(SLACK, || chat.post(&post)).await;
    done.map(drop)
}

/// Checks the secret and the template of a webhook of the policy. Nothing is sent, because PagerDuty
/// and Jira take each request for an alert or an issue.
async fn check_hook(
    channels: &Channels<'_>,
    webhook: &Webhook,
    channel: &str,
) -> Result<(), Failure> {
    let Some(hooks) = channels.hooks else {
        return Err(Failure {
            channel: channel.to_owned(),
            reason: "the secret of the webhooks is not set up".to_owned(),
        });
    };
    let key = attempt(channel, || hooks.key(&webhook.name)).await?;
    if webhook.template == Some(BuiltinTemplate::PagerDuty) && key.is_none() {
        return Err(Failure {
            channel: channel.to_owned(),
            reason: "the secret has no key (PagerDuty's routing key)".to_owned(),
        });
    }
    WebhookTemplate::check(webhook).map_err(|error| Failure::new(channel, &error))
}

fn text(now: Timestamp) -> String {
    format!(
        "Ebb test message of {}. This channel works. Somebody ran `ebb doctor --send-test`; nothing \
         is wrong, and nothing is to do.",
        now.strftime("%Y-%m-%d %H:%M UTC")
    )
}

fn email(from: &str, to: &str, now: Timestamp) -> Email {
    let text = text(now);
    Email {
        from: from.to_owned(),
        to: vec![to.to_owned()],
        subject: SUBJECT.to_owned(),
        html: format!("<p>{text}</p>"),
        text,
    }
}

/// The CloudEvent for programs, with its id.
fn event(now: Timestamp) -> (String, String) {
    let id = event_id("test", now, "");
    let event = json!({
        "specversion": "1.0",
        "id": id,
        "source": "/ebb/sweeper",
        "type": "io.ebb.channel.test.v1",
        "time": now,
        "datacontenttype": "application/json",
        "data": {"text": text(now)},
    });
    (id, event.to_string())
}

#[cfg(test)]
mod tests {
    use ebb_cloud::failing::{Failing, Fault};
    use ebb_cloud::fake::{FakeChat, FakeEvents, FakeHooks, FakeMailer, FakeTopic};
    use ebb_model::policy::Policy;

    use super::*;
    use crate::digest::Addresses;

    fn at() -> Timestamp {
        Timestamp::from_second(1_790_000_000).expect("a time")
    }

    fn addresses() -> Addresses {
        Addresses {
            from: "ebb@example.org".to_owned(),
            to: vec!["a@example.org".to_owned(), "b@example.org".to_owned()],
        }
    }

    fn webhooks(text: &str) -> Vec<Webhook> {
        Policy::parse(text).expect("a policy").webhooks
    }

    #[tokio::test]
    async fn each_channel_gets_one_message_and_no_alert_is_created() {
        let (chat, mailer, topic) = (
            FakeChat::default(),
            FakeMailer::default(),
            FakeTopic::default(),
        );
        let (events, hooks) = (FakeEvents::default(), FakeHooks::default());
        let addresses = addresses();
        let channels = Channels {
            chat: Some(&chat),
            mail: Some((&mailer, &addresses)),
            topic: Some(&topic),
            webhook: Some(&events),
            hooks: Some(&hooks),
        };
        let webhooks = webhooks("[[webhooks]]\nname = \"oncall\"\ntemplate = \"pagerduty\"");
        let tests = send(&channels, &webhooks, at()).await;
        let names: Vec<&str> = tests.iter().map(|test| test.channel.as_str()).collect();
        let expect = [
            "slack",
            "email/a@example.org",
            "email/b@example.org",
            "topic",
            "webhook",
            "webhook/oncall",
        ];
        assert_eq!(names, expect);
        let (last, others) = tests.split_last().expect("some");
        assert!(
            others
                .iter()
                .all(|test| test.result == ChannelResult::Accepted),
            "{tests:?}"
        );
        assert!(matches!(last.result, ChannelResult::NotSent(_)), "{last:?}");
        assert!(hooks.sent().is_empty());
        let posted = chat.posted();
        let words = posted[0].body["text"].as_str().unwrap_or_default();
        assert!(
            words.starts_with("Ebb test message of 2026-09-21"),
            "{words}"
        );
        assert_eq!(mailer.sent()[1].to, ["b@example.org"]);
        let (id, body) = &events.sent()[0];
        let event: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((event["id"].as_str(), id.len()), (Some(id.as_str()), 64));
        assert_eq!(
            topic.published(),
            [(SUBJECT.to_owned(), body.clone())],
            "the same event"
        );
    }

    #[tokio::test]
    async fn a_channel_that_fails_is_named_with_its_reason_and_the_others_are_tested() {
        let chat = Failing::new(FakeChat::default(), &Fault::always("chat.post"));
        let mailer = FakeMailer::default();
        let addresses = addresses();
        let channels = Channels {
            chat: Some(&chat),
            mail: Some((&mailer, &addresses)),
            ..Channels::default()
        };
        let webhooks = webhooks("[[webhooks]]\nname = \"oncall\"\ntemplate = \"pagerduty\"");
        let tests = send(&channels, &webhooks, at()).await;
        let of = |channel: &str| {
            let test = tests.iter().find(|test| test.channel == channel);
            test.map(|test| test.result.clone()).expect("a test")
        };
        let refused = |words: &str, result| match result {
            ChannelResult::Refused(why) => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        };
        refused("made to fail", of("slack"));
        refused("not set up", of("webhook/oncall"));
        assert_eq!(of("email/a@example.org"), ChannelResult::Accepted);
    }

    #[test]
    fn a_request_is_recognized_and_an_answer_is_read_as_it_was_written() {
        let request: Value = serde_json::from_str(REQUEST).expect("JSON");
        assert!(is_request(&request));
        for other in [
            json!({}),
            json!({"send_test_message": 1}),
            json!(null),
            json!([]),
        ] {
            assert!(!is_request(&other), "{other}");
        }
        let results = [
            ChannelResult::Accepted,
            ChannelResult::Refused("HTTP 404".to_owned()),
        ];
        let answer = TestAnswer {
            channel_tests: results
                .map(|result| ChannelTest {
                    channel: "slack".to_owned(),
                    result,
                })
                .to_vec(),
        };
        let text = serde_json::to_string(&answer).expect("JSON");
        assert!(text.contains(r#"{"channel":"slack","result":"accepted"}"#));
        assert_eq!(
            serde_json::from_str::<TestAnswer>(&text).expect("the same"),
            answer
        );
    }
}
