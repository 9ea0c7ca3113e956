//! Notifications to people and programs: one message for each channel, only if findings are new,
//! reopened, due, grown or resolved. The first sweep also sends a welcome message.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebb_cloud::ports::{
    Chat, ChatPost, ChatSearch, CloudError, CloudResult, Email, Events, Hooks, Mailer, Topic,
};
use ebb_model::finding_history::Lives;
use ebb_model::finding_history::known_finding::Price;
use ebb_model::pages_url::PagesUrl;
use ebb_model::policy::quiet_hours::QuietPolicy;
use ebb_model::policy::route::Route;
use ebb_model::policy::webhook::{BuiltinTemplate, Webhook};
use ebb_model::policy::weekly_digest::DigestPolicy;
use ebb_model::report::Report;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use thiserror::Error;
use tokio::time::Instant;

use crate::delivery_state::Remembered;
use crate::diff::{Changes, ChannelHistory, Digest};
use crate::email_digest::EmailParts;
use crate::message_form::{Buttons, MessageForm};
use crate::retry::{
    Failure, RepeatRule, attempt, attempt_without_id, refuses_message, repeated, says_late,
    unsure_if_late,
};
use crate::routing::{Destination, Routing};
use crate::webhook_template::{TemplateError, WebhookContext, WebhookTemplate};
use crate::weekly::{WeeklyDigest, WeeklyDue, WeeklyPlace};
use crate::welcome::Hello;
use crate::{
    cloud_event, diff, email_digest, slack_digest, threads, webhook_template, weekly, welcome,
};

/// Name of the chat in the delivery state.
pub(crate) const SLACK: &str = "slack";

/// Name of the topic in the delivery state.
pub(crate) const TOPIC: &str = "topic";

/// Name of the webhook in the delivery state.
pub(crate) const WEBHOOK: &str = "webhook";

/// Time after which a sweep starts no further event to a program; each event is one request.
const EVENTS_FOR: Duration = Duration::from_secs(20);

/// The same for all webhooks of the policy together.
const HOOKS_FOR: Duration = Duration::from_secs(60);

/// Number of failures in a row after which a sweep sends no further message to a channel.
const MAX_FAILURES: usize = 3;

/// Time for the messages of a chat or mail service of which one failed.
const SERVICE_FOR: Duration = Duration::from_secs(60);

/// The history of a channel is kept for this time after the last sweep that had the channel.
const ABSENT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Sender and recipients of email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// The verified sender.
    pub from: String,
    /// Recipients of findings without a route.
    pub to: Vec<String>,
}

/// One of the two email settings is missing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{missing} is not set, but {set} is set: set both")]
pub struct HalfAddressed {
    missing: &'static str,
    set: &'static str,
}

impl Addresses {
    /// Builds the addresses from `EBB_EMAIL_FROM` and `EBB_EMAIL_TO` of the environment; `None` if
    /// neither is set.
    ///
    /// # Errors
    /// If only one of them is set.
    pub fn new(from: Option<String>, to: Vec<String>) -> Result<Option<Self>, HalfAddressed> {
        const FROM: &str = "EBB_EMAIL_FROM";
        const TO: &str = "EBB_EMAIL_TO";
        let half = |missing, set| Err(HalfAddressed { missing, set });
        match (from, to.is_empty()) {
            (None, true) => Ok(None),
            (Some(from), false) => Ok(Some(Self { from, to })),
            (Some(_), true) => half(TO, FROM),
            (None, false) => half(FROM, TO),
        }
    }
}

/// Channels for notifications; `None` for a channel that is not configured.
#[derive(Clone, Copy, Default)]
pub struct Channels<'a> {
    /// The chat.
    pub chat: Option<&'a dyn Chat>,
    /// Email.
    pub mail: Option<(&'a dyn Mailer, &'a Addresses)>,
    /// Other programs; all changes of a sweep are in one message.
    pub topic: Option<&'a dyn Topic>,
    /// A program of the user; each change is one event.
    pub webhook: Option<&'a dyn Events>,
    /// Webhooks of the policy; each change is one request to each of them.
    pub hooks: Option<&'a dyn Hooks>,
}

/// Result of the notifications.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Channels that accepted the message.
    pub channels: Vec<String>,
    /// Failed channels.
    pub failures: Vec<Failure>,
}

/// The report to send, and the history of notifications.
pub struct News<'a> {
    /// The report.
    pub report: &'a Report,
    /// Routes of findings by owner.
    pub routes: &'a [Route],
    /// Quiet hours without notifications.
    pub quiet: &'a QuietPolicy,
    /// Address of the pages; `None` for messages without links.
    pub links: Option<&'a PagesUrl>,
    /// Webhooks of the policy.
    pub webhooks: &'a [Webhook],
    /// The weekly digest.
    pub digest: &'a DigestPolicy,
    /// Due time of the first result of a probe; `None` while no probe has sent data.
    pub first_verdict: Option<Timestamp>,
    /// History of notifications; it is updated.
    pub remembered: &'a mut Remembered,
}

/// Records the changes to send to each channel before anything is sent; true if the record must be
/// stored. If an earlier sweep posted a chat message without a record of the delivery, the function
/// searches for it in the chat. The message is then not sent twice.
pub async fn plan(channels: &Channels<'_>, news: &mut News<'_>) -> bool {
    let mut is_more = false;
    let quiet = quiet_hours(news);
    if let Some(chat) = channels.chat {
        let routing = chat_routing(news.routes);
        for place in routing.places() {
            let channel = slack_channel(place);
            settle(
                chat,
                place,
                news.remembered.channels.entry(channel.clone()).or_default(),
            )
            .await;
            let part = routing.part(news.report, place);
            is_more |= begin(news, &channel, &part, quiet);
            let lives = &news.remembered.lives;
            let history = news.remembered.channels.entry(channel.clone()).or_default();
            let (changes, knows) = due(history, &part, lives, quiet);
            threads::forget_unknown(history, lives);
            history.digests = threads::messages(history, &channel, &changes, &knows);
        }
    }
    if let Some((_, addresses)) = channels.mail {
        let routing = mail_routing(news.routes, addresses);
        for place in routing.places() {
            let Some(recipient) = place else { continue };
            let part = routing.part(news.report, place);
            is_more |= begin(news, &email_channel(recipient), &part, quiet);
        }
    }
    let programs = [
        channels.topic.map(|_| TOPIC),
        channels.webhook.map(|_| WEBHOOK),
    ];
    for channel in programs.into_iter().flatten() {
        is_more |= begin(news, channel, news.report, None);
    }
    for webhook in news.webhooks {
        let channels = &mut news.remembered.channels;
        let history = channels.entry(hook_channel(webhook)).or_default();
        let lives = &news.remembered.lives;
        let (changes, _) = diff::since_for_alerts((&*history, webhook), news.report, lives);
        is_more |= history.begin(&changes, news.report.at);
    }
    plan_weekly(channels, news).await || is_more
}

/// Records the weekly digests to send; true if the record must be stored. If an earlier sweep
/// posted one without a record of the delivery, the function searches for it in the chat.
async fn plan_weekly(channels: &Channels<'_>, news: &mut News<'_>) -> bool {
    let now = (news.report.at, quiet_hours(news).is_some());
    let state = &mut news.remembered.weekly;
    let before = state.clone();
    let places = WeeklyPlace::all(news.digest);
    let names: BTreeSet<String> = places.iter().map(WeeklyPlace::channel).collect();
    state.sent.retain(|channel, _| names.contains(channel));
    let is_set = news.digest.weekly.is_some();
    state
        .begun
        .retain(|channel, _| is_set && names.contains(channel));
    for place in &places {
        let Some(time) = &news.digest.weekly else {
            break;
        };
        let channel = place.channel();
        match weekly::due(time, state.sent.get(&channel).copied(), now) {
            WeeklyDue::FromNext(slot) => drop(state.sent.insert(channel, slot)),
            WeeklyDue::Later => {}
            WeeklyDue::Now(slot) => {
                let is_begun = state.begun.insert(channel.clone(), slot) == Some(slot);
                if let (true, Some(chat), WeeklyPlace::Slack(name)) =
                    (is_begun, channels.chat, place)
                {
                    let search = ChatSearch {
                        channel: Some(name.clone()),
                        thread: None,
                        id: weekly::message_id(&channel, slot),
                        since: slot,
                    };
                    if let Ok(Some(_)) = chat.find(&search).await {
                        state.begun.remove(&channel);
                        state.sent.insert(channel, slot);
                    }
                }
            }
        }
    }
    *state != before
}

/// Records the changes to send to one channel.
fn begin(news: &mut News<'_>, channel: &str, part: &Report, quiet: Option<&QuietPolicy>) -> bool {
    let remembered = &mut *news.remembered;
    let history = remembered.channels.entry(channel.to_owned()).or_default();
    let (changes, _) = due(history, part, &remembered.lives, quiet);
    history.begin(&changes, news.report.at)
}

/// Posts a message. If the response to an earlier attempt was lost, the function searches for the
/// message first.
async fn post_once(
    chat: &dyn Chat,
    channel: &str,
    post: &ChatPost,
    since: Option<Timestamp>,
) -> Result<Option<String>, Failure> {
    let search = post.id.clone().zip(since).map(|(id, since)| ChatSearch {
        channel: post.channel.clone(),
        thread: post.thread.clone(),
        id,
        since,
    });
    let tried = PostTries::default();
    attempt(channel, || find_or_post(chat, post, &search, &tried)).await
}

/// Earlier attempts to post a message.
#[derive(Default)]
struct PostTries {
    is_begun: AtomicBool,
    /// The message may have arrived.
    is_late: AtomicBool,
}

async fn find_or_post(
    chat: &dyn Chat,
    post: &ChatPost,
    search: &Option<ChatSearch>,
    tried: &PostTries,
) -> CloudResult<Option<String>> {
    let search = search.as_ref();
    if let Some(search) = search.filter(|_| tried.is_begun.load(Ordering::Relaxed)) {
        match chat.find(search).await {
            Ok(Some(at)) => return Ok(Some(at)),
            // The search failed, so nobody knows whether the message arrived.
            Err(error) if tried.is_late.load(Ordering::Relaxed) => return Err(late(&error)),
            Ok(None) | Err(_) => {}
        }
    }
    tried.is_begun.store(true, Ordering::Relaxed);
    let done = chat.post(post).await;
    let is_late = |error: &CloudError| says_late(&error.to_string());
    let is_late = done.as_ref().is_err_and(is_late);
    tried.is_late.store(is_late, Ordering::Relaxed);
    done
}

/// The error of a message that cannot be found after a timeout.
fn late(search: &CloudError) -> CloudError {
    unsure_if_late(CloudError::Failed {
        operation: "chat".to_owned(),
        message: format!("timed out waiting for a response, and the search failed: {search}"),
    })
}

/// Sends the weekly digest to one recipient.
async fn send_weekly(
    channels: &Channels<'_>,
    place: &WeeklyPlace,
    (channel, slot): (&str, Timestamp),
    digest: &WeeklyDigest,
) -> Result<(), Failure> {
    let unset = |reason: &str| Failure {
        channel: channel.to_owned(),
        reason: reason.to_owned(),
    };
    match place {
        WeeklyPlace::Slack(name) => {
            let chat = channels.chat.ok_or_else(|| unset("Slack is not set up"))?;
            let post = ChatPost {
                channel: Some(name.clone()),
                thread: None,
                body: digest.slack(),
                id: Some(weekly::message_id(channel, slot)),
            };
            post_once(chat, channel, &post, Some(slot)).await.map(drop)
        }
        WeeklyPlace::Email(address) => {
            let mail = channels.mail;
            let (mailer, addresses) = mail.ok_or_else(|| unset("no sender of email is set"))?;
            let parts = digest.email();
            let email = Email {
                from: addresses.from.clone(),
                to: vec![address.clone()],
                subject: parts.subject,
                text: parts.text,
                html: parts.html,
            };
            attempt_without_id(channel, || mailer.send(&email)).await
        }
    }
}

async fn buttons_of(chat: &dyn Chat) -> Buttons {
    match chat.has_buttons().await {
        true => Buttons::Shown,
        false => Buttons::Hidden,
    }
}

/// The post of a message. A reply about a finding that is back is also shown in the channel.
fn chat_post(place: &Destination, digest: &Digest, mut body: Value, changes: &Changes) -> ChatPost {
    if digest.thread.is_some() && changes.has_findings() {
        body["reply_broadcast"] = true.into();
    }
    ChatPost {
        channel: place.clone(),
        thread: digest.thread.clone(),
        body,
        id: Some(digest.id.clone()),
    }
}

/// Searches the chat for messages without a recorded delivery.
async fn settle(chat: &dyn Chat, place: &Destination, history: &mut ChannelHistory) {
    let digests = std::mem::take(&mut history.digests);
    let Some(since) = history.sending.values().min().copied() else {
        return;
    };
    for digest in digests {
        let sought = ChatSearch {
            channel: place.clone(),
            thread: digest.thread.clone(),
            id: digest.id.clone(),
            since,
        };
        match chat.find(&sought).await {
            Ok(Some(at)) => threads::delivered(history, &digest, Some(at)),
            Ok(None) => {}
            // A repeated message is better than a lost one.
            Err(error) => drop(Failure::new("history of the chat", &error)),
        }
    }
}

/// Changes for a channel now, and its notified prices afterwards.
fn due(
    history: &ChannelHistory,
    part: &Report,
    lives: &Lives,
    quiet: Option<&QuietPolicy>,
) -> (Changes, BTreeMap<String, Price>) {
    let (changes, knows) = diff::since(&history.findings, part, lives);
    match quiet {
        Some(quiet) => {
            let known = (&history.findings, knows);
            changes.but_urgent(known, |kind| quiet.passes(kind))
        }
        None => (changes, knows),
    }
}

/// The quiet hours; `None` outside of them.
fn quiet_hours<'a>(news: &News<'a>) -> Option<&'a QuietPolicy> {
    let quiet = news.quiet;
    quiet.is_quiet(news.report.at).then_some(quiet)
}

fn chat_routing(routes: &[Route]) -> Routing {
    let routes = routes.iter();
    let routes = routes.filter_map(|r| Some((r.owner.as_str(), r.slack.as_deref()?)));
    Routing::new([None], routes)
}

fn mail_routing(routes: &[Route], addresses: &Addresses) -> Routing {
    let routes = routes.iter();
    let routes = routes.flat_map(|r| r.email.iter().map(|to| (r.owner.as_str(), to.as_str())));
    Routing::new(addresses.to.iter().cloned().map(Some), routes)
}

/// Sends each channel the changes since its last notification; nothing if there are none.
pub async fn tell(channels: &Channels<'_>, news: News<'_>) -> Word {
    let mut telling = Telling {
        news,
        word: Word::default(),
        known: Vec::new(),
    };
    // Programs first: a page to the engineer on call does not wait for a mail service that is down.
    telling.hooks(channels.hooks).await;
    if let Some(events) = channels.webhook {
        telling.webhook(events).await;
    }
    if let Some(topic) = channels.topic {
        telling.topic(topic).await;
    }
    if let Some(chat) = channels.chat {
        telling.chat(chat).await;
    }
    if let Some((mailer, addresses)) = channels.mail {
        telling.mail(mailer, addresses).await;
    }
    telling.weekly(channels).await;
    telling.end()
}

/// A request about one change, before it is sent.
struct Outgoing {
    finding: String,
    change: String,
    id: String,
    body: Result<String, TemplateError>,
}

/// A program that receives requests.
#[derive(Clone, Copy)]
enum Receiver<'a> {
    Events(&'a dyn Events),
    /// A webhook of the policy.
    Hook(Option<&'a dyn Hooks>, &'a Webhook),
}

impl Receiver<'_> {
    async fn send(&self, id: &str, body: &str) -> CloudResult<()> {
        match self {
            Self::Events(events) => events.send(id, body).await,
            Self::Hook(Some(hooks), webhook) => hooks.post(&webhook.name, id, body).await,
            // Without a secret there is no request.
            Self::Hook(None, _) => Ok(()),
        }
    }

    /// The changes since the last request, and the new prices.
    fn since(
        self,
        history: &ChannelHistory,
        report: &Report,
        lives: &Lives,
    ) -> (Changes, BTreeMap<String, Price>) {
        match self {
            Self::Events(_) => diff::since(&history.findings, report, lives),
            Self::Hook(_, webhook) => diff::since_for_alerts((history, webhook), report, lives),
        }
    }

    fn repeat_rule(self) -> RepeatRule {
        match self {
            Self::Events(_) => RepeatRule::AfterTimeout,
            Self::Hook(_, webhook) => match webhook.template {
                Some(BuiltinTemplate::PagerDuty | BuiltinTemplate::Generic) => {
                    RepeatRule::AfterTimeout
                }
                // Services for people ignore the header `idempotency-key`.
                _ => RepeatRule::NotAfterTimeout,
            },
        }
    }
}

/// The requests that a program accepted.
#[derive(Default)]
struct SentRequests {
    /// Findings of the requests.
    findings: BTreeSet<String>,
    /// Changes of the requests.
    changes: Vec<String>,
    /// The first failure.
    refused: Option<Failure>,
}

/// Sends requests in turn until the time is over. A request that is refused because of its content
/// does not hold back those behind it.
async fn send_in_turn(
    channel: &str,
    all: impl Iterator<Item = Outgoing>,
    until: Instant,
    (receiver, rule): (Receiver<'_>, RepeatRule),
) -> SentRequests {
    let (mut done, mut in_a_row) = (SentRequests::default(), 0);
    for one in all {
        if Instant::now() > until {
            break;
        }
        let answer = match &one.body {
            Ok(body) => repeated(rule, || receiver.send(&one.id, body))
                .await
                .map_err(|error| (Failure::new(channel, &error), refuses_message(&error))),
            Err(error) => Err((Failure::new(channel, error), true)),
        };
        match answer {
            Ok(()) => {
                in_a_row = 0;
                done.changes.push(one.change);
                done.findings.insert(one.finding);
            }
            Err((failure, is_of_message)) => {
                done.refused = done.refused.take().or(Some(failure));
                in_a_row += 1;
                if !is_of_message || in_a_row >= MAX_FAILURES {
                    break;
                }
            }
        }
    }
    done
}

/// The failure of a channel to which a number of changes is not sent; `None` if all are sent.
fn unsent(channel: &str, refused: Option<Failure>, waiting: usize) -> Option<Failure> {
    let waits = match waiting {
        1 => "1 change waits for the next sweep".to_owned(),
        n => format!("{n} changes wait for the next sweep"),
    };
    match refused {
        Some(failure) if waiting > 1 => Some(Failure {
            reason: format!("{}; {waits}", failure.reason),
            ..failure
        }),
        None if waiting > 0 => {
            let reason = format!("the time for the channel is over; {waits}");
            tracing::warn!(channel, reason, "failed to deliver a notification");
            Some(Failure {
                channel: channel.to_owned(),
                reason,
            })
        }
        refused => refused,
    }
}

/// The name of a recipient of email in the delivery state.
pub(crate) fn email_channel(to: &str) -> String {
    format!("email/{to}")
}

/// The name of a webhook of the policy in the delivery state.
pub(crate) fn hook_channel(webhook: &Webhook) -> String {
    format!("{WEBHOOK}/{}", webhook.name)
}

/// When a chat or mail service has had enough time.
struct ServiceLimit {
    until: Instant,
    /// The number of failures before its first message.
    failures: usize,
}

struct Telling<'a> {
    news: News<'a>,
    word: Word,
    /// Names of all configured channels.
    known: Vec<String>,
}

impl<'a> Telling<'a> {
    async fn chat(&mut self, chat: &dyn Chat) {
        let routing = chat_routing(self.news.routes);
        let places = routing.places();
        self.known.extend(places.iter().copied().map(slack_channel));
        let limit = self.limit();
        for place in routing.places() {
            let channel = slack_channel(place);
            if self.is_down(&channel, &limit) {
                continue;
            }
            if routing.is_for_the_rest(place) && self.greets(&channel) {
                let hello = ChatPost {
                    channel: place.clone(),
                    thread: None,
                    body: welcome::slack_hello(&self.hello(None)),
                    id: None,
                };
                let done = attempt_without_id(&channel, || chat.post(&hello)).await;
                self.greeted(&channel, done.map(drop));
            }
            let part = routing.part(self.news.report, place);
            self.say_in_threads(chat, place, &channel, &part).await;
        }
    }

    /// Posts the planned messages of a channel in turn. A failed reply does not hold back those in
    /// other threads.
    async fn say_in_threads(
        &mut self,
        chat: &dyn Chat,
        place: &Destination,
        channel: &str,
        part: &Report,
    ) {
        self.known.push(channel.to_owned());
        let (quiet, links) = (self.quiet(), self.news.links);
        let remembered = &mut *self.news.remembered;
        let history = remembered.channels.entry(channel.to_owned()).or_default();
        let digests = std::mem::take(&mut history.digests);
        let (mut buttons, mut refused, mut in_a_row) = (None, None, 0);
        for digest in &digests {
            let (all, _) = due(history, part, &remembered.lives, quiet);
            let whole = all.each().count();
            let changes = threads::part_of(all, digest);
            if changes.is_empty() {
                continue;
            }
            let buttons = match buttons {
                Some(known) => known,
                None => *buttons.insert(buttons_of(chat).await),
            };
            let form = MessageForm {
                links,
                buttons,
                elsewhere: whole - changes.each().count(),
            };
            let body = slack_digest::slack(part, &changes, &form);
            let post = chat_post(place, digest, body, &changes);
            let since = history.sending.values().min().copied();
            match post_once(chat, channel, &post, since).await {
                Ok(at) => threads::delivered(history, digest, at),
                Err(failure) => {
                    threads::forget_lost(history, &digest.thread, &failure.reason);
                    let is_down = digest.thread.is_none() || failure.is_late();
                    refused = refused.or(Some(failure));
                    in_a_row += 1;
                    if is_down || in_a_row >= MAX_FAILURES {
                        break;
                    }
                    continue;
                }
            }
            in_a_row = 0;
            if self.word.channels.last().is_none_or(|last| last != channel) {
                self.word.channels.push(channel.to_owned());
            }
        }
        if let Some(failure) = refused {
            return self.refuse(failure);
        }
        let (changes, knows) = due(history, part, &remembered.lives, quiet);
        // Messages beyond the maximum wait for the next sweep.
        if changes.is_empty() {
            history.arrived(knows);
        }
        remembered.failed.remove(channel);
    }

    async fn mail(&mut self, mailer: &dyn Mailer, addresses: &Addresses) {
        let routing = mail_routing(self.news.routes, addresses);
        let places = routing.places();
        let recipients = places.iter().filter_map(|place| place.as_deref());
        self.known.extend(recipients.map(email_channel));
        let limit = self.limit();
        for place in routing.places() {
            let Some(recipient) = place else { continue };
            let channel = email_channel(recipient);
            if self.is_down(&channel, &limit) {
                continue;
            }
            let send = async |parts: EmailParts| {
                let email = Email {
                    from: addresses.from.clone(),
                    to: vec![recipient.clone()],
                    subject: parts.subject,
                    text: parts.text,
                    html: parts.html,
                };
                attempt_without_id(&channel, || mailer.send(&email)).await
            };
            if routing.is_for_the_rest(place) && self.greets(&channel) {
                let sandboxed = mailer.is_sandboxed().await.ok();
                let done = send(welcome::email_hello(&self.hello(sandboxed))).await;
                self.greeted(&channel, done);
            }
            let part = routing.part(self.news.report, place);
            let links = self.news.links;
            let say = async |changes: &Changes, _: &mut ChannelHistory| {
                send(email_digest::email(&part, changes, links)).await
            };
            self.say(&channel, &part, self.quiet(), say).await;
        }
    }

    async fn topic(&mut self, topic: &dyn Topic) {
        let channel = TOPIC;
        let (report, links) = (self.news.report, self.news.links);
        let say = async |changes: &Changes, history: &mut ChannelHistory| {
            let subject = format!("Ebb: {}", changes.counts());
            let event = cloud_event::event(report, changes, &history.message_id(channel), links);
            attempt(channel, || topic.publish(&subject, &event)).await
        };
        self.say(channel, report, None, say).await;
    }

    /// Sends an event for each change.
    async fn webhook(&mut self, events: &dyn Events) {
        let (report, links) = (self.news.report, self.news.links);
        let history = self.news.remembered.channels.get(WEBHOOK);
        let sending = history.map(|history| history.sending.clone());
        let sending = sending.unwrap_or_default();
        let receiver = Receiver::Events(events);
        let changes = self.changes_of(WEBHOOK, receiver);
        let count = changes.each().count();
        let all = cloud_event::events(report, &changes, &sending, links).map(|event| Outgoing {
            finding: event.finding,
            change: event.change,
            id: event.id,
            body: Ok(event.body),
        });
        let until = Instant::now() + EVENTS_FOR;
        self.send_each(WEBHOOK, (all, count, None), until, receiver)
            .await;
    }

    /// The webhooks of the policy. Those that failed in the last sweep are the last ones, each time
    /// in another order. So no dead one takes the time of the others for good.
    fn hooks_in_turn(&self) -> Vec<&'a Webhook> {
        let (webhooks, at): (&'a [Webhook], _) = (self.news.webhooks, self.news.report.at);
        let failed = &self.news.remembered.failed;
        let mut all: Vec<&'a Webhook> = webhooks.iter().collect();
        all.sort_by_cached_key(|webhook| {
            let has_failed = failed.contains_key(&hook_channel(webhook));
            has_failed.then(|| cloud_event::event_id("turn", at, &webhook.name))
        });
        all
    }

    /// Sends a request for each change that a webhook of the policy wants.
    async fn hooks(&mut self, hooks: Option<&dyn Hooks>) {
        let end = Instant::now() + HOOKS_FOR;
        for webhook in self.hooks_in_turn() {
            let channel = hook_channel(webhook);
            let receiver = Receiver::Hook(hooks, webhook);
            let changes = self.changes_of(&channel, receiver);
            let key = match (hooks, changes.is_empty()) {
                (_, true) => Ok(None),
                (Some(hooks), false) => attempt(&channel, || hooks.key(&webhook.name)).await,
                (None, false) => Err(Failure {
                    channel: channel.clone(),
                    reason: "the secret of the webhooks is not set up".to_owned(),
                }),
            };
            let template =
                WebhookTemplate::new(webhook).map_err(|error| Failure::new(&channel, &error));
            let (key, template) = match (key, template) {
                (Ok(key), Ok(template)) => (key, template),
                (Err(failure), _) | (_, Err(failure)) => {
                    self.known.push(channel);
                    self.refuse(failure);
                    continue;
                }
            };
            let context = WebhookContext {
                report: self.news.report,
                links: self.news.links,
                key: key.as_deref(),
            };
            let history = self.news.remembered.channels.get(&channel);
            let sending = history.map(|history| history.sending.clone());
            let sending = sending.unwrap_or_default();
            let all = webhook_template::requests(&context, webhook, &changes, &sending);
            let count = all.len();
            let wanted: BTreeSet<String> = all.iter().map(|one| one.finding.clone()).collect();
            let all = all.into_iter().map(|request| Outgoing {
                finding: request.finding,
                change: request.change,
                id: request.id,
                body: template.render(&request.facts),
            });
            let until = end.min(Instant::now() + EVENTS_FOR);
            self.send_each(&channel, (all, count, Some(&wanted)), until, receiver)
                .await;
        }
    }

    /// All changes since the last request to a program.
    fn changes_of(&self, channel: &str, receiver: Receiver<'_>) -> Changes {
        let none = ChannelHistory::default();
        let remembered = &*self.news.remembered;
        let known = remembered.channels.get(channel).unwrap_or(&none);
        let (changes, _) = receiver.since(known, self.news.report, &remembered.lives);
        changes
    }

    fn refuse(&mut self, failure: Failure) {
        let failed = &mut self.news.remembered.failed;
        failed.insert(failure.channel.clone(), failure.reason.clone());
        self.word.failures.push(failure);
    }

    /// Sends one request for each change. The next sweep sends those that a receiver refuses or does
    /// not accept in time. Changes without a request are taken as sent.
    async fn send_each(
        &mut self,
        channel: &str,
        (all, count, wanted): (
            impl Iterator<Item = Outgoing>,
            usize,
            Option<&BTreeSet<String>>,
        ),
        until: Instant,
        receiver: Receiver<'_>,
    ) {
        self.known.push(channel.to_owned());
        // A receiver that seems to be dead gets little time.
        let rule = match self.news.remembered.failed.contains_key(channel) {
            true => RepeatRule::NotAfterTimeout,
            false => receiver.repeat_rule(),
        };
        let done = send_in_turn(channel, all, until, (receiver, rule)).await;
        let waiting = count.saturating_sub(done.changes.len());
        let (taken, sent) = (done.findings, done.changes);
        let remembered = &mut *self.news.remembered;
        let history = remembered.channels.entry(channel.to_owned()).or_default();
        let (changes, knows) = receiver.since(history, self.news.report, &remembered.lives);
        let known = (&history.findings, knows);
        let is_unwanted = |id: &str| wanted.is_some_and(|wanted| !wanted.contains(id));
        (_, history.findings) = changes.only(known, |id| taken.contains(id) || is_unwanted(id));
        for change in sent {
            history.sending.remove(&change);
        }
        history
            .sending
            .retain(|key, _| !is_unwanted(diff::id_of_key(key)));
        if !taken.is_empty() {
            self.word.channels.push(channel.to_owned());
        }
        match unsent(channel, done.refused, waiting) {
            Some(failure) => self.refuse(failure),
            None => drop(remembered.failed.remove(channel)),
        }
    }

    /// Sends the planned weekly digests. Each channel is on its own.
    async fn weekly(&mut self, channels: &Channels<'_>) {
        if self.news.digest.weekly.is_none() {
            return;
        }
        let places = WeeklyPlace::all(self.news.digest);
        self.known.extend(places.iter().map(WeeklyPlace::channel));
        // A digest that failed before the quiet hours waits for their end.
        if self.quiet().is_some() {
            return;
        }
        let begun = self.news.remembered.weekly.begun.clone();
        for place in &places {
            let channel = place.channel();
            let Some(slot) = begun.get(&channel).copied() else {
                continue;
            };
            let digest = WeeklyDigest::from_report(self.news.report, self.news.links);
            let done = send_weekly(channels, place, (&channel, slot), &digest).await;
            let remembered = &mut *self.news.remembered;
            match done {
                Ok(()) => {
                    remembered.weekly.begun.remove(&channel);
                    remembered.weekly.sent.insert(channel.clone(), slot);
                    remembered.failed.remove(&channel);
                    self.word.channels.push(channel);
                }
                Err(failure) => {
                    let reason = failure.reason.clone();
                    remembered.failed.insert(channel, reason);
                    self.word.failures.push(failure);
                }
            }
        }
    }

    fn quiet(&self) -> Option<&'a QuietPolicy> {
        quiet_hours(&self.news)
    }

    fn greets(&self, channel: &str) -> bool {
        self.quiet().is_none() && !self.news.remembered.greeted.contains(channel)
    }

    fn hello(&self, sandboxed: Option<bool>) -> Hello {
        Hello::from_report(self.news.report, self.news.first_verdict, sandboxed)
            .with_link(self.news.links)
    }

    fn greeted(&mut self, channel: &str, done: Result<(), Failure>) {
        match done {
            Ok(()) => {
                self.news.remembered.greeted.insert(channel.to_owned());
                self.delivered_to(channel);
            }
            Err(failure) => self.word.failures.push(failure),
        }
    }

    async fn say(
        &mut self,
        channel: &str,
        part: &Report,
        quiet: Option<&QuietPolicy>,
        say: impl AsyncFnOnce(&Changes, &mut ChannelHistory) -> Result<(), Failure>,
    ) {
        self.known.push(channel.to_owned());
        let remembered = &mut *self.news.remembered;
        let history = remembered.channels.entry(channel.to_owned()).or_default();
        let (changes, knows) = due(history, part, &remembered.lives, quiet);
        if !changes.is_empty() {
            if let Err(failure) = say(&changes, history).await {
                remembered
                    .failed
                    .insert(channel.to_owned(), failure.reason.clone());
                self.word.failures.push(failure);
                return;
            }
            self.word.channels.push(channel.to_owned());
        }
        history.arrived(knows);
        remembered.failed.remove(channel);
    }

    fn limit(&self) -> ServiceLimit {
        ServiceLimit {
            until: Instant::now() + SERVICE_FOR,
            failures: self.word.failures.len(),
        }
    }

    /// Whether the time is over and the service failed in it. The channel then waits for the next
    /// sweep.
    fn is_down(&mut self, channel: &str, limit: &ServiceLimit) -> bool {
        let failed = self.word.failures.get(limit.failures..);
        let failed = failed.and_then(<[_]>::last);
        let Some(failed) = failed.filter(|_| Instant::now() >= limit.until) else {
            return false;
        };
        let reason = format!("not tried, because {} failed for too long", failed.channel);
        let remembered = &mut *self.news.remembered;
        remembered.failed.insert(channel.to_owned(), reason);
        true
    }

    fn delivered_to(&mut self, channel: &str) {
        let at = self.news.report.at;
        let delivered = &mut self.news.remembered.delivered;
        delivered.insert(channel.to_owned(), at);
    }

    /// Removes channels that no sweep had for a time. A sweep by hand may have none.
    fn end(mut self) -> Word {
        for channel in self.word.channels.clone() {
            self.delivered_to(&channel);
        }
        let is_known = |channel: &String| self.known.contains(channel);
        let (remembered, at) = (self.news.remembered, self.news.report.at);
        let channels = remembered.channels.keys().chain(&remembered.greeted);
        for channel in channels.filter(|channel| !is_known(channel)) {
            let absent = &mut remembered.absent;
            absent.entry(channel.clone()).or_insert(at);
        }
        let is_kept = |since: Timestamp| at.duration_since(since) < ABSENT_FOR;
        let absent = &mut remembered.absent;
        absent.retain(|channel, since| !is_known(channel) && is_kept(*since));
        let absent = &remembered.absent;
        let stays = |channel: &String| is_known(channel) || absent.contains_key(channel);
        remembered.channels.retain(|channel, _| stays(channel));
        remembered.greeted.retain(|channel| stays(channel));
        remembered.delivered.retain(|channel, _| stays(channel));
        remembered.failed.retain(|channel, _| is_known(channel));
        self.word
    }
}

/// The name of a channel of the chat in the delivery state.
fn slack_channel(place: &Destination) -> String {
    match place {
        Some(place) => format!("{SLACK}/{place}"),
        None => SLACK.to_owned(),
    }
}
