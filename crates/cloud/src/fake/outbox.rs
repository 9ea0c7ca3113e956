//! Stores messages instead of sending them.

use async_trait::async_trait;

use super::shared::Shared;
use crate::ports::{Chat, ChatPost, ChatSearch, CloudResult, Email, Events, Hooks, Mailer, Topic};

/// Stores every email.
#[derive(Debug, Clone, Default)]
pub struct FakeMailer {
    sent: Shared<Vec<Email>>,
    is_sandboxed: Shared<bool>,
}

impl FakeMailer {
    /// The emails, in order.
    pub fn sent(&self) -> Vec<Email> {
        self.sent.lock().clone()
    }

    /// Enables or disables the sandbox.
    pub fn sandbox(&self, is_sandboxed: bool) {
        *self.is_sandboxed.lock() = is_sandboxed;
    }
}

#[async_trait]
impl Mailer for FakeMailer {
    async fn send(&self, email: &Email) -> CloudResult<()> {
        self.sent.lock().push(email.clone());
        Ok(())
    }

    async fn is_sandboxed(&self) -> CloudResult<bool> {
        Ok(*self.is_sandboxed.lock())
    }
}

/// Stores every message, and numbers the threads from 1.
#[derive(Debug, Clone, Default)]
pub struct FakeChat(Shared<Vec<ChatPost>>, Shared<bool>);

impl FakeChat {
    /// The messages, in order.
    pub fn posted(&self) -> Vec<ChatPost> {
        self.0.lock().clone()
    }

    /// Shows or hides buttons.
    pub fn show_buttons(&self, has_buttons: bool) {
        *self.1.lock() = has_buttons;
    }
}

#[async_trait]
impl Chat for FakeChat {
    async fn post(&self, post: &ChatPost) -> CloudResult<Option<String>> {
        let mut posted = self.0.lock();
        posted.push(post.clone());
        Ok(Some(posted.len().to_string()))
    }

    async fn find(&self, search: &ChatSearch) -> CloudResult<Option<String>> {
        let posted = self.0.lock();
        let is_it = |post: &ChatPost| {
            post.channel == search.channel && post.id.as_ref() == Some(&search.id)
        };
        Ok(posted.iter().position(is_it).map(|at| (at + 1).to_string()))
    }

    async fn has_buttons(&self) -> bool {
        *self.1.lock()
    }
}

/// Stores every subject and body.
#[derive(Debug, Clone, Default)]
pub struct FakeTopic(Shared<Vec<(String, String)>>);

impl FakeTopic {
    /// The messages, in order.
    pub fn published(&self) -> Vec<(String, String)> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Topic for FakeTopic {
    async fn publish(&self, subject: &str, body: &str) -> CloudResult<()> {
        let message = (subject.to_owned(), body.to_owned());
        self.0.lock().push(message);
        Ok(())
    }
}

/// Stores every id and body.
#[derive(Debug, Clone, Default)]
pub struct FakeEvents(Shared<Vec<(String, String)>>);

impl FakeEvents {
    /// The events, in order.
    pub fn sent(&self) -> Vec<(String, String)> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Events for FakeEvents {
    async fn send(&self, id: &str, body: &str) -> CloudResult<()> {
        self.0.lock().push((id.to_owned(), body.to_owned()));
        Ok(())
    }
}

/// A request to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeRequest {
    /// Name of the webhook.
    pub name: String,
    /// Id of the request.
    pub id: String,
    /// Body of the request.
    pub body: String,
}

/// Stores every request. Each receiver has the key `key`.
#[derive(Debug, Clone, Default)]
pub struct FakeHooks(Shared<Vec<FakeRequest>>);

impl FakeHooks {
    /// The requests, in order.
    pub fn sent(&self) -> Vec<FakeRequest> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Hooks for FakeHooks {
    async fn key(&self, _: &str) -> CloudResult<Option<String>> {
        Ok(Some("key".to_owned()))
    }

    async fn post(&self, name: &str, id: &str, body: &str) -> CloudResult<()> {
        let [name, id, body] = [name, id, body].map(str::to_owned);
        self.0.lock().push(FakeRequest { name, id, body });
        Ok(())
    }
}
