//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::config::DEFAULT_PATH;
use crate::label::USUAL_PATH;

const EXAMPLES: &str = "\
Examples:
  ebb-probe check                      what this machine lacks, and what mends it
  ebb-probe once --interval 5          what the next five seconds are
  ebb-probe once --format json | jq .heartbeat.workload
  ebb-probe run --config /etc/ebb/probe.toml
  ebb-probe label run=r7 sample=S1     of the step that this is started in
  ebb-probe run --sink /tmp/ebb --interval 2    into a folder, without a cloud

Exit status: 0 done; 1 failed, or `check` found something that lacks;
2 the command line or the configuration is wrong.
Logs go to the standard error, as JSON when that is no terminal; RUST_LOG
chooses how many.";

/// What this machine did, and when it did nothing.
#[derive(Debug, Parser)]
#[command(name = "ebb-probe", version, after_help = EXAMPLES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch until told to stop, and send what was seen
    Run {
        /// The configuration
        #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
        config: PathBuf,
        /// Put records into this folder, or place of an object store, instead of the
        /// cloud; needs no configuration. `ebb sweep --lake` judges them
        #[arg(long, value_name = "DIR|URL")]
        sink: Option<String>,
        /// The length of an interval, instead of the configured one
        #[arg(long, value_name = "SECONDS")]
        interval: Option<u64>,
    },
    /// Watch one interval and print it; nothing is sent
    Once {
        /// How long to watch
        #[arg(long, value_name = "SECONDS", default_value_t = 10)]
        interval: u64,
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
        /// A file of rules to try, before the built-in ones
        #[arg(long, value_name = "FILE")]
        rules: Option<PathBuf>,
    },
    /// Hand the step that this command is part of a trace id and labels
    ///
    /// The probe of this machine takes them where label_socket is set. The labels run,
    /// pipeline and sample say what the step is of.
    Label {
        /// Where the probe listens
        #[arg(long, value_name = "PATH", default_value = USUAL_PATH)]
        socket: PathBuf,
        /// The scheduler's own id of this step's trace
        #[arg(long, value_name = "ID")]
        trace_id: Option<String>,
        /// Labels
        #[arg(value_name = "KEY=VALUE", required_unless_present = "trace_id")]
        labels: Vec<String>,
    },
    /// Say what this machine lacks for the probe, and what mends it; the queue is
    /// tried by a message without heartbeats
    Check {
        /// The configuration
        #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
        config: PathBuf,
    },
}

/// How an interval is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs: `heartbeat` and `ended`, as the wire contract has them.
    Json,
}
