//! The entry point: parses arguments and returns the exit status.

use std::process::ExitCode;

use clap::Parser;
use ebb_probe::args::Args;
use ebb_probe::program;
use ebb_telemetry::safe_text;

fn main() -> ExitCode {
    let args = Args::parse();
    program::start_log(&args.command);
    program::main(args.command).unwrap_or_else(|error| {
        let error_text = format!("ebb-probe: {error:#}");
        eprintln!("{}", safe_text::lines(&error_text));
        program::status_of(&error)
    })
}
