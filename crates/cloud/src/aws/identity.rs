//! The identity of this machine, and of its credentials in AWS.

use aws_config::imds;
use aws_config::provider_config::ProviderConfig;
use ebb_telemetry::identity::{AccountId, IdentityError, NodeId, Region};

use super::config::AwsConfig;
use super::error::cloud_error;
use crate::error_chain::reason;
use crate::http;
use crate::permissions::GET_CALLER_IDENTITY;
use crate::ports::{CloudError, CloudResult, bounded};

/// The operation name for the instance metadata service; IAM has no action for it.
const METADATA: &str = "instance metadata";

/// An EC2 instance, from its instance metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The instance id.
    pub node: NodeId,
    /// The region of the instance.
    pub region: Region,
}

/// Reads the instance metadata service (IMDSv2) of this machine.
pub async fn machine() -> CloudResult<Machine> {
    let provider = ProviderConfig::default().with_http_client(http::client());
    let client = imds::Client::builder().configure(&provider).build();
    let node = read(&client, "/latest/meta-data/instance-id").await?;
    let region = read(&client, "/latest/meta-data/placement/region").await?;
    Ok(Machine {
        node: NodeId::new(node).map_err(unnamed)?,
        region: Region::new(region).map_err(unnamed)?,
    })
}

async fn read(client: &imds::Client, path: &'static str) -> CloudResult<String> {
    let metadata = client.get(path).await.map_err(|e| CloudError::Failed {
        operation: METADATA.to_owned(),
        message: bounded(&format!("{path}: {}", reason(&e))),
    })?;
    Ok(String::from(metadata))
}

fn unnamed(error: IdentityError) -> CloudError {
    CloudError::Failed {
        operation: METADATA.to_owned(),
        message: error.to_string(),
    }
}

/// The identity of the credentials in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// `aws:userid`, which is also the sender that SQS attests.
    pub user_id: String,
    /// The account; `None` if the answer does not contain it.
    pub account: Option<AccountId>,
    /// The ARN, for output; `None` if the answer does not contain it.
    pub arn: Option<String>,
}

/// Requests the identity of the credentials of `config` from STS. Needs no permission.
pub async fn caller(config: &AwsConfig) -> CloudResult<Caller> {
    let client = aws_sdk_sts::Client::new(&config.sdk);
    let answer = client.get_caller_identity().send().await;
    let answer = answer.map_err(|e| cloud_error(GET_CALLER_IDENTITY, "the caller", &e))?;
    let user_id = answer.user_id.ok_or_else(|| CloudError::Failed {
        operation: GET_CALLER_IDENTITY.to_owned(),
        message: "no user id in the response".to_owned(),
    })?;
    Ok(Caller {
        user_id,
        account: answer.account.and_then(|id| AccountId::new(id).ok()),
        arn: answer.arn,
    })
}
