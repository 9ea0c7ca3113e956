//! Arguments of `explain`.

use super::deployment::DeploymentArgs;

const MORE: &str = "\
Examples:
  ebb explain i-0b7d3f5a9c1e2d406 --demo         the built-in demo account
  ebb explain host7 --lake file:///srv/ebb       the folder of `ebb sweep`
  ebb explain i-0b7d3f5a9c1e2d406 --bucket NAME  as the last sweep evaluated it
  ebb explain host7 --deployment lab             an entry that `ebb init` stored

NAME is an id or name of a machine, job, step or other resource, or the id of a finding. The
output has each question that led to the result, with the value and the limit.

Each sweep stores the explanations of resources with a finding and of resources that it did not
evaluate. With --lake, the command evaluates any other resource now, from the stored data. If the
entry of `ebb init` has a policy file, the command evaluates all resources with that file. With
--bucket and --api, other resources need a new scan of the account: `ebb scan --explain NAME`. On
AWS, the command needs s3:GetObject on details/* and reports/* of the bucket.

Exit status:
  0  success
  1  failure, or nothing has this name
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct ExplanationArgs {
    /// Id or name of a resource, or id of a finding
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Use the built-in demo account: offline, simulated, always the same
    #[arg(
        long,
        conflicts_with_all = ["bucket", "lake", "api", "deployment", "region", "profile"]
    )]
    pub(crate) demo: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: ExplainFormat,
    #[command(flatten)]
    pub(crate) deployment: DeploymentArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExplainFormat {
    /// For a terminal
    Table,
    /// Every value
    Json,
}
