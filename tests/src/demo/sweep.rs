//! Runs sweeps like the schedule, asks the API like a user, and reads the published files.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_model::report::Report;
use serde_json::Value;

use super::account::{Account, authorization};
use super::deploy::Deployment;
use super::http::Request;

/// The time limit of the Lambda function.
const SWEEP: Duration = Duration::from_secs(300);

/// Invokes the sweeper of each shard and waits for the last answer, which covers all shards.
///
/// # Errors
/// If a function failed, with its log.
pub(super) async fn sweep(account: &Account, deployed: &Deployment) -> Result<Value> {
    let mut answer = Value::Null;
    for name in deployed.sweepers() {
        answer = invoke(account, &name).await?;
    }
    Ok(answer)
}

async fn invoke(account: &Account, name: &str) -> Result<Value> {
    let url = format!(
        "{}/2015-03-31/functions/{name}/invocations",
        account.platform
    );
    let authorization = authorization("lambda");
    let request = Request {
        method: "POST",
        headers: &[("Authorization", &authorization)],
        body: b"{}",
        patience: SWEEP,
        ..Request::get(&url)
    };
    let answer = request.send().await?;
    let failed = answer.header("x-amz-function-error").is_some();
    let body = answer.good().with_context(|| format!("invoking {name}"))?;
    if failed {
        let logs = logs(account, name).await.unwrap_or_default();
        bail!("{name} failed: {}\n{logs}", String::from_utf8_lossy(&body));
    }
    serde_json::from_slice(&body).with_context(|| format!("{name} answered something else"))
}

/// The last lines of a function's log.
async fn logs(account: &Account, function: &str) -> Result<String> {
    let body = serde_json::json!({ "logGroupName": format!("/aws/lambda/{function}") }).to_string();
    let authorization = authorization("logs");
    let request = Request {
        method: "POST",
        headers: &[
            ("Authorization", &authorization),
            ("Content-Type", "application/x-amz-json-1.1"),
            ("X-Amz-Target", "Logs_20140328.FilterLogEvents"),
        ],
        body: body.as_bytes(),
        ..Request::get(&account.platform)
    };
    let answer: Value = serde_json::from_slice(&request.send().await?.good()?)?;
    let events = answer["events"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let lines: Vec<&str> = events
        .iter()
        .filter_map(|e| e["message"].as_str())
        .collect();
    Ok(lines[lines.len().saturating_sub(40)..].join("\n"))
}

/// One file of the newest report.
///
/// # Errors
/// If it does not exist.
pub(super) async fn published(
    account: &Account,
    deployed: &Deployment,
    file: &str,
) -> Result<Vec<u8>> {
    let key = format!("reports/latest/{file}");
    let url = format!("{}/{}/{key}", account.platform, deployed.bucket);
    let authorization = authorization("s3");
    let request = Request {
        headers: &[("Authorization", &authorization)],
        ..Request::get(&url)
    };
    let answer = request.send().await?.good();
    answer.with_context(|| format!("reading {key}"))
}

/// The newest report.
///
/// # Errors
/// If it does not exist or is not valid.
pub(super) async fn report(account: &Account, deployed: &Deployment) -> Result<Report> {
    let json = published(account, deployed, "report.json").await?;
    serde_json::from_slice(&json).context("reports/latest/report.json is not understood")
}

/// The recommendation of the API for a step: the requested URL, and the answer.
///
/// # Errors
/// If the API refuses.
pub(super) async fn recommendation(deployed: &Deployment, step: &str) -> Result<(String, Value)> {
    let url = format!("{}/v1/steps/{step}/recommendation", deployed.api_url);
    let answer = Request::get(&url).send().await?;
    let body = answer.good().context("asking the API")?;
    Ok((url, serde_json::from_slice(&body)?))
}

/// A sweep's summary in one line.
pub(super) fn in_words(summary: &Value) -> String {
    let number = |name: &str| summary[name].as_u64().unwrap_or(0);
    format!(
        "{} findings ({} new, {} grown, {} resolved), {} not evaluated; notified {}",
        number("findings"),
        number("new"),
        number("grown"),
        number("resolved"),
        number("not_evaluated"),
        summary["notified_channels"],
    )
}
