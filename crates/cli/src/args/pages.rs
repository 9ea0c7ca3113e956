//! Arguments of `pages`.

use super::deployment::DeploymentArgs;

const MORE: &str = "\
Examples:
  ebb pages --api https://a1b2c3.execute-api.eu-central-1.amazonaws.com
  ebb pages                                      the default deployment, see `ebb init`
  xdg-open \"$(ebb pages)\"

Open the link in a browser within 15 minutes. It gives this browser access to the pages for 12
hours. Decisions in this browser are stored under your name, so share the addresses of pages instead
of this link.

The deployment needs `pages_secret` of the Terraform module. The command calls POST /v1/pages/link,
with IAM or a token as other commands do. Without `pages_secret`, use `ebb serve`.

Exit status:
  0  success
  1  failure
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct PagesArgs {
    #[command(flatten)]
    pub(crate) of: DeploymentArgs,
}
