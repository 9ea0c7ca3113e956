//! Requests and responses between an HTTP API and a Lambda function: the used part of payload
//! format 2.0.
//!
//! Source: "Working with AWS Lambda proxy integrations for HTTP APIs", Amazon API Gateway developer
//! guide.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Its escapes are decoded, except `%25`.
    #[serde(rename = "rawPath")]
    pub path: String,
    #[serde(default, rename = "rawQueryString")]
    /// The text after the `?`.
    pub query: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
    /// The body, if the program's own server read it.
    #[serde(skip)]
    bytes: Option<Vec<u8>>,
    request_context: RequestContext,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct RequestContext {
    http: Http,
    #[serde(default)]
    authorizer: Option<Authorizer>,
}

/// The caller, as the gateway verified it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Authorizer {
    iam: Option<Iam>,
    jwt: Option<Jwt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Iam {
    user_arn: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct Jwt {
    claims: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Http {
    method: String,
}

impl Request {
    /// A request to the program's own server; `target` is path and query.
    pub fn new(method: &str, target: &str, headers: BTreeMap<String, String>) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: None,
            is_base64_encoded: false,
            bytes: None,
            request_context: RequestContext {
                http: Http {
                    method: method.to_owned(),
                },
                authorizer: None,
            },
        }
    }

    /// The same request with a body.
    #[must_use]
    pub fn with_body(mut self, body: Vec<u8>) -> Self {
        self.bytes = Some(body);
        self
    }

    /// Its body; `None` if it is not the Base64 that the request announces.
    pub(crate) fn body(&self) -> Option<Cow<'_, [u8]>> {
        let text = self.body.as_deref().unwrap_or_default();
        match (&self.bytes, self.is_base64_encoded) {
            (Some(bytes), _) => Some(Cow::Borrowed(bytes)),
            (None, false) => Some(Cow::Borrowed(text.as_bytes())),
            (None, true) => BASE64_STANDARD.decode(text).ok().map(Cow::Owned),
        }
    }

    /// The caller, as the gateway verified it.
    pub(crate) fn caller(&self) -> &str {
        let authorizer = self.request_context.authorizer.as_ref();
        let iam = authorizer.and_then(|by| by.iam.as_ref()?.user_arn.as_deref());
        let claim = |name| authorizer.and_then(|by| by.jwt.as_ref()?.claims.get(name));
        let jwt = claim("email").or_else(|| claim("sub"));
        iam.or(jwt.map(String::as_str))
            .unwrap_or("somebody over the API")
    }

    /// Its method in upper case.
    pub(crate) fn method(&self) -> &str {
        &self.request_context.http.method
    }

    /// A header; upper and lower case do not differ.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    #[serde(rename = "statusCode")]
    /// Its HTTP status.
    pub status: u16,
    /// Its headers, with names in lower case.
    pub headers: BTreeMap<&'static str, String>,
    /// Its body; empty without one.
    pub body: String,
}

/// Decodes the remaining escapes; invalid ones stay.
pub(crate) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = (byte == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let escaped = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_what_is_none_stays() {
        let check = |text, expect| assert_eq!(unescape(text), expect, "{text}");
        check("salmon:quant", "salmon:quant");
        check("a%2Fb%20c", "a/b c");
        check("%2541", "%41");
        check("100%", "100%");
        check("%+1%zz%c3%a9%", "%+1%zzé%");
        check("%ff", "\u{fffd}");
    }

    #[test]
    fn an_event_of_the_gateway_is_a_request() {
        let event = serde_json::json!({
            "version": "2.0",
            "rawPath": "/v1/findings",
            "headers": {"If-None-Match": "\"a\""},
            "requestContext": {"http": {"method": "GET", "path": "/v1/findings"}},
        });
        let request: Request = serde_json::from_value(event).expect("an event");
        assert_eq!((request.method(), request.query.as_str()), ("GET", ""));
        assert_eq!(request.header("if-none-match"), Some("\"a\""));
    }
}
