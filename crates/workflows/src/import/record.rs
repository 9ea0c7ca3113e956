//! A record: one attempt of one task from a file. Also rows of a file with access by column name.

use std::time::Duration;

use ebb_model::advice::step::NameForm;
use ebb_model::step_profile::failure::FailureKind;
use ebb_model::task_record::TaskKey;
use ebb_telemetry::safe_text::{clip, counted, one_line};
use ebb_telemetry::stable_hash::stable_hash;
use ebb_telemetry::step::Requested;
use ebb_telemetry::units::{Bytes, CpuTime};
use jiff::Timestamp;
use thiserror::Error;

/// Why a line was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{line}: {field}: {problem}")]
pub struct BadLine {
    /// The number of the line, from 1.
    pub line: u64,
    /// The field.
    pub field: String,
    /// The problem.
    pub problem: String,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Ending {
    #[default]
    Completed,
    Failed(FailureKind),
}

/// One attempt of one task; a value that the file does not contain is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Record {
    /// The process, rule or job name.
    pub(super) step: String,
    pub(super) name_form: NameForm,
    /// The user who chose the name of the step; `None` if an engine or nobody known did. Other users
    /// may call other work the same.
    pub(super) named_by: Option<String>,
    /// The name of the task or job as the file contains it; `None` without one.
    pub(super) name: Option<String>,
    /// Its ids in the engine or scheduler.
    pub(super) keys: Vec<TaskKey>,
    /// The times have no time zone.
    pub(super) is_local_time: bool,
    /// The pipeline run; `None` if the run of the whole file applies.
    pub(super) run: Option<String>,
    /// The run that the engine itself names; `None` if it names none.
    pub(super) engine_run: Option<String>,
    /// The common property of all attempts of the task, within its step and run.
    pub(super) task: String,
    /// Identifies the attempt in any file; `None` if nothing does.
    pub(super) identity: Option<u64>,
    /// The engine took its result from an earlier run.
    pub(super) is_cached: bool,
    /// Counted from 1; `None` if the file does not contain it.
    pub(super) attempt: Option<u32>,
    pub(super) sample: Option<String>,
    pub(super) submitted: Option<Timestamp>,
    pub(super) started: Option<Timestamp>,
    pub(super) ended: Option<Timestamp>,
    pub(super) wall: Duration,
    /// How long it occupied its resources in the scheduler; `None` if the file does not contain it.
    pub(super) occupied: Option<Duration>,
    /// An upper bound of it: the time since the submission.
    pub(super) occupied_at_most: Option<Duration>,
    /// The number of tasks that it ran in parallel; 0 if unknown.
    pub(super) parallel_tasks: u32,
    /// The number of nodes that it ran on; 0 counts as one.
    pub(super) nodes: u64,
    /// It occupied whole nodes, whatever it requested.
    pub(super) has_whole_nodes: bool,
    pub(super) ending: Ending,
    /// The scheduler itself reports that the attempt ran out of memory.
    pub(super) is_reported: bool,
    pub(super) exit_status: Option<i64>,
    /// Whether the engine ran it again; `None` if the file does not contain it.
    pub(super) is_retried: Option<bool>,
    /// The engine ignored its failure.
    pub(super) is_ignored: bool,
    /// The configuration requests memory for each core, so the request depends on the cores.
    pub(super) has_memory_per_core: bool,
    pub(super) cpu: Option<CpuTime>,
    pub(super) peak: Option<Bytes>,
    /// The peak is an upper bound.
    pub(super) peak_is_bound: bool,
    pub(super) disk: Option<Bytes>,
    pub(super) input: Option<Bytes>,
    pub(super) requested: Requested,
    pub(super) time_limit: Option<Duration>,
}

/// The end of a task with its peak and its request of memory. If signal 9 ended it with far less than
/// its request, something else killed it. A short task may have used more after its last sample.
pub(super) fn killed_if_used_little(
    ending: Ending,
    memory: Option<(Bytes, Bytes)>,
    wall: Duration,
) -> Ending {
    const LITTLE: u64 = 4;
    const SAMPLED: Duration = Duration::from_secs(60);
    let used_little = memory.is_some_and(|(peak, request)| peak.0 < request.0 / LITTLE);
    match ending {
        Ending::Failed(FailureKind::OutOfMemory) if used_little && wall >= SAMPLED => {
            Ending::Failed(FailureKind::Killed)
        }
        ending => ending,
    }
}

/// A column by its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    index: Option<usize>,
}

impl Column {
    pub(super) fn is_there(self) -> bool {
        self.index.is_some()
    }
}

/// The names of a file's columns.
#[derive(Debug, Clone)]
pub(super) struct Header {
    names: Vec<String>,
}

impl Header {
    pub(super) fn parse(line: &str, separator: char) -> Self {
        let names = line.trim_start_matches('\u{feff}').split(separator);
        Self {
            names: names.map(|name| name.trim().to_owned()).collect(),
        }
    }

    /// The number of columns.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// The place of a column; `None` if it is missing.
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    pub(super) fn column(&self, name: &'static str) -> Column {
        Column {
            name,
            index: self.index(name),
        }
    }
}

/// A line with access by column.
pub(super) struct Row<'a> {
    pub(super) line: u64,
    values: Vec<&'a str>,
}

impl<'a> Row<'a> {
    pub(super) fn split(line: u64, text: &'a str, separator: char) -> Self {
        Self {
            line,
            values: text.split(separator).collect(),
        }
    }

    /// A line of a file with this number of columns. The last column may contain the separator.
    pub(super) fn of_columns(line: u64, text: &'a str, separator: char, columns: usize) -> Self {
        Self {
            line,
            values: text.splitn(columns.max(1), separator).collect(),
        }
    }

    /// Fails if the line has more fields than the header has columns: a value contains the
    /// separator, so the fields after it are in the wrong columns.
    pub(super) fn check_fields(line: u64, fields: usize, columns: usize) -> Result<(), BadLine> {
        match fields > columns {
            false => Ok(()),
            true => Err(BadLine {
                line,
                field: "line".to_owned(),
                problem: format!(
                    "{fields} fields for {columns} columns; a value contains the separator, so use \
                     another separator or put its column last"
                ),
            }),
        }
    }

    /// Fails if the line has fewer fields than the header has columns: the file ends within it.
    pub(super) fn check_end(&self, columns: usize) -> Result<(), BadLine> {
        match self.values.len() < columns {
            false => Ok(()),
            true => Err(BadLine {
                line: self.line,
                field: "line".to_owned(),
                problem: format!(
                    "{} fields for {columns} columns; the line ends early, so the file may be \
                     incomplete",
                    self.values.len()
                ),
            }),
        }
    }

    /// The number of fields.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// A field; `None` if it is missing or marked as unknown.
    pub(super) fn text(&self, column: Column) -> Option<&'a str> {
        let value = self.values.get(column.index?)?.trim();
        (!is_unknown(value)).then_some(value)
    }

    /// A field, parsed by a function of [`super::quantity`]. Fails if the field is present and
    /// invalid.
    pub(super) fn get<T>(
        &self,
        column: Column,
        read: fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BadLine> {
        let Some(text) = self.text(column) else {
            return Ok(None);
        };
        let unreadable = || self.bad(column, format!("invalid value '{}'", excerpt(text)));
        read(text).map(Some).ok_or_else(unreadable)
    }

    /// A point in time. One before the year 2000 is no time of a task: programs write the epoch where
    /// they know none.
    pub(super) fn moment(
        &self,
        column: Column,
        read: fn(&str) -> Option<Timestamp>,
    ) -> Result<Option<Timestamp>, BadLine> {
        const YEAR_2000: i64 = 946_684_800;
        let at = self.get(column, read)?;
        Ok(at.filter(|at| at.as_second() >= YEAR_2000))
    }

    pub(super) fn required(&self, column: Column) -> Result<&'a str, BadLine> {
        self.text(column).ok_or_else(|| self.bad(column, "missing"))
    }

    pub(super) fn bad(&self, column: Column, problem: impl Into<String>) -> BadLine {
        BadLine {
            line: self.line,
            field: column.name.to_owned(),
            problem: problem.into(),
        }
    }
}

/// Whether engines write this text for a value that they do not know.
pub(super) fn is_unknown(text: &str) -> bool {
    ["", "-", "NA", "null", "Unknown", "None"].contains(&text)
}

/// A number of lines with its noun, in one and in many.
pub(super) fn counted_lines(count: u64, (one, many): (&str, &str)) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), one, many)
}

/// A short part of a value for a message, without control characters.
pub(super) fn excerpt(text: &str) -> String {
    clip(&one_line(text), 40).into_owned()
}

/// A hash of texts that is the same in every run of the program. A byte that no text contains
/// separates them.
pub(super) fn identity_of(parts: &[&str]) -> u64 {
    stable_hash(parts.iter().flat_map(|part| part.bytes().chain([0xff])))
}
