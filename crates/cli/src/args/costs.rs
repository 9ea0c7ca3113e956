//! Arguments of `costs`.

use ebb_model::report::cost_table::CostMonth;
use ebb_model::report::tag_table::CostDivision;
use jiff::civil::Date;

use super::deployment::ReportArgs;

const MORE: &str = "\
Examples:
  ebb costs --demo                               the built-in demo account
  ebb costs --demo --by user,pipeline
  ebb costs --by run --month 2026-10             one month of the default deployment
  ebb costs --bucket NAME --by cost_centre --format csv > costs.csv
  ebb costs --lake file:///srv/ebb               the folder of `ebb sweep`
  ebb costs --report report.json --by step --format json
  ebb costs --by tag:CostCenter                  the bill by a cost allocation tag
  ebb costs --month 2026-10 --format focus > focus.csv   for a FinOps tool

The cost of a machine is divided among the tasks on it as AWS split cost allocation data does: each
hour, by the greater of request and use of cores and memory. [costs] in the policy chooses another
method and names the tag of cost centres. The rows, with those of costs that belong to no task, add
up to the bill. Days that are not billed yet are computed from the prices of machines. A report
contains up to 14 days and the most expensive names. The row `(others)` is the sum of all other
names.

With --month, the closed days come from the lake of the deployment (--lake or --bucket), and the
other days from its report. The lake has no numbers of tasks.

--by tag:KEY divides the bill by a tag of `cost_tags` in [metrics] of the policy. It contains all
resources of the bill, also those without a task, and the days of the report only.

Exit status:
  0  success
  1  failure
  2  invalid command line";

/// Output formats of `costs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CostFormat {
    /// Aligned text
    Table,
    /// One row for each name and day
    Csv,
    /// JSON
    Json,
    /// FOCUS 1.2 rows of billed days: run, pipeline, user and cost centre
    Focus,
}

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct CostsArgs {
    /// Run, pipeline, step, user, cost_centre or tag:KEY [default: pipeline]
    #[arg(long, value_name = "NAMES")]
    pub(crate) by: Option<CostDivision>,
    /// Show the days of this month only, such as 2026-10
    #[arg(long, value_name = "MONTH")]
    pub(crate) month: Option<CostMonth>,
    /// Show the days of the month to this one only, such as 2026-10-20
    #[arg(long, value_name = "DAY", requires = "month")]
    pub(crate) through: Option<Date>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: CostFormat,
    #[command(flatten)]
    pub(crate) of: ReportArgs,
}
