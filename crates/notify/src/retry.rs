//! Repeats a delivery a few times.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use ebb_cloud::error_chain::reason;
use ebb_cloud::http_post::ErrorAnswer;
use ebb_cloud::ports::{CloudError, CloudResult};
use serde::Serialize;

const ATTEMPTS: u32 = 3;

/// The first wait; the second is twice as long. Clients have already retried on their own.
const WAIT: Duration = Duration::from_millis(200);

/// Maximum time that a sweep waits because a receiver asks for it.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Part of an error after which no delivery is repeated in the same sweep.
const MAY_HAVE_ARRIVED: &str = "the message may have arrived";

/// A failed channel with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Name of the channel.
    pub channel: String,
    /// Reason of the failure.
    pub reason: String,
}

impl Failure {
    /// Also logs the failure.
    pub fn new(channel: &str, error: &dyn Error) -> Self {
        let reason = reason(error);
        tracing::warn!(channel, reason, "failed to store or to send");
        Self {
            channel: channel.to_owned(),
            reason,
        }
    }

    /// Whether the receiver did not answer in time.
    pub(crate) fn is_late(&self) -> bool {
        says_late(&self.reason)
    }
}

/// Whether a delivery is repeated in the same sweep after a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatRule {
    /// It is, because the receiver recognizes a repeated message.
    AfterTimeout,
    /// It is not, because the message may have arrived, and would then be shown twice.
    NotAfterTimeout,
}

/// Tries a delivery a few times; the error is the last failure.
pub async fn attempt<T, F>(channel: &str, work: impl FnMut() -> F) -> Result<T, Failure>
where
    F: Future<Output = CloudResult<T>>,
{
    let done = repeated(RepeatRule::AfterTimeout, work).await;
    done.map_err(|error| Failure::new(channel, &error))
}

/// The same for a receiver that does not recognize a repeated message.
pub(crate) async fn attempt_without_id<T, F>(
    channel: &str,
    work: impl FnMut() -> F,
) -> Result<T, Failure>
where
    F: Future<Output = CloudResult<T>>,
{
    let done = repeated(RepeatRule::NotAfterTimeout, work).await;
    done.map_err(|error| Failure::new(channel, &error))
}

/// Tries a delivery a few times; the error is the last one.
pub(crate) async fn repeated<T, F>(rule: RepeatRule, mut work: impl FnMut() -> F) -> CloudResult<T>
where
    F: Future<Output = CloudResult<T>>,
{
    let mut tried = 1;
    loop {
        let error = match work().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let wait = wait_after(&error, rule).filter(|_| tried < ATTEMPTS);
        let Some(wait) = wait else {
            return Err(error);
        };
        tokio::time::sleep(wait.max(WAIT * tried)).await;
        tried += 1;
    }
}

/// The time before a delivery is repeated; `None` if the next sweep repeats it.
fn wait_after(error: &CloudError, rule: RepeatRule) -> Option<Duration> {
    let text = error.to_string();
    let is_unsure = rule == RepeatRule::NotAfterTimeout && says_late(&text);
    match ErrorAnswer::from_error(error).map(|answer| (answer.status, answer.retry_after)) {
        Some((429, wait)) => wait.filter(|wait| *wait <= MAX_RETRY_AFTER),
        Some((400..=407 | 409..=499, _)) => None,
        _ if is_unsure || text.contains(MAY_HAVE_ARRIVED) => None,
        _ => Some(Duration::ZERO),
    }
}

/// Whether the receiver refuses this message, and may accept another one.
pub(crate) fn refuses_message(error: &CloudError) -> bool {
    let status = ErrorAnswer::from_error(error).map(|answer| answer.status);
    matches!(status, Some(400..=499)) && !matches!(status, Some(401 | 403 | 408 | 429))
}

/// The error of a receiver that cannot be searched for the message. After a timeout, no delivery is
/// repeated in the same sweep.
pub(crate) fn unsure_if_late(error: CloudError) -> CloudError {
    match error {
        CloudError::Failed { operation, message } if says_late(&message) => CloudError::Failed {
            operation,
            message: format!("{message}; {MAY_HAVE_ARRIVED}"),
        },
        other => other,
    }
}

/// Whether an error says that the response did not come in time.
pub(crate) fn says_late(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("timed out") || text.contains("timeout")
}

#[cfg(test)]
mod tests {
    use super::*;
    use RepeatRule::{AfterTimeout, NotAfterTimeout};

    fn error(message: &str) -> CloudError {
        CloudError::Failed {
            operation: "HTTP POST".to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn what_may_have_arrived_or_is_refused_is_not_repeated_in_the_same_sweep() {
        let check = |message: &str, rule: RepeatRule, expect: Option<u64>| {
            let got = wait_after(&error(message), rule);
            assert_eq!(got.map(|wait| wait.as_secs()), expect, "{message}");
        };
        let late = "timed out waiting for a response";
        check(late, AfterTimeout, Some(0));
        check(late, NotAfterTimeout, None);
        check("connection refused", NotAfterTimeout, Some(0));
        check("HTTP 500: x", NotAfterTimeout, Some(0));
        check("HTTP 404: x", AfterTimeout, None);
        check("HTTP 408: x", AfterTimeout, Some(0));
        check("HTTP 429: x", AfterTimeout, None);
        check("HTTP 429, retry after 5 s: x", AfterTimeout, Some(5));
        check("HTTP 429, retry after 6 s: x", AfterTimeout, None);
        let unsure = unsure_if_late(error(late));
        assert_eq!(wait_after(&unsure, AfterTimeout), None, "{unsure}");
    }

    #[test]
    fn a_receiver_that_refuses_a_message_may_accept_another_one() {
        let check = |message: &str, expect: bool| {
            assert_eq!(refuses_message(&error(message)), expect, "{message}");
        };
        check("HTTP 400: x", true);
        check("HTTP 413: x", true);
        for status in [401, 403, 408, 429, 500] {
            check(&format!("HTTP {status}: x"), false);
        }
        check("connection refused", false);
    }
}
