//! The entry point: parses arguments and returns the exit status.

use std::process::ExitCode;

use clap::Parser;
use ebb_probe::args::Args;
use ebb_probe::commands;
use ebb_telemetry::safe_text;

fn main() -> ExitCode {
    let args = Args::parse();
    commands::start_log(&args.command);
    commands::main(args.command).unwrap_or_else(|error| {
        let error_text = format!("ebb-probe: {error:#}");
        eprintln!("{}", safe_text::lines(&error_text));
        commands::status_of(&error)
    })
}
