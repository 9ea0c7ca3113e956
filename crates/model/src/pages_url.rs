//! The public address of Ebb's pages, and the links to them. Names in a link are percent-encoded, so
//! a link contains no character that is special in Slack, HTML or JSON.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

/// Maximum length of the address in characters.
const MAX_CHARS: usize = 300;

/// Maximum length of a name in a link, in bytes: that of a finding's id in a decision.
const MAX_NAME_BYTES: usize = 1_000;

/// All bytes of a name except for the unreserved characters of RFC 3986.
const NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The address is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the address must be an http or https URL without user name, query and fragment, such as \
     https://ebb.example.org, with at most {MAX_CHARS} characters"
)]
pub struct InvalidPagesUrl;

/// The address of the pages, without a slash at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct PagesUrl(String);

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageOf<'a> {
    /// The overview.
    Overview,
    /// A finding, by its id.
    Finding(&'a str),
    /// A node, by its name.
    Node(&'a str),
    /// A step, by its name.
    Step(&'a str),
    /// A run, by its name.
    Run(&'a str),
}

impl PagesUrl {
    /// The link to a page. A name that is too long, or that a browser would take for a folder, leads
    /// to the overview.
    pub fn link(&self, page: PageOf<'_>) -> String {
        let (folder, name) = match page {
            PageOf::Overview => ("", ""),
            PageOf::Finding(id) => ("findings", id),
            PageOf::Node(node) => ("nodes", node),
            PageOf::Step(step) => ("steps", step),
            PageOf::Run(run) => ("runs", run),
        };
        match name {
            "" | "." | ".." => format!("{}/", self.0),
            name if name.len() > MAX_NAME_BYTES => format!("{}/", self.0),
            name => format!("{}/{folder}/{}", self.0, utf8_percent_encode(name, NAME)),
        }
    }
}

impl FromStr for PagesUrl {
    type Err = InvalidPagesUrl;

    fn from_str(text: &str) -> Result<Self, InvalidPagesUrl> {
        let url = Url::parse(text.trim()).map_err(|_| InvalidPagesUrl)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/%[]".contains(c);
        let is_valid = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
            && url.as_str().len() <= MAX_CHARS
            && url.as_str().chars().all(is_plain);
        match is_valid {
            true => Ok(Self(url.as_str().trim_end_matches('/').to_owned())),
            false => Err(InvalidPagesUrl),
        }
    }
}

impl TryFrom<String> for PagesUrl {
    type Error = InvalidPagesUrl;

    fn try_from(text: String) -> Result<Self, InvalidPagesUrl> {
        text.parse()
    }
}

impl From<PagesUrl> for String {
    fn from(url: PagesUrl) -> Self {
        url.0
    }
}

impl fmt::Display for PagesUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_web_address_is_accepted() {
        let check = |text: &str, expect: Option<&str>| {
            let got = text.parse::<PagesUrl>().ok();
            let got = got.map(|url| url.to_string());
            assert_eq!(got.as_deref(), expect, "{text}");
        };
        check("https://ebb.example.org/", Some("https://ebb.example.org"));
        check(" http://[::1]:8080/ebb ", Some("http://[::1]:8080/ebb"));
        for text in [
            "",
            "ebb.example.org",
            "ftp://ebb.example.org",
            "javascript:alert(1)",
            "https://ana@ebb.example.org",
            "https://ebb.example.org/?a=b",
            "https://ebb.example.org/#a",
            "https://ebb.example.org/a|b",
            "https://ebb.example.org/a&b",
        ] {
            check(text, None);
        }
        check(
            &format!("https://ebb.example.org/{}", "x".repeat(300)),
            None,
        );
    }

    #[test]
    fn a_name_is_one_segment_of_a_link() {
        let url: PagesUrl = "https://ebb.example.org/ebb/".parse().expect("valid");
        let check = |page, expect: &str| {
            let expect = format!("https://ebb.example.org/ebb{expect}");
            assert_eq!(url.link(page), expect);
        };
        check(PageOf::Overview, "/");
        let id = "idle_node/eu-central-1/i-0aaa";
        check(
            PageOf::Finding(id),
            "/findings/idle_node%2Feu-central-1%2Fi-0aaa",
        );
        check(
            PageOf::Step("a|b>\u{202e}&\"<'"),
            "/steps/a%7Cb%3E%E2%80%AE%26%22%3C%27",
        );
        check(PageOf::Run("../.."), "/runs/..%2F..");
        check(PageOf::Node(".."), "/");
        check(PageOf::Step(&"x".repeat(1_001)), "/");
    }
}
