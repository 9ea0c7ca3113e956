//! Invalid lines of a user's file. The first are named, the others counted, and reading continues.

use std::fmt;
use std::path::Path;

use crate::visibility_gap::Gap;

/// The most lines that a report names.
const NAMED: usize = 20;

/// The most lines of which more than their number is kept.
const KEPT: usize = 1_000;

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// The name of the field in the file.
    pub field: &'static str,
    /// The problem.
    pub why: String,
}

impl BadLine {
    /// A line that is skipped.
    pub fn new(line: u64, field: &'static str, why: impl Into<String>) -> Self {
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
pub struct BadLines {
    first: Vec<BadLine>,
    more: u64,
}

impl BadLines {
    /// Adds one, or only counts it if there are many.
    pub fn add(&mut self, bad: BadLine) {
        match self.first.len() < KEPT {
            true => self.first.push(bad),
            false => self.more += 1,
        }
    }

    /// The number of invalid lines.
    pub fn count(&self) -> u64 {
        self.first.len() as u64 + self.more
    }

    /// The first of them, which a report names.
    pub fn named(&self) -> impl Iterator<Item = &BadLine> {
        self.first.iter().take(NAMED)
    }

    /// The same as gaps of a report.
    pub fn gaps(&self, path: &Path) -> Vec<Gap> {
        self.gaps_of(&file_name(path))
    }

    /// The same, with this name of the file.
    pub fn gaps_of(&self, file: &str) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = self
            .named()
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
pub fn file_name(path: &Path) -> String {
    let file = path.file_name().unwrap_or(path.as_os_str());
    file.to_string_lossy().into_owned()
}

/// A part of a field for a message, on one line.
pub fn shown(text: &str) -> String {
    text.escape_default().take(40).collect()
}
