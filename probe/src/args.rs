//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::config::DEFAULT_PATH;
use crate::label::USUAL_PATH;

const EXAMPLES: &str = "\
Examples:
  ebb-probe check                      list what this machine lacks
  ebb-probe snapshot --interval 5      observe the next five seconds
  ebb-probe snapshot --format json | jq .heartbeat.workload
  ebb-probe run --config /etc/ebb/probe.toml
  ebb-probe label step=ALIGN sample=S1 label the task of this process
  ebb-probe run --sink /tmp/ebb --interval 2    write to a folder; no AWS needed

Exit status: 0 success; 1 failure, or `check` found a problem; 2 invalid
command line or configuration.
Logs are written to standard error, as JSON if it is not a terminal. RUST_LOG
sets their level.";

/// Observe what runs on this machine, and send it to the Ebb deployment
#[derive(Debug, Parser)]
#[command(name = "ebb-probe", version, after_help = EXAMPLES)]
pub struct Args {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Observe this machine and send reports until stopped
    Run {
        /// Read this configuration file
        #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
        config: PathBuf,
        /// Write to a folder or object store; needs no configuration file
        #[arg(long, value_name = "DIR|URL", conflicts_with = "config")]
        sink: Option<String>,
        /// Show running tasks to `ebb top` at this socket
        #[arg(long, value_name = "PATH")]
        watch_socket: Option<PathBuf>,
        /// Length of an interval [default: interval_seconds of the configuration]
        #[arg(long, value_name = "SECONDS")]
        interval: Option<u64>,
    },
    /// Observe one interval and print it; send nothing
    #[command(alias = "once")]
    Snapshot {
        /// Observe for this long
        #[arg(long, value_name = "SECONDS", default_value_t = 10)]
        interval: u64,
        /// Print in this format
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
        /// Try these label rules before the built-in ones
        #[arg(long, value_name = "FILE")]
        rules: Option<PathBuf>,
    },
    /// Send a trace ID and labels for the task of this process
    ///
    /// The probe of this machine accepts them if label_socket is set in its configuration.
    /// The label `step` is the name of the process or rule, `task` that of the execution.
    /// The labels `run`, `pipeline` and `sample` are the names of what the task belongs to.
    Label {
        /// Connect to the probe at this socket
        #[arg(long, value_name = "PATH", default_value = USUAL_PATH)]
        socket: PathBuf,
        /// Trace ID that the scheduler uses for this task, such as OpenTelemetry's
        #[arg(long, value_name = "ID")]
        trace_id: Option<String>,
        /// Set these labels
        #[arg(value_name = "KEY=VALUE", required_unless_present = "trace_id")]
        labels: Vec<String>,
    },
    /// List what this machine lacks for the probe, and how to fix it
    ///
    /// Also sends an empty test message to the queue or store of the configuration.
    Check {
        /// Read this configuration file
        #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
        config: PathBuf,
    },
    /// Install the version of a signed manifest, if its rollout includes this machine
    ///
    /// Does nothing unless the configuration has a section [update]. ebb-probe-update.timer runs
    /// it as root. If the new program does not run here, the previous one is restored, and the new
    /// one is not tried again.
    Update {
        /// Read this configuration file
        #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
        config: PathBuf,
        /// Print the decision; change nothing
        #[arg(long)]
        dry_run: bool,
        /// Install the version of the manifest also if it is older
        #[arg(long)]
        allow_downgrade: bool,
    },
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_MORE)]
    Completions {
        /// Shell that reads the script
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write manual pages to a folder, or print the one of ebb-probe
    Man {
        /// Folder for ebb-probe.1 and a page for each command, such as ebb-probe-run.1
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

const COMPLETIONS_MORE: &str = "\
Examples:
  ebb-probe completions bash > /usr/share/bash-completion/completions/ebb-probe";

/// The format of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people
    Table,
    /// JSON with the fields `heartbeat` and `ended`
    Json,
}
