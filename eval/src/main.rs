//! Measures the recommendations on recorded traces with fixed protocols, and compares them with
//! published results. Nothing here runs in an account.

mod cost_allocation;
mod fleet;
mod idle;
mod import;
mod memory_sizing;
mod metrics;
mod placement;
mod prices;
mod published;
mod read;
mod runtime_transfer;
mod table;
mod verdicts;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Replays recorded traces against the shipped advice.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo run --release -p eval -- memory-sizing --data TRACES/memory-sizing
  cargo run --release -p eval -- runtime-transfer --data TRACES/runtime-transfer --json
  cargo run --release -p eval -- prices --data TABLES/prices
  cargo run --release -p eval -- cost-allocation --data RUNS
  cargo run --release -p eval -- placement --seed 7
  cargo run --release -p eval -- make-fleet --seed 1 --out FLEET
  cargo run --release -p eval -- metrics --data FLEET")]
struct Arguments {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand)]
enum Study {
    /// Memory requests, task by task, in the order of the trace: wasted memory and the share of
    /// requests that were too small.
    MemorySizing(Input),
    /// Wall time on a machine on which a task has not run before.
    RuntimeTransfer(Input),
    /// Recommended requests from one run of a pipeline, applied to another run of it.
    Import(Input),
    /// Cost allocation by task, compared with AWS split cost allocation data.
    CostAllocation(Input),
    /// Idle machines by CPU alone, compared with published rules.
    Idle(Input),
    /// The built-in list prices of us-east-1 and the Spot Instance Advisor's reader, on public
    /// tables.
    Prices(Tables),
    /// Idle or in use, on labelled histories of nodes, compared with published rules.
    Verdicts(Input),
    /// Machine types, regions and markets, in simulated worlds whose true costs are known.
    Placement(Worlds),
    /// Findings by metrics alone, on a labelled fleet: precision and recall at each hour of the
    /// last day.
    Metrics(Labelled),
    /// Simulates a labelled fleet for `metrics`; its README.txt states that it is simulated.
    MakeFleet(MakeFleet),
}

const LABELLED: &str = "\
The folder has files *.csv or *.csv.gz with the columns that `ebb scan --metrics` reads, and
labels.csv with the columns resource_id,label,from. `from` is a time (RFC 3339) and belongs to
the label `forgotten` only. Machines without a label are evaluated, but not scored.

Labels, and the finding that each should have:
  dead        never used in these metrics: idle_node
  forgotten   not used since `from`: idle_node after that time
  office      used in working hours: off_hours_node
  nightly     a job of an hour or more each night: off_hours_node
  oversized   always uses a small part of its cores: overprovisioned_node
  undersized  its cores are full most of the time: underprovisioned_node
  weekly, month_end, always, bursty, hourly, irregular, network (low CPU, much traffic), cache
  (low CPU, some traffic, memory in use), in_use: none
idle_node is correct only for the first two labels. Advice on the size is scored only if the label
defines the size.";

#[derive(clap::Args)]
#[command(after_help = LABELLED)]
struct Labelled {
    /// Folder with metrics and labels.csv, see below
    #[arg(long)]
    data: PathBuf,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct MakeFleet {
    #[command(flatten)]
    plan: fleet::Plan,
    /// Folder for metrics.csv and labels.csv
    #[arg(long)]
    out: PathBuf,
}

#[derive(clap::Args)]
struct Tables {
    /// Folder with ec2-on-demand-us-east-1.csv (instance_type, usd_per_hour) and
    /// spot-advisor-data.json.gz.
    #[arg(long)]
    data: PathBuf,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Worlds {
    /// Seed of the first world; each next world uses the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of worlds.
    #[arg(long, default_value_t = 10)]
    worlds: u64,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Input {
    /// Folder of gzipped CSV files; each file is one workflow, or one workflow and machine as
    /// WORKFLOW-MACHINE.csv.gz. For idle machines: archives *.tar.gz with a folder for each day and
    /// a file for each machine of 288 percentages, one every 5 minutes. For import: Nextflow traces
    /// PIPELINE-RUN.trace.txt.gz. For `cost-allocation`: these traces, and for each of them
    /// NAME.machines.csv.gz and NAME.split-cost.csv.gz. For `verdicts`: see eval/histories/README.md.
    #[arg(long)]
    data: PathBuf,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    match Arguments::parse().study {
        Study::MemorySizing(input) => {
            let results = memory_sizing::replay_all(&input.data)?;
            show(input.json, &results, memory_sizing::tables)
        }
        Study::RuntimeTransfer(input) => {
            let results = runtime_transfer::score_all(&input.data)?;
            show(input.json, &results, runtime_transfer::tables)
        }
        Study::Import(input) => {
            let results = import::apply_all(&input.data)?;
            show(input.json, &results, import::tables)
        }
        Study::CostAllocation(input) => {
            let results = cost_allocation::compare_all(&input.data)?;
            show(input.json, &results, cost_allocation::tables)
        }
        Study::Idle(input) => {
            let results = idle::score_all(&input.data)?;
            show(input.json, &results, idle::tables)
        }
        Study::Prices(input) => {
            let results = prices::compare(&input.data)?;
            show(input.json, &results, prices::tables)
        }
        Study::Verdicts(input) => {
            let results = verdicts::score_all(&input.data)?;
            show(input.json, &results, verdicts::tables)
        }
        Study::Metrics(input) => {
            let results = metrics::score_folder(&input.data)?;
            show(input.json, &results, metrics::tables)
        }
        Study::MakeFleet(MakeFleet { plan, out }) => {
            let made = fleet::Fleet::make(plan)?;
            made.write(plan, &out)?;
            println!("SIMULATED: {} machines in {}", plan.machines, out.display());
            for (label, count) in made.counts() {
                println!("{count:>6} {}", label.name());
            }
            Ok(())
        }
        Study::Placement(worlds) => {
            let results = placement::score(worlds.seed, worlds.worlds, placement::STEPS)?;
            show(worlds.json, &results, placement::tables)
        }
    }
}

fn show<T: serde::Serialize>(json: bool, results: &[T], tables: fn(&[T]) -> String) -> Result<()> {
    match json {
        true => println!("{}", serde_json::to_string_pretty(results)?),
        false => print!("{}", tables(results)),
    }
    Ok(())
}
