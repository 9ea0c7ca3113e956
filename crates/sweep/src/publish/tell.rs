//! The word to people: one digest to a chat and one email, only when something is
//! new, grew or ended.

use ebb_cloud::ports::{Email, Mailer, Webhook};
use ebb_domain::report::Report;
use serde_json::{Value, json};

use super::{Failure, attempt};
use crate::changes::{self, Changes, Findings, Known, Told};
use crate::render;

/// Ended findings named at most.
const NAMED: usize = 5;

/// From whom and to whom email goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// The verified sender.
    pub from: String,
    /// The recipients.
    pub to: Vec<String>,
}

/// Where people are told; `None` for what is not set up.
#[derive(Clone, Copy, Default)]
pub struct Channels<'a> {
    /// The chat.
    pub webhook: Option<&'a dyn Webhook>,
    /// Email.
    pub mail: Option<(&'a dyn Mailer, &'a Addresses)>,
}

/// What became of the word to people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// The channels that took it.
    pub channels: Vec<&'static str>,
    /// Those that did not.
    pub failures: Vec<Failure>,
}

/// Tells each channel what changed since it was last told, and notes that in `told`;
/// nothing where nothing did.
pub async fn tell(channels: &Channels<'_>, report: &Report, told: &mut Told) -> Word {
    let mut word = Word::default();
    if let Some(webhook) = channels.webhook {
        let post = async |changes: Changes| {
            let body = digest(report, &changes);
            attempt("slack", || webhook.post(&body)).await
        };
        word.say("slack", &mut told.slack, report, post).await;
    }
    if let Some((mailer, addresses)) = channels.mail {
        let send = async |changes: Changes| {
            let email = email(report, &changes, addresses);
            attempt("email", || mailer.send(&email)).await
        };
        word.say("email", &mut told.email, report, send).await;
    }
    word
}

impl Word {
    async fn say(
        &mut self,
        channel: &'static str,
        told: &mut Findings,
        report: &Report,
        send: impl AsyncFnOnce(Changes) -> Result<(), Failure>,
    ) {
        let (changes, knows) = changes::since(told, report);
        if !changes.is_empty() {
            if let Err(failure) = send(changes).await {
                self.failures.push(failure);
                return;
            }
            self.channels.push(channel);
        }
        *told = knows;
    }
}

/// The digest keeps to Slack's bounds with room for one line more.
const SLACK_NEWS_CHARS: usize = 120;

fn digest(report: &Report, changes: &Changes) -> Value {
    let mut body = render::slack(report);
    let news: String = news(changes).chars().take(SLACK_NEWS_CHARS).collect();
    let line = json!({"type": "context", "elements": [{"type": "plain_text", "text": news}]});
    if let Some(blocks) = body.get_mut("blocks").and_then(Value::as_array_mut) {
        blocks.insert(blocks.len().min(1), line);
    }
    body
}

fn email(report: &Report, changes: &Changes, addresses: &Addresses) -> Email {
    let parts = render::email(report);
    Email {
        from: addresses.from.clone(),
        to: addresses.to.clone(),
        subject: format!("{} ({})", parts.subject, counts(changes)),
        text: format!("{}\n\n{}", news(changes), parts.text),
        html: parts.html,
    }
}

fn counts(changes: &Changes) -> String {
    let parts = [
        ("new", changes.new.len()),
        ("grew", changes.grown.len()),
        ("ended", changes.ended.len()),
    ];
    let some = parts.iter().filter(|(_, n)| *n > 0);
    let words: Vec<String> = some.map(|(word, n)| format!("{n} {word}")).collect();
    words.join(", ")
}

/// One line: how much is new, grew and ended, and what ended, which the report no
/// longer shows.
fn news(changes: &Changes) -> String {
    let mut line = counts(changes);
    for (n, known) in changes.ended.values().take(NAMED).enumerate() {
        line.push_str(if n == 0 { ": " } else { "; " });
        line.push_str(&name(known));
    }
    if changes.ended.len() > NAMED {
        line.push_str("; …");
    }
    line
}

/// Names come from tags, which anyone may have written.
fn name(known: &Known) -> String {
    let name = known.name.as_deref().unwrap_or(&known.resource);
    let plain: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    format!("{} {plain} in {}", known.kind, known.region)
}
