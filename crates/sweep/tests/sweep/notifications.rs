//! A new finding is notified once. The report files are written whether or not the notification
//! succeeds.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_cloud::failing::{Fault, Moment, Then};
use ebb_cloud::ports::CloudError;
use ebb_model::decision::{Decision, Verb};
use ebb_model::finding_kind::FindingKind;
use ebb_model::policy::quiet_hours::QuietPolicy;
use ebb_model::policy::route::Route;
use ebb_model::policy::weekly_digest::DigestPolicy;
use ebb_model::policy::weekly_schedule::Day;
use ebb_model::visibility_gap::Gap;

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_sweep::run::Summary;

use crate::sample::{self, Work};
use crate::world::World;
use ebb_cloud::documents::decisions;

const EMAIL: &str = "email/team@example.com";

async fn swept(world: &World) -> Summary {
    world
        .sweep(&Fault::never())
        .await
        .expect("nothing fails it")
}

/// The number of posts, emails and events so far.
fn words(world: &World) -> (usize, usize, usize) {
    let events = world.topic.published().len();
    (world.chat.posted().len(), world.mailer.sent().len(), events)
}

/// A world that has sent its first messages, with one finding that the next sweep detects.
async fn greeted() -> World {
    let world = World::new();
    swept(&world).await;
    assert_eq!(words(&world), (1, 1, 0), "hello");
    world.fill();
    world
}

async fn busy(world: &World) -> Summary {
    world.clock.advance(Duration::from_secs(60));
    world.send(1, &sample::message(1, 6..8, Work::Busy));
    swept(world).await
}

#[tokio::test]
async fn one_hello_says_what_is_seen_and_what_is_missing() {
    let world = World::new();
    world.mailer.sandbox(true);
    swept(&world).await;
    let hello = world.mailer.sent().remove(0);
    assert_eq!(hello.subject, "Ebb is running");
    for expect in [
        "2 running instances: 0 with a probe, 0 with metrics only",
        "No probe has sent data yet",
        "SES is in its sandbox",
        "2 instances without a probe",
    ] {
        assert!(hello.text.contains(expect), "{expect}: {}", hello.text);
    }
    assert!(
        world.chat.posted()[0]
            .body
            .to_string()
            .contains("Ebb is running")
    );
    swept(&world).await;
    assert_eq!(words(&world), (1, 1, 0), "and only once");
}

#[tokio::test]
async fn what_is_new_is_told_once_in_each_channel() {
    let world = greeted().await;
    let summary = swept(&world).await;
    assert_eq!(
        (summary.new, summary.notified_channels),
        (
            1,
            ["webhook", "topic", "slack", EMAIL]
                .map(str::to_owned)
                .to_vec()
        )
    );
    assert_eq!(words(&world), (2, 2, 1));
    let email = &world.mailer.sent()[1];
    assert!(email.subject.ends_with("(1 new)"), "{}", email.subject);
    assert!(email.text.starts_with("1 new\n"), "{}", email.text);

    world.clock.advance(Duration::from_secs(60));
    let summary = swept(&world).await;
    assert_eq!((summary.findings, summary.new), (1, 0));
    assert_eq!(words(&world), (2, 2, 1), "nothing is new");
    assert_eq!(summary.published.len(), 6, "but the report is");

    let summary = busy(&world).await;
    assert_eq!((summary.findings, summary.resolved), (0, 1));
    assert_eq!(words(&world), (3, 3, 2), "that it ended is news");
    let text = &world.mailer.sent()[2].text;
    let line = format!(
        "1 resolved\nResolved: Idle node {} in eu-central-1",
        sample::node(1)
    );
    assert!(text.starts_with(&line), "{text}");
    let posted = world.chat.posted();
    let threads: Vec<_> = posted.iter().map(|post| post.thread.as_deref()).collect();
    assert_eq!(
        threads,
        [None, None, Some("2")],
        "in the thread of what told it"
    );
    let sent = world.events.sent();
    let ids: BTreeSet<_> = sent.iter().map(|(id, _)| id).collect();
    assert_eq!((sent.len(), ids.len()), (2, 2), "an event for each change");
    assert!(sent[0].1.contains("io.ebb.finding.opened.v2"));
    assert!(sent[1].1.contains("io.ebb.finding.resolved.v2"));
}

#[tokio::test]
async fn what_is_dismissed_is_quiet_until_it_is_taken_back() {
    let mut world = greeted().await;
    let file = "[[webhooks]]\nname = \"ops\"\ntemplate = \"pagerduty\"\n\
        [[webhooks]]\nname = \"log\"\ntemplate = \"generic\"\n";
    let policy = ebb_model::policy::Policy::parse(file).expect("a policy");
    world.policy.webhooks = policy.webhooks;
    swept(&world).await;
    let before = words(&world);
    let id = format!("idle_node/eu-central-1/{}", sample::node(1));
    let dismiss = |all: &mut ebb_model::decision::Decisions| {
        let decision = Decision {
            verb: Verb::Dismiss,
            reason: "a course".to_owned(),
            by: "ana".to_owned(),
            at: world.clock.now(),
            until: None,
        };
        all.decide(&id, decision)
    };
    let decided = decisions::change(&world.objects, dismiss).await;
    decided.expect("decided");
    let summary = swept(&world).await;
    assert_eq!((summary.findings, summary.set_aside), (0, 1));
    assert_eq!(words(&world), before);
    let reopen = |all: &mut ebb_model::decision::Decisions| all.reopen(&id, world.clock.now());
    decisions::change(&world.objects, reopen)
        .await
        .expect("taken back");
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(swept(&world).await.findings, 1);
    let email = &world.mailer.sent()[2];
    assert!(
        email.subject.ends_with("(1 due again)"),
        "{}",
        email.subject
    );
    let sent_fields = |name: &str, field: &str| -> Vec<String> {
        let all = world.hooks.sent().into_iter();
        let bodies = all.filter(|one| one.name == name).map(|one| one.body);
        let read = |text: String| serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
        let texts = bodies.map(|body| read(body)[field].as_str().map(str::to_owned));
        texts.flatten().collect()
    };
    // The alert ends, although the waste goes on.
    let actions = sent_fields("ops", "event_action");
    assert_eq!(actions, ["trigger", "resolve", "trigger"]);
    assert_eq!(sent_fields("log", "change"), ["new", "new"]);
}

#[tokio::test]
async fn an_owners_findings_go_where_the_policy_routes_them() {
    let mut world = greeted().await;
    world.policy.route.push(Route {
        owner: "ana".to_owned(),
        slack: Some("lab".to_owned()),
        email: vec!["ana@example.com".to_owned()],
    });
    let mut inventory = sample::inventory(&[1, 2]).remove(&sample::region());
    let there = inventory.as_mut().expect("the region");
    for instance in there.instances.values_mut() {
        instance.tags.insert("Owner".to_owned(), "ana".to_owned());
    }
    world
        .inventory
        .set(sample::region(), Ok(inventory.expect("the region")));
    let summary = swept(&world).await;
    assert_eq!(
        summary.notified_channels,
        ["webhook", "topic", "slack/lab", "email/ana@example.com"]
    );
    let posted = world.chat.posted();
    assert_eq!(posted[1].channel.as_deref(), Some("lab"));
    assert_eq!(world.mailer.sent()[1].to, ["ana@example.com"]);
}

#[tokio::test]
async fn quiet_hours_hold_back_what_is_not_urgent_and_tell_it_at_their_end() {
    let check = async |pass: &[FindingKind], at_once: (usize, usize, usize)| {
        let mut world = greeted().await;
        world.policy.quiet = QuietPolicy {
            days: all_days(),
            pass: pass.iter().copied().collect(),
            ..QuietPolicy::default()
        };
        let summary = swept(&world).await;
        assert_eq!((summary.findings, words(&world)), (1, at_once));
        world.policy.quiet.days.clear();
        world.clock.advance(Duration::from_secs(60));
        swept(&world).await;
        assert_eq!(words(&world), (2, 2, 1), "what was held is told, once");
        world.policy.quiet.days = all_days();
        busy(&world).await;
        let after = (1 + at_once.0, 1 + at_once.1, 2);
        assert_eq!(words(&world), after, "and so is its end");
    };
    check(&[], (1, 1, 1)).await;
    check(&[FindingKind::IdleNode], (2, 2, 1)).await;
    check(&[FindingKind::RetryStorm], (1, 1, 1)).await;
}

fn all_days() -> BTreeSet<Day> {
    use ebb_model::policy::weekly_schedule::Day::{Fri, Mon, Sat, Sun, Thu, Tue, Wed};
    BTreeSet::from([Mon, Tue, Wed, Thu, Fri, Sat, Sun])
}

#[tokio::test]
async fn what_cannot_be_seen_has_not_ended() {
    let world = greeted().await;
    swept(&world).await;
    let denied = CloudError::Denied {
        operation: "ec2:DescribeInstances".to_owned(),
        message: "no".to_owned(),
    };
    world.inventory.set(sample::region(), Err(denied));
    let summary = swept(&world).await;
    assert_eq!((summary.findings, summary.resolved), (0, 0));
    assert_eq!(summary.gaps.len(), 1);
    assert_eq!(words(&world), (2, 2, 1));
    let inventory = sample::inventory(&[1, 2]).remove(&sample::region());
    world
        .inventory
        .set(sample::region(), Ok(inventory.expect("the region")));
    let summary = swept(&world).await;
    assert_eq!((summary.findings, summary.new), (1, 0));
    assert_eq!(words(&world), (2, 2, 1), "it was there all the time");
}

/// The channel is down: every attempt of one sweep fails.
#[tokio::test]
async fn a_channel_that_fails_is_told_the_next_time_and_the_others_not_again() {
    let check =
        async |operation: &'static str, channel: &str, after_failing: (usize, usize, usize)| {
            let world = greeted().await;
            let down = Fault::always(operation);
            let summary = world.sweep(&down).await.expect("a channel fails no sweep");
            let failed: Vec<_> = summary
                .failures
                .iter()
                .map(|f| f.channel.as_str())
                .collect();
            assert_eq!(failed, [channel]);
            assert_eq!(words(&world), after_failing);
            assert!(
                world.objects.stored(LATEST_JSON).is_some(),
                "the report is written"
            );

            let summary = swept(&world).await;
            assert_eq!(summary.notified_channels, [channel]);
            let gaps: Vec<_> = summary.gaps.iter().map(|gap| &gap.scope).collect();
            assert_eq!(gaps, [&format!("channel {channel}")], "the report says so");
            assert_eq!((words(&world), world.events.sent().len()), ((2, 2, 1), 1));
            let summary = swept(&world).await;
            assert_eq!(
                (summary.notified_channels.len(), summary.gaps.len()),
                (0, 0)
            );
        };
    check("chat.post", "slack", (1, 2, 1)).await;
    check("mailer.send", EMAIL, (2, 1, 1)).await;
    check("topic.publish", "topic", (2, 2, 0)).await;
    check("events.send", "webhook", (2, 2, 1)).await;
}

#[tokio::test]
async fn a_call_that_fails_once_is_tried_again_at_once() {
    let rehearsal = greeted().await;
    let whole = Fault::never();
    rehearsal.sweep(&whole).await.expect("nothing fails it");
    let at = whole.calls().iter().position(|call| *call == "chat.post");
    let world = greeted().await;
    let once = Fault::at(at.expect("a post"), Moment::Before, Then::Recovers);
    let summary = world.sweep(&once).await.expect("a channel fails no sweep");
    assert_eq!((summary.failures.len(), words(&world)), (0, (2, 2, 1)));
}

/// The identifiers in JSON bodies.
fn ids(bodies: Vec<(String, String)>) -> Vec<String> {
    let read = |body: &str| -> serde_json::Value { serde_json::from_str(body).expect("JSON") };
    let id = |(_, body): &(String, String)| read(body)["id"].as_str().map(str::to_owned);
    bodies.iter().filter_map(id).collect()
}

#[tokio::test]
async fn after_a_crash_each_channel_gets_the_same_identifiers_and_the_chat_nothing_twice() {
    let world = greeted().await;
    let rehearsal = greeted().await;
    let whole = Fault::never();
    rehearsal.sweep(&whole).await.expect("nothing fails it");
    let calls = whole.calls();
    let last = calls.iter().rposition(|call| *call == "mailer.send");
    // All messages are sent, and the sweep ends before it stores that.
    let crash = Fault::at(last.expect("an email"), Moment::After, Then::StaysDead);
    let _ = world.sweep(&crash).await;
    assert_eq!(words(&world), (2, 2, 1));
    world.clock.advance(Duration::from_secs(5 * 60));
    swept(&world).await;
    let events = world.events.sent();
    assert_eq!(events.len(), 2, "a webhook is sent the event again");
    assert_eq!(events[0].0, events[1].0, "under its identifier");
    let topic = ids(world.topic.published());
    assert_eq!(topic.len(), 2);
    assert_eq!(topic[0], topic[1]);
    assert_eq!(
        world.chat.posted().len(),
        2,
        "the chat shows that it has it"
    );
}

#[tokio::test]
async fn a_sweep_sends_nothing_while_another_one_sends() {
    let (rehearsal, whole) = (greeted().await, Fault::never());
    rehearsal.sweep(&whole).await.expect("nothing fails it");
    let first = whole.calls().iter().position(|call| *call == "events.send");
    let world = greeted().await;
    let crash = Fault::at(first.expect("an event"), Moment::Before, Then::StaysDead);
    let _ = world.sweep(&crash).await;
    let before = words(&world);
    let summary = swept(&world).await;
    assert_eq!((summary.findings, summary.notified_channels.len()), (1, 0));
    assert_eq!(words(&world), before, "the first one may still send");
    world.clock.advance(Duration::from_secs(5 * 60));
    swept(&world).await;
    assert_eq!(words(&world), (2, 2, 1));
    assert_eq!(
        busy(&world).await.notified_channels.len(),
        4,
        "nobody sends any more"
    );
}

#[tokio::test]
async fn links_and_buttons_lead_from_a_message_to_the_finding() {
    let mut world = greeted().await;
    world.policy.links.pages_url = "https://ebb.example.org".parse().ok();
    world.chat.show_buttons(true);
    swept(&world).await;
    let id = format!("idle_node%2Feu-central-1%2F{}", sample::node(1));
    let link = format!("https://ebb.example.org/findings/{id}");
    let slack = world.chat.posted()[1].body.to_string();
    assert!(slack.contains(&format!("<{link}|Details>")), "{slack}");
    assert!(slack.contains("ebb_snooze"), "{slack}");
    assert!(world.mailer.sent()[1].text.contains(&link));
    assert!(world.topic.published()[0].1.contains(&link));
    assert!(world.events.sent()[0].1.contains(&link));
}

#[tokio::test]
async fn an_address_of_pages_that_is_not_valid_is_a_gap_and_the_sweep_goes_on() {
    let check = async |address: &'static str, in_policy: Option<&str>, gap: Option<&str>| {
        let mut world = greeted().await;
        world.pages_url = Some(address);
        world.policy.links.pages_url = in_policy.and_then(|address| address.parse().ok());
        let summary = world.sweep(&Fault::never()).await.expect("it goes on");
        let named = summary.gaps.iter().find(|gap| gap.scope == "EBB_PAGES_URL");
        assert_eq!(named.map(|gap| &*gap.reason), gap, "{address}");
        assert_eq!(summary.findings, 1, "{address}");
        let slack = world.chat.posted()[1].body.to_string();
        assert_eq!(slack.contains("|Details>"), gap.is_none(), "{slack}");
    };
    let gap = "the address of the pages is not valid: the address must be an http or https URL \
               without user name, query and fragment, such as https://ebb.example.org, with at most \
               300 characters; links are left out";
    check("ftp://x", None, Some(gap)).await;
    check("https://user@x/", None, Some(gap)).await;
    check("https://ebb.example.org", None, None).await;
    check("ftp://x", Some("https://ebb.example.org"), None).await;
}

#[tokio::test]
async fn a_sweep_long_after_the_previous_one_is_reported_as_late() {
    let mut world = World::new();
    world.interval_minutes = Some("10");
    let check = async |world: &World, minutes: u64, expect: Option<&str>| {
        world.clock.advance(Duration::from_secs(60 * minutes));
        let before = world.clock.now();
        let summary = swept(world).await;
        assert!(summary.previous.is_none_or(|previous| previous < before));
        let scopes = ["schedule of sweeps", "EBB_INTERVAL_MINUTES"];
        let late = |gap: &&Gap| scopes.contains(&&*gap.scope);
        let reason = summary.gaps.iter().find(late).map(|gap| gap.reason.clone());
        match (reason, expect) {
            (None, None) => {}
            (Some(reason), Some(words)) => assert!(reason.contains(words), "{reason}"),
            other => panic!("{other:?}"),
        }
    };
    check(&world, 0, None).await;
    check(&world, 10, None).await;
    check(
        &world,
        45,
        Some("was 45 min before this one, and one is due every 10 min"),
    )
    .await;
    check(&world, 10, None).await;
    world.interval_minutes = Some("ten");
    check(&world, 45, Some("not a number of minutes")).await;
    world.interval_minutes = None;
    check(&world, 45, None).await;
}

/// The digests so far, by post and by email.
fn digests(world: &World) -> (usize, usize) {
    let posts = world.chat.posted();
    let posts = posts
        .iter()
        .filter(|post| post.channel.as_deref() == Some("finance"));
    let emails = world.mailer.sent();
    let emails = emails
        .iter()
        .filter(|email| email.to == ["cfo@example.com"]);
    (posts.count(), emails.count())
}

/// A world in which the first weekly digest is due.
async fn a_week_later() -> World {
    let mut world = greeted().await;
    let today = world.clock.now().to_zoned(jiff::tz::TimeZone::UTC);
    let yesterday = today.yesterday().expect("a day").weekday();
    world.policy.digest = DigestPolicy {
        weekly: format!("{} 08:00 UTC", Day::from(yesterday)).parse().ok(),
        slack: Some("finance".to_owned()),
        email: vec!["cfo@example.com".to_owned()],
    };
    swept(&world).await;
    assert_eq!(digests(&world), (0, 0), "an earlier time does not count");
    world.clock.advance(Duration::from_secs(7 * 24 * 3600));
    world
}

#[tokio::test]
async fn the_weekly_digest_is_sent_once_a_week_and_not_in_quiet_hours() {
    let mut world = a_week_later().await;
    world.policy.quiet.days = all_days();
    swept(&world).await;
    assert_eq!(digests(&world), (0, 0), "quiet hours");
    world.policy.quiet.days.clear();
    let summary = swept(&world).await;
    assert_eq!(digests(&world), (1, 1));
    let channels = ["weekly/slack/finance", "weekly/email/cfo@example.com"];
    assert!(
        channels
            .iter()
            .all(|name| summary.notified_channels.iter().any(|one| one == name))
    );
    world.clock.advance(Duration::from_secs(3600));
    swept(&world).await;
    assert_eq!(digests(&world), (1, 1), "once a week");
    world.clock.advance(Duration::from_secs(7 * 24 * 3600));
    swept(&world).await;
    assert_eq!(digests(&world), (2, 2));
}

#[tokio::test]
async fn after_a_crash_the_chat_gets_no_second_weekly_digest() {
    let (rehearsal, whole) = (a_week_later().await, Fault::never());
    rehearsal.sweep(&whole).await.expect("nothing fails it");
    let calls = whole.calls();
    let last = calls.iter().rposition(|call| *call == "mailer.send");
    // Both are sent, and the sweep ends before it stores that.
    let crash = Fault::at(last.expect("an email"), Moment::After, Then::StaysDead);
    let world = a_week_later().await;
    let _ = world.sweep(&crash).await;
    assert_eq!(digests(&world), (1, 1));
    world.clock.advance(Duration::from_secs(5 * 60));
    swept(&world).await;
    assert_eq!(digests(&world), (1, 2), "an email has no identifier");
    swept(&world).await;
    assert_eq!(digests(&world), (1, 2));
}

#[tokio::test]
async fn a_channel_of_the_weekly_digest_that_fails_is_tried_again() {
    let world = a_week_later().await;
    let summary = world.sweep(&Fault::always("mailer.send")).await;
    let failures = summary.expect("a channel fails no sweep").failures;
    let failed: Vec<_> = failures.iter().map(|one| one.channel.as_str()).collect();
    assert!(
        failed.contains(&"weekly/email/cfo@example.com"),
        "{failed:?}"
    );
    assert_eq!(digests(&world), (1, 0));
    swept(&world).await;
    assert_eq!(digests(&world), (1, 1));
}

#[tokio::test]
async fn a_webhook_of_the_policy_gets_each_change_that_it_wants_once() {
    let mut world = greeted().await;
    let file = "[[webhooks]]\nname = \"ops\"\ntemplate = \"pagerduty\"\n\
        [[webhooks]]\nname = \"ends\"\ntemplate = \"generic\"\non = [\"resolved\"]\n\
        [[webhooks]]\nname = \"bad\"\nbody = \"{{ nothing }}\"\n";
    let policy = ebb_model::policy::Policy::parse(file).expect("a policy");
    world.policy.webhooks = policy.webhooks;
    let sent = |name: &str| -> Vec<(String, serde_json::Value)> {
        let all = world
            .hooks
            .sent()
            .into_iter()
            .filter(|one| one.name == name);
        let read = |text: &str| serde_json::from_str(text).expect("JSON");
        all.map(|one| (one.id, read(&one.body))).collect()
    };
    let down = world.sweep(&Fault::always("hooks.post")).await;
    let failures = down.expect("a channel fails no sweep").failures;
    let failed: Vec<_> = failures.iter().map(|one| one.channel.as_str()).collect();
    assert_eq!(failed, ["webhook/ops", "webhook/bad"]);
    let reason = &failures[1].reason;
    let expect = "the template of the webhook bad, line 1: undefined value";
    assert!(reason.starts_with(expect), "{reason}");
    swept(&world).await;
    swept(&world).await;
    assert_eq!((sent("ops").len(), sent("ends").len()), (1, 0), "once");
    busy(&world).await;
    swept(&world).await;
    let (ops, ends) = (sent("ops"), sent("ends"));
    assert_eq!((ops.len(), ends.len()), (2, 1));
    assert_ne!(ops[0].0, ops[1].0, "another change has another id");
    let actions: Vec<_> = ops.iter().map(|(_, body)| &body["event_action"]).collect();
    assert_eq!(actions, ["trigger", "resolve"]);
    assert_eq!(ops[0].1["dedup_key"], ops[1].1["dedup_key"]);
    assert_eq!(ends[0].1["change"], "resolved");
}
