//! Repeats a delivery a few times.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use ebb_cloud::error_chain::reason;
use ebb_cloud::ports::CloudResult;
use serde::Serialize;

const ATTEMPTS: u32 = 3;

/// The first wait; the second is twice as long. Clients retry on their own before.
const WAIT: Duration = Duration::from_millis(200);

/// A channel that failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Which.
    pub channel: String,
    /// Why.
    pub reason: String,
}

impl Failure {
    /// Says so in the log, too.
    pub fn of(channel: &str, error: &dyn Error) -> Self {
        let reason = reason(error);
        tracing::warn!(channel, reason, "a channel failed");
        Self {
            channel: channel.to_owned(),
            reason,
        }
    }
}

/// Tries a few times; what fails then is told.
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
