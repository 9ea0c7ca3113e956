//! Arguments that name a deployment, and arguments that name a report.

use std::path::PathBuf;

use ebb_cloud::endpoint::Endpoint;
use ebb_telemetry::identity::Region;

/// The deployment that a command asks.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Deployment [default: that of `ebb init`]")]
pub(crate) struct DeploymentArgs {
    /// Bucket of the deployment (Terraform output `bucket`)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["lake", "api", "deployment"])]
    pub(crate) bucket: Option<String>,
    /// Folder or bucket of `ebb sweep`: file:///PATH, s3://… or gs://…
    #[arg(long, value_name = "URL", conflicts_with_all = ["api", "deployment"])]
    pub(crate) lake: Option<String>,
    /// API of the deployment (Terraform output `api_url`) or of `ebb serve`
    #[arg(long, value_name = "URL", conflicts_with = "deployment", value_parser = api)]
    pub(crate) api: Option<Endpoint>,
    /// Entry of ~/.config/ebb/config.toml [default: $EBB_DEPLOYMENT]
    #[arg(long, value_name = "NAME")]
    pub(crate) deployment: Option<String>,
    /// Region of the bucket or API
    #[arg(long, value_name = "REGION", conflicts_with = "lake", value_parser = super::region)]
    pub(crate) region: Option<Region>,
    /// Profile of the AWS configuration file
    #[arg(long, value_name = "NAME", conflicts_with = "lake")]
    pub(crate) profile: Option<String>,
}

impl DeploymentArgs {
    /// Whether the command line names a deployment.
    pub(crate) fn is_named(&self) -> bool {
        self.bucket.is_some()
            || self.lake.is_some()
            || self.api.is_some()
            || self.deployment.is_some()
    }
}

/// The report that a command reads.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Use the built-in demo account: offline, simulated, always the same
    #[arg(long, conflicts_with_all = NAMES_OF_A_DEPLOYMENT)]
    pub(crate) demo: bool,
    /// JSON report of a sweep or of `ebb scan --output report.json`
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "demo",
        conflicts_with_all = NAMES_OF_A_DEPLOYMENT
    )]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) deployment: DeploymentArgs,
}

/// The options of [`DeploymentArgs`].
const NAMES_OF_A_DEPLOYMENT: [&str; 6] =
    ["bucket", "lake", "api", "deployment", "region", "profile"];

/// The address of an API. Its paths begin after it.
pub(crate) fn api(text: &str) -> Result<Endpoint, String> {
    match text.contains(['?', '#']) {
        true => Err("the address of an API has no query".to_owned()),
        false => Endpoint::parse(text).map_err(|error| error.to_string()),
    }
}
