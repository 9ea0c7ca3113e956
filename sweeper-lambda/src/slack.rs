//! The chat's webhook, its URL read from the secret only when there is something
//! to post: a secret that cannot be read is then a channel that failed, and a new
//! URL holds from the next post on.

use async_trait::async_trait;
use ebb_cloud::aws::AwsSecrets;
use ebb_cloud::ports::{CloudError, CloudResult, Secrets, Webhook};
use ebb_cloud::webhook::HttpWebhook;
use serde_json::Value;

/// A webhook whose URL lies in a secret.
pub(crate) struct SlackWebhook {
    pub(crate) secrets: AwsSecrets,
    pub(crate) arn: String,
}

#[async_trait]
impl Webhook for SlackWebhook {
    async fn post(&self, body: &Value) -> CloudResult<()> {
        let url = self.secrets.read(&self.arn).await?;
        let webhook = HttpWebhook::new(&url).map_err(|error| CloudError::Failed {
            operation: "webhook".to_owned(),
            message: error.to_string(),
        })?;
        webhook.post(body).await
    }
}
