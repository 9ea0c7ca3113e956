//! Secrets Manager, for Ebb's own secrets.

use async_trait::async_trait;
use aws_sdk_secretsmanager::Client;

use super::config::AwsConfig;
use super::error::cloud_error;
use crate::permissions::GET_SECRET_VALUE;
use crate::ports::{CloudError, CloudResult, Secrets};

/// Secrets Manager of the account.
#[derive(Debug, Clone)]
pub struct AwsSecrets {
    client: Client,
}

impl AwsSecrets {
    /// For the account of `config`.
    pub fn new(config: &AwsConfig) -> Self {
        Self {
            client: Client::new(&config.sdk),
        }
    }
}

#[async_trait]
impl Secrets for AwsSecrets {
    async fn read(&self, arn: &str) -> CloudResult<String> {
        let answer = self.client.get_secret_value().secret_id(arn).send().await;
        let answer = answer.map_err(|e| cloud_error(GET_SECRET_VALUE, arn, &e))?;
        answer.secret_string.ok_or_else(|| CloudError::Failed {
            operation: GET_SECRET_VALUE.to_owned(),
            message: format!("{arn} is not text"),
        })
    }
}
