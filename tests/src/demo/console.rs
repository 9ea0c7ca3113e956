//! The output of the demo while it runs. Each line starts with the seconds since the start; colour
//! is used only on a terminal.

use std::fmt::Display;
use std::io::{IsTerminal, stdout};

use ebb_report::terminal_style::{Colour, TerminalStyle};
use tokio::time::Instant;

/// Writes to standard output.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    began: Instant,
    colour: Colour,
}

impl Console {
    /// A console whose clock starts now.
    pub fn new() -> Self {
        let bare = std::env::var_os("NO_COLOR").is_some() || !stdout().is_terminal();
        Self {
            began: Instant::now(),
            colour: if bare { Colour::Plain } else { Colour::Ansi },
        }
    }

    /// Width and colour of tables.
    pub fn terminal_style(&self) -> TerminalStyle {
        TerminalStyle {
            columns: None,
            colour: self.colour,
        }
    }

    /// Seconds since the start.
    pub fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Begins a part.
    pub fn part(&self, number: usize, title: &str) {
        println!("\n{}", self.bold(&format!("{number}  {title}")));
    }

    /// One line of progress.
    pub fn say(&self, line: impl Display) {
        println!(
            "{} {line}",
            self.dim(&format!("{:>7.1} s ", self.elapsed()))
        );
    }

    /// Indented text, otherwise unchanged.
    pub fn quote(&self, text: &str) {
        for line in text.trim_end().lines() {
            println!("{}", format!("            {line}").trim_end());
        }
    }

    /// Emphasis.
    pub fn bold(&self, text: &str) -> String {
        self.dressed("1", text)
    }

    /// Colour of a success.
    pub fn green(&self, text: &str) -> String {
        self.dressed("32", text)
    }

    /// Colour of a failure.
    pub fn red(&self, text: &str) -> String {
        self.dressed("31", text)
    }

    fn dim(&self, text: &str) -> String {
        self.dressed("2", text)
    }

    fn dressed(&self, code: &str, text: &str) -> String {
        match self.colour {
            Colour::Ansi => format!("\x1b[{code}m{text}\x1b[0m"),
            Colour::Plain => text.to_owned(),
        }
    }
}

impl Default for Console {
    fn default() -> Self {
        Self::new()
    }
}
