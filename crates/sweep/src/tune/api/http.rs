//! What an HTTP API sends to a function and takes from it: payload format 2.0, as
//! much of it as is used here.
//!
//! Source: "Working with AWS Lambda proxy integrations for HTTP APIs", Amazon API
//! Gateway developer guide.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Its escapes are undone, but for `%25`.
    #[serde(rename = "rawPath")]
    pub path: String,
    #[serde(default, rename = "rawQueryString")]
    /// What stands after the `?`.
    pub query: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    request_context: RequestContext,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct RequestContext {
    http: Http,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Http {
    method: String,
}

impl Request {
    /// As a server of its own reads it; `target` is path and query.
    pub fn new(method: &str, target: &str, headers: BTreeMap<String, String>) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            request_context: RequestContext {
                http: Http {
                    method: method.to_owned(),
                },
            },
        }
    }

    /// Its method, in capitals.
    pub(super) fn method(&self) -> &str {
        &self.request_context.http.method
    }

    /// A header, whatever the case of its name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    #[serde(rename = "statusCode")]
    /// Its status.
    pub status: u16,
    /// Its headers, in small letters.
    pub headers: BTreeMap<&'static str, String>,
    /// Its body; empty where there is none.
    pub body: String,
}

/// Undoes what escapes are left; those that are none stay.
pub(super) fn unescape(text: &str) -> String {
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
