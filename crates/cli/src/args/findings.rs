//! Arguments of `findings`.

use std::convert::Infallible;

use clap::Subcommand;

use ebb_model::decision;
use ebb_model::finding_kind::current_id;
use jiff::Timestamp;

use super::deployment::{DeploymentArgs, ReportArgs};
use super::format::TableFormat;

const MORE: &str = "\
Examples:
  ebb findings list --demo                       the built-in demo account
  ebb findings list --bucket ebb-123456789012-eu-central-1
  ebb findings list --lake file:///srv/ebb       the folder of `ebb sweep`
  ebb findings snooze idle_node/eu-central-1/i-0abc --until 2027-01-31 \\
      --reason 'until the course ends' --bucket …
  ebb findings dismiss idle_address/eu-central-1/eipalloc-0abc \\
      --reason 'in the firewall of a partner' --bucket …
  ebb findings reopen idle_node/eu-central-1/i-0abc --bucket …

A decision takes effect with the next sweep. The finding and its saving leave the lists, the totals
and the notifications. `ebb findings list` still shows it. The command needs s3:GetObject on
reports/* and decisions/* of the bucket, and s3:PutObject on decisions/*. It changes nothing else.";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct FindingsArgs {
    #[command(subcommand)]
    pub(crate) command: FindingsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FindingsCommand {
    /// List the findings of the newest report, and dismissed and snoozed ones
    List(ListArgs),
    /// Leave a finding out of lists, totals and notifications
    Dismiss(DecideArgs),
    /// Leave a finding out of lists, totals and notifications until a date
    #[command(mut_arg("until", |until| until.required(true)))]
    Snooze(DecideArgs),
    /// Withdraw a decision
    Reopen {
        /// Id of the finding as `ebb findings list` prints it
        #[arg(value_parser = finding_id)]
        id: String,
        #[command(flatten)]
        at: DeploymentArgs,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Output format
    ///
    /// CSV has the columns of `ebb scan --format csv`, without dismissed and snoozed findings.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    #[command(flatten)]
    pub(crate) of: ReportArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DecideArgs {
    /// Id of the finding as `ebb findings list` prints it
    #[arg(value_parser = finding_id)]
    pub(crate) id: String,
    /// Reason of the decision
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// End of the decision: a day (UTC, included) or an RFC 3339 time
    #[arg(long, value_name = "DAY", value_parser = until)]
    pub(crate) until: Option<Timestamp>,
    #[command(flatten)]
    pub(crate) at: DeploymentArgs,
}

/// An id that an earlier release printed becomes the present one.
fn finding_id(text: &str) -> Result<String, Infallible> {
    Ok(current_id(text).into_owned())
}

fn until(text: &str) -> Result<Timestamp, String> {
    decision::until(text).map_err(|error| error.to_string())
}
