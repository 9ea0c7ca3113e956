//! The credentials of the user for AWS.

use anyhow::{Result, anyhow};
use ebb_cloud::aws::{AwsConfig, Caller, caller};
use ebb_telemetry::identity::Region;

/// Help if AWS does not accept the credentials.
pub(crate) const CREDENTIALS: &str = "  run `aws configure`, or add --profile NAME
  with IAM Identity Center: eval \"$(aws configure export-credentials --format env)\"";

/// The account of a profile, and the caller. Calls use this region unless they name another.
pub(crate) async fn connect(
    region: Option<&Region>,
    profile: Option<&str>,
) -> Result<(AwsConfig, Caller)> {
    let config = AwsConfig::load_as(region, profile).await;
    let who = caller(&config).await;
    let who = who.map_err(|error| {
        let error = anyhow::Error::from(error);
        anyhow!("failed to use the AWS credentials: {error:#}\n{CREDENTIALS}")
    })?;
    Ok((config, who))
}
