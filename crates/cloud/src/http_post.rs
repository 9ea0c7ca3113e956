//! Sends text by HTTP POST, such as to a chat's incoming webhook. The URL is a secret, because it
//! allows posting, so `Debug` and errors show only its host.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use thiserror::Error as ThisError;
use url::form_urlencoded;

use crate::endpoint::Endpoint;
use crate::error_chain::reason;
use crate::http;
use crate::ports::{CloudError, CloudResult, bounded};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes of an answer that are read; Slack's answer repeats the message.
const MAX_ANSWER_BYTES: usize = 256 << 10;

const OPERATION: &str = "HTTP POST";

/// Minimum length of a part of a URL that is hidden on its own; shorter parts are common words.
const MIN_HIDDEN_CHARS: usize = 8;

/// The URL is not valid for a secret. The error contains nothing of the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ThisError)]
#[error(
    "the URL must be https with a host and without a user name; http is allowed only for \
     this machine"
)]
pub struct InvalidPostUrl;

/// A URL that accepts POST.
pub struct HttpPost {
    connector: Connector,
    url: String,
    /// Texts that no error may contain.
    hidden: Vec<String>,
}

/// The headers of a request.
type PostHeaders = [(&'static str, String)];

/// The status of an answer that is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// The time for which the receiver accepts no request; `None` if it does not say a number of
    /// seconds.
    pub retry_after: Option<Duration>,
}

impl ErrorAnswer {
    /// Reads the error of a POST; `None` if it has no answer.
    pub fn from_error(error: &CloudError) -> Option<Self> {
        let CloudError::Failed { operation, message } = error else {
            return None;
        };
        let answer = message
            .strip_prefix("HTTP ")
            .filter(|_| operation == OPERATION)?;
        let (head, _) = answer.split_once(": ")?;
        let (status, wait) = match head.split_once(", retry after ") {
            Some((status, wait)) => (status, wait.strip_suffix(" s")),
            None => (head, None),
        };
        let seconds = wait.and_then(|wait| wait.parse().ok());
        Some(Self {
            status: status.parse().ok()?,
            retry_after: seconds.map(Duration::from_secs),
        })
    }

    fn read(answer: &HttpResponse) -> Self {
        let wait = answer.headers().get("retry-after");
        let seconds = wait.and_then(|wait| wait.trim().parse().ok());
        Self {
            status: answer.status().as_u16(),
            retry_after: seconds.map(Duration::from_secs),
        }
    }
}

impl fmt::Display for ErrorAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}", self.status)?;
        match self.retry_after {
            Some(wait) => write!(f, ", retry after {} s", wait.as_secs()),
            None => Ok(()),
        }
    }
}

impl HttpPost {
    /// Checks the URL: https, or plain http to a loopback address.
    pub fn new(url: &str) -> Result<Self, InvalidPostUrl> {
        let url = Endpoint::parse(url).map_err(|_| InvalidPostUrl)?;
        Ok(Self {
            connector: http::connector(),
            url: url.as_str().to_owned(),
            hidden: parts_of(url.as_str()),
        })
    }

    /// The same, with errors that do not contain these texts.
    #[must_use]
    pub fn hiding(mut self, secrets: impl IntoIterator<Item = String>) -> Self {
        self.hidden.extend(secrets);
        self
    }

    fn request(&self, body: String, headers: &PostHeaders) -> Result<HttpRequest, InvalidPostUrl> {
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method("POST").map_err(|_| InvalidPostUrl)?;
        request
            .set_uri(self.url.as_str())
            .map_err(|_| InvalidPostUrl)?;
        for (name, value) in headers {
            let put = request.headers_mut().try_insert(*name, value.clone());
            put.map_err(|_| InvalidPostUrl)?;
        }
        Ok(request)
    }

    /// A text without secrets. An answer may repeat the URL, a part of it, or a token.
    fn without_secrets(&self, words: &str, headers: &PostHeaders) -> String {
        let path = path(&self.url).filter(|path| path.len() > 1);
        let tokens = headers.iter().filter(|(name, _)| *name == "authorization");
        let tokens = tokens.flat_map(|(_, value)| credentials(value));
        let others = self.hidden.iter().map(String::as_str).chain(tokens);
        let others = others.filter(|secret| !secret.is_empty());
        let mut hidden = vec![(self.url.as_str(), "(the URL)")];
        hidden.extend(path.map(|path| (path, "/…")));
        hidden.extend(others.map(|secret| (secret, "…")));
        // A secret may be a part of another one.
        hidden.sort_by_key(|(secret, _)| Reverse(secret.len()));
        let hide = |text: String, (secret, mark): (&str, &str)| text.replace(secret, mark);
        hidden.into_iter().fold(words.to_owned(), hide)
    }

    /// Posts `body` with an optional bearer token, and returns the beginning of the answer.
    ///
    /// # Errors
    /// If there is no answer in time, or its status is an error. No error contains the URL.
    pub async fn send(
        &self,
        body: &serde_json::Value,
        bearer: Option<&str>,
    ) -> CloudResult<Vec<u8>> {
        let json = "application/json; charset=utf-8".to_owned();
        let mut headers = vec![("content-type", json)];
        headers.extend(bearer.map(|token| ("authorization", format!("Bearer {token}"))));
        self.post(body.to_string(), &headers).await
    }

    /// Posts a text with these headers, and returns the beginning of the answer.
    ///
    /// # Errors
    /// If there is no answer in time, or its status is an error. No error contains the URL.
    pub async fn post(&self, body: String, headers: &PostHeaders) -> CloudResult<Vec<u8>> {
        let hide = |words: &str| self.without_secrets(words, headers);
        let request = self.request(body, headers);
        let request = request.map_err(|e| failed(&hide(&e.to_string())))?;
        let talk = async {
            let answer = self.connector.call(request).await;
            let answer = answer.map_err(|e| failed(&hide(&reason(&e))))?;
            let is_success = answer.status().is_success();
            let head = ErrorAnswer::read(&answer);
            let words = beginning(answer).await;
            if is_success {
                return Ok(words);
            }
            let words = String::from_utf8_lossy(&words);
            Err(failed(&format!("{head}: {}", hide(&words))))
        };
        let late = |_| failed("timed out waiting for a response");
        tokio::time::timeout(TIMEOUT, talk).await.map_err(late)?
    }
}

impl fmt::Debug for HttpPost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPost").finish_non_exhaustive()
    }
}

fn failed(message: &str) -> CloudError {
    CloudError::Failed {
        operation: OPERATION.to_owned(),
        message: bounded(message),
    }
}

/// The value of an `authorization` header, and what follows its scheme.
fn credentials(value: &str) -> impl Iterator<Item = &str> {
    value.split_whitespace().skip(1).chain([value])
}

/// The long segments of the path and the long values of the query, as they are written and decoded.
fn parts_of(url: &str) -> Vec<String> {
    let written = path(url).unwrap_or_default();
    let written = written.split('#').next().unwrap_or_default();
    let (path, query) = written.split_once('?').unwrap_or((written, ""));
    let pairs = query.split('&');
    let values = pairs.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    let parts = path.split('/').chain(values);
    let parts = parts.flat_map(|part| [part.to_owned(), decoded(part)]);
    parts
        .filter(|part| part.chars().count() >= MIN_HIDDEN_CHARS)
        .collect()
}

fn decoded(part: &str) -> String {
    let form = format!("={}", part.replace('&', "%26").replace('+', "%2B"));
    let pair = form_urlencoded::parse(form.as_bytes()).next();
    pair.map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

/// The part of a URL after the host, which is secret.
fn path(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.find(['/', '?']).map(|at| &rest[at..])
}

async fn beginning(answer: HttpResponse) -> Vec<u8> {
    let mut body = ByteStream::new(answer.into_body());
    let mut bytes = Vec::new();
    while let Some(Ok(piece)) = body.next().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() >= MAX_ANSWER_BYTES {
            bytes.truncate(MAX_ANSWER_BYTES);
            break;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_url_that_would_not_keep_the_secret_is_refused() {
        let check = |url: &str, expect: bool| {
            assert_eq!(HttpPost::new(url).is_ok(), expect, "{url}");
        };
        check("https://hooks.slack.com/services/T/B/x", true);
        check("http://127.0.0.1:x@evil.com/", false);
        check("http://hooks.slack.com/services/T/B/x", false);
    }

    /// Reads one request with a JSON body.
    async fn request(stream: &mut TcpStream) -> String {
        let mut bytes = Vec::new();
        let mut piece = [0; 4_096];
        while !bytes.ends_with(b"}") {
            let n = stream.read(&mut piece).await.expect("a request");
            assert!(n > 0, "incomplete request");
            bytes.extend_from_slice(&piece[..n]);
        }
        String::from_utf8(bytes).expect("text")
    }

    /// Answers one request with `answer`, and returns the request.
    async fn serve(listener: TcpListener, answer: &'static str) -> String {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let text = request(&mut stream).await;
        let sent = stream.write_all(answer.as_bytes()).await;
        sent.expect("the answer is sent");
        text
    }

    #[tokio::test]
    async fn what_is_posted_arrives_and_a_refusal_keeps_the_secret() {
        let check = async |answer, expect: Result<(), &str>| {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let hook = HttpPost::new(&format!("http://{address}/secret")).expect("loopback");
            let body = serde_json::json!({"text": "3 findings"});
            let (request, got) = tokio::join!(serve(listener, answer), hook.send(&body, None));
            assert!(
                request.starts_with("POST /secret HTTP/1.1\r\n"),
                "{request}"
            );
            assert!(request.ends_with(r#"{"text":"3 findings"}"#), "{request}");
            let result = got.map(drop).map_err(|e| e.to_string());
            assert_eq!(result.as_ref().map_err(String::as_str).copied(), expect);
        };
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Ok(())).await;
        check(
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 15\r\n\r\nno /secret here",
            Err("HTTP POST failed: HTTP 403: no /… here"),
        )
        .await;
    }

    #[tokio::test]
    async fn an_answer_that_repeats_a_part_of_a_secret_hides_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = format!("http://{address}/hook/SEGMENT-77?token=TOP%20SECRET99&v=1");
        let hook = HttpPost::new(&url).expect("loopback");
        let hook = hook.hiding(["ROUTING".to_owned()]);
        let body = serde_json::json!({"text": "3 findings"});
        let answer = "HTTP/1.1 429 x\r\nretry-after: 3\r\ncontent-length: 63\r\n\r\n\
            invalid TOP SECRET99, TOP%20SECRET99, SEGMENT-77 ABCDEF ROUTING";
        let (_, got) = tokio::join!(serve(listener, answer), hook.send(&body, Some("ABCDEF")));
        let error = got.expect_err("refused");
        assert_eq!(
            error.to_string(),
            "HTTP POST failed: HTTP 429, retry after 3 s: invalid …, …, … … …"
        );
        let expect = ErrorAnswer {
            status: 429,
            retry_after: Some(Duration::from_secs(3)),
        };
        assert_eq!(ErrorAnswer::from_error(&error), Some(expect));
    }

    #[test]
    fn a_secret_at_the_limit_of_an_error_is_hidden_before_it_is_cut() {
        let hook = HttpPost::new("https://x.y/?token=TOPSECRET99").expect("a URL");
        let words = format!("{}TOPSECRET99", "x".repeat(495));
        let error = failed(&hook.without_secrets(&words, &[])).to_string();
        assert!(error.ends_with("x…"), "{error}");
        assert_eq!(ErrorAnswer::from_error(&failed("timed out")), None);
    }

    #[tokio::test]
    async fn a_place_that_is_not_there_keeps_the_secret() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let hook = HttpPost::new(&format!("http://{address}/secret")).expect("loopback");
        let error = hook.send(&serde_json::json!({}), None).await;
        let error = error.expect_err("no one");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(!format!("{hook:?}").contains("secret"));
    }
}
