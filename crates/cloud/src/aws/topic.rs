//! Messages for other programs, through SNS.

use async_trait::async_trait;
use aws_sdk_sns::Client;

use super::config::AwsConfig;
use super::error::cloud_error;
use crate::permissions::PUBLISH;
use crate::ports::{CloudResult, Topic};

/// Maximum length of a subject in SNS, which must be ASCII.
const MAX_SUBJECT_CHARS: usize = 100;

/// One topic.
#[derive(Debug, Clone)]
pub struct AwsTopic {
    client: Client,
    arn: String,
}

impl AwsTopic {
    /// The topic with this ARN, with the credentials of `config`.
    pub fn new(config: &AwsConfig, arn: &str) -> Self {
        Self {
            client: Client::new(&config.sdk),
            arn: arn.to_owned(),
        }
    }
}

#[async_trait]
impl Topic for AwsTopic {
    async fn publish(&self, subject: &str, body: &str) -> CloudResult<()> {
        let plain = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
        let subject: String = subject.chars().map(plain).take(MAX_SUBJECT_CHARS).collect();
        let published = self.client.publish().topic_arn(&self.arn);
        let published = published.subject(subject).message(body).send().await;
        published
            .map(|_| ())
            .map_err(|e| cloud_error(PUBLISH, &self.arn, &e))
    }
}
