//! HTTP to a server on this machine: one request for each connection, no TLS.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The most bytes of an answer; a report of the demo has a hundredth of it.
const MAX_BYTES: u64 = 64 << 20;

/// The answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// The status.
    pub(super) status: u16,
    /// The headers as received.
    pub(super) head: String,
    /// The whole body.
    pub(super) body: Vec<u8>,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// The method.
    pub(super) method: &'a str,
    /// `http://host:port/path`.
    pub(super) url: &'a str,
    /// Names and values of further headers.
    pub(super) headers: &'a [(&'a str, &'a str)],
    /// The body; empty for none.
    pub(super) body: &'a [u8],
    /// The time limit of the answer.
    pub(super) patience: Duration,
}

impl<'a> Request<'a> {
    /// A GET request.
    pub(super) const fn get(url: &'a str) -> Self {
        Self {
            method: "GET",
            url,
            headers: &[],
            body: &[],
            patience: Duration::from_secs(30),
        }
    }

    /// Sends the request.
    ///
    /// # Errors
    /// If there is no answer; an answer with an error status is not an error.
    pub(super) async fn send(self) -> Result<Answer> {
        let about = || format!("{} {}", self.method, self.url);
        tokio::time::timeout(self.patience, self.exchange())
            .await
            .with_context(|| format!("timed out after {} s", self.patience.as_secs()))
            .and_then(|answer| answer)
            .with_context(about)
    }

    async fn exchange(self) -> Result<Answer> {
        let rest = self
            .url
            .strip_prefix("http://")
            .context("not an http URL")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut connection = TcpStream::connect(host).await?;
        // HTTP/1.0, so that the body ends with the connection.
        let mut head = format!(
            "{} /{path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n",
            self.method,
            self.body.len()
        );
        for (name, value) in self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        connection.write_all(head.as_bytes()).await?;
        connection.write_all(b"\r\n").await?;
        connection.write_all(self.body).await?;
        let mut bytes = Vec::new();
        connection.take(MAX_BYTES).read_to_end(&mut bytes).await?;
        parse(&bytes)
    }
}

impl Answer {
    /// The body, if the status is a success.
    ///
    /// # Errors
    /// The status with the server's message.
    pub(super) fn good(self) -> Result<Vec<u8>> {
        if !(200..300).contains(&self.status) {
            let message = String::from_utf8_lossy(&self.body);
            bail!(
                "status {}: {}",
                self.status,
                message.chars().take(2000).collect::<String>()
            );
        }
        Ok(self.body)
    }

    /// The value of a header; upper and lower case of its name do not differ.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .next()
    }
}

fn parse(bytes: &[u8]) -> Result<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.context("the answer has no head")?;
    let head = std::str::from_utf8(&bytes[..end]).context("the answer's head is not text")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|number| number.parse().ok());
    Ok(Answer {
        status: status.context("the answer has no status")?,
        head: head.to_owned(),
        body: bytes[end + 4..].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_status_head_and_body() {
        let answer =
            parse(b"HTTP/1.1 404 Not Found\r\nX-A: 1\r\n\r\nno\r\n\r\nt").expect("it is whole");
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (404, &b"no\r\n\r\nt"[..])
        );
        assert_eq!(
            (answer.header("x-a"), answer.header("x-b")),
            (Some("1"), None)
        );
        assert!(answer.good().is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\n").is_err());
        assert!(parse(b"hello\r\n\r\n").is_err());
    }
}
