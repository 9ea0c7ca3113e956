//! Invalid lines of a user's file. The first are named, the others counted, and reading continues.

use std::fmt;
use std::path::Path;

use ebb_model::visibility_gap::Gap;

/// The most lines that a report names.
const NAMED: usize = 20;

/// The most lines of which more than their number is kept.
const KEPT: usize = 1_000;

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// Its number, from 1.
    pub(crate) line: u64,
    /// The name of the field in the file.
    pub(crate) field: &'static str,
    /// The problem.
    pub(crate) why: String,
}

impl BadLine {
    pub(crate) fn new(line: u64, field: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { line, field, why }
    }
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}; skipped", self.line, self.field, self.why)
    }
}

/// All invalid lines of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct BadLines {
    first: Vec<BadLine>,
    more: u64,
}

impl BadLines {
    pub(crate) fn add(&mut self, bad: BadLine) {
        match self.first.len() < KEPT {
            true => self.first.push(bad),
            false => self.more += 1,
        }
    }

    /// The number of invalid lines.
    pub(crate) fn count(&self) -> u64 {
        self.first.len() as u64 + self.more
    }

    /// Writes the first of them to standard error.
    pub(crate) fn tell(&self, path: &Path) {
        for line in self.first.iter().take(NAMED) {
            eprintln!("{}:{line}", path.display());
        }
    }

    /// The same as gaps of a report.
    pub(crate) fn gaps(&self, path: &Path) -> Vec<Gap> {
        let file = file_name(path);
        let named = self.first.iter().take(NAMED);
        let mut gaps: Vec<Gap> = named
            .map(|BadLine { line, field, why }| {
                Gap::new(format!("{file}:{line}: {field}"), why.clone())
            })
            .collect();
        let more = self.count().saturating_sub(NAMED as u64);
        if more > 0 {
            gaps.push(Gap::new(file, format!("skipped {more} more lines")));
        }
        gaps
    }
}

/// The file name without its folders.
pub(crate) fn file_name(path: &Path) -> String {
    let file = path.file_name().unwrap_or(path.as_os_str());
    file.to_string_lossy().into_owned()
}

/// A part of a field for a message, on one line.
pub(crate) fn shown(text: &str) -> String {
    text.escape_default().take(40).collect()
}
