//! Arguments that name a deployment, and arguments that name a report.

use std::path::{Path, PathBuf};

use ebb_telemetry::identity::Region;

/// The deployment that a command asks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Deployment")]
pub(crate) struct DeploymentArgs {
    /// Bucket of the deployment (Terraform output `bucket`)
    #[arg(long, value_name = "NAME", conflicts_with = "lake")]
    pub(crate) bucket: Option<String>,
    /// Place of `ebb sweep`: file:///PATH, s3://BUCKET/PATH or gs://BUCKET/PATH
    #[arg(long, value_name = "URL")]
    pub(crate) lake: Option<String>,
    /// Region of the bucket
    #[arg(long, value_name = "REGION", requires = "bucket", value_parser = super::region)]
    pub(crate) region: Option<Region>,
    /// Profile of the AWS configuration file
    #[arg(long, value_name = "NAME", requires = "bucket")]
    pub(crate) profile: Option<String>,
}

/// The report that a command reads.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Use the built-in demo account: offline, simulated, always the same
    #[arg(long, conflicts_with_all = ["bucket", "lake"])]
    pub(crate) demo: bool,
    /// JSON report of a sweep or of `ebb scan --output report.json`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["demo", "bucket", "lake"])]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) deployment: DeploymentArgs,
}

/// Where a report comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A file.
    File(&'a Path),
    /// The built-in demo account.
    Demo,
    /// The newest report of a deployment.
    Deployment(&'a DeploymentArgs),
    /// Nothing was given.
    Missing,
}

impl ReportArgs {
    pub(crate) fn source(&self) -> Source<'_> {
        let of = &self.deployment;
        match &self.report {
            Some(path) => Source::File(path),
            None if self.demo => Source::Demo,
            None if of.bucket.is_some() || of.lake.is_some() => Source::Deployment(of),
            None => Source::Missing,
        }
    }
}
