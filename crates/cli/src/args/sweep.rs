//! What `ebb sweep` can be told.

use std::path::PathBuf;

const MORE: &str = "\
Examples:
  ebb sweep --lake file:///srv/ebb          a folder that probes write into, shared or not
  ebb sweep --lake s3://bucket/ebb          S3, or by AWS_ENDPOINT_URL what speaks like it
  ebb sweep --lake gs://bucket/ebb          Google Cloud Storage

Probes write there with `ebb-probe run --sink`. State, lake, policy (config/policy.toml) and
reports (reports/latest/) lie there too. Machines are those that probes tell of; the policy
states what an hour of them costs:
  [[prices]]
  node = \"rack3-*\"
  usd_micros_per_hour = 350000

or --billing, or EBB_BILLING in the environment, names a file of Google's billing export
(ebb scan --help says how).

People are told when something is new, grew or ended, if the environment says where:
  EBB_SLACK_WEBHOOK_URL          the incoming webhook
  EBB_EVENTS_WEBHOOK             signed CloudEvents: {\"url\": \"https://…\", \"key\": \"whsec_…\"}
  EBB_EMAIL_FROM, EBB_EMAIL_TO   by Amazon SES, with the environment's credentials

infra/ebb-sweep.timer runs it every five minutes. What it did is printed as JSON.

Exit status:
  0  done, whatever was found
  1  failed; nothing is lost, the next sweep takes it up
  2  the command line is wrong";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct SweepArgs {
    /// The place, as a URL
    #[arg(long, value_name = "URL")]
    pub(crate) lake: String,
    /// What machines of Google Cloud are billed: a file of its billing export
    #[arg(long, value_name = "FILE")]
    pub(crate) billing: Option<PathBuf>,
    /// A policy file instead of the place's own
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
}
