//! A queue in SQS.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, Message, MessageAttributeValue, MessageSystemAttributeName,
};
use jiff::Timestamp;

use super::config::AwsConfig;
use super::error::cloud_error;
use crate::permissions::{DELETE_MESSAGE, RECEIVE_MESSAGE, SEND_MESSAGE};
use crate::ports::{CloudError, CloudResult, Queue, Received, bounded};
use crate::turns::{AT_ONCE, in_turns};

/// Maximum number of messages in one receive or delete call.
const BATCH: usize = 10;

/// The longest wait of a receive call.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// One queue, by URL.
#[derive(Debug, Clone)]
pub struct AwsQueue {
    client: Client,
    url: String,
}

impl AwsQueue {
    /// The queue with this URL.
    pub fn new(config: &AwsConfig, url: impl Into<String>) -> Self {
        Self {
            client: Client::new(&config.sdk),
            url: url.into(),
        }
    }

    async fn receive_batch(self, limit: usize, wait: Duration) -> CloudResult<Vec<Received>> {
        let answer = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .message_system_attribute_names(MessageSystemAttributeName::SenderId)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .max_number_of_messages(i32::try_from(limit.min(BATCH)).unwrap_or(1))
            .wait_time_seconds(i32::try_from(wait.min(MAX_WAIT).as_secs()).unwrap_or(0))
            .send()
            .await
            .map_err(|e| cloud_error(RECEIVE_MESSAGE, &self.url, &e))?;
        Ok(answer
            .messages
            .unwrap_or_default()
            .into_iter()
            .filter_map(received)
            .collect())
    }

    /// The errors of messages that could not be deleted.
    async fn delete_batch(self, receipts: Vec<String>) -> CloudResult<Vec<String>> {
        let entries = receipts.into_iter().enumerate().map(|(n, receipt)| {
            DeleteMessageBatchRequestEntry::builder()
                .id(n.to_string())
                .receipt_handle(receipt)
                .build()
                .expect("id and receipt are set")
        });
        let answer = self
            .client
            .delete_message_batch()
            .queue_url(&self.url)
            .set_entries(Some(entries.collect()))
            .send()
            .await
            .map_err(|e| cloud_error(DELETE_MESSAGE, &self.url, &e))?;
        let reasons = answer
            .failed
            .iter()
            .map(|f| format!("{}: {}", f.code(), f.message().unwrap_or("no message")));
        Ok(reasons.collect())
    }
}

#[async_trait]
impl Queue for AwsQueue {
    async fn send(&self, body: &str) -> CloudResult<()> {
        self.send_with(body, &BTreeMap::new()).await
    }

    async fn send_with(
        &self,
        body: &str,
        attributes: &BTreeMap<String, String>,
    ) -> CloudResult<()> {
        let mut call = self
            .client
            .send_message()
            .queue_url(&self.url)
            .message_body(body);
        for (name, value) in attributes {
            let text = MessageAttributeValue::builder()
                .data_type("String")
                .string_value(value)
                .build()
                .expect("the type is set");
            call = call.message_attributes(name, text);
        }
        call.send()
            .await
            .map(|_| ())
            .map_err(|e| cloud_error(SEND_MESSAGE, &self.url, &e))
    }

    /// Waits with one call. After the first message, several calls run in parallel. Receiving stops
    /// at the first round that is less than half full, because few messages are left. A queue with
    /// a slow stream of messages is never empty. If a call fails after others returned messages,
    /// the round ends and the messages are returned.
    async fn receive(&self, limit: usize, wait: Duration) -> CloudResult<Vec<Received>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        // Without a wait, SQS queries only some of its servers; with one second it queries all.
        let shortly = wait.min(Duration::from_secs(1));
        let mut messages = self.clone().receive_batch(limit, wait).await?;
        let mut news = messages.len();
        while news > 0 && messages.len() < limit {
            let missing = limit - messages.len();
            let sizes = (0..missing).step_by(BATCH).map(|at| missing - at);
            let message_limit = missing.min(AT_ONCE * BATCH);
            let calls = sizes
                .take(AT_ONCE)
                .map(|size| self.clone().receive_batch(size, shortly));
            news = 0;
            let mut refused = false;
            for answer in in_turns(calls.collect::<Vec<_>>()).await {
                match answer {
                    Ok(batch) => {
                        news += batch.len();
                        messages.extend(batch);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "failed to read a part of the queue");
                        refused = true;
                    }
                }
            }
            if refused || news < message_limit.div_ceil(2) {
                break;
            }
        }
        Ok(messages)
    }

    async fn delete(&self, receipts: &[String]) -> CloudResult<()> {
        let batches = receipts.chunks(BATCH).map(<[String]>::to_vec);
        let calls: Vec<_> = batches
            .map(|batch| self.clone().delete_batch(batch))
            .collect();
        let mut reasons = Vec::new();
        let mut refused = None;
        for answer in in_turns(calls).await {
            match answer {
                Ok(some) => reasons.extend(some),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        reasons.sort_unstable();
        match reasons.first() {
            None => Ok(()),
            Some(first) => Err(CloudError::Failed {
                operation: DELETE_MESSAGE.to_owned(),
                message: bounded(&format!(
                    "failed to delete {} of {} messages: {first}",
                    reasons.len(),
                    receipts.len()
                )),
            }),
        }
    }
}

/// `None` without a receipt, because such a message could not be deleted.
fn received(message: Message) -> Option<Received> {
    let attributes = message.attributes.unwrap_or_default();
    let sent_at = attributes
        .get(&MessageSystemAttributeName::SentTimestamp)
        .and_then(|millis| Timestamp::from_millisecond(millis.parse().ok()?).ok());
    Some(Received {
        id: message.message_id.unwrap_or_default(),
        receipt: message.receipt_handle?,
        sender: attributes
            .get(&MessageSystemAttributeName::SenderId)
            .cloned(),
        sent_at,
        body: message.body.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_queue_attests_is_read_and_nothing_is_made_up() {
        let plain = || {
            Message::builder()
                .message_id("m")
                .receipt_handle("r")
                .body("b")
        };
        let check = |message: Message, sender: Option<&str>, sent_at: Option<i64>| {
            let got = received(message).expect("it has a receipt");
            assert_eq!(got.sender.as_deref(), sender);
            assert_eq!(got.sent_at.map(|t| t.as_millisecond()), sent_at);
        };
        check(plain().build(), None, None);
        check(
            plain()
                .attributes(MessageSystemAttributeName::SenderId, "AROA:i-1")
                .attributes(MessageSystemAttributeName::SentTimestamp, "1700000000123")
                .build(),
            Some("AROA:i-1"),
            Some(1_700_000_000_123),
        );
        check(
            plain()
                .attributes(MessageSystemAttributeName::SentTimestamp, "soon")
                .build(),
            None,
            None,
        );
        assert_eq!(received(Message::builder().body("b").build()), None);
    }
}
