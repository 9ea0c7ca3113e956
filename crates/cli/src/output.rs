//! The destination of text, its width and colour, and the exit status of the program.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use ebb_model::text_file::bad_lines::BadLines;
use ebb_telemetry::safe_text;

use ebb_report::terminal_style::{Colour, TerminalStyle};
use ebb_report::zone::Zone;

/// How the program ends. The exit statuses are part of its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success.
    Done,
    /// An error, or a failed check.
    Failed,
    /// The command line is wrong.
    Usage,
    /// Waste was found, and the user asked for a separate status for it.
    Waste,
}

impl Outcome {
    /// For an invalid command line or a request for help.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        match error.use_stderr() {
            true => Self::Usage,
            false => Self::Done,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Done => 0,
            Outcome::Failed => 1,
            Outcome::Usage => 2,
            Outcome::Waste => 3,
        })
    }
}

/// Writes to a file or, without one or with `-`, to standard output. It is not an error if the reader
/// of a pipe, such as `head`, ends early.
pub(crate) fn write(text: &str, file: Option<&Path>) -> Result<()> {
    if let Some(path) = file.filter(|path| *path != Path::new("-")) {
        replace(path, text).with_context(|| format!("failed to write {}", path.display()))?;
        eprintln!("Wrote {}.", path.display());
        return Ok(());
    }
    let mut out = io::stdout().lock();
    // Renderers remove control characters. This protects a terminal if a renderer misses one.
    let text = match out.is_terminal() {
        true => safe_text::styled_lines(text),
        false => Cow::Borrowed(text),
    };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("failed to write to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes a file as a whole: after an error, the earlier content is still there.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let before = fs::symlink_metadata(path).ok();
    let is_other = before.as_ref().is_some_and(|before| !before.is_file());
    let Some(name) = path.file_name().filter(|_| !is_other) else {
        // A pipe, a device or a link.
        return fs::write(path, text);
    };
    let mut part = name.to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(part);
    // A file or link that another user made under this name is not written to.
    let written = File::create_new(&part).and_then(|mut file| file.write_all(text.as_bytes()));
    if before.is_some() && matches!(&written, Err(e) if e.kind() == ErrorKind::PermissionDenied) {
        // The user may write the file, but not the folder.
        return fs::write(path, text);
    }
    let done = written.and_then(|()| {
        if let Some(before) = before {
            fs::set_permissions(&part, before.permissions())?;
        }
        fs::rename(&part, path)
    });
    done.inspect_err(|_| drop(fs::remove_file(&part)))
}

/// Writes text for people to standard output. It removes terminal control sequences, also if
/// standard output is a pipe.
pub(crate) fn print(text: &str) -> Result<()> {
    write(&safe_text::styled_lines(text), None)
}

/// JSON for people and programs, without characters that control a terminal.
pub(crate) fn json(value: &serde_json::Value) -> String {
    safe_text::json(&format!("{value:#}\n")).into_owned()
}

/// Writes the first invalid lines of a file to standard error.
pub(crate) fn note_bad_lines(path: &Path, bad_lines: &BadLines) {
    for line in bad_lines.named() {
        eprintln!("{}:{line}", path.display());
    }
}

/// Whether `--output` names a folder: an existing one, or a name with a `/` at its end.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Writes a line to standard output; a closed pipe is ignored.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let line = line.to_string();
    let _ = writeln!(out, "{}", safe_text::lines(&line)).and_then(|()| out.flush());
}

/// Writes a line to standard error; a closed pipe is ignored. Errors quote files, names and answers
/// of clouds, so terminal control sequences are removed.
pub(crate) fn note(line: fmt::Arguments<'_>) {
    let line = line.to_string();
    let _ = writeln!(io::stderr().lock(), "{}", safe_text::lines(&line));
}

/// Replaces the last line of a terminal's standard error with the progress.
pub(crate) fn progress(text: &str) {
    let mut err = io::stderr().lock();
    let text = safe_text::one_line(text);
    let _ = write!(err, "\r\x1b[K{text}").and_then(|()| err.flush());
}

/// Prints clap's message about a command line. Help goes to standard output; errors quote
/// arguments.
pub(crate) fn usage(error: &clap::Error) {
    match error.use_stderr() {
        true => note(format_args!("{}", error.render().to_string().trim_end())),
        // A closed pipe is not an error.
        false => _ = error.print(),
    }
}

/// The time zone in the environment variable `TZ`, otherwise UTC.
pub(crate) fn zone() -> Zone {
    let name = std::env::var("TZ").ok().filter(|name| !name.is_empty());
    let Some(name) = name else { return Zone::utc() };
    let path = name.strip_prefix(':').unwrap_or(&name);
    let path = if path == "localtime" {
        "/etc/localtime"
    } else {
        path
    };
    let in_file = || {
        let bytes = std::fs::read(path).ok().filter(|_| path.starts_with('/'))?;
        Zone::of_file(path, &bytes)
    };
    Zone::parse(&name).or_else(in_file).unwrap_or_else(|| {
        eprintln!("ebb: TZ={name:?} is not a time zone; times are in UTC");
        Zone::utc()
    })
}

/// Width and colour of text on standard output.
pub(crate) fn terminal_style() -> TerminalStyle {
    let out = io::stdout();
    if !out.is_terminal() {
        return TerminalStyle::PLAIN;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let term = std::env::var("TERM").ok();
    TerminalStyle {
        columns: columns.filter(|columns| *columns > 0),
        colour: colour(is_set("NO_COLOR"), term.as_deref()),
    }
}

/// Colour on a terminal, unless <https://no-color.org> or a dumb terminal disables it.
fn colour(no_color: bool, term: Option<&str>) -> Colour {
    match no_color || matches!(term, None | Some("dumb")) {
        true => Colour::Plain,
        false => Colour::Ansi,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_left_out_where_the_user_or_the_terminal_wants_none() {
        let check = |no_color: bool, term: Option<&str>, expect: Colour| {
            assert_eq!(colour(no_color, term), expect);
        };
        check(false, Some("xterm-256color"), Colour::Ansi);
        check(true, Some("xterm-256color"), Colour::Plain);
        check(false, Some("dumb"), Colour::Plain);
        check(false, None, Colour::Plain);
    }
}
