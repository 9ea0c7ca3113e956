//! Sends events to a webhook of the user, one in each request. Events are signed, so that the
//! receiver can verify the sender and detect replays.
//!
//! Source: Standard Webhooks, "Webhook headers" and "Signature scheme" (symmetric);
//! CloudEvents 1.0.2, "HTTP protocol binding", structured content mode.

use std::fmt;

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ebb_cloud::http_post::{HttpPost, InvalidPostUrl};
use ebb_cloud::ports::{CloudResult, Events};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::Deserialize;
use sha2::Sha256;
use thiserror::Error;

const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// The prefix of a key.
const KEY_PREFIX: &str = "whsec_";

/// Length of a key in bytes, as in the specification.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Why a secret cannot be used for events. The error contains nothing of the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadEventsSecret {
    /// It is not the expected JSON object.
    #[error("the secret is not a JSON object with `url` and `key`")]
    Form,
    /// The URL is not valid.
    #[error("invalid url in the secret: {0}")]
    Url(#[from] InvalidPostUrl),
    /// A key is not valid.
    #[error(
        "invalid key in the secret: expected {KEY_PREFIX} and 24 to 64 bytes in base64, such as \
         whsec_$(openssl rand -base64 32); during a rotation, the new and the old key separated by \
         a space"
    )]
    Key,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSecret {
    url: String,
    key: String,
}

/// A webhook that receives signed events.
pub struct SignedWebhook {
    hook: HttpPost,
    /// All keys sign, so that a receiver can rotate keys.
    keys: Vec<Hmac<Sha256>>,
}

impl fmt::Debug for SignedWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedWebhook").finish_non_exhaustive()
    }
}

impl SignedWebhook {
    /// Parses the secret: `{"url": "https://…", "key": "whsec_…"}`.
    ///
    /// # Errors
    /// If the format is wrong, or the URL is not private.
    pub fn from_secret(text: &str) -> Result<Self, BadEventsSecret> {
        let secret: WebhookSecret =
            serde_json::from_str(text).map_err(|_| BadEventsSecret::Form)?;
        let keys = secret.key.split_whitespace().map(key);
        let keys: Vec<_> = keys.collect::<Option<_>>().ok_or(BadEventsSecret::Key)?;
        if keys.is_empty() {
            return Err(BadEventsSecret::Key);
        }
        let hook = HttpPost::new(&secret.url)?;
        Ok(Self { hook, keys })
    }

    /// `v1,` and the signature, for each key.
    fn signatures(&self, id: &str, at: &str, body: &str) -> String {
        let sign = |key: &Hmac<Sha256>| {
            let signed = key.clone().chain_update(format!("{id}.{at}.{body}"));
            let signature = signed.finalize().into_bytes();
            format!("v1,{}", BASE64_STANDARD.encode(signature))
        };
        let all: Vec<_> = self.keys.iter().map(sign).collect();
        all.join(" ")
    }
}

fn key(text: &str) -> Option<Hmac<Sha256>> {
    let bytes = BASE64_STANDARD
        .decode(text.strip_prefix(KEY_PREFIX)?)
        .ok()?;
    let is_long_enough = KEY_BYTES.contains(&bytes.len());
    is_long_enough.then(|| Hmac::new_from_slice(&bytes).ok())?
}

#[async_trait]
impl Events for SignedWebhook {
    async fn send(&self, id: &str, body: &str) -> CloudResult<()> {
        let at = Timestamp::now().as_second().to_string();
        let headers = [
            ("content-type", CONTENT_TYPE.to_owned()),
            ("webhook-signature", self.signatures(id, &at, body)),
            ("webhook-timestamp", at),
            ("webhook-id", id.to_owned()),
        ];
        self.hook.post(body.to_owned(), &headers).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::testing::request;

    const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXI=";

    #[test]
    fn a_secret_is_an_object_with_a_url_and_keys_and_is_never_shown() {
        let check = |text: &str, expect: Result<usize, BadEventsSecret>| {
            let got = SignedWebhook::from_secret(text);
            assert!(!format!("{got:?}").contains("hush"), "{got:?}");
            assert_eq!(got.map(|hook| hook.keys.len()), expect, "{text}");
        };
        let with = |url: &str, key: &str| format!(r#"{{"url": "{url}", "key": "{key}"}}"#);
        check(&with("https://x.y/hush", KEY), Ok(1));
        check(&with("https://x.y/hush", &format!("{OTHER} {KEY}")), Ok(2));
        let url = Err(BadEventsSecret::Url(InvalidPostUrl));
        check(&with("http://x.y/hush", KEY), url);
        for key in ["", "hush", "whsec_aHVzaA==", "whsec_???"] {
            check(&with("https://x.y", key), Err(BadEventsSecret::Key));
        }
        check("https://x.y/hush", Err(BadEventsSecret::Form));
        check(r#"{"url": "https://x.y/hush"}"#, Err(BadEventsSecret::Form));
    }

    /// The example of the specification's own libraries; Python's `hmac` gives the same result.
    #[test]
    fn a_signature_is_what_another_program_makes_of_the_same() {
        let secret = format!(r#"{{"url": "https://x.y", "key": "{KEY}"}}"#);
        let hook = SignedWebhook::from_secret(&secret).expect("a secret");
        let (id, at) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330");
        let signature = hook.signatures(id, at, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// A receiver: answers each request. Returns its id, and whether one of its signatures is
    /// recent and made with `key`.
    async fn receive(listener: TcpListener, key: &str, answers: &[u16]) -> Vec<(String, bool)> {
        let key = BASE64_STANDARD.decode(&key[KEY_PREFIX.len()..]);
        let key = key.expect("base64");
        let mut taken = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let http_request = request(&mut stream).await;
            let (head, body) = http_request.split_once("\r\n\r\n").expect("a head");
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let headers: BTreeMap<_, _> = lines.collect();
            assert_eq!(headers["content-type"], CONTENT_TYPE);
            let (id, at) = (headers["webhook-id"], headers["webhook-timestamp"]);
            let age = Timestamp::now().as_second() - at.parse::<i64>().expect("seconds");
            let signatures = headers["webhook-signature"].split(' ');
            let is_mine = |signature: &str| {
                let bytes = BASE64_STANDARD
                    .decode(signature.strip_prefix("v1,")?)
                    .ok()?;
                let mac = <Hmac<Sha256>>::new_from_slice(&key).ok()?;
                let mac = mac.chain_update(format!("{id}.{at}.{body}"));
                mac.verify_slice(&bytes).ok()
            };
            let is_mine = signatures.filter_map(is_mine).count() == 1;
            taken.push((id.to_owned(), is_mine && (0..60).contains(&age)));
            let answer = format!("HTTP/1.1 {answer} x\r\ncontent-length: 0\r\n\r\n");
            let sent = stream.write_all(answer.as_bytes()).await;
            sent.expect("the answer is sent");
        }
        taken
    }

    #[tokio::test]
    async fn a_receiver_takes_what_its_key_signed_and_knows_what_is_sent_again() {
        let check = async |keys: &str, answers: &[u16], valid: bool| {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let secret = format!(r#"{{"url": "http://{address}/hook", "key": "{keys}"}}"#);
            let hook = SignedWebhook::from_secret(&secret).expect("a secret");
            let send = async {
                let mut got = Vec::new();
                for _ in answers {
                    got.push(hook.send("evt-1", r#"{"specversion":"1.0"}"#).await.is_ok());
                }
                got
            };
            let (taken, sent) = tokio::join!(receive(listener, KEY, answers), send);
            let expect: Vec<_> = answers.iter().map(|code| *code == 204).collect();
            assert_eq!(sent, expect, "success is what the receiver answers");
            assert_eq!(taken, vec![("evt-1".to_owned(), valid); answers.len()]);
        };
        check(KEY, &[500, 204], true).await;
        check(&format!("{OTHER} {KEY}"), &[204], true).await;
        check(OTHER, &[401], false).await;
    }
}
