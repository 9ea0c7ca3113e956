//! Repeats a delivery a few times.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use ebb_cloud::error_chain::reason;
use ebb_cloud::ports::CloudResult;
use serde::Serialize;

const ATTEMPTS: u32 = 3;

/// The first wait; the second is twice as long. Clients have already retried on their own.
const WAIT: Duration = Duration::from_millis(200);

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
    pub fn of(channel: &str, error: &dyn Error) -> Self {
        let reason = reason(error);
        tracing::warn!(channel, reason, "failed to deliver a notification");
        Self {
            channel: channel.to_owned(),
            reason,
        }
    }
}

/// Tries a delivery a few times; the error is the last failure.
pub async fn attempt<T, F>(channel: &str, mut work: impl FnMut() -> F) -> Result<T, Failure>
where
    F: Future<Output = CloudResult<T>>,
{
    let mut tried = 1;
    loop {
        match work().await {
            Ok(done) => return Ok(done),
            Err(error) if tried >= ATTEMPTS => return Err(Failure::of(channel, &error)),
            Err(_) => {
                tokio::time::sleep(WAIT * tried).await;
                tried += 1;
            }
        }
    }
}
