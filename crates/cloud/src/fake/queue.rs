//! A queue in memory, with the limits of the real one.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::FakeClock;
use super::shared::Shared;
use crate::ports::{CloudError, CloudResult, MAX_MESSAGE_BYTES, Queue, Received};

/// A message in the fake queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeMessage {
    /// The message id.
    pub id: String,
    /// The attested sender; `None` if there is none.
    pub sender: Option<String>,
    /// When the message arrived; `None` if unknown.
    pub sent_at: Option<Timestamp>,
    /// The body.
    pub body: String,
    /// The message attributes.
    pub attributes: BTreeMap<String, String>,
    /// How often the message was received.
    pub receives: u64,
    visible: bool,
}

impl FakeMessage {
    fn receipt(&self) -> String {
        format!("{}#{}", self.id, self.receives)
    }

    fn receive(&mut self) -> Received {
        self.receives += 1;
        self.visible = false;
        Received {
            id: self.id.clone(),
            receipt: self.receipt(),
            sender: self.sender.clone(),
            sent_at: self.sent_at,
            body: self.body.clone(),
        }
    }
}

#[derive(Debug, Default)]
struct Messages {
    arrived: u64,
    waiting: Vec<FakeMessage>,
}

/// A queue with messages that stay until they are deleted. A received message is hidden until
/// [`FakeQueue::make_visible`], which replaces the visibility timeout.
#[derive(Debug, Clone)]
pub struct FakeQueue {
    clock: FakeClock,
    sender: Option<String>,
    messages: Shared<Messages>,
}

impl FakeQueue {
    /// An empty queue with arrival times from `clock`.
    pub fn new(clock: FakeClock) -> Self {
        Self {
            clock,
            sender: None,
            messages: Shared::default(),
        }
    }

    /// The same queue, for a client that the cloud attests as `sender`.
    pub fn sending_as(&self, sender: impl Into<String>) -> Self {
        Self {
            sender: Some(sender.into()),
            ..self.clone()
        }
    }

    /// Adds a message without any limits.
    pub fn arrive(&self, sender: Option<&str>, sent_at: Option<Timestamp>, body: &str) {
        self.add(sender.map(str::to_owned), sent_at, body, BTreeMap::new());
    }

    /// Ends the visibility timeout: messages that were received and not deleted are received again.
    pub fn make_visible(&self) {
        for message in &mut self.messages.lock().waiting {
            message.visible = true;
        }
    }

    /// All messages that were not deleted, including hidden ones, oldest first.
    pub fn messages(&self) -> Vec<FakeMessage> {
        self.messages.lock().waiting.clone()
    }

    fn add(
        &self,
        sender: Option<String>,
        sent_at: Option<Timestamp>,
        body: &str,
        attributes: BTreeMap<String, String>,
    ) {
        let mut messages = self.messages.lock();
        messages.arrived += 1;
        let id = format!("message-{:06}", messages.arrived);
        messages.waiting.push(FakeMessage {
            id,
            sender,
            sent_at,
            body: body.to_owned(),
            attributes,
            receives: 0,
            visible: true,
        });
    }
}

#[async_trait]
impl Queue for FakeQueue {
    async fn send(&self, body: &str) -> CloudResult<()> {
        self.send_with(body, &BTreeMap::new()).await
    }

    async fn send_with(
        &self,
        body: &str,
        attributes: &BTreeMap<String, String>,
    ) -> CloudResult<()> {
        acceptable(body, attributes).map_err(|message| CloudError::Failed {
            operation: "sqs:SendMessage".to_owned(),
            message,
        })?;
        let now = self.clock.now();
        self.add(self.sender.clone(), Some(now), body, attributes.clone());
        Ok(())
    }

    async fn receive(&self, limit: usize, _wait: Duration) -> CloudResult<Vec<Received>> {
        let mut messages = self.messages.lock();
        let visible = messages.waiting.iter_mut().filter(|m| m.visible);
        Ok(visible.take(limit).map(FakeMessage::receive).collect())
    }

    async fn delete(&self, receipts: &[String]) -> CloudResult<()> {
        // As in SQS, an outdated receipt deletes nothing and is no error.
        self.messages
            .lock()
            .waiting
            .retain(|message| !receipts.contains(&message.receipt()));
        Ok(())
    }
}

/// Source: SQS API reference, `SendMessage`: the size includes attributes, there are at most ten,
/// none is empty, and text is limited to XML characters.
fn acceptable(body: &str, attributes: &BTreeMap<String, String>) -> Result<(), String> {
    let plain = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    let pairs = || attributes.iter();
    let bytes = body.len()
        + pairs()
            .map(|(name, value)| name.len() + value.len() + "String".len())
            .sum::<usize>();
    if body.is_empty() || pairs().any(|(name, value)| name.is_empty() || value.is_empty()) {
        return Err("a body or an attribute is empty".to_owned());
    }
    if bytes > MAX_MESSAGE_BYTES {
        return Err(format!("a message of {bytes} bytes is too large"));
    }
    if attributes.len() > 10 {
        return Err("a message has more than ten attributes".to_owned());
    }
    let texts = || std::iter::once(body).chain(attributes.values().map(String::as_str));
    if texts().any(|text| !text.chars().all(plain)) {
        return Err("a character is not allowed in a message".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_comes_again_until_it_is_deleted() {
        let queue = FakeQueue::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        queue.sending_as("AROA:i-1").send("a").await.expect("sent");
        queue.send("b").await.expect("sent");

        let first = queue.receive(1, Duration::ZERO).await.expect("received");
        assert_eq!(first[0].sender.as_deref(), Some("AROA:i-1"));
        let rest = queue.receive(10, Duration::ZERO).await.expect("received");
        assert_eq!(rest.len(), 1, "a received message is hidden");

        queue.make_visible();
        let again = queue.receive(10, Duration::ZERO).await.expect("received");
        assert_eq!(again.len(), 2);
        queue
            .delete(&[first[0].receipt.clone()])
            .await
            .expect("an outdated receipt is no error");
        assert_eq!(queue.messages().len(), 2);
        let receipts: Vec<_> = again.into_iter().map(|m| m.receipt).collect();
        queue.delete(&receipts).await.expect("deleted");
        assert!(queue.messages().is_empty());
    }

    #[test]
    fn what_the_real_queue_refuses_is_refused() {
        let check = |body: &str, attributes: &[(&str, &str)], accepted: bool| {
            let owned = attributes
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect();
            assert_eq!(acceptable(body, &owned).is_ok(), accepted, "{body:.20?}");
        };
        check("ebb.heartbeat/1.0\nAAAA", &[("reason", "r")], true);
        check("", &[], false);
        check("a\0b", &[], false);
        check("a", &[("reason", "")], false);
        check("a", &[("reason", "\u{1b}[31m")], false);
        check(&"x".repeat(MAX_MESSAGE_BYTES), &[], true);
        check(&"x".repeat(MAX_MESSAGE_BYTES + 1), &[], false);
    }
}
