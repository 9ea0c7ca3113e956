//! Slack, configured by one secret: incoming webhooks, each for one channel, or a bot token, which
//! can post updates in a thread. The secret allows posting, so errors and `Debug` show only hosts
//! and names.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use ebb_cloud::http_post::{HttpPost, InvalidPostUrl};
use ebb_cloud::ports::{Chat, ChatPost, ChatSearch, CloudError, CloudResult, bounded};
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use crate::retry::unsure_if_late;

const OPERATION: &str = "slack";

/// Slack's API; GovSlack has another URL.
const API: &str = "https://slack.com/api";

/// Why a secret cannot be used for Slack. The error contains nothing of the secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadSlackSecret {
    /// It is neither a URL nor the expected JSON object.
    #[error(
        "the secret must be a webhook URL, or a JSON object with `webhook` or with `bot_token` and \
         `channel`, and optionally `channels` by name"
    )]
    Form,
    /// One of its URLs is not valid.
    #[error("invalid {0} in the secret: {InvalidPostUrl}")]
    Url(String),
    /// A bot token has no channel.
    #[error("the secret has a bot_token but no channel; add the id of the default channel")]
    NoChannel,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SlackSecret {
    webhook: Option<String>,
    bot_token: Option<String>,
    channel: Option<String>,
    channels: BTreeMap<String, String>,
    /// Whether the app sends the actions of buttons to Ebb's API.
    buttons: bool,
    api: Option<String>,
}

/// A Slack client.
pub struct SlackChat {
    /// URLs for webhooks, channel ids for a bot; `None` is the default channel.
    places: BTreeMap<Option<String>, String>,
    bot: Option<Bot>,
}

struct Bot {
    token: String,
    api: String,
    has_buttons: bool,
}

impl fmt::Debug for SlackChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.places.keys().collect();
        f.debug_tuple("SlackChat").field(&names).finish()
    }
}

impl SlackChat {
    /// Parses the secret: the URL of a webhook, or an object.
    ///
    /// # Errors
    /// If it contains no destination.
    pub fn from_secret(text: &str) -> Result<Self, BadSlackSecret> {
        let secret = match text.trim() {
            text if text.starts_with('{') => {
                serde_json::from_str(text).map_err(|_| BadSlackSecret::Form)?
            }
            url => SlackSecret {
                webhook: Some(url.to_owned()),
                ..SlackSecret::default()
            },
        };
        let (default, bot) = match (secret.webhook, secret.bot_token) {
            (Some(url), None) => (url, None),
            (None, Some(token)) => {
                let api = secret.api.unwrap_or_else(|| API.to_owned());
                let channel = secret.channel.ok_or(BadSlackSecret::NoChannel)?;
                let has_buttons = secret.buttons;
                (
                    channel,
                    Some(Bot {
                        token,
                        api,
                        has_buttons,
                    }),
                )
            }
            _ => return Err(BadSlackSecret::Form),
        };
        let named = secret.channels.into_iter();
        let mut places: BTreeMap<_, _> = named.map(|(name, at)| (Some(name), at)).collect();
        places.insert(None, default);
        let url = |name: &str, url: &str| {
            let made = HttpPost::new(url).map(drop);
            made.map_err(|_| BadSlackSecret::Url(name.to_owned()))
        };
        match &bot {
            Some(bot) => url("api", &bot.api)?,
            None => places
                .iter()
                .try_for_each(|(name, at)| url(name.as_deref().unwrap_or("webhook"), at))?,
        }
        Ok(Self { places, bot })
    }
}

fn failed(message: impl fmt::Display) -> CloudError {
    CloudError::Failed {
        operation: OPERATION.to_owned(),
        message: bounded(&message.to_string()),
    }
}

/// The event type of the metadata that identifies a message.
///
/// Source: Slack, "Message metadata": an event type and a payload that `conversations.history`
/// returns with `include_all_metadata`.
const DIGEST: &str = "ebb_digest";

/// Maximum number of messages in a search; a channel has fewer between a crash and the next sweep.
const SEARCHED: usize = 200;

/// Maximum difference between the clocks of this machine and Slack.
const CLOCKS_DIFFER: Duration = Duration::from_secs(120);

impl SlackChat {
    fn place(&self, channel: &Option<String>) -> CloudResult<&str> {
        let place = self.places.get(channel).map(String::as_str);
        place.ok_or_else(|| {
            let name = channel.as_deref().unwrap_or_default();
            failed(format!(
                "the secret has no channel '{name}' of the policy; add it to `channels`"
            ))
        })
    }
}

impl Bot {
    fn method(&self, name: &str) -> CloudResult<HttpPost> {
        let url = format!("{}/{name}", self.api.trim_end_matches('/'));
        HttpPost::new(&url).map_err(failed)
    }
}

/// The answer of a successful Slack method. The reason of another one does not contain the token.
fn read_answer(method: &str, answer: &[u8], token: &str) -> CloudResult<Value> {
    let answer: Value = serde_json::from_slice(answer)
        .map_err(|_| failed(format!("the response of {method} is not JSON")))?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(answer),
        _ => {
            let why = answer["error"].as_str().unwrap_or("no reason given");
            let why = match token {
                "" => why.to_owned(),
                token => why.replace(token, "…"),
            };
            Err(failed(format!("{method}: {why}")))
        }
    }
}

/// A search as a URL-encoded form, because read methods do not accept JSON.
fn form_of(search: &ChatSearch, place: &str) -> String {
    let since = search.since.checked_sub(CLOCKS_DIFFER);
    let since = since.unwrap_or(search.since).as_second();
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("channel", place)
        .append_pair("include_all_metadata", "true")
        .append_pair("oldest", &since.to_string())
        .append_pair("limit", &SEARCHED.to_string());
    if let Some(thread) = &search.thread {
        form.append_pair("ts", thread);
    }
    form.finish()
}

#[async_trait]
impl Chat for SlackChat {
    async fn post(&self, post: &ChatPost) -> CloudResult<Option<String>> {
        let place = self.place(&post.channel)?;
        let Some(bot) = &self.bot else {
            let webhook = HttpPost::new(place).map_err(failed)?;
            let sent = webhook.send(&post.body, None).await;
            return sent.map(|_| None).map_err(unsure_if_late);
        };
        let mut body = post.body.clone();
        body["channel"] = json!(place);
        if let Some(thread) = &post.thread {
            body["thread_ts"] = json!(thread);
        }
        if let Some(id) = &post.id {
            body["metadata"] = json!({"event_type": DIGEST, "event_payload": {"id": id}});
        }
        let method = "chat.postMessage";
        let answer = bot.method(method)?.send(&body, Some(&bot.token)).await?;
        let answer = read_answer(method, &answer, &bot.token)?;
        Ok(answer["ts"].as_str().map(str::to_owned))
    }

    /// An incoming webhook cannot read. A bot needs `channels:history` (in a private channel
    /// `groups:history`).
    async fn find(&self, search: &ChatSearch) -> CloudResult<Option<String>> {
        let place = self.place(&search.channel)?;
        let Some(bot) = &self.bot else {
            return Ok(None);
        };
        let method = match &search.thread {
            None => "conversations.history",
            Some(_) => "conversations.replies",
        };
        let headers = [
            (
                "content-type",
                "application/x-www-form-urlencoded".to_owned(),
            ),
            ("authorization", format!("Bearer {}", bot.token)),
        ];
        let answer = bot
            .method(method)?
            .post(form_of(search, place), &headers)
            .await?;
        let answer = read_answer(method, &answer, &bot.token)?;
        let is_it = |message: &&Value| {
            let named = &message["metadata"];
            named["event_type"] == DIGEST && named["event_payload"]["id"] == search.id.as_str()
        };
        let found = answer["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .find(is_it);
        Ok(found.and_then(|message| message["ts"].as_str().map(str::to_owned)))
    }

    /// An incoming webhook also posts for an app, but only the bot's secret says that Ebb's API
    /// receives the actions.
    async fn has_buttons(&self) -> bool {
        self.bot.as_ref().is_some_and(|bot| bot.has_buttons)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::testing::request;

    #[test]
    fn a_secret_is_a_url_or_an_object_and_is_never_shown() {
        let check = |text: &str, expect: Result<usize, BadSlackSecret>| {
            let got = SlackChat::from_secret(text);
            assert_eq!(
                got.as_ref()
                    .map(|chat| chat.places.len())
                    .map_err(Clone::clone),
                expect
            );
            assert!(!format!("{got:?}").contains("hush"), "{got:?}");
        };
        let form = || Err(BadSlackSecret::Form);
        check("https://hooks.slack.com/hush\n", Ok(1));
        check(
            r#"{"webhook": "https://x.y/hush", "channels": {"lab": "https://x.y/hush2"}}"#,
            Ok(2),
        );
        check(
            r#"{"bot_token": "hush", "channel": "C1", "channels": {"lab": "C2"}}"#,
            Ok(2),
        );
        check(r#"{"bot_token": "hush"}"#, Err(BadSlackSecret::NoChannel));
        check(
            r#"{"bot_token": "hush", "webhook": "https://x.y/hush"}"#,
            form(),
        );
        check(r#"{"hook": "https://x.y/hush"}"#, form());
        check("{}", form());
        let url = |name: &str| Err(BadSlackSecret::Url(name.to_owned()));
        check("hush", url("webhook"));
        check(
            r#"{"webhook": "https://x.y/hush", "channels": {"lab": "ftp://hush"}}"#,
            url("lab"),
        );
    }

    /// Answers one request with `answer` as JSON, and returns the request.
    async fn serve(listener: TcpListener, answer: &str) -> String {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let http_request = request(&mut stream).await;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let sent = stream.write_all((head + answer).as_bytes()).await;
        sent.expect("the answer is sent");
        http_request
    }

    #[tokio::test]
    async fn a_bot_posts_in_a_thread_and_a_refusal_keeps_the_token() {
        let check = async |answer: &str, expect: Result<Option<&str>, &str>| {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let secret = json!({
                "bot_token": "xoxb-hush", "channel": "C1", "channels": {"lab": "C2"},
                "api": format!("http://{address}/api"),
            });
            let chat = SlackChat::from_secret(&secret.to_string()).expect("a secret");
            let post = ChatPost {
                channel: Some("lab".to_owned()),
                thread: Some("17.5".to_owned()),
                body: json!({"text": "3 findings"}),
                id: None,
            };
            let (http_request, got) = tokio::join!(serve(listener, answer), chat.post(&post));
            assert!(
                http_request.starts_with("POST /api/chat.postMessage HTTP/1.1\r\n"),
                "{http_request}"
            );
            assert!(
                http_request.contains("authorization: Bearer xoxb-hush\r\n"),
                "{http_request}"
            );
            let body = r#"{"channel":"C2","text":"3 findings","thread_ts":"17.5"}"#;
            assert!(http_request.ends_with(body), "{http_request}");
            let got = got.map_err(|error| error.to_string());
            let got = got.as_ref().map(Option::as_deref).map_err(String::as_str);
            assert_eq!(got, expect);
        };
        check(r#"{"ok": true, "ts": "18.25"}"#, Ok(Some("18.25"))).await;
        let why = "slack failed: chat.postMessage: channel_not_found";
        check(r#"{"ok": false, "error": "channel_not_found"}"#, Err(why)).await;
        let why = "slack failed: chat.postMessage: bad …";
        check(r#"{"ok": false, "error": "bad xoxb-hush"}"#, Err(why)).await;
    }

    #[tokio::test]
    async fn a_bot_finds_the_message_that_it_posted() {
        let check = async |answer: &str,
                           thread: Option<&str>,
                           expect: Result<Option<&str>, &str>| {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let secret = json!({
                "bot_token": "xoxb-hush", "channel": "C1",
                "api": format!("http://{address}/api"),
            });
            let chat = SlackChat::from_secret(&secret.to_string()).expect("a secret");
            let search = ChatSearch {
                channel: None,
                thread: thread.map(str::to_owned),
                id: "ab12".to_owned(),
                since: "2026-09-01T00:02:00Z".parse().expect("a time"),
            };
            let serve = async {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut buffer = [0; 4_096];
                let read = stream.read(&mut buffer).await.expect("a request");
                let length = answer.len();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}");
                stream.write_all(head.as_bytes()).await.expect("it is sent");
                String::from_utf8_lossy(&buffer[..read]).into_owned()
            };
            let (http_request, got) = tokio::join!(serve, chat.find(&search));
            let method = thread.map_or("history", |_| "replies");
            let line = format!("POST /api/conversations.{method} HTTP/1.1\r\n");
            assert!(http_request.starts_with(&line), "{http_request}");
            let got = got.map_err(|error| error.to_string());
            let got = got.as_ref().map(Option::as_deref).map_err(String::as_str);
            assert_eq!(got, expect);
        };
        let message = |id: &str| {
            format!(
                r#"{{"ok": true, "messages": [{{"ts": "1.0", "text": "x"}}, {{"ts": "2.5",
                "metadata": {{"event_type": "ebb_digest", "event_payload": {{"id": "{id}"}}}}}}]}}"#
            )
        };
        check(&message("ab12"), None, Ok(Some("2.5"))).await;
        check(&message("ab12"), Some("1.0"), Ok(Some("2.5"))).await;
        check(&message("cd34"), None, Ok(None)).await;
        let why = "slack failed: conversations.history: missing_scope";
        check(r#"{"ok": false, "error": "missing_scope"}"#, None, Err(why)).await;
        let webhook = SlackChat::from_secret("https://x.y/hush").expect("a secret");
        let search = ChatSearch {
            channel: None,
            thread: None,
            id: "ab12".to_owned(),
            since: jiff::Timestamp::UNIX_EPOCH,
        };
        assert_eq!(webhook.find(&search).await, Ok(None));
    }

    #[tokio::test]
    async fn a_channel_that_the_secret_lacks_is_named() {
        let chat = SlackChat::from_secret("https://x.y/hush").expect("a secret");
        let post = ChatPost {
            channel: Some("lab".to_owned()),
            thread: None,
            body: json!({}),
            id: None,
        };
        let error = chat.post(&post).await.expect_err("no such channel");
        assert!(error.to_string().contains("no channel 'lab'"), "{error}");
    }
}
