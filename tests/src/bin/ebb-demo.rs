//! The demo: the main job of the product in a simulated account.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use ebb_tests::demo::{Console, Demo, Means, Options, RealProbe, Verdict, Waste, tell};
use ebb_tests::world::{Planted, World};
use tokio::signal::unix::{SignalKind, signal};

/// The wait before the next sweep if one failed.
const AFTER_A_FAILURE: Duration = Duration::from_secs(15);

const EXAMPLES: &str = "\
Examples:
  ebb-demo --seed 7                 another fleet, other waste
  ebb-demo --keep                   leave it running to look at
  ebb-demo --no-waste               nothing is planted, and nothing may be found
  ebb-demo --shards 2               two queues and two sweeps, of which one reports
  ebb-demo check DIR                compare a run's report with planted.json again

Exit status: 0 all that was planted was found and nothing else; 1 not so;
2 it could not be played; 130 interrupted.";

/// Runs the main job of Ebb in a simulated AWS account on this machine.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Other>,
    /// Varies which waste is planted, where and how much
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave everything running at the end, until Ctrl-C or SIGTERM
    #[arg(long)]
    keep: bool,
    /// Plant no waste
    #[arg(long)]
    no_waste: bool,
    /// Do not run the real probe
    #[arg(long)]
    skip_probe: bool,
    /// Deploy with API calls and without terraform; saves a minute
    #[arg(long)]
    skip_terraform: bool,
    /// Number of queues and sweeps among which the nodes are divided; only with terraform
    #[arg(long, default_value_t = 1, conflicts_with = "skip_terraform",
          value_parser = clap::value_parser!(u8).range(1..=9))]
    shards: u8,
    /// Write files here [default: demo/seed-N next to this program]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// Compare a finished run's report with what was planted, again
    Check {
        /// The run's folder
        folder: PathBuf,
        /// The real probe did not run
        #[arg(long)]
        skip_probe: bool,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let console = Console::new();
    let ended = match &arguments.command {
        Some(Other::Check { folder, skip_probe }) => check(&console, folder, *skip_probe),
        None => play(arguments, console).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("{} {error:#}", console.red("error:"));
        ExitCode::from(2)
    })
}

async fn play(arguments: Arguments, console: Console) -> Result<ExitCode> {
    let options = Options {
        seed: arguments.seed,
        waste: match arguments.no_waste {
            true => Waste::None,
            false => Waste::Planted,
        },
        means: match arguments.skip_terraform {
            true => Means::Calls,
            false => Means::Terraform,
        },
        probe: match arguments.skip_probe {
            true => RealProbe::Skipped,
            false => RealProbe::Ran,
        },
        shards: arguments.shards,
        work: arguments.work,
    };
    let mut demo = Demo::new(options, console)?;
    let mut stop = Stop::new()?;
    let played = tokio::select! {
        played = demo.play() => Some(played),
        () = stop.wait_for_signal() => None,
    };
    if arguments.keep && matches!(played, Some(Ok(_))) {
        let pages = demo.serve_pages().await;
        println!("\n{}", demo.how_to_look());
        println!("Ctrl-C, or kill {}, takes it down.", std::process::id());
        match pages {
            Ok(address) => println!("\nPages, with a sweep every 15 seconds: {address}"),
            Err(error) => console.say(format_args!("the pages do not start: {error:#}")),
        }
        loop {
            tokio::select! {
                failed = demo.go_on() => {
                    let Err(error) = failed;
                    console.say(format_args!("a sweep failed, the next one follows: {error:#}"));
                    tokio::time::sleep(AFTER_A_FAILURE).await;
                }
                () = stop.wait_for_signal() => break,
            }
        }
    }
    console.say("taking everything down");
    demo.end().await;
    match played {
        None => Ok(ExitCode::from(130)),
        Some(verdict) => Ok(status(&verdict?)),
    }
}

fn check(console: &Console, folder: &Path, skip_probe: bool) -> Result<ExitCode> {
    let path = folder.join("report.json");
    let json = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let report = serde_json::from_slice(&json).with_context(|| format!("{}", path.display()))?;
    let planted = Planted::read(folder)?;
    let probe = match skip_probe {
        true => RealProbe::Skipped,
        false => RealProbe::Ran,
    };
    let verdict = Verdict::new(&report, &planted, &World::read(folder)?, probe);
    tell(console, &verdict);
    Ok(status(&verdict))
}

fn status(verdict: &Verdict) -> ExitCode {
    match verdict.is_good() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    }
}

/// SIGTERM, or Ctrl-C.
struct Stop {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Stop {
    fn new() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait_for_signal(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
