//! Wrappers that make a port fail on purpose, to stop a sweep at each call to the outside. One
//! [`Fault`] counts the calls of all ports that share it, so that call n is the nth call of the
//! whole sweep.

#[cfg(feature = "account")]
mod account;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::ports::{
    Chat, ChatPost, ChatSearch, CloudError, CloudResult, Email, Etag, Events, Hooks, Listed,
    Mailer, Object, Objects, PutOptions, Queue, Received, Secrets, Topic, Unread,
};

/// Whether the operation is done when the call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The call fails without the operation.
    Before,
    /// The operation is done, but the call fails.
    After,
}

/// Whether later calls succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Later calls succeed.
    Recovers,
    /// Every later call fails without its operation, as if the process had crashed.
    StaysDead,
}

#[derive(Debug, Default)]
struct Counted {
    calls: Vec<&'static str>,
    at: Option<(usize, Moment, Then)>,
    down: Option<&'static str>,
}

/// The calls that fail; clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Fault(Arc<Mutex<Counted>>);

impl Fault {
    /// Never fails; counts the calls.
    pub fn never() -> Self {
        Self::default()
    }

    /// Fails at call number `call`, counted from 0.
    pub fn at(call: usize, moment: Moment, then: Then) -> Self {
        Self::new(Counted {
            at: Some((call, moment, then)),
            ..Counted::default()
        })
    }

    /// Fails every call of one operation, without the operation.
    pub fn always(operation: &'static str) -> Self {
        Self::new(Counted {
            down: Some(operation),
            ..Counted::default()
        })
    }

    /// Fails every call from now on, as if the process had crashed.
    pub fn kill(&self) {
        let mut counted = self.counted();
        counted.at = Some((counted.calls.len(), Moment::Before, Then::StaysDead));
    }

    fn new(counted: Counted) -> Self {
        Self(Arc::new(Mutex::new(counted)))
    }

    /// The calls so far by operation, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        self.counted().calls.clone()
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call of a port from another crate. Returns when it must fail; `None` if it must
    /// not.
    pub fn call(&self, operation: &'static str) -> Option<Moment> {
        let mut counted = self.counted();
        let this = counted.calls.len();
        counted.calls.push(operation);
        if counted.down == Some(operation) {
            return Some(Moment::Before);
        }
        let (call, moment, then) = counted.at?;
        match (this.cmp(&call), then) {
            (std::cmp::Ordering::Equal, _) => Some(moment),
            (std::cmp::Ordering::Greater, Then::StaysDead) => Some(Moment::Before),
            _ => None,
        }
    }

    async fn around<T: Send>(
        &self,
        operation: &'static str,
        work: impl Future<Output = CloudResult<T>> + Send,
    ) -> CloudResult<T> {
        let fails = self.call(operation);
        if fails == Some(Moment::Before) {
            return Err(failed(operation));
        }
        let done = work.await;
        match fails {
            Some(_) => Err(failed(operation)),
            None => done,
        }
    }
}

fn failed(operation: &str) -> CloudError {
    CloudError::Failed {
        operation: operation.to_owned(),
        message: "made to fail".to_owned(),
    }
}

/// A port that fails as its [`Fault`] defines.
#[derive(Debug, Clone)]
pub struct Failing<T> {
    inner: T,
    fault: Fault,
}

impl<T> Failing<T> {
    /// Wraps `inner` with `fault`.
    pub fn new(inner: T, fault: &Fault) -> Self {
        Self {
            inner,
            fault: fault.clone(),
        }
    }

    /// The wrapped port.
    pub fn inner(&self) -> &T {
        &self.inner
    }
}

#[async_trait]
impl<T: Queue> Queue for Failing<T> {
    async fn send(&self, body: &str) -> CloudResult<()> {
        self.fault.around("queue.send", self.inner.send(body)).await
    }

    async fn send_with(
        &self,
        body: &str,
        attributes: &BTreeMap<String, String>,
    ) -> CloudResult<()> {
        let work = self.inner.send_with(body, attributes);
        self.fault.around("queue.send_with", work).await
    }

    async fn receive(&self, limit: usize, wait: Duration) -> CloudResult<Vec<Received>> {
        let work = self.inner.receive(limit, wait);
        self.fault.around("queue.receive", work).await
    }

    async fn delete(&self, receipts: &[String]) -> CloudResult<()> {
        let work = self.inner.delete(receipts);
        self.fault.around("queue.delete", work).await
    }
}

#[async_trait]
impl<T: Objects> Objects for Failing<T> {
    async fn get(&self, key: &str, max_bytes: u64) -> CloudResult<Object> {
        let work = self.inner.get(key, max_bytes);
        self.fault.around("objects.get", work).await
    }

    async fn put(&self, key: &str, bytes: Vec<u8>, options: PutOptions) -> CloudResult<Etag> {
        let work = self.inner.put(key, bytes, options);
        self.fault.around("objects.put", work).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> CloudResult<Vec<Listed>> {
        let work = self.inner.list(prefix, after, limit);
        self.fault.around("objects.list", work).await
    }

    async fn delete(&self, keys: &[String]) -> CloudResult<()> {
        let work = self.inner.delete(keys);
        self.fault.around("objects.delete", work).await
    }

    fn unread(&self) -> Unread {
        self.inner.unread()
    }
}

#[async_trait]
impl<T: Mailer> Mailer for Failing<T> {
    async fn send(&self, email: &Email) -> CloudResult<()> {
        let work = self.inner.send(email);
        self.fault.around("mailer.send", work).await
    }

    async fn is_sandboxed(&self) -> CloudResult<bool> {
        let work = self.inner.is_sandboxed();
        self.fault.around("mailer.is_sandboxed", work).await
    }
}

#[async_trait]
impl<T: Chat> Chat for Failing<T> {
    async fn post(&self, post: &ChatPost) -> CloudResult<Option<String>> {
        let work = self.inner.post(post);
        self.fault.around("chat.post", work).await
    }

    async fn find(&self, search: &ChatSearch) -> CloudResult<Option<String>> {
        let work = self.inner.find(search);
        self.fault.around("chat.find", work).await
    }

    async fn has_buttons(&self) -> bool {
        self.inner.has_buttons().await
    }
}

#[async_trait]
impl<T: Topic> Topic for Failing<T> {
    async fn publish(&self, subject: &str, body: &str) -> CloudResult<()> {
        let work = self.inner.publish(subject, body);
        self.fault.around("topic.publish", work).await
    }
}

#[async_trait]
impl<T: Events> Events for Failing<T> {
    async fn send(&self, id: &str, body: &str) -> CloudResult<()> {
        let work = self.inner.send(id, body);
        self.fault.around("events.send", work).await
    }
}

#[async_trait]
impl<T: Hooks> Hooks for Failing<T> {
    async fn key(&self, name: &str) -> CloudResult<Option<String>> {
        self.fault.around("hooks.key", self.inner.key(name)).await
    }

    async fn post(&self, name: &str, id: &str, body: &str) -> CloudResult<()> {
        let work = self.inner.post(name, id, body);
        self.fault.around("hooks.post", work).await
    }
}

#[async_trait]
impl<T: Secrets> Secrets for Failing<T> {
    async fn read(&self, arn: &str) -> CloudResult<String> {
        let work = self.inner.read(arn);
        self.fault.around("secrets.read", work).await
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::fake::{FakeClock, FakeObjects, FakeQueue};

    /// Sends twice and puts once. Returns which calls succeeded for the caller, and how many
    /// operations were done.
    async fn run(fault: &Fault) -> (Vec<bool>, usize) {
        let clock = FakeClock::at(Timestamp::UNIX_EPOCH);
        let queue = Failing::new(FakeQueue::new(clock.clone()), fault);
        let bucket = Failing::new(FakeObjects::new(clock), fault);
        let successes = vec![
            queue.send("a").await.is_ok(),
            bucket
                .put("k", Vec::new(), PutOptions::default())
                .await
                .is_ok(),
            queue.send("b").await.is_ok(),
        ];
        let happened = queue.inner().messages().len() + bucket.inner().keys().len();
        (successes, happened)
    }

    #[tokio::test]
    async fn the_nth_call_of_the_whole_run_fails() {
        let never = Fault::never();
        assert_eq!(run(&never).await, (vec![true; 3], 3));
        assert_eq!(
            never.calls(),
            ["queue.send", "objects.put", "queue.send"],
            "calls of all ports are counted together"
        );
        let check = async |moment, then, successes: [bool; 3], happened| {
            let got = run(&Fault::at(1, moment, then)).await;
            assert_eq!(got, (successes.to_vec(), happened), "{moment:?} {then:?}");
        };
        check(Moment::Before, Then::Recovers, [true, false, true], 2).await;
        check(Moment::After, Then::Recovers, [true, false, true], 3).await;
        check(Moment::Before, Then::StaysDead, [true, false, false], 1).await;
        check(Moment::After, Then::StaysDead, [true, false, false], 2).await;
        let down = run(&Fault::always("queue.send")).await;
        assert_eq!(down, (vec![false, true, false], 1));
    }
}
