//! The URLs and tokens of the webhooks of the policy, from one secret. Errors and `Debug` show only
//! names.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use ebb_cloud::http_post::{HttpPost, InvalidPostUrl};
use ebb_cloud::ports::{CloudError, CloudResult, Hooks};
use serde::Deserialize;
use thiserror::Error;

const CONTENT_TYPE: &str = "application/json; charset=utf-8";

/// Why a secret cannot be used for webhooks. The error contains nothing of the secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadHooksSecret {
    /// It is not the expected JSON object.
    #[error(
        "the secret is not a JSON object with a URL for each webhook, or with an object with `url` \
         and optionally `authorization` and `key`"
    )]
    Form,
    /// A URL is not valid.
    #[error("invalid url of {0} in the secret: {InvalidPostUrl}")]
    Url(String),
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum HookSecret {
    Url(String),
    Whole {
        url: String,
        authorization: Option<String>,
        key: Option<String>,
    },
}

struct Hook {
    post: HttpPost,
    authorization: Option<String>,
    key: Option<String>,
}

/// The webhooks of a secret, by name.
pub struct HookSecrets(BTreeMap<String, Hook>);

impl fmt::Debug for HookSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl HookSecrets {
    /// Parses the secret: an object with a URL, or with an object, for each name.
    ///
    /// # Errors
    /// If the format is wrong, or a URL is not private.
    pub fn from_secret(text: &str) -> Result<Self, BadHooksSecret> {
        let secrets: BTreeMap<String, HookSecret> =
            serde_json::from_str(text).map_err(|_| BadHooksSecret::Form)?;
        let hook = |(name, secret): (String, HookSecret)| {
            let (url, authorization, key) = match secret {
                HookSecret::Url(url) => (url, None, None),
                HookSecret::Whole {
                    url,
                    authorization,
                    key,
                } => (url, authorization, key),
            };
            let post = HttpPost::new(&url).map_err(|_| BadHooksSecret::Url(name.clone()))?;
            // An answer may repeat what was sent.
            let post = post.hiding(key.clone());
            let hook = Hook {
                post,
                authorization,
                key,
            };
            Ok((name, hook))
        };
        let hooks: Result<_, _> = secrets.into_iter().map(hook).collect();
        hooks.map(Self)
    }

    fn hook(&self, name: &str) -> CloudResult<&Hook> {
        self.0.get(name).ok_or_else(|| CloudError::Failed {
            operation: "webhook".to_owned(),
            message: format!("the secret of the webhooks has no '{name}'"),
        })
    }
}

#[async_trait]
impl Hooks for HookSecrets {
    async fn key(&self, name: &str) -> CloudResult<Option<String>> {
        Ok(self.hook(name)?.key.clone())
    }

    async fn post(&self, name: &str, id: &str, body: &str) -> CloudResult<()> {
        let hook = self.hook(name)?;
        let mut headers = vec![
            ("content-type", CONTENT_TYPE.to_owned()),
            ("idempotency-key", id.to_owned()),
        ];
        let authorization = hook.authorization.iter().cloned();
        headers.extend(authorization.map(|value| ("authorization", value)));
        hook.post.post(body.to_owned(), &headers).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::testing::request;

    #[test]
    fn a_secret_names_a_url_for_each_webhook_and_is_never_shown() {
        let check = |text: &str, expect: Result<usize, BadHooksSecret>| {
            let got = HookSecrets::from_secret(text);
            assert!(!format!("{got:?}").contains("hush"), "{got:?}");
            assert_eq!(got.map(|hooks| hooks.0.len()), expect, "{text}");
        };
        check(r#"{"teams": "https://x.y/hush"}"#, Ok(1));
        let whole = r#"{"ops": {"url": "https://x.y", "key": "hush", "authorization": "hush"}}"#;
        check(whole, Ok(1));
        check("{}", Ok(0));
        let url = Err(BadHooksSecret::Url("teams".to_owned()));
        check(r#"{"teams": "http://x.y/hush"}"#, url);
        for text in ["hush", "[]", r#"{"ops": {"uri": "hush"}}"#, r#"{"ops": 1}"#] {
            check(text, Err(BadHooksSecret::Form));
        }
    }

    #[tokio::test]
    async fn a_request_has_its_headers_and_a_refusal_hides_them() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let secret = format!(
            r#"{{"jira": {{"url": "http://{address}/x", "authorization": "Basic hush", "key": "mute"}}}}"#
        );
        let hooks = HookSecrets::from_secret(&secret).expect("a secret");
        assert_eq!(hooks.key("jira").await, Ok(Some("mute".to_owned())));
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let http_request = request(&mut stream).await;
            let answer = "HTTP/1.1 400 x\r\ncontent-length: 13\r\n\r\nbad hush mute";
            stream
                .write_all(answer.as_bytes())
                .await
                .expect("it is sent");
            http_request
        };
        let (http_request, got) = tokio::join!(serve, hooks.post("jira", "ab12", "{}"));
        for expect in ["idempotency-key: ab12\r\n", "authorization: Basic hush\r\n"] {
            assert!(http_request.contains(expect), "{http_request}");
        }
        let error = got.expect_err("refused").to_string();
        assert_eq!(error, "HTTP POST failed: HTTP 400: bad … …");
        let error = hooks.post("ops", "ab12", "{}").await.expect_err("none");
        assert!(error.to_string().contains("has no 'ops'"), "{error}");
    }
}
