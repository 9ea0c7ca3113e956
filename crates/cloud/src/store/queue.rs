//! A queue made of objects, for stores without a queue: one object for each message, under the name
//! of its sender. The owner of the store must ensure that nobody writes under another sender's
//! name, as for objects of finished tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use jiff::Timestamp;

use crate::ports::{
    CloudError, CloudResult, Listed, MAX_MESSAGE_BYTES, Objects, PutOptions, Queue, Received,
};

/// Number of objects read in parallel, to hide the latency of a store.
const READS_AT_ONCE: usize = 16;

/// Messages as `<prefix><sender>/<time>-<number>.msg`.
pub struct ObjectQueue<O> {
    objects: O,
    prefix: &'static str,
    sender: String,
    sent: AtomicU64,
    /// Messages that were received and not deleted. They are hidden from this client only, whereas
    /// a queue hides them from all clients for a while.
    received: Mutex<BTreeSet<String>>,
}

impl<O: Objects> ObjectQueue<O> {
    /// The queue for heartbeats.
    pub fn heartbeats(objects: O, sender: impl Into<String>) -> Self {
        Self::under("heartbeats/v1/", objects, sender)
    }

    /// The queue for refused messages.
    pub fn dead_letters(objects: O) -> Self {
        Self::under("dead-letter/", objects, "messages")
    }

    fn under(prefix: &'static str, objects: O, sender: impl Into<String>) -> Self {
        Self {
            objects,
            prefix,
            sender: sender.into(),
            sent: AtomicU64::new(0),
            received: Mutex::default(),
        }
    }

    fn hidden(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, listed: Listed) -> CloudResult<Option<Received>> {
        let body = match self
            .objects
            .get(&listed.key, MAX_MESSAGE_BYTES as u64)
            .await
        {
            Ok(object) => String::from_utf8_lossy(&object.bytes).into_owned(),
            Err(CloudError::Missing { .. }) => return Ok(None),
            // In a folder, another user owns this file. It stays until this user may read it, and the
            // other messages are read.
            Err(CloudError::Denied { message, .. }) => {
                tracing::warn!(
                    message,
                    "a message cannot be read; make the user of the sweep its owner"
                );
                self.hidden().insert(listed.key);
                return Ok(None);
            }
            // No probe writes such a large object; it is refused as an empty message.
            Err(_) if listed.bytes > MAX_MESSAGE_BYTES as u64 => String::new(),
            Err(error) => return Err(error),
        };
        let rest = listed.key.strip_prefix(self.prefix).unwrap_or_default();
        Ok(Some(Received {
            id: listed.key.clone(),
            sender: rest.split_once('/').map(|(sender, _)| sender.to_owned()),
            receipt: listed.key,
            sent_at: Some(listed.modified_at),
            body,
        }))
    }
}

#[async_trait]
impl<O: Objects> Queue for ObjectQueue<O> {
    async fn send(&self, body: &str) -> CloudResult<()> {
        self.send_with(body, &BTreeMap::new()).await
    }

    async fn send_with(
        &self,
        body: &str,
        attributes: &BTreeMap<String, String>,
    ) -> CloudResult<()> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        // The time separates the messages of two runs; it is not trusted otherwise.
        let time = Timestamp::now().as_millisecond();
        let name = name_of(attributes).unwrap_or_else(|| format!("{time:015}-{number:06}.msg"));
        let key = format!("{}{}/{name}", self.prefix, self.sender);
        let options = PutOptions {
            metadata: attributes.clone(),
            ..PutOptions::default()
        };
        let body = body.as_bytes().to_vec();
        self.objects.put(&key, body, options).await.map(drop)
    }

    async fn receive(&self, limit: usize, _wait: Duration) -> CloudResult<Vec<Received>> {
        let mut received = Vec::new();
        loop {
            let list_limit = limit.saturating_add(self.hidden().len());
            let mut listed = self.objects.list(self.prefix, None, list_limit).await?;
            let hidden = self.hidden().clone();
            listed.retain(|entry| !hidden.contains(&entry.key));
            listed.truncate(limit);
            let is_empty = listed.is_empty();
            let reads = listed.into_iter().map(|entry| self.read(entry));
            let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
            while let Some(read) = reads.next().await {
                received.extend(read?);
            }
            // Messages that cannot be read do not look like the end of the queue.
            if is_empty || !received.is_empty() || self.hidden().len() == hidden.len() {
                break;
            }
        }
        let keys = received.iter().map(|message| message.receipt.clone());
        self.hidden().extend(keys);
        Ok(received)
    }

    async fn delete(&self, receipts: &[String]) -> CloudResult<()> {
        self.objects.delete(receipts).await?;
        let mut hidden = self.hidden();
        for receipt in receipts {
            hidden.remove(receipt);
        }
        Ok(())
    }
}

/// The name of a message about another one. A message that cannot be deleted is refused by each sweep,
/// and so has one copy. `None` without the id of the other message, and for a long one.
fn name_of(attributes: &BTreeMap<String, String>) -> Option<String> {
    let id = attributes.get("message_id")?;
    (id.len() <= MAX_NAME_BYTES).then(|| id.replace('/', "_"))
}

/// A file system allows 255, and the name of the metadata is longer.
const MAX_NAME_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeClock, FakeObjects};

    #[tokio::test]
    async fn a_message_is_its_senders_and_comes_again_to_another_client_until_it_is_deleted() {
        let at = Timestamp::from_second(1_790_000_000).expect("a time");
        let bucket = FakeObjects::new(FakeClock::at(at));
        let probe = |name: &str| ObjectQueue::heartbeats(bucket.clone(), name);
        let (one, two) = (probe("AROALOCAL:one"), probe("AROALOCAL:two"));
        one.send("a").await.expect("sent");
        one.send("b").await.expect("sent");
        two.send("c").await.expect("sent");

        let sweep = probe("sweep");
        let first = sweep.receive(2, Duration::ZERO).await.expect("received");
        let messages: Vec<_> = first
            .iter()
            .map(|m| (m.sender.as_deref(), m.sent_at, m.body.as_str()))
            .collect();
        let sender = Some("AROALOCAL:one");
        assert_eq!(messages, [(sender, Some(at), "a"), (sender, Some(at), "b")]);
        let rest = sweep.receive(9, Duration::ZERO).await.expect("received");
        assert_eq!(rest.len(), 1, "a received message is hidden");
        sweep
            .delete(&[first[0].receipt.clone()])
            .await
            .expect("deleted");
        let again = probe("sweep").receive(9, Duration::ZERO).await;
        assert_eq!(again.expect("received").len(), 2);
    }

    #[tokio::test]
    async fn what_is_too_large_for_a_message_is_received_empty_and_so_refused() {
        let bucket = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        bucket.insert("heartbeats/v1/x/1.msg", vec![b'a'; MAX_MESSAGE_BYTES + 1]);
        bucket.insert("heartbeats/v1/stray", *b"b");
        let queue = ObjectQueue::heartbeats(bucket, "sweep");
        let received = queue.receive(9, Duration::ZERO).await.expect("received");
        let messages: Vec<_> = received
            .iter()
            .map(|m| (m.sender.as_deref(), m.body.as_str()))
            .collect();
        assert_eq!(messages, [(None, "b"), (Some("x"), "")]);
    }

    #[tokio::test]
    async fn a_message_that_is_refused_again_and_again_has_one_copy() {
        let bucket = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        let letters = ObjectQueue::dead_letters(bucket.clone());
        let of = |id: &str| BTreeMap::from([("message_id".to_owned(), id.to_owned())]);
        for _ in 0..2 {
            let sent = letters
                .send_with("a", &of("heartbeats/v1/AROA:x/1.msg"))
                .await;
            sent.expect("sent");
        }
        assert_eq!(
            bucket.keys(),
            ["dead-letter/messages/heartbeats_v1_AROA:x_1.msg"]
        );
        letters
            .send_with("a", &of(&"x".repeat(201)))
            .await
            .expect("sent");
        letters.send("a").await.expect("sent");
        assert_eq!(bucket.keys().len(), 3);
    }
}
