//! Says what a sweep found: files in the bucket, and a word to people and programs when
//! something changed. A channel that fails is tried again and then reported; it
//! never stops a sweep.

#[cfg(feature = "arrivals")]
mod route;
#[cfg(feature = "arrivals")]
mod tell;

#[cfg(feature = "arrivals")]
pub use tell::{Addresses, Channels, HalfAddressed, News, Word, plan, tell};

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use ebb_cloud::ports::{CloudResult, Objects, PutOptions};
use ebb_model::report::Report;
use serde::Serialize;

use crate::reason::reason;
use crate::render;

/// Where the newest report lies.
pub const LATEST: &str = "reports/latest/";

/// The newest report for programs.
pub const LATEST_JSON: &str = "reports/latest/report.json";

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
    pub(crate) fn of(channel: &str, error: &dyn Error) -> Self {
        let reason = reason(error);
        tracing::warn!(channel, reason, "a channel failed");
        Self {
            channel: channel.to_owned(),
            reason,
        }
    }
}

/// Tries a few times; what fails then is told.
async fn attempt<T, F>(channel: &str, mut work: impl FnMut() -> F) -> Result<T, Failure>
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

/// Writes the report in all its forms, under its time and as the newest; tells the
/// keys that were written and what was not.
pub async fn report(objects: &dyn Objects, report: &Report) -> (Vec<String>, Vec<Failure>) {
    let forms = [
        (
            "report.html",
            "text/html; charset=utf-8",
            render::html(report, &render::Zone::utc()),
        ),
        ("report.csv", "text/csv; charset=utf-8", render::csv(report)),
        ("report.json", "application/json", render::json(report)),
    ];
    let (mut keys, mut failures) = (Vec::new(), Vec::new());
    for folder in [dated(report), LATEST.to_owned()] {
        for (name, content_type, text) in &forms {
            let key = format!("{folder}{name}");
            let put = || {
                let options = PutOptions {
                    content_type: Some(content_type),
                    ..PutOptions::default()
                };
                objects.put(&key, text.clone().into_bytes(), options)
            };
            match attempt(&key, put).await {
                Ok(_) => keys.push(key),
                Err(failure) => failures.push(failure),
            }
        }
    }
    (keys, failures)
}

/// Colons in a key are a nuisance in every shell and on every desktop.
fn dated(report: &Report) -> String {
    format!("reports/{}/", report.at.strftime("%Y-%m-%dT%H-%M-%SZ"))
}
