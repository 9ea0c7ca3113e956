//! Arguments of `runs`.

use super::deployment::ReportArgs;
use super::format::TableFormat;

const MORE: &str = "\
Examples:
  ebb runs --demo                                the built-in demo account
  ebb runs cohort-7 --demo                       the tasks of a run
  ebb runs --lake file:///srv/ebb                the folder of `ebb sweep`
  ebb runs --bucket NAME --format csv > runs.csv
  ebb runs --api https://a1b2c3.execute-api.eu-central-1.amazonaws.com --pipeline rnaseq
  ebb runs                                       the default deployment, see `ebb init`
  ebb runs angry_euler --format json             with tools and use over time

The newest runs come first. `unassigned` is the run of tasks without a known run. Each sweep of a
deployment stores the tasks of its runs; a report file (--report) contains only sums. On AWS, the
tasks need s3:GetObject on details/* of the bucket.

Below the table, sentences name the causes if a run costs at least 10 % more or less than usual. The
usual cost is the median of the earlier runs of the pipeline, and needs three of them.

Exit status:
  0  success
  1  failure
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct RunsArgs {
    /// Show the tasks of this run; the end of a name is enough if it is unique
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Show runs of this pipeline only
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub(crate) pipeline: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    #[command(flatten)]
    pub(crate) of: ReportArgs,
}
