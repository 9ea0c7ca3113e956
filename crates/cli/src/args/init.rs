//! Arguments of `init`.

use std::path::PathBuf;

use clap::ValueEnum;
use ebb_cloud::endpoint::Endpoint;
use ebb_telemetry::identity::Region;

const MORE: &str = "\
Examples:
  ebb init --bucket ebb-123456789012-eu-central-1 --region eu-central-1
  ebb init --lake file:///srv/ebb --name lab
  ebb init --api https://a1b2c3.execute-api.eu-central-1.amazonaws.com --name prod
  ebb init --engine nextflow --executor awsbatch
  ebb init --engine nextflow --executor slurm --write ebb.config
  ebb init --engine snakemake
  ebb init --engine slurm

With --bucket, --lake or --api, the command checks that the deployment answers. Then it stores the
deployment in ~/.config/ebb/config.toml ($XDG_CONFIG_HOME, or the file in $EBB_CONFIG). Commands use
the entry `default`; `--deployment NAME` selects another entry:
  [default]
  bucket = \"ebb-123456789012-eu-central-1\"    # or lake, or api
  region = \"eu-central-1\"
  aws_profile = \"research\"
  policy = \"policy.toml\"                       # for `ebb explain` with a lake
The file contains no secrets. EBB_API_TOKEN is the token of an API with JWT authorization.

With --engine, the command writes settings with which the engine reports the names of tasks to Ebb.
For Nextflow, write them to a file and add `includeConfig 'ebb.config'` to nextflow.config, or run
`nextflow run -c ebb.config`. A process or a later file can replace these settings; comments in the
file say which.

Exit status:
  0  success
  1  the file or entry exists or could not be written, or the deployment does not answer
  2  invalid command line";

/// A deployment or an engine.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
#[command(group = clap::ArgGroup::new("subject").required(true).args(["engine", "bucket", "lake", "api"]))]
pub(crate) struct InitArgs {
    /// Engine or scheduler to configure
    #[arg(long, value_enum)]
    pub(crate) engine: Option<SetupEngine>,
    /// Executor of Nextflow
    #[arg(
        long,
        value_enum,
        required_if_eq("engine", "nextflow"),
        conflicts_with_all = ["bucket", "lake", "api"]
    )]
    pub(crate) executor: Option<SetupExecutor>,
    /// Write to a new file [default: standard output]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bucket", "lake", "api"])]
    pub(crate) write: Option<PathBuf>,
    /// Replace the file or the deployment if it exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) deployment: InitDeployment,
}

/// The deployment to store.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Deployment")]
pub(crate) struct InitDeployment {
    /// Bucket of the deployment (Terraform output `bucket`)
    #[arg(long, value_name = "NAME")]
    pub(crate) bucket: Option<String>,
    /// Folder or bucket of `ebb sweep`: file:///PATH, s3://… or gs://…
    #[arg(long, value_name = "URL")]
    pub(crate) lake: Option<String>,
    /// API of the deployment (Terraform output `api_url`) or of `ebb serve`
    #[arg(long, value_name = "URL", value_parser = super::api)]
    pub(crate) api: Option<Endpoint>,
    /// Name of the deployment, for `--deployment NAME`
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        conflicts_with = "engine"
    )]
    pub(crate) name: String,
    /// Region of the bucket or API
    #[arg(
        long,
        value_name = "REGION",
        conflicts_with_all = ["lake", "engine"],
        value_parser = super::region
    )]
    pub(crate) region: Option<Region>,
    /// Profile of the AWS configuration file
    #[arg(long, value_name = "NAME", conflicts_with_all = ["lake", "engine"])]
    pub(crate) profile: Option<String>,
    /// Policy file for `ebb explain` [default: config/policy.toml of --lake]
    #[arg(long, value_name = "FILE", requires = "lake")]
    pub(crate) policy: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SetupEngine {
    /// Lines for nextflow.config
    Nextflow,
    /// Lines for a profile of Snakemake
    Snakemake,
    /// Lines for /etc/cron.d on the controller of Slurm
    Slurm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SetupExecutor {
    /// The machine of Nextflow itself
    Local,
    /// Jobs of Slurm
    Slurm,
    /// Jobs of AWS Batch
    #[value(name = "awsbatch")]
    AwsBatch,
    /// Pods of Kubernetes
    #[value(name = "k8s")]
    K8s,
    /// Jobs of Google Batch
    GoogleBatch,
}
