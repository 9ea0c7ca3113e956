//! `ebb top`: the tasks of this machine, live, from the probe's watch socket.

mod connection;
mod model;
mod screen;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_telemetry::safe_text;
use ebb_telemetry::watch::WatchSnapshot;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use self::connection::ProbeConnection;
use self::screen::{KeyResult, Screen};
use crate::args::{TopArgs, TopFormat};
use crate::output::{self, Outcome};
use crate::runtime::runtime;

/// The probe sends a snapshot each second.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Events of the terminal that wait.
const MAX_EVENTS: usize = 64;

/// `ebb top`.
pub(crate) fn run(args: &TopArgs) -> Result<Outcome> {
    if !args.once && !stdout().is_terminal() {
        bail!(
            "failed to open a screen: standard output is not a terminal\nprint the tasks once with --once"
        );
    }
    runtime()?.block_on(async {
        let mut connection = ProbeConnection::open(&args.socket).await?;
        // Before the screen changes, so that a refusal is a plain error.
        let first = next(&mut connection).await?;
        match args.once {
            true => once(args, &mut connection, first).await,
            false => live(args, connection, first).await,
        }
    })?;
    Ok(Outcome::Done)
}

async fn next(connection: &mut ProbeConnection) -> Result<WatchSnapshot> {
    let next = tokio::time::timeout(TIMEOUT, connection.next()).await;
    next.context("timed out waiting for the probe\nsee its log: journalctl -u ebb-probe")?
}

/// Whether enough time passed between two snapshots.
fn is_due(before: &WatchSnapshot, now: &WatchSnapshot, interval: Duration) -> bool {
    // The probe can send a snapshot a little early.
    const TOLERANCE: Duration = Duration::from_millis(500);
    let passed = now.at_ns.since(before.at_ns);
    passed.is_none_or(|passed| passed + TOLERANCE >= interval)
}

async fn once(
    args: &TopArgs,
    connection: &mut ProbeConnection,
    first: WatchSnapshot,
) -> Result<()> {
    let interval = Duration::from_secs(args.interval);
    let mut now = next(connection).await?;
    while !is_due(&first, &now, interval) {
        now = next(connection).await?;
    }
    let view = model::view(Some(&first), &now);
    match args.format {
        TopFormat::Table => output::print(&screen::plain(&view)),
        TopFormat::Json => {
            let text = serde_json::to_string_pretty(&view)?;
            output::write(&format!("{}\n", safe_text::json(&text)), None)
        }
    }
}

/// Signals that end a program.
struct EndSignals([Signal; 3]);

impl EndSignals {
    fn install() -> Result<Self> {
        let on = |kind| signal(kind).context("failed to install signal handlers");
        Ok(Self([
            on(SignalKind::terminate())?,
            on(SignalKind::hangup())?,
            on(SignalKind::interrupt())?,
        ]))
    }

    async fn next(&mut self) {
        let [terminate, hangup, interrupt] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => (),
            _ = hangup.recv() => (),
            _ = interrupt.recv() => (),
        }
    }
}

async fn live(args: &TopArgs, connection: ProbeConnection, first: WatchSnapshot) -> Result<()> {
    let signals = EndSignals::install()?;
    // Its panic hook restores the terminal too.
    let mut terminal = ratatui::try_init().context("failed to open a screen")?;
    let done = show(args, connection, first, signals, &mut terminal).await;
    ratatui::restore();
    done
}

/// Reads the terminal on a thread of its own, which ends with the program.
fn events() -> mpsc::Receiver<std::io::Result<Event>> {
    let (to, events) = mpsc::channel(MAX_EVENTS);
    std::thread::spawn(move || {
        loop {
            let event = event::read();
            let is_over = event.is_err();
            if to.blocking_send(event).is_err() || is_over {
                return;
            }
        }
    });
    events
}

async fn show(
    args: &TopArgs,
    mut connection: ProbeConnection,
    first: WatchSnapshot,
    mut signals: EndSignals,
    terminal: &mut DefaultTerminal,
) -> Result<()> {
    let interval = Duration::from_secs(args.interval);
    let mut screen = Screen::new(output::terminal_style().colour);
    screen.view = Some(model::view(None, &first));
    let (mut before, mut is_first) = (first, true);
    let mut events = events();
    loop {
        let drawn = terminal.draw(|frame| screen.draw(frame));
        drawn.context("failed to draw")?;
        tokio::select! {
            () = signals.next() => return Ok(()),
            event = events.recv() => match event {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                    if screen.key(key) == KeyResult::Quit {
                        return Ok(());
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error).context("failed to read the terminal"),
                None => return Ok(()),
            },
            now = next(&mut connection) => {
                let now = now?;
                // The second snapshot is shown at once, because the first has no rates.
                if is_due(&before, &now, interval) || (is_first && before.at_ns < now.at_ns) {
                    screen.view = Some(model::view(Some(&before), &now));
                    (before, is_first) = (now, false);
                }
            }
        }
    }
}
