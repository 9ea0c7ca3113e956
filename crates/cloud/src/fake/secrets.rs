//! Secrets in memory.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;

use crate::ports::{CloudError, CloudResult, Secrets};

/// Secrets by ARN.
#[derive(Clone, Default)]
pub struct FakeSecrets {
    by_arn: BTreeMap<String, String>,
}

impl FakeSecrets {
    /// Secrets with these values.
    pub fn new(by_arn: BTreeMap<String, String>) -> Self {
        Self { by_arn }
    }
}

impl fmt::Debug for FakeSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.by_arn.keys()).finish()
    }
}

#[async_trait]
impl Secrets for FakeSecrets {
    async fn read(&self, arn: &str) -> CloudResult<String> {
        self.by_arn
            .get(arn)
            .cloned()
            .ok_or_else(|| CloudError::Missing {
                operation: "secretsmanager:GetSecretValue".to_owned(),
                what: arn.to_owned(),
            })
    }
}
