//! Channels whose secret is read only when there is something to say: one that cannot
//! be read is then a channel that failed, and a new one holds from the next post on.

use async_trait::async_trait;
use ebb_cloud::aws::AwsSecrets;
use ebb_cloud::ports::{
    Chat, ChatPost, ChatSearch, CloudError, CloudResult, Events, Hooks, Secrets,
};
use ebb_notify::hook_secrets::HookSecrets;
use ebb_notify::slack::SlackChat;
use ebb_notify::webhook::SignedWebhook;
use tokio::sync::OnceCell;

/// Slack by a secret of Secrets Manager.
pub(crate) struct SecretSlack {
    pub(crate) secrets: AwsSecrets,
    pub(crate) arn: String,
}

#[async_trait]
impl Chat for SecretSlack {
    async fn post(&self, post: &ChatPost) -> CloudResult<Option<String>> {
        let secret = self.secrets.read(&self.arn).await?;
        let chat = SlackChat::from_secret(&secret).map_err(|error| bad("slack", &error))?;
        chat.post(post).await
    }

    async fn find(&self, search: &ChatSearch) -> CloudResult<Option<String>> {
        let secret = self.secrets.read(&self.arn).await?;
        let chat = SlackChat::from_secret(&secret).map_err(|error| bad("slack", &error))?;
        chat.find(search).await
    }

    /// A secret that cannot be read fails the post.
    async fn has_buttons(&self) -> bool {
        let secret = self.secrets.read(&self.arn).await.unwrap_or_default();
        match SlackChat::from_secret(&secret) {
            Ok(chat) => chat.has_buttons().await,
            Err(_) => false,
        }
    }
}

/// A webhook of the user's by a secret of Secrets Manager, which is read once a sweep.
pub(crate) struct SecretEvents {
    secrets: AwsSecrets,
    arn: String,
    read: OnceCell<SignedWebhook>,
}

impl SecretEvents {
    pub(crate) fn new(secrets: AwsSecrets, arn: &str) -> Self {
        Self {
            secrets,
            arn: arn.to_owned(),
            read: OnceCell::new(),
        }
    }

    async fn webhook(&self) -> CloudResult<SignedWebhook> {
        let secret = self.secrets.read(&self.arn).await?;
        SignedWebhook::from_secret(&secret).map_err(|error| bad("webhook", &error))
    }
}

#[async_trait]
impl Events for SecretEvents {
    async fn send(&self, id: &str, body: &str) -> CloudResult<()> {
        let events = self.read.get_or_try_init(|| self.webhook()).await?;
        events.send(id, body).await
    }
}

/// The webhooks of the policy by a secret of Secrets Manager, which is read once a sweep.
pub(crate) struct SecretHooks {
    secrets: AwsSecrets,
    arn: String,
    read: OnceCell<HookSecrets>,
}

impl SecretHooks {
    pub(crate) fn new(secrets: AwsSecrets, arn: &str) -> Self {
        Self {
            secrets,
            arn: arn.to_owned(),
            read: OnceCell::new(),
        }
    }

    async fn hooks(&self) -> CloudResult<&HookSecrets> {
        let read = async {
            let secret = self.secrets.read(&self.arn).await?;
            HookSecrets::from_secret(&secret).map_err(|error| bad("webhooks", &error))
        };
        self.read.get_or_try_init(|| read).await
    }
}

#[async_trait]
impl Hooks for SecretHooks {
    async fn key(&self, name: &str) -> CloudResult<Option<String>> {
        self.hooks().await?.key(name).await
    }

    async fn post(&self, name: &str, id: &str, body: &str) -> CloudResult<()> {
        self.hooks().await?.post(name, id, body).await
    }
}

fn bad(operation: &str, error: &dyn std::error::Error) -> CloudError {
    CloudError::Failed {
        operation: operation.to_owned(),
        message: error.to_string(),
    }
}
