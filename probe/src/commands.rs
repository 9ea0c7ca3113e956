//! Runs each command, from its arguments to its exit status.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use ebb_telemetry::safe_text;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{Command, Format};
use crate::config::{Config, ConfigError};
use crate::connect::Fallback;
use crate::label_rules::Rules;
use crate::label_rules::source::{RulesLookup, RulesSource};
use crate::update::UpdateOptions;
use crate::{check, connect, daemon, durable, label, manual, snapshot, update};

const FAILED: u8 = 1;
const INVALID_USAGE: u8 = 2;

/// Starts the log on standard error: progress for the daemon, and only warnings for other commands.
pub fn start_log(command: &Command) {
    let level = match command {
        Command::Run { .. } | Command::Update { .. } => "info",
        Command::Snapshot { .. }
        | Command::Label { .. }
        | Command::Check { .. }
        | Command::Completions { .. }
        | Command::Man { .. } => "warn",
    };
    // Errors of the SDK are also part of the command's own error message.
    let usual = || EnvFilter::new(format!("{level},aws_config=error"));
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| usual());
    let log = tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_env_filter(filter);
    if stderr().is_terminal() {
        log.with_target(false).init();
    } else {
        log.json().init();
    }
}

/// Runs a command on one thread. Nothing here is parallel, and each further thread would need a
/// memory arena.
pub fn main(command: Command) -> anyhow::Result<ExitCode> {
    match &command {
        Command::Man { folder } => {
            manual::write_pages(folder.as_deref())?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Completions { shell } => {
            manual::print_completions(*shell)?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    // Independent of the caller's umask: the files say what ran on this machine.
    durable::create_owner_only_files();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .context("failed to start the async runtime")?
        .block_on(command_main(command))
}

/// The exit status for an error.
pub fn status_of(error: &anyhow::Error) -> ExitCode {
    let is_invalid_usage = error.downcast_ref::<ConfigError>().is_some();
    ExitCode::from(if is_invalid_usage {
        INVALID_USAGE
    } else {
        FAILED
    })
}

async fn command_main(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run {
            config,
            sink,
            watch_socket,
            interval,
        } => {
            let mut config = match &sink {
                Some(place) => Config::of_place(place)?,
                None => Config::read(&config)?,
            };
            if let Some(seconds) = interval {
                config = config.with_interval(seconds)?;
            }
            config.watch_socket = watch_socket.or(config.watch_socket);
            let connected = connect::connect(&config, Fallback::KnownSender).await?;
            // Signals are handled only from here on, because earlier there is no data to lose.
            let stop = stop_signal()?;
            daemon::run(&config, connected, stop).await?;
        }
        Command::Snapshot {
            interval,
            format,
            rules,
        } => print_snapshot(interval, format, rules).await?,
        Command::Label {
            socket,
            trace_id,
            labels,
        } => label::send_labels(&socket, label::parse_labels(trace_id, &labels)?)?,
        Command::Update {
            config,
            dry_run,
            allow_downgrade,
        } => {
            let options = UpdateOptions {
                allow_downgrade,
                dry_run,
            };
            println!(
                "{}",
                safe_text::lines(&update::run(&config, options).await?)
            );
        }
        // Written by `main`, with the permissions of the caller's umask.
        Command::Man { .. } | Command::Completions { .. } => (),
        Command::Check { config } => {
            let lines = check::all(&config).await;
            for line in &lines {
                println!("{}", safe_text::lines(&line.to_string()));
            }
            if lines.iter().any(check::CheckLine::is_bad) {
                return Ok(ExitCode::from(FAILED));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn print_snapshot(
    interval: u64,
    format: Format,
    rules: Option<PathBuf>,
) -> anyhow::Result<()> {
    let stop = stop_signal()?;
    let config = Config::default().with_interval(interval)?;
    let source = rules.map_or(RulesSource::BuiltIn, RulesSource::File);
    let rules = match source.read().await? {
        RulesLookup::Rules(rules, _) => rules,
        RulesLookup::Nothing | RulesLookup::Denied => Rules::built_in(),
    };
    let snapshot = snapshot::take(&config, rules, stop).await?;
    match format {
        Format::Table => print!("{}", safe_text::lines(&snapshot::table(&snapshot))),
        Format::Json => {
            let text = serde_json::to_string_pretty(&snapshot)?;
            println!("{}", safe_text::json(&text));
        }
    }
    Ok(())
}

/// Waits for SIGTERM, or SIGINT from a terminal.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let wait = |kind| signal(kind).context("failed to install signal handlers");
    let (mut terminate, mut interrupt) = (
        wait(SignalKind::terminate())?,
        wait(SignalKind::interrupt())?,
    );
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    })
}
