//! Sends text by HTTP POST, such as to a chat's incoming webhook. The URL is a secret, because it
//! allows posting, so `Debug` and errors show only its host.

use std::fmt;
use std::time::Duration;

use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use thiserror::Error as ThisError;

use crate::endpoint::Endpoint;
use crate::error_chain::reason;
use crate::http;
use crate::ports::{CloudError, CloudResult, bounded};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes of an answer that are read; Slack's answer repeats the message.
const MAX_ANSWER_BYTES: usize = 256 << 10;

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
}

impl HttpPost {
    /// Checks the URL: https, or plain http to a loopback address.
    pub fn new(url: &str) -> Result<Self, InvalidPostUrl> {
        let url = Endpoint::parse(url).map_err(|_| InvalidPostUrl)?;
        Ok(Self {
            connector: http::connector(),
            url: url.as_str().to_owned(),
        })
    }

    fn request(
        &self,
        body: String,
        headers: &[(&'static str, String)],
    ) -> Result<HttpRequest, InvalidPostUrl> {
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

    fn failed(&self, words: &str) -> CloudError {
        let secret = path(&self.url).unwrap_or(&self.url);
        let mut message = words.replace(&self.url, "(the URL)");
        if secret.len() > 1 {
            message = message.replace(secret, "/…");
        }
        CloudError::Failed {
            operation: "HTTP POST".to_owned(),
            message: bounded(&message),
        }
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
    pub async fn post(
        &self,
        body: String,
        headers: &[(&'static str, String)],
    ) -> CloudResult<Vec<u8>> {
        let request = self
            .request(body, headers)
            .map_err(|e| self.failed(&e.to_string()))?;
        let talk = async {
            let answer = self.connector.call(request).await;
            let answer = answer.map_err(|e| self.failed(&reason(&e)))?;
            let status = answer.status();
            let words = beginning(answer).await;
            if status.is_success() {
                return Ok(words);
            }
            let words = String::from_utf8_lossy(&words);
            Err(self.failed(&format!("HTTP {}: {words}", status.as_u16())))
        };
        let late = |_| self.failed("timed out waiting for a response");
        tokio::time::timeout(TIMEOUT, talk).await.map_err(late)?
    }
}

impl fmt::Debug for HttpPost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPost").finish_non_exhaustive()
    }
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
        let mut asked = Vec::new();
        let mut piece = [0; 4_096];
        while !asked.ends_with(b"}") {
            let n = stream.read(&mut piece).await.expect("a request");
            assert!(n > 0, "incomplete request");
            asked.extend_from_slice(&piece[..n]);
        }
        String::from_utf8(asked).expect("text")
    }

    /// Answers one request with `answer`, and returns the request.
    async fn serve(listener: TcpListener, answer: &'static str) -> String {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let asked = request(&mut stream).await;
        let sent = stream.write_all(answer.as_bytes()).await;
        sent.expect("the answer is sent");
        asked
    }

    #[tokio::test]
    async fn what_is_posted_arrives_and_a_refusal_keeps_the_secret() {
        let check = async |answer, expect: Result<(), &str>| {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let hook = HttpPost::new(&format!("http://{address}/secret")).expect("loopback");
            let body = serde_json::json!({"text": "3 findings"});
            let (asked, got) = tokio::join!(serve(listener, answer), hook.send(&body, None));
            assert!(asked.starts_with("POST /secret HTTP/1.1\r\n"), "{asked}");
            assert!(asked.ends_with(r#"{"text":"3 findings"}"#), "{asked}");
            let told = got.map(drop).map_err(|e| e.to_string());
            assert_eq!(told.as_ref().map_err(String::as_str).copied(), expect);
        };
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Ok(())).await;
        check(
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 15\r\n\r\nno /secret here",
            Err("HTTP POST failed: HTTP 403: no /… here"),
        )
        .await;
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
