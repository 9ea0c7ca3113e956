//! Nextflow's trace: tab-separated, with formatted amounts or, with `trace.raw`, in bytes and
//! milliseconds. With `trace.sep` the separator may be a comma or a semicolon.
//!
//! Source: "Execution log and tracing", Nextflow's documentation. The name of a task is `PROCESS
//! (tag)`, or `PROCESS (index)` without a tag. A number in brackets is therefore a sample only if
//! the column `tag` confirms it.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_model::step_profile::failure::FailureKind;
use ebb_model::task_record::TaskKey;
use ebb_telemetry::step::Requested;

use super::quantity::{busy, bytes, cores, is_local, percent, spoken, time, whole};
use super::record::{
    BadLine, Column, Ending, Header, Record, Row, counted_lines, excerpt, identity_of,
    killed_if_used_little,
};
use super::{ImportError, Matters, Note, Parser, Sink};

/// The fields that are read.
pub(super) const FIELDS: [&str; 24] = [
    "task_id",
    "hash",
    "native_id",
    "process",
    "tag",
    "name",
    "status",
    "exit",
    "submit",
    "start",
    "complete",
    "duration",
    "realtime",
    "%cpu",
    "cpus",
    "memory",
    "time",
    "attempt",
    "error_action",
    "rss",
    "peak_rss",
    "rchar",
    "read_bytes",
    "write_bytes",
];

/// Fields whose text is that of the pipeline.
const FREE_TEXT: [&str; 2] = ["script", "env"];

/// The most bytes of a row that contains line ends.
const MAX_ROW_BYTES: usize = 1 << 20;

/// The status of a task with the result of an earlier run.
const CACHED: &str = "CACHED";

/// Reads one trace.
pub(super) struct Trace {
    separator: char,
    /// The number of columns.
    width: usize,
    columns: NextflowColumns,
    /// The number of headers so far: a file may consist of several traces, each with its columns.
    part: u32,
    /// Tasks that have not ended.
    open_tasks: u64,
    /// Results of an earlier run, which the trace does not identify or measure.
    cached: u64,
    /// The start of a row that contains line ends.
    open_row: Option<OpenRow>,
    /// Notes about the headers so far.
    lacking: BTreeSet<Note>,
}

/// The lines of a row so far.
struct OpenRow {
    number: u64,
    text: String,
    fields: usize,
}

struct NextflowColumns {
    /// The places of fields of any text, which may contain line ends.
    free_text: Vec<usize>,
    task_id: Column,
    hash: Column,
    native_id: Column,
    process: Column,
    tag: Column,
    name: Column,
    status: Column,
    exit: Column,
    submit: Column,
    start: Column,
    complete: Column,
    duration: Column,
    realtime: Column,
    cpu_percent: Column,
    cpus: Column,
    memory: Column,
    time: Column,
    attempt: Column,
    error_action: Column,
    rss: Column,
    peak_rss: Column,
    rchar: Column,
    read_bytes: Column,
    write_bytes: Column,
}

impl Trace {
    /// Whether this first line is one of a trace.
    pub(super) fn is_header(line: &str) -> bool {
        separator_of(line).is_some()
    }

    /// Whether this first line is one of a trace that contains no requests.
    pub(super) fn is_without_requests(line: &str) -> bool {
        let has = |name| separator_of(line).is_some_and(|by| Header::parse(line, by).has(name));
        Self::is_header(line) && !(has("cpus") && has("memory"))
    }

    pub(super) fn from_header(line: &str) -> Result<Self, ImportError> {
        let header = Header::parse(line, separator_of(line).unwrap_or('\t'));
        if separator_of(line).is_none() {
            return Err(ImportError::MissingColumn {
                column: "realtime",
                remedy: "add it to trace.fields, or add a line of column names to `nextflow log -f`",
            });
        }
        if !header.has("process") && !header.has("name") {
            return Err(ImportError::MissingColumn {
                column: "name",
                remedy: "add it to trace.fields",
            });
        }
        if !header.has("realtime") && !header.has("duration") {
            return Err(ImportError::MissingColumn {
                column: "realtime",
                remedy: "add it to trace.fields",
            });
        }
        Ok(Self::with_header(line))
    }

    /// Rows fail if their header has not the columns that they need.
    fn with_header(line: &str) -> Self {
        let separator = separator_of(line).unwrap_or('\t');
        let header = Header::parse(line, separator);
        let columns = NextflowColumns::from_header(&header);
        Self {
            separator,
            lacking: columns.lacking(),
            columns,
            width: header.len(),
            part: 1,
            open_tasks: 0,
            cached: 0,
            open_row: None,
        }
    }

    /// Another trace follows in the same file, perhaps with other columns.
    fn begin_part(&mut self, line: &str) {
        let next = Self::with_header(line);
        self.lacking.extend(next.lacking);
        self.separator = next.separator;
        self.columns = next.columns;
        self.width = next.width;
        self.part += 1;
    }
}

fn separator_of(line: &str) -> Option<char> {
    ['\t', ',', ';', '|'].into_iter().find(|separator| {
        let header = Header::parse(line, *separator);
        ["realtime", "%cpu", "duration", "native_id"]
            .iter()
            .any(|name| header.has(name))
    })
}

/// Whether a line within a file is the header of another trace. The tag of a task may be the name of
/// one column.
fn begins_part(line: &str) -> bool {
    const NAMES: [&str; 9] = [
        "task_id",
        "hash",
        "process",
        "name",
        "status",
        "exit",
        "realtime",
        "duration",
        "native_id",
    ];
    let is_name = |field: &&str| NAMES.contains(&field.trim());
    let has_many = |separator: char| line.split(separator).filter(is_name).count() > 1;
    ['\t', ',', ';', '|'].into_iter().any(has_many)
}

impl Trace {
    /// Whether a line is the rest of the last field of the row before.
    fn is_rest(&self, line: &str) -> bool {
        let last_is_free = self.columns.free_text.contains(&(self.width - 1));
        last_is_free && !line.contains(self.separator)
    }

    /// Adds a line to the row of which it is a part. The row is `None` if it goes on, or if the line is the
    /// rest of the row before.
    fn join(&mut self, number: u64, line: &str) -> Option<OpenRow> {
        let fields = line.split(self.separator).count();
        let row = match self.open_row.take() {
            Some(mut row) => {
                row.text.push('\n');
                row.text.push_str(line);
                // The first field of the line continues the last one of the row.
                row.fields += fields - 1;
                row
            }
            None if self.is_rest(line) || line.trim().is_empty() => return None,
            None => OpenRow {
                number,
                text: line.to_owned(),
                fields,
            },
        };
        let is_in_text = self.columns.free_text.contains(&(row.fields - 1));
        let goes_on = row.fields < self.width && is_in_text;
        if goes_on && row.text.len() <= MAX_ROW_BYTES {
            self.open_row = Some(row);
            return None;
        }
        Some(row)
    }

    fn row(&mut self, number: u64, line: &str, sink: &mut Sink<'_>) {
        let row = Row::split(number, line, self.separator);
        let whole = Row::check_fields(number, row.len(), self.width);
        let record = whole
            .and_then(|()| row.check_end(self.width))
            .and_then(|()| self.columns.record(&row));
        let status = row.text(self.columns.status);
        let is_open = status.is_some_and(is_open);
        let mut record = match record {
            Ok(record) => record,
            // Nextflow has no measurements of some results of an earlier run.
            Err(bad) if status == Some(CACHED) && bad.field == self.columns.realtime.name => {
                self.cached += 1;
                return;
            }
            Err(bad) => return sink.take(number, Err(self.columns.explain(bad))),
        };
        if self.part > 1 {
            record.run = Some(format!("{} part {}", sink.file(), self.part));
        }
        if is_open {
            self.open_tasks += 1;
            sink.take_open(number, record);
        } else if record.is_cached && record.identity.is_none() {
            self.cached += 1;
        } else {
            sink.take(number, Ok(record));
        }
    }
}

impl Parser for Trace {
    fn line(&mut self, number: u64, line: &str, sink: &mut Sink<'_>) {
        // A line of a script may look like a header.
        let is_of_script = self.open_row.is_some() || self.is_rest(line);
        if !is_of_script && begins_part(line) {
            return self.begin_part(line);
        }
        if self.columns.free_text.is_empty() {
            return self.row(number, line, sink);
        }
        if let Some(row) = self.join(number, line) {
            self.row(row.number, &row.text, sink);
        }
    }

    fn reads_blank_lines(&self) -> bool {
        !self.columns.free_text.is_empty()
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        if let Some(row) = self.open_row.take() {
            self.row(row.number, &row.text, sink);
        }
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes: Vec<Note> = self.lacking.iter().cloned().collect();
        let tasks = |count| counted_lines(count, ("task", "tasks"));
        if self.open_tasks > 0 {
            let skipped = tasks(self.open_tasks);
            notes.push(format!("skipped {skipped} that did not end yet").into());
        }
        if self.cached > 0 {
            let note = format!(
                "skipped {} with the result of an earlier run, which have no hash or no run time here; \
                 import the trace of that run",
                tasks(self.cached)
            );
            notes.push(note.into());
        }
        notes
    }
}

impl NextflowColumns {
    fn from_header(header: &Header) -> Self {
        let at = |name| header.column(name);
        Self {
            free_text: FREE_TEXT
                .iter()
                .filter_map(|name| header.index(name))
                .collect(),
            task_id: at("task_id"),
            hash: at("hash"),
            native_id: at("native_id"),
            process: at("process"),
            tag: at("tag"),
            name: at("name"),
            status: at("status"),
            exit: at("exit"),
            submit: at("submit"),
            start: at("start"),
            complete: at("complete"),
            duration: at("duration"),
            realtime: at("realtime"),
            cpu_percent: at("%cpu"),
            cpus: at("cpus"),
            memory: at("memory"),
            time: at("time"),
            attempt: at("attempt"),
            error_action: at("error_action"),
            rss: at("rss"),
            peak_rss: at("peak_rss"),
            rchar: at("rchar"),
            read_bytes: at("read_bytes"),
            write_bytes: at("write_bytes"),
        }
    }

    /// Names the fields of any text in an error that they may have caused.
    fn explain(&self, mut bad: BadLine) -> BadLine {
        if !self.free_text.is_empty() {
            bad.problem.push_str(
                "; script and env may contain the separator, so remove them from trace.fields",
            );
        }
        bad
    }

    /// Notes about missing columns.
    fn lacking(&self) -> BTreeSet<Note> {
        let mut notes = BTreeSet::new();
        if !self.memory.is_there() || !self.cpus.is_there() {
            let lacking = [self.cpus, self.memory];
            let lacking = lacking.iter().filter(|column| !column.is_there());
            let lacking: Vec<&str> = lacking.map(|column| column.name).collect();
            notes.insert(Note {
                text: format!(
                    "the trace has no column {}, so the requests and the possible saving are unknown; \
                     add cpus, memory and attempt to trace.fields, or import the report of the same \
                     run (-with-report), which has them",
                    lacking.join(" or ")
                ),
                // Another file may have them.
                matters: Matters::WithoutRequests,
            });
        } else if !self.attempt.is_there() {
            let note =
                "the trace has no column attempt; retries are recognized by their names only";
            notes.insert(note.to_owned().into());
        }
        let times = [self.submit, self.start, self.complete];
        if times.iter().all(|column| !column.is_there()) {
            notes.insert(Note {
                text:
                    "the trace has no times, so runs count in the order of their files; add submit \
                       and complete to trace.fields"
                        .to_owned(),
                matters: Matters::WithSeveralRuns,
            });
        }
        if !self.peak_rss.is_there() && !self.rss.is_there() {
            let note = "the trace has no memory data; add peak_rss to trace.fields";
            notes.insert(note.to_owned().into());
        }
        notes
    }

    fn record(&self, row: &Row<'_>) -> Result<Record, BadLine> {
        let name = row.text(self.name);
        let (of_name, in_brackets) = name.map_or((None, None), split_name);
        let process = row.text(self.process).or(of_name);
        let process = process.ok_or_else(|| row.bad(self.name, "missing"))?;
        let tag = row.text(self.tag).or_else(|| {
            // Without a tag the brackets contain the task's index.
            in_brackets.filter(|tag| !tag.bytes().all(|byte| byte.is_ascii_digit()))
        });
        let status = row.text(self.status);
        let exit_status = row.get(self.exit, whole)?;
        let ending = ending(status, exit_status).ok_or_else(|| {
            let status = excerpt(status.unwrap_or_default());
            row.bad(self.status, format!("unknown status '{status}'"))
        })?;
        let wall = self.wall(row, ending)?;
        let peak = match row.get(self.peak_rss, bytes)? {
            Some(peak) => Some(peak),
            None => row.get(self.rss, bytes)?,
        };
        let read = row.get(self.read_bytes, bytes)?;
        let written = row.get(self.write_bytes, bytes)?;
        // A sampler that started too late reports 0 for all values.
        let peak = peak.filter(|peak| peak.0 > 0);
        let memory = row.get(self.memory, bytes)?;
        let cpu = row.get(self.cpu_percent, percent)?;
        let cpu = cpu.filter(|percent| *percent > 0.0 || peak.is_some());
        Ok(Record {
            step: process.to_owned(),
            task: name.map_or_else(|| tag.unwrap_or_default().to_owned(), str::to_owned),
            identity: self.identity(row, process),
            name: name.or(Some(process)).map(str::to_owned),
            keys: self.keys(row),
            is_local_time: row
                .text(self.start)
                .or(row.text(self.submit))
                .is_some_and(is_local),
            is_cached: status == Some(CACHED),
            attempt: row
                .get(self.attempt, whole)?
                .and_then(|n| u32::try_from(n).ok()),
            sample: tag.map(str::to_owned),
            submitted: row.moment(self.submit, time)?,
            started: row.moment(self.start, time)?,
            ended: self.ended(row)?,
            wall,
            occupied: self.occupied(row, wall)?,
            occupied_at_most: self.occupied_at_most(row, wall)?,
            ending: killed_if_used_little(ending, peak.zip(memory), wall),
            exit_status,
            is_retried: row.text(self.error_action).map(|action| action == "RETRY"),
            is_ignored: row.text(self.error_action) == Some("IGNORE"),
            cpu: cpu.map(|percent| busy(wall, percent)),
            peak,
            disk: read.zip(written).map(|(a, b)| a.saturating_add(b)),
            // All reads, including those from the page cache; `read_bytes` contains only reads from
            // a disk.
            input: row.get(self.rchar, bytes)?.or(read),
            requested: Requested {
                cores: row.get(self.cpus, cores)?,
                memory: memory.filter(|memory| memory.0 > 0),
            },
            time_limit: row.get(self.time, spoken)?,
            ..Record::default()
        })
    }

    /// The run time of the task; zero for a lost task, whose run time is unknown.
    fn wall(&self, row: &Row<'_>, ending: Ending) -> Result<Duration, BadLine> {
        if let Some(wall) = row.get(self.realtime, spoken)? {
            return Ok(wall);
        }
        match (row.get(self.duration, spoken)?, ending) {
            (Some(wall), _) => Ok(wall),
            (None, Ending::Failed(_)) => Ok(Duration::ZERO),
            (None, Ending::Completed) => Err(row.bad(self.realtime, "missing")),
        }
    }

    /// The time for which the task occupied its machine, at least its run time.
    fn occupied(&self, row: &Row<'_>, wall: Duration) -> Result<Option<Duration>, BadLine> {
        let started = row.moment(self.start, time)?;
        let completed = row.moment(self.complete, time)?;
        let held = started
            .zip(completed)
            .and_then(|(from, to)| Duration::try_from(to.duration_since(from)).ok());
        Ok(held.map(|held| held.max(wall)))
    }

    /// An upper bound of that time: since the submission, which contains the wait in a queue.
    fn occupied_at_most(&self, row: &Row<'_>, wall: Duration) -> Result<Option<Duration>, BadLine> {
        let lasted = row.get(self.duration, spoken)?;
        Ok(lasted.map(|lasted| lasted.max(wall)))
    }

    /// When it completed. Without that column it is computed from the duration, which begins at
    /// submission.
    fn ended(&self, row: &Row<'_>) -> Result<Option<jiff::Timestamp>, BadLine> {
        if let Some(complete) = row.moment(self.complete, time)? {
            return Ok(Some(complete));
        }
        let submitted = row.moment(self.submit, time)?;
        let lasted = row.get(self.duration, spoken)?;
        Ok(submitted
            .zip(lasted)
            .and_then(|(at, lasted)| at.checked_add(lasted).ok()))
    }

    /// The hash of the work folder, and the id of a Batch job. A number can be the id of a Slurm job
    /// or of a process, so it is not used; the work folder of the Slurm job contains the hash.
    fn keys(&self, row: &Row<'_>) -> Vec<TaskKey> {
        let hash = row.text(self.hash).and_then(TaskKey::nextflow_task);
        let native = row.text(self.native_id).and_then(TaskKey::batch_job);
        hash.into_iter().chain(native).collect()
    }

    /// Derived from the hash of the work folder, which a resumed run keeps; otherwise from the id
    /// that the executor assigned.
    fn identity(&self, row: &Row<'_>, process: &str) -> Option<u64> {
        if let Some(hash) = row.text(self.hash) {
            return Some(identity_of(&["hash", hash, process]));
        }
        let native = row.text(self.native_id)?;
        let submitted = row.text(self.submit)?;
        let id = row.text(self.task_id).unwrap_or_default();
        Some(identity_of(&["native", native, submitted, id]))
    }
}

/// Splits `PROCESS (tag)` into process and tag.
fn split_name(name: &str) -> (Option<&str>, Option<&str>) {
    match name.split_once(" (") {
        Some((process, tag)) => (Some(process), Some(tag.strip_suffix(')').unwrap_or(tag))),
        None => (Some(name), None),
    }
}

/// Whether a task with this status has not ended. At the end of a run, Nextflow writes a row for each
/// such task.
///
/// Source: `TaskStatus` and `TraceFileObserver.onFlowComplete` of Nextflow.
fn is_open(status: &str) -> bool {
    matches!(status, "NEW" | "SUBMITTED" | "RUNNING")
}

/// How a task ended; that of an open task is not used. `None` for an unknown status.
fn ending(status: Option<&str>, exit_status: Option<i64>) -> Option<Ending> {
    Some(match (status, exit_status) {
        (None, None | Some(0)) => Ending::Completed,
        // Some pipelines accept other exit statuses of a tool.
        (Some("COMPLETED" | "CACHED"), _) => Ending::Completed,
        (Some("ABORTED"), _) => Ending::Failed(FailureKind::Cancelled),
        (Some("FAILED"), None) => Ending::Failed(FailureKind::NoExitStatus),
        (None | Some("FAILED"), exit_status) => {
            Ending::Failed(FailureKind::of_exit_status(exit_status))
        }
        (Some(status), _) if is_open(status) => Ending::Failed(FailureKind::Cancelled),
        (Some(_), _) => return None,
    })
}
