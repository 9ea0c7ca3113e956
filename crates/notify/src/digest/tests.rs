//! Tests of channels that refuse messages or do not answer.

use std::sync::Mutex;

use async_trait::async_trait;
use ebb_catalog::catalog::Catalogue;
use ebb_model::decision::Decisions;
use ebb_model::inventory::Inventory;
use ebb_model::policy::Policy;
use ebb_report::testing;
use jiff::tz::TimeZone;

use super::*;

/// The seconds until a receiver answers, and its error.
type ScriptedAnswer = (u64, Option<&'static str>);

const ACCEPTED: ScriptedAnswer = (0, None);

async fn give((seconds, error): ScriptedAnswer) -> CloudResult<()> {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    match error {
        None => Ok(()),
        Some(message) => Err(CloudError::Failed {
            operation: "HTTP POST".to_owned(),
            message: message.to_owned(),
        }),
    }
}

/// Webhooks that answer by their name and the number of earlier requests.
struct ScriptedHooks {
    answer: fn(&str, usize) -> ScriptedAnswer,
    requests: Mutex<Vec<String>>,
}

impl ScriptedHooks {
    fn new(answer: fn(&str, usize) -> ScriptedAnswer) -> Self {
        let requests = Mutex::default();
        Self { answer, requests }
    }

    /// Number of requests to a webhook.
    fn request_count(&self, name: &str) -> usize {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().filter(|one| *one == name).count()
    }
}

#[async_trait]
impl Hooks for ScriptedHooks {
    async fn key(&self, _: &str) -> CloudResult<Option<String>> {
        Ok(Some("key".to_owned()))
    }

    async fn post(&self, name: &str, _: &str, _: &str) -> CloudResult<()> {
        let answer = (self.answer)(name, self.request_count(name));
        self.requests
            .lock()
            .expect("no panic")
            .push(name.to_owned());
        give(answer).await
    }
}

/// A chat that stores the thread of each message, and refuses one thread.
#[derive(Default)]
struct LockedChat(Mutex<Vec<Option<String>>>);

#[async_trait]
impl Chat for LockedChat {
    async fn post(&self, post: &ChatPost) -> CloudResult<Option<String>> {
        if post.thread.as_deref() == Some("2") {
            give((0, Some("restricted_action_thread_locked"))).await?;
        }
        self.0.lock().expect("no panic").push(post.thread.clone());
        Ok(Some("9".to_owned()))
    }

    async fn find(&self, _: &ChatSearch) -> CloudResult<Option<String>> {
        Ok(None)
    }
}

fn policy(file: &str) -> Policy {
    Policy::parse(file).expect("a policy")
}

fn news<'a>(policy: &'a Policy, report: &'a Report, remembered: &'a mut Remembered) -> News<'a> {
    News {
        report,
        routes: &policy.route,
        quiet: &policy.quiet,
        links: None,
        webhooks: &policy.webhooks,
        digest: &policy.digest,
        first_verdict: None,
        remembered,
    }
}

async fn swept(channels: &Channels<'_>, mut news: News<'_>) -> Word {
    plan(channels, &mut news).await;
    tell(channels, news).await
}

async fn swept_by(hooks: &ScriptedHooks, file: &str, remembered: &mut Remembered) -> Word {
    let channels = Channels {
        hooks: Some(hooks),
        ..Channels::default()
    };
    let (policy, report) = (policy(file), testing::small());
    swept(&channels, news(&policy, &report, remembered)).await
}

fn reasons(word: &Word) -> Vec<&str> {
    let failures = word.failures.iter();
    failures.map(|one| one.reason.as_str()).collect()
}

const TWO: &str = "[[webhooks]]\nname = \"dead\"\ntemplate = \"generic\"\n\
    [[webhooks]]\nname = \"well\"\ntemplate = \"generic\"\n";

const ONE: &str = "[[webhooks]]\nname = \"well\"\ntemplate = \"generic\"\n";

#[tokio::test(start_paused = true)]
async fn a_dead_webhook_takes_no_time_of_the_others() {
    let late = "timed out waiting for a response";
    let hooks = ScriptedHooks::new(|name, _| match name {
        "dead" => (10, Some("timed out waiting for a response")),
        _ => ACCEPTED,
    });
    let mut remembered = Remembered::default();
    let word = swept_by(&hooks, TWO, &mut remembered).await;
    assert_eq!(word.channels, ["webhook/well"]);
    let reason = format!("HTTP POST failed: {late}; 3 changes wait for the next sweep");
    assert_eq!(reasons(&word), [reason]);
    assert_eq!(
        (hooks.request_count("dead"), hooks.request_count("well")),
        (3, 3)
    );
    let word = swept_by(&hooks, TWO, &mut remembered).await;
    assert_eq!((word.channels.len(), word.failures.len()), (0, 1));
    let counts = (hooks.request_count("dead"), hooks.request_count("well"));
    assert_eq!(counts, (4, 3), "a dead webhook gets one request");
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_webhook_does_not_accept_in_time_is_a_failure_and_is_sent_later() {
    let hooks = ScriptedHooks::new(|_, _| (15, None));
    let mut remembered = Remembered::default();
    let word = swept_by(&hooks, ONE, &mut remembered).await;
    let expect = "the time for the channel is over; 1 change waits for the next sweep";
    assert_eq!(
        (hooks.request_count("well"), reasons(&word)),
        (2, vec![expect])
    );
    assert!(remembered.failed.contains_key("webhook/well"));
    let word = swept_by(&hooks, ONE, &mut remembered).await;
    assert_eq!((hooks.request_count("well"), word.failures.len()), (3, 0));
    assert!(remembered.failed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_holds_back_no_other_one() {
    let check =
        async |answer: fn(&str, usize) -> ScriptedAnswer, requests: usize, accepted: usize| {
            let hooks = ScriptedHooks::new(answer);
            let mut remembered = Remembered::default();
            let word = swept_by(&hooks, ONE, &mut remembered).await;
            assert_eq!(
                (hooks.request_count("well"), word.failures.len()),
                (requests, 1)
            );
            let history = &remembered.channels["webhook/well"];
            assert_eq!(history.findings.len(), accepted);
            assert_eq!(history.sending.len(), 3 - accepted);
            let failed = &remembered.failed["webhook/well"];
            assert!(failed.contains("HTTP 4"), "{failed}");
        };
    let first = |_: &str, before: usize| match before {
        0 => (0, Some("HTTP 400: bad")),
        _ => ACCEPTED,
    };
    check(first, 3, 2).await;
    check(|_, _| (0, Some("HTTP 400: bad")), 3, 0).await;
    check(|_, _| (0, Some("HTTP 401: bad")), 1, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_locked_thread_holds_back_no_other_thread() {
    let (chat, policy) = (LockedChat::default(), Policy::default());
    let (mut report, mut remembered) = (testing::small(), Remembered::default());
    let known = (&Inventory::default(), Catalogue::built_in());
    let decisions = Decisions::default();
    remembered.lives.advance(&mut report, known, &decisions);
    remembered.greeted.insert(SLACK.to_owned());
    let threads = &mut remembered
        .channels
        .entry(SLACK.to_owned())
        .or_default()
        .threads;
    for (finding, thread) in report.findings.iter().zip(["1", "2", "3"]) {
        threads.insert(finding.id.clone(), thread.to_owned());
    }
    let channels = Channels {
        chat: Some(&chat),
        ..Channels::default()
    };
    let word = swept(&channels, news(&policy, &report, &mut remembered)).await;
    let posted = chat.0.lock().expect("no panic").clone();
    assert_eq!(posted, [Some("1".to_owned()), Some("3".to_owned())]);
    assert_eq!((word.channels.len(), word.failures.len()), (1, 1));
    assert!(remembered.failed.contains_key(SLACK));
    let history = &remembered.channels[SLACK];
    assert_eq!((history.findings.len(), history.threads.len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_weekly_digest_that_failed_waits_for_the_end_of_the_quiet_hours() {
    let day = testing::small().at.to_zoned(TimeZone::UTC).strftime("%a");
    let day = day.to_string().to_lowercase();
    let days = format!("[quiet]\ndays = [\"{day}\"]\n");
    let digest = "[digest]\nweekly = \"mon 08:00 UTC\"\nslack = \"finance\"\n";
    let check = async |file: &str, is_set: bool, expect: usize| {
        let (chat, mut report) = (LockedChat::default(), testing::small());
        report.findings.clear();
        let mut policy = policy(file);
        policy.digest.weekly = policy.digest.weekly.filter(|_| is_set);
        let mut remembered = Remembered::default();
        remembered.greeted.insert(SLACK.to_owned());
        let begun = &mut remembered.weekly.begun;
        begun.insert("weekly/slack/finance".to_owned(), report.at);
        let channels = Channels {
            chat: Some(&chat),
            ..Channels::default()
        };
        tell(&channels, news(&policy, &report, &mut remembered)).await;
        let posted = chat.0.lock().expect("no panic").len();
        assert_eq!(posted, expect, "{file} {is_set}");
    };
    check(digest, true, 1).await;
    check(&format!("{digest}{days}"), true, 0).await;
    check(digest, false, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_sweep_without_channels_leaves_what_they_know_for_a_month() {
    let policy = Policy::default();
    let known = (&Inventory::default(), Catalogue::built_in());
    let messages_after = async |days: i64| {
        let (chat, mut remembered) = (LockedChat::default(), Remembered::default());
        remembered.greeted.insert(SLACK.to_owned());
        let with_chat = Channels {
            chat: Some(&chat),
            ..Channels::default()
        };
        let without = Channels::default();
        let mut at = testing::small().at;
        for (channels, later) in [
            (&with_chat, 0),
            (&without, 1),
            (&without, days),
            (&with_chat, 1),
        ] {
            at = at
                .checked_add(SignedDuration::from_hours(24 * later))
                .expect("a time");
            let mut report = testing::small();
            report.at = at;
            remembered
                .lives
                .advance(&mut report, known, &Decisions::default());
            swept(channels, news(&policy, &report, &mut remembered)).await;
        }
        chat.0.lock().expect("no panic").len()
    };
    assert_eq!(messages_after(1).await, 1, "the findings are known");
    // The welcome, and the findings once more.
    assert_eq!(messages_after(31).await, 3, "the channel is a new one");
}
