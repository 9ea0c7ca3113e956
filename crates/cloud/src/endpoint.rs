//! Checks the addresses of HTTP services that receive a secret or data.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use url::{Host, Url};

/// Why an address is refused. No variant contains the address, which may contain a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadEndpoint {
    /// It is not a URL, or contains white space or control characters.
    #[error("not a valid URL")]
    Form,
    /// It contains a user name or password, which can make another host look like the intended one.
    #[error("the URL contains a user name or password; remove it up to the '@'")]
    UserInfo,
    /// It is neither https nor plain http to this machine.
    #[error("the URL must be https with a host; http is allowed only for this machine")]
    NotPrivate,
}

/// An address over https, or over plain http on this machine. `Debug` shows its host only.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// Parses an address; white space around it is ignored.
    ///
    /// # Errors
    /// If it is not a URL, contains a user name, or would send data unencrypted.
    pub fn parse(text: &str) -> Result<Self, BadEndpoint> {
        let text = text.trim();
        // The parser drops tabs and line ends inside a URL and treats '\' as '/'. Then a person
        // could take the address for another one.
        let is_strange = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
        if text.contains(is_strange) || !text.contains("://") {
            return Err(BadEndpoint::Form);
        }
        let url = Url::parse(text).map_err(|_| BadEndpoint::Form)?;
        let authority = text.split_once("://").map_or("", |(_, rest)| rest);
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        // The parser drops an empty user name.
        if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
            return Err(BadEndpoint::UserInfo);
        }
        // The parser treats `https:///x` as host x.
        match (url.scheme(), url.host()) {
            _ if authority.is_empty() => Err(BadEndpoint::NotPrivate),
            ("https", Some(_)) => Ok(Self(url)),
            ("http", Some(host)) if is_this_machine(&host) => Ok(Self(url)),
            _ => Err(BadEndpoint::NotPrivate),
        }
    }

    /// The host.
    pub fn host(&self) -> Option<&str> {
        self.0.host_str()
    }

    /// Whether requests stay on this machine.
    pub fn is_this_machine(&self) -> bool {
        self.0.host().is_some_and(|host| is_this_machine(&host))
    }

    /// The full address.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.0.host_str()).finish()
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        Self::parse(text)
    }
}

fn is_this_machine(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn only_an_address_that_keeps_a_secret_is_accepted() {
        let check = |text: &str, expect: Result<&str, BadEndpoint>| {
            let got = Endpoint::parse(text);
            assert_eq!(
                got.as_ref().map(Endpoint::as_str),
                expect.as_ref().copied(),
                "{text}"
            );
        };
        let slack = "https://hooks.slack.com/services/T/B/x";
        check(slack, Ok(slack));
        check(&format!("  {slack}\n"), Ok(slack));
        check("HTTPS://Hooks.Slack.com/x", Ok("https://hooks.slack.com/x"));
        check(
            "http://127.0.0.1:9000/hook",
            Ok("http://127.0.0.1:9000/hook"),
        );
        check("http://localhost:1/@x", Ok("http://localhost:1/@x"));
        check("HTTP://LOCALHOST/", Ok("http://localhost/"));
        check("http://[::1]:4318", Ok("http://[::1]:4318/"));
        check("https://[2001:db8::1]/x", Ok("https://[2001:db8::1]/x"));

        for open in [
            "http://hooks.slack.com/x",
            "http://127.0.0.1.evil.com/x",
            "http://localhost.evil.com/",
            "http://localhost.:80/",
            "http://[::2]/",
            "http://[::ffff:127.0.0.1]/",
            "http://0.0.0.0/",
            "http://127.0.0.1%2eevil.com/",
            "ftp://example.com",
            "file://localhost/x",
            "https:///x",
        ] {
            check(open, Err(BadEndpoint::NotPrivate));
        }
        for user in [
            "http://127.0.0.1:x@evil.com/",
            "http://localhost@evil.com",
            "http://x@localhost/",
            "http://[::1]:x@evil.com/",
            "https://user@example.com/",
            "https://user:word@example.com/",
            "https://@example.com/",
        ] {
            check(user, Err(BadEndpoint::UserInfo));
        }
        for form in [
            "",
            "x",
            "https://",
            "https:x",
            "mailto:x@y",
            "http://local\thost/",
            "https://a b/",
            "https://a/b c",
            "https://a\r\nhost: b/",
            "http://127.0.0.1\\@evil.com/",
            "https://a\u{1b}[31m/",
            "https://a:99999/",
        ] {
            check(form, Err(BadEndpoint::Form));
        }
    }

    #[test]
    fn debug_shows_no_path() {
        let shown = format!("{:?}", Endpoint::parse("https://x.y/secret"));
        assert!(
            shown.contains("x.y") && !shown.contains("secret"),
            "{shown}"
        );
    }
}
