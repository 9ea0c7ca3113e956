//! Labels and a trace id that a scheduler sends for a task over a local socket. The credentials of
//! the peer identify the task; a process outside any task cannot set labels. Malformed or excessive
//! requests are refused and counted.

mod client;
mod request_budget;
mod requester;
mod socket;

pub use client::{parse_labels, send_labels};
pub(crate) use request_budget::RequestBudget;
pub use requester::Requester;
pub use socket::{LabelSocket, Request};

use ebb_telemetry::step::SchedulerLabels;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The path at which the probe of the systemd unit listens.
pub const USUAL_PATH: &str = "/run/ebb/label.sock";

/// Maximum bytes of a request, which is enough for the maximum number of labels.
pub const MAX_REQUEST_BYTES: usize = 4_096;

/// Maximum bytes of all labels of all running tasks. Each heartbeat contains them, and a message
/// has 64 KiB.
pub const MAX_BYTES_IN_ALL: usize = 24 << 10;

/// Why a request was refused. The text is sent back to the client.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The request is too long.
    #[error("more than {MAX_REQUEST_BYTES} bytes")]
    TooLong,
    /// The request is malformed.
    #[error("not a request such as {{\"trace_id\":\"4bf9\",\"labels\":{{\"run\":\"r7\"}}}}: {0}")]
    Malformed(String),
    /// A name or value is not valid.
    #[error("{what} '{shown}': {problem}")]
    Value {
        /// The kind of value.
        what: &'static str,
        /// Its beginning, escaped.
        shown: String,
        /// The reason.
        problem: &'static str,
    },
    /// The task would have too many labels.
    #[error("a task can have at most {} labels", SchedulerLabels::MAX_LABELS)]
    TooMany,
    /// All tasks together would have too many bytes of labels.
    #[error("the labels of all running tasks can have at most {MAX_BYTES_IN_ALL} bytes")]
    NoRoom,
    /// The client process is in no task.
    #[error("the requesting process is in no task")]
    NoStep,
    /// The task belongs to another user.
    #[error("the task belongs to user id {0}; only this user and root can label it")]
    OtherUser(u32),
    /// The probe has not seen the client process.
    #[error("the requesting process is unknown; it must run until it has the answer")]
    Unknown,
    /// The client process did not start the task of the other process.
    #[error("the requesting process did not start process {0} as a task of its own")]
    NotStarter(u32),
    /// There are too many requests.
    #[error("too many requests; try again later")]
    Busy,
}

/// The JSON form of a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RequestJson {
    /// The first process of a task that the client process started; `None` for its own task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    trace_id: Option<String>,
    labels: std::collections::BTreeMap<String, String>,
}

impl Default for RequestJson {
    fn default() -> Self {
        let SchedulerLabels { trace_id, labels } = SchedulerLabels::default();
        Self {
            pid: None,
            trace_id,
            labels,
        }
    }
}

/// Labels of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLabels {
    /// The first process of the task; `None` for the task of the client process.
    pub pid: Option<u32>,
    /// The labels.
    pub labels: SchedulerLabels,
}

/// Parses a request, which is one line of JSON.
pub fn parse(bytes: &[u8]) -> Result<TaskLabels, Refusal> {
    if bytes.len() > MAX_REQUEST_BYTES {
        return Err(Refusal::TooLong);
    }
    let malformed = |error: serde_json::Error| Refusal::Malformed(error.to_string());
    let request = serde_json::from_slice(bytes).map_err(malformed)?;
    let RequestJson {
        pid,
        trace_id,
        labels,
    } = request;
    if trace_id.is_none() && labels.is_empty() {
        return Err(Refusal::Malformed("it hands over nothing".to_owned()));
    }
    let labels = SchedulerLabels { trace_id, labels };
    check(&labels)?;
    Ok(TaskLabels { pid, labels })
}

fn check(labels: &SchedulerLabels) -> Result<(), Refusal> {
    if labels.labels.len() > SchedulerLabels::MAX_LABELS {
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
    let names = SchedulerLabels::MAX_KEY_BYTES;
    if let Some(trace_id) = &labels.trace_id {
        held("the trace id", trace_id, names, name)?;
    }
    for (key, value) in &labels.labels {
        held("the label", key, names, name)?;
        let plain = |c: char| !c.is_control();
        held("the value", value, SchedulerLabels::MAX_VALUE_BYTES, plain)?;
    }
    Ok(())
}

/// The bytes that count towards [`MAX_BYTES_IN_ALL`].
pub fn bytes_of(labels: &SchedulerLabels) -> usize {
    let pairs = labels.labels.iter();
    let bytes: usize = pairs.map(|(key, value)| key.len() + value.len()).sum();
    bytes + labels.trace_id.as_ref().map_or(0, String::len)
}

/// Adds new labels; an existing label gets its new value.
pub fn merge(held: &SchedulerLabels, new: &SchedulerLabels) -> Result<SchedulerLabels, Refusal> {
    let mut both = held.clone();
    both.trace_id = new.trace_id.clone().or(both.trace_id);
    both.labels.extend(new.labels.clone());
    match both.labels.len() > SchedulerLabels::MAX_LABELS {
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
                (Ok(request), Ok(count)) => {
                    assert_eq!(request.labels.labels.len(), count, "{text}");
                }
                (Err(error), Err(words)) => {
                    let message = error.to_string();
                    assert!(message.contains(words), "{text}: {message}");
                    assert!(!message.chars().any(char::is_control), "{message:?}");
                }
                (got, _) => panic!("{text}: {got:?}"),
            }
        };
        check(r#"{"trace_id":"4bf92f35"}"#, Ok(0));
        check(r#"{"labels":{"run":"r 7","app.k8s.io/name":"é"}}"#, Ok(2));
        check(
            r#"{"pid":7,"labels":{"step":"align","task":"sample=S1"}}"#,
            Ok(2),
        );
        check(
            r#"{"pid":-7,"labels":{"step":"align"}}"#,
            Err("invalid value"),
        );
        check(r#"{"pid":7}"#, Err("hands over nothing"));
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
        check(&many, Err("at most 16 labels"));
        check(&" ".repeat(5_000), Err("more than 4096 bytes"));
    }

    #[test]
    fn what_is_new_is_added_up_to_a_bound() {
        let of = |text: &str| parse(text.as_bytes()).expect("a request").labels;
        let held = of(r#"{"trace_id":"a","labels":{"run":"1","x":"2"}}"#);
        let both = merge(&held, &of(r#"{"labels":{"run":"3"}}"#)).expect("it fits");
        assert_eq!(both, of(r#"{"trace_id":"a","labels":{"run":"3","x":"2"}}"#));
        assert_eq!(bytes_of(&both), 7);
        let many: Vec<_> = (0..15).map(|n| format!(r#""k{n}":"v""#)).collect();
        let many = of(&format!(r#"{{"labels":{{{}}}}}"#, many.join(",")));
        assert_eq!(merge(&held, &many), Err(Refusal::TooMany));
    }
}
