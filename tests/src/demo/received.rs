//! Arrivals of the demo: heartbeats in the queues, the digest in the receiver that replaces Slack, and
//! the email from SES.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::account::{Account, authorization};
use super::http::Request;

/// The longest time until a probe has sent its first heartbeat: thirty of its intervals.
const FIRST_HEARTBEAT: Duration = Duration::from_secs(30 * crate::fleet::BEAT.as_secs());

/// Waits until the queues (separated by commas) have more messages than `before`, without receiving
/// any.
///
/// # Errors
/// If no message arrives.
pub(super) async fn heartbeat(account: &Account, queue_urls: &str, before: u64) -> Result<()> {
    let until = Instant::now() + FIRST_HEARTBEAT;
    while Instant::now() < until {
        if messages(account, queue_urls).await? > before {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!(
        "the probe sent no heartbeat within {} s",
        FIRST_HEARTBEAT.as_secs()
    )
}

/// The number of messages in the queues (separated by commas).
///
/// # Errors
/// If the simulator does not answer.
pub(super) async fn messages(account: &Account, queue_urls: &str) -> Result<u64> {
    let mut sum = 0;
    for url in queue_urls.split(',') {
        sum += messages_in(account, url).await?;
    }
    Ok(sum)
}

async fn messages_in(account: &Account, queue_url: &str) -> Result<u64> {
    const COUNT: &str = "ApproximateNumberOfMessages";
    let body = json!({"QueueUrl": queue_url, "AttributeNames": [COUNT]}).to_string();
    let authorization = authorization("sqs");
    let request = Request {
        method: "POST",
        headers: &[
            ("Authorization", &authorization),
            ("Content-Type", "application/x-amz-json-1.0"),
            ("X-Amz-Target", "AmazonSQS.GetQueueAttributes"),
        ],
        body: body.as_bytes(),
        ..Request::get(&account.platform)
    };
    let answer: Value = serde_json::from_slice(&request.send().await?.good()?)?;
    let count = answer["Attributes"][COUNT].as_str();
    let count = count.context("the queue does not show its number of messages")?;
    Ok(count.parse()?)
}

/// The messages to Slack so far, as text, oldest first.
///
/// # Errors
/// If a message cannot be read.
pub(super) fn slack(work: &Path) -> Result<Vec<String>> {
    let folder = work.join("slack");
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        paths.push(entry?.path());
    }
    paths.sort();
    let message = |path: &std::path::PathBuf| {
        let body: Value = serde_json::from_slice(&fs::read(path)?)?;
        Ok(text_of_blocks(&body))
    };
    paths.iter().map(message).collect()
}

/// The emails so far, oldest first: headers, then the text part.
///
/// # Errors
/// If the simulator does not answer.
pub(super) async fn emails(account: &Account) -> Result<Vec<String>> {
    let url = format!("{}/_ministack/ses/messages", account.platform);
    let answer: Value = serde_json::from_slice(&Request::get(&url).send().await?.good()?)?;
    let by_account = answer["messages"]
        .as_object()
        .into_iter()
        .flat_map(|m| m.values());
    let messages = by_account.filter_map(Value::as_array).flatten();
    Ok(messages.map(text_of_email).collect())
}

fn text_of_email(email: &Value) -> String {
    let text = |name: &str| email[name].as_str().unwrap_or_default().to_owned();
    let to: Vec<&str> = email["To"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let html = email["BodyHtml"].as_str().map_or(0, str::len);
    format!(
        "From: {}\nTo: {}\nSubject: {}\n\n{}\n(and an HTML part of {html} bytes)",
        text("Source"),
        to.join(", "),
        text("Subject"),
        text("BodyText"),
    )
}

/// The text of a message's blocks, one line each.
fn text_of_blocks(body: &Value) -> String {
    let mut lines = Vec::new();
    for block in body["blocks"].as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("divider") => lines.push("────".to_owned()),
            _ => collect(block, &mut lines),
        }
    }
    if lines.is_empty() {
        collect(body, &mut lines);
    }
    lines.join("\n")
}

fn collect(value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_str() {
                    Some(text) if name == "text" => lines.push(text.to_owned()),
                    _ => collect(field, lines),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, lines)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_reads_as_its_blocks_do() {
        let check = |body: Value, expect: &str| assert_eq!(text_of_blocks(&body), expect);
        check(
            json!({"text": "short", "blocks": [
                {"type": "header", "text": {"type": "plain_text", "text": "Waste"}},
                {"type": "divider"},
                {"type": "section", "fields": [{"text": "a"}, {"text": "b"}]},
                {"type": "context", "elements": [{"type": "mrkdwn", "text": "c"}]},
            ]}),
            "Waste\n────\na\nb\nc",
        );
        check(json!({"text": "only this"}), "only this");
    }
}
