//! Where what would have been sent to people is kept.

use async_trait::async_trait;
use serde_json::Value;

use super::Shared;
use crate::ports::{CloudResult, Email, Mailer, Webhook};

/// Keeps every email.
#[derive(Debug, Clone, Default)]
pub struct FakeMailer(Shared<Vec<Email>>);

impl FakeMailer {
    /// What was sent, in order.
    pub fn sent(&self) -> Vec<Email> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Mailer for FakeMailer {
    async fn send(&self, email: &Email) -> CloudResult<()> {
        self.0.lock().push(email.clone());
        Ok(())
    }
}

/// Keeps every body that was posted.
#[derive(Debug, Clone, Default)]
pub struct FakeWebhook(Shared<Vec<Value>>);

impl FakeWebhook {
    /// What was posted, in order.
    pub fn posted(&self) -> Vec<Value> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Webhook for FakeWebhook {
    async fn post(&self, body: &Value) -> CloudResult<()> {
        self.0.lock().push(body.clone());
        Ok(())
    }
}
