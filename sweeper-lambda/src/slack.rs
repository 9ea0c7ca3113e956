//! Slack, its secret read only when there is something to post: a secret that cannot
//! be read is then a channel that failed, and a new one holds from the next post on.

use async_trait::async_trait;
use ebb_cloud::aws::AwsSecrets;
use ebb_cloud::ports::{Chat, ChatPost, CloudError, CloudResult, Secrets};
use ebb_cloud::slack::SlackChat;

/// Slack by a secret of Secrets Manager.
pub(crate) struct SecretSlack {
    pub(crate) secrets: AwsSecrets,
    pub(crate) arn: String,
}

#[async_trait]
impl Chat for SecretSlack {
    async fn post(&self, post: &ChatPost) -> CloudResult<Option<String>> {
        let secret = self.secrets.read(&self.arn).await?;
        let chat = SlackChat::from_secret(&secret).map_err(|error| CloudError::Failed {
            operation: "slack".to_owned(),
            message: error.to_string(),
        })?;
        chat.post(post).await
    }
}
