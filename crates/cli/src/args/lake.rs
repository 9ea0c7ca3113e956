//! Arguments of `lake`.

use clap::{Subcommand, ValueEnum};
use jiff::civil::Date;

use super::deployment::DeploymentArgs;
use super::format::TableFormat;

const MORE: &str = "\
Examples:
  ebb lake tables --lake file:///srv/ebb
  ebb lake show heartbeats --where node=host7 --columns ended_at,memory_bytes
  ebb lake show steps --bucket NAME --from 2026-11-01 --to 2026-11-07 --format csv > steps.csv
  ebb lake query 'SELECT node, SUM(workload_cpu_ns) FROM heartbeats GROUP BY 1' --bucket NAME
  ebb lake query 'SELECT step_name, MAX(wall_ns) FROM steps GROUP BY 1' --from 2026-11-01
  ebb lake query \"SELECT json_extract(tools, '$[0].name'), COUNT(*) FROM steps GROUP BY 1\"

`ebb lake tables` lists the tables with their columns. A query reads the columns that it names, from
the days --from to --to, into memory and runs SQLite on them. It changes nothing. Lists and structs are JSON text: use json_extract and json_each.
Timestamps are text in UTC, such as 2026-11-20T23:59:58.123456Z.

With --bucket, the credentials and the region come from the environment (AWS_REGION; with a profile:
eval \"$(aws configure export-credentials --format env)\"). They need s3:ListBucket, and s3:GetObject
on lake/*. For more than 2,000,000 rows, use Athena or DuckDB.

Exit status:
  0  success
  1  failure
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct LakeArgs {
    #[command(subcommand)]
    pub(crate) command: LakeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LakeCommand {
    /// List the tables with their rows, days and columns
    Tables {
        /// Output format
        #[arg(long, value_enum, default_value = "table")]
        format: TableFormat,
        #[command(flatten)]
        at: DeploymentArgs,
    },
    /// Show rows of a table, the newest days first
    Show(LakeShowArgs),
    /// Run one SQL query of SQLite over the tables
    Query(LakeQueryArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct LakeShowArgs {
    /// Table to show
    #[arg(value_enum)]
    pub(crate) table: LakeTable,
    /// Show rows with this value only; repeatable
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = condition)]
    pub(crate) conditions: Vec<Condition>,
    /// Columns to show, separated by commas [default: all]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    /// Show at most this many rows
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) window: LakeWindow,
}

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct LakeQueryArgs {
    /// Query; it may only read
    #[arg(value_name = "SQL")]
    pub(crate) sql: String,
    /// Show at most this many rows of the result
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) window: LakeWindow,
}

/// The days to read, and the form of the result.
#[derive(Debug, clap::Args)]
pub(crate) struct LakeWindow {
    /// First UTC date to read [default: 6 days before --to]
    #[arg(long, value_name = "DATE")]
    pub(crate) from: Option<Date>,
    /// Last UTC date to read [default: today]
    #[arg(long, value_name = "DATE")]
    pub(crate) to: Option<Date>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    #[command(flatten)]
    pub(crate) at: DeploymentArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LakeTable {
    /// Activity of each node in each interval
    Heartbeats,
    /// Finished tasks
    Steps,
    /// Findings of each sweep
    Findings,
    /// Each day of the bill by use and tasks
    Costs,
    /// Activity, tasks and price of each node by hour
    #[value(name = "node_hours")]
    NodeHours,
}

/// A column that must have a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) column: String,
    pub(crate) value: String,
}

fn condition(text: &str) -> Result<Condition, String> {
    match text.split_once('=') {
        Some((column, value)) if !column.is_empty() => Ok(Condition {
            column: column.to_owned(),
            value: value.to_owned(),
        }),
        _ => Err("expected COLUMN=VALUE, such as node=host7".to_owned()),
    }
}
