//! What a scheduler hands a step over a local socket: a trace id and labels. Its peer's
//! credentials say which step; a process outside any step can label none. What is hostile
//! or too much is refused and counted.

mod asker;
mod client;
mod socket;

pub use asker::Asker;
pub use client::{hand, parse_labels};
pub use socket::{Request, Socket};

use ebb_telemetry::step::Handed;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where the unit's probe listens.
pub const USUAL_PATH: &str = "/run/ebb/label.sock";

/// Bytes of a request at most: as many labels as a step may have fit.
pub const MAX_REQUEST_BYTES: usize = 4_096;

/// Bytes of all labels of all running steps at most: they ride in each heartbeat, and a
/// message has 64 KiB.
pub const MAX_BYTES_IN_ALL: usize = 24 << 10;

/// Why nothing was taken. The words go back to who asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It is longer than a request may be.
    #[error("more than {MAX_REQUEST_BYTES} bytes")]
    TooLong,
    /// It is not what a request looks like.
    #[error("not a request such as {{\"trace_id\":\"4bf9\",\"labels\":{{\"run\":\"r7\"}}}}: {0}")]
    Malformed(String),
    /// A name or value that cannot be one.
    #[error("{what} '{shown}': {problem}")]
    Value {
        /// What it is.
        what: &'static str,
        /// Its beginning, escaped.
        shown: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The step would have too many.
    #[error("a step has {} labels at most", Handed::MAX_LABELS)]
    TooMany,
    /// The node has too many.
    #[error("the labels of all running steps take {MAX_BYTES_IN_ALL} bytes at most")]
    NoRoom,
    /// Who asks is of no step.
    #[error("the process that asks is part of no step")]
    NoStep,
    /// The probe has not seen who asks.
    #[error("the process that asks is not known; it must live until it is answered")]
    Unknown,
    /// There are more requests than are looked at.
    #[error("there are too many requests; try again later")]
    Busy,
}

/// A request as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wire {
    trace_id: Option<String>,
    labels: std::collections::BTreeMap<String, String>,
}

impl Default for Wire {
    fn default() -> Self {
        let Handed { trace_id, labels } = Handed::default();
        Self { trace_id, labels }
    }
}

/// Reads a request, which is one line of JSON.
pub fn parse(bytes: &[u8]) -> Result<Handed, Refusal> {
    if bytes.len() > MAX_REQUEST_BYTES {
        return Err(Refusal::TooLong);
    }
    let malformed = |error: serde_json::Error| Refusal::Malformed(error.to_string());
    let Wire { trace_id, labels } = serde_json::from_slice(bytes).map_err(malformed)?;
    if trace_id.is_none() && labels.is_empty() {
        return Err(Refusal::Malformed("it hands over nothing".to_owned()));
    }
    let handed = Handed { trace_id, labels };
    check(&handed)?;
    Ok(handed)
}

fn check(handed: &Handed) -> Result<(), Refusal> {
    if handed.labels.len() > Handed::MAX_LABELS {
        return Err(Refusal::TooMany);
    }
    let name = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    let held = |what, text: &str, max, is_plain: fn(char) -> bool| {
        let problem = match text {
            "" => "it is empty",
            _ if text.len() > max => "it is too long",
            _ if !text.chars().all(is_plain) => "it holds a character that it may not",
            _ => return Ok(()),
        };
        Err(Refusal::Value {
            what,
            shown: text
                .chars()
                .take(32)
                .flat_map(char::escape_default)
                .collect(),
            problem,
        })
    };
    let names = Handed::MAX_KEY_BYTES;
    if let Some(trace_id) = &handed.trace_id {
        held("the trace id", trace_id, names, name)?;
    }
    for (key, value) in &handed.labels {
        held("the label", key, names, name)?;
        let plain = |c: char| !c.is_control();
        held("the value", value, Handed::MAX_VALUE_BYTES, plain)?;
    }
    Ok(())
}

/// What it takes of the room that there is for all.
pub fn bytes_of(handed: &Handed) -> usize {
    let labels = handed.labels.iter();
    let labels: usize = labels.map(|(key, value)| key.len() + value.len()).sum();
    labels + handed.trace_id.as_ref().map_or(0, String::len)
}

/// Adds what is new; a label that is there gets its new value.
pub fn merge(held: &Handed, new: &Handed) -> Result<Handed, Refusal> {
    let mut both = held.clone();
    both.trace_id = new.trace_id.clone().or(both.trace_id);
    both.labels.extend(new.labels.clone());
    match both.labels.len() > Handed::MAX_LABELS {
        true => Err(Refusal::TooMany),
        false => Ok(both),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_and_what_is_hostile_is_refused_in_words() {
        let check = |text: &str, expect: Result<usize, &str>| {
            let got = parse(text.as_bytes());
            match (got, expect) {
                (Ok(handed), Ok(labels)) => assert_eq!(handed.labels.len(), labels, "{text}"),
                (Err(error), Err(words)) => {
                    let said = error.to_string();
                    assert!(said.contains(words), "{text}: {said}");
                    assert!(!said.chars().any(char::is_control), "{said:?}");
                }
                (got, _) => panic!("{text}: {got:?}"),
            }
        };
        check(r#"{"trace_id":"4bf92f35"}"#, Ok(0));
        check(r#"{"labels":{"run":"r 7","app.k8s.io/name":"é"}}"#, Ok(2));
        check("", Err("not a request"));
        check("{}", Err("hands over nothing"));
        check(r#"{"label":{}}"#, Err("unknown field `label`"));
        check(r#"{"labels":{"run":7}}"#, Err("invalid type"));
        check(r#"{"labels":{"":"x"}}"#, Err("the label '': it is empty"));
        check(r#"{"labels":{"a=b":"x"}}"#, Err("may not"));
        check(r#"{"labels":{"a":"\u001b[2J"}}"#, Err("may not"));
        check(r#"{"trace_id":"a b"}"#, Err("the trace id 'a b'"));
        let long = "v".repeat(129);
        check(
            &format!(r#"{{"labels":{{"a":"{long}"}}}}"#),
            Err("too long"),
        );
        let many: Vec<_> = (0..17).map(|n| format!(r#""k{n}":"v""#)).collect();
        let many = format!(r#"{{"labels":{{{}}}}}"#, many.join(","));
        check(&many, Err("16 labels at most"));
        check(&" ".repeat(5_000), Err("more than 4096 bytes"));
    }

    #[test]
    fn what_is_new_is_added_up_to_a_bound() {
        let of = |text: &str| parse(text.as_bytes()).expect("a request");
        let held = of(r#"{"trace_id":"a","labels":{"run":"1","x":"2"}}"#);
        let both = merge(&held, &of(r#"{"labels":{"run":"3"}}"#)).expect("it fits");
        assert_eq!(both, of(r#"{"trace_id":"a","labels":{"run":"3","x":"2"}}"#));
        assert_eq!(bytes_of(&both), 7);
        let many: Vec<_> = (0..15).map(|n| format!(r#""k{n}":"v""#)).collect();
        let many = of(&format!(r#"{{"labels":{{{}}}}}"#, many.join(",")));
        assert_eq!(merge(&held, &many), Err(Refusal::TooMany));
    }
}
