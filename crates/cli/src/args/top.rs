//! Arguments of `ebb top`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ebb_telemetry::watch::USUAL_PATH;

const MORE: &str = "\
Examples:
  ebb top
  ebb top --interval 5
  ebb top --once                        one table, for a log or a ticket
  ebb top --once --format json
  ebb top --socket /tmp/watch.sock      a probe that was started by hand

Keys: c m d n w sort by cores, memory, disk, network, waits; arrows select; Enter opens a
task; / filters; ? shows help; q quits.

Root sees all tasks. Other users see tasks whose first process is theirs, and totals of the
machine. The probe of the systemd unit listens at the default path. To start one by hand:
ebb-probe run --sink /tmp/ebb --watch-socket /tmp/watch.sock";

/// Seconds between two updates.
const LONGEST_INTERVAL: u64 = 3_600;

#[derive(Debug, Args)]
#[command(after_help = MORE)]
pub(crate) struct TopArgs {
    /// Socket of the probe
    #[arg(long, value_name = "PATH", default_value = USUAL_PATH)]
    pub(crate) socket: PathBuf,
    /// Time between two updates; the probe sends one each second
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=LONGEST_INTERVAL)
    )]
    pub(crate) interval: u64,
    /// Print the tasks once and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "table", requires = "once")]
    pub(crate) format: TopFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopFormat {
    /// For a terminal
    Table,
    /// For a program
    Json,
}
