//! What `findings` can be told.

use clap::Subcommand;

use ebb_model::decision;
use ebb_telemetry::identity::Region;
use jiff::Timestamp;

const MORE: &str = "\
Examples:
  ebb findings list --bucket ebb-123456789012-eu-central-1
  ebb findings snooze idle_node/eu-central-1/i-0abc --until 2027-01-31 \\
      --reason 'until the course ends' --bucket …
  ebb findings dismiss idle_address/eu-central-1/eipalloc-0abc --reason 'in a partner'\\''s firewall' --bucket …
  ebb findings reopen idle_node/eu-central-1/i-0abc --bucket …

The next sweep takes it up. It needs s3:GetObject on reports/* and decisions/* of the
bucket, and s3:PutObject on decisions/*; nothing else is changed.";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct FindingsArgs {
    #[command(subcommand)]
    pub(crate) command: FindingsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FindingsCommand {
    /// Show the findings of the newest report, and what decisions set aside
    List(BucketArgs),
    /// Nobody is to hear of it again
    Dismiss(DecideArgs),
    /// Nobody is to hear of it until some day
    Snooze(DecideArgs),
    /// Take a decision back
    Reopen {
        /// The finding's id
        id: String,
        #[command(flatten)]
        at: BucketArgs,
    },
}

/// Which deployment.
#[derive(Debug, clap::Args)]
pub(crate) struct BucketArgs {
    /// The deployment's bucket, as Terraform's output names it
    #[arg(long, value_name = "NAME")]
    pub(crate) bucket: String,
    /// The bucket's region
    #[arg(long, value_name = "REGION", value_parser = super::region)]
    pub(crate) region: Option<Region>,
    /// A profile of the AWS configuration file
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DecideArgs {
    /// The finding's id, as the report has it: kind/region/resource, or kind/account/region/name
    pub(crate) id: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// A day through whose end in UTC it holds, or a time
    #[arg(long, value_name = "DAY", value_parser = until)]
    pub(crate) until: Option<Timestamp>,
    #[command(flatten)]
    pub(crate) at: BucketArgs,
}

fn until(text: &str) -> Result<Timestamp, String> {
    decision::until(text).map_err(|error| error.to_string())
}
