//! `ebb`, the command line program, from its arguments to its exit status. Each command has its own
//! module.

/// The macros of the standard library panic if the reader of a pipe has ended. The whole program
/// uses these macros instead.
macro_rules! println {
    ($($text:tt)*) => { $crate::output::say(format_args!($($text)*)) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::note(format_args!($($text)*)) };
}

mod args;
#[cfg(feature = "aws")]
mod aws_credentials;
mod billing;
mod catalog;
mod costs;
mod demo;
mod deployment;
mod doctor;
#[cfg(test)]
mod documented_commands;
mod explain;
mod explanation;
mod findings;
mod import;
mod init;
mod lake;
mod manual;
mod names;
mod output;
mod pages;
mod policy;
mod probes;
#[cfg(feature = "fuzzing")]
pub mod readers;
#[cfg(test)]
mod reference;
mod runs;
mod runtime;
mod scan;
mod serve;
mod similar_names;
mod snakefile;
mod step_names;
mod sweep;
mod text_file;
mod top;
mod tune;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use output::Outcome;

/// The command to build and run the program with AWS support.
#[cfg(not(feature = "aws"))]
const BUILD_WITH_AWS: &str = "cargo run --release -p ebb-cli --features aws";

/// Runs the program on the arguments of the process; returns its exit status.
pub fn run() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            output::usage(&error);
            return Outcome::of_usage(&error).into();
        }
    };
    let zone = args.time_zone.clone().unwrap_or_else(output::zone);
    let done = match &args.command {
        Command::Scan(scan) => scan::run(scan, &zone),
        Command::Findings(args) => findings::run(args, &zone),
        Command::Runs(args) => runs::run(args, &zone),
        Command::Costs(args) => costs::run(args, &zone),
        Command::Probes(args) => probes::run(args, &zone),
        Command::Explain(args) => explain::run(args, &zone),
        Command::Lake(args) => lake::run(args),
        Command::Sweep(sweep) => sweep::run(sweep),
        Command::Tune(tune) => tune::run(tune, &zone),
        Command::Import(import) => import::run(import),
        Command::Names(names) => names::run(names, &zone),
        Command::Init(init) => init::run(init),
        Command::Serve(serve) => serve::run(serve),
        Command::Pages(pages) => pages::run(pages),
        Command::Top(top) => top::run(top),
        Command::Doctor(doctor) => doctor::run(doctor),
        Command::Policy(policy) => policy::run(policy),
        Command::Catalog(catalog) => catalog::run(catalog),
        Command::Completions(completions) => manual::print_completions(completions),
        Command::Man(man) => manual::write_pages(man),
    };
    match done {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            eprintln!("ebb: {error:#}");
            Outcome::Failed.into()
        }
    }
}
