//! Tasks from files of engines and schedulers, for users without a probe: Nextflow's trace,
//! Snakemake's benchmark files, Slurm's accounting. [`task_names`] reads only the names from the
//! same files, for users with probes.
//!
//! These files contain only the average number of busy cores. An invalid line is reported with its
//! field, and the import continues. Memory is limited: the import keeps sums over all lines, and
//! the newest attempts of each step.

mod fold;
mod job_name;
mod nextflow;
mod nextflow_report;
pub mod pattern;
mod python_literal;
pub mod quantity;
mod record;
mod sacct;
mod slurm_gpus;
pub mod snakefile;
mod snakemake;
mod squeue;
pub mod task_names;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Read};

use ebb_analysis::advice::step::StepSubject;
use ebb_catalog::catalog::Catalogue;
use ebb_model::advice::step::{NameForm, StepAdvice, StepTotals};
use ebb_model::policy::Policy;
use ebb_model::step_profile::failure::FailureCount;
use ebb_model::text_file::lines::{Line, Lines, unpack};
use ebb_sizing::need::Need;
use ebb_telemetry::safe_text::counted;
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::Bytes;
use jiff::Timestamp;
use thiserror::Error;

use self::fold::{Fold, Full};
use self::pattern::{FileNaming, Unnamed};
use self::record::Record;
use self::snakefile::Snakefile;

pub use self::fold::ImportedStep;
pub use self::nextflow_report::ReportError;
pub use self::quantity::bytes as read_size;
pub use self::record::BadLine;

/// The most bad lines that are kept of each file.
const MAX_BAD_LINES: usize = 20;

/// Lines between two reports of progress.
const LINES_A_REPORT: u64 = 50_000;

/// The program that wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nextflow's `trace.txt`, or its `report.html`.
    Nextflow,
    /// A `benchmark:` file of Snakemake.
    Snakemake,
    /// `sacct --parsable2`.
    Sacct,
    /// `squeue` with the format of `ebb names push --help`.
    Squeue,
}

/// Whether a file with this first line is a trace of Nextflow without requests. Of two records of one
/// task, the first counts, so such a file should be read after others.
pub fn is_trace_without_requests(line: &str) -> bool {
    Kind::from_first_line(line) == Some(Kind::Nextflow)
        && nextflow::Trace::is_without_requests(line)
}

impl Kind {
    /// The kind of a file by its first line; `None` if it is unknown.
    fn from_first_line(line: &str) -> Option<Self> {
        if sacct::Accounting::is_header(line) {
            Some(Self::Sacct)
        } else if squeue::Queue::is_header(line) {
            Some(Self::Squeue)
        } else if snakemake::Benchmark::is_header(line) {
            Some(Self::Snakemake)
        } else if nextflow::Trace::is_header(line) {
            Some(Self::Nextflow)
        } else {
            None
        }
    }

    fn of_step(self) -> StepKind {
        match self {
            Self::Nextflow => StepKind::NextflowTask,
            Self::Snakemake => StepKind::SnakemakeJob,
            Self::Sacct | Self::Squeue => StepKind::SlurmJob,
        }
    }
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum ImportError {
    /// It has no line.
    #[error("the file is empty")]
    Empty,
    /// It has a header and nothing else.
    #[error("the file has a header and no row")]
    NoRow,
    /// Its lines end with a carriage return alone.
    #[error(
        "line 1 contains carriage returns: its lines end without a line feed; convert the file, such \
         as with tr '\\r' '\\n'"
    )]
    CarriageReturns,
    /// The file could not be read to its end.
    #[error("failed to read the file")]
    Io(#[from] io::Error),
    /// Its first line matches no known format.
    #[error(
        "line 1 is neither a Nextflow trace nor a Snakemake benchmark nor sacct or squeue output; \
         name the format with --kind"
    )]
    Unknown,
    /// Its first line begins a JSON object of another program.
    #[error(
        "line 1 begins JSON, and only JSON lines of Snakemake benchmarks are read; run sacct with \
         --parsable2 instead of --json. For a report of Ebb, use `ebb tune --report FILE`"
    )]
    Json,
    /// Its values are in quotation marks.
    #[error(
        "line 1 has values in quotation marks, as a spreadsheet writes them; import the file that the engine \
         or sacct wrote"
    )]
    Quoted,
    /// It is an HTML page whose tasks cannot be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Its first line is a record of sacct.
    #[error("line 1 is no header; run sacct without --noheader")]
    NoHeader,
    /// A required column is missing.
    #[error("line 1: missing column {column}; {remedy}")]
    MissingColumn {
        /// The column.
        column: &'static str,
        /// How to add it.
        remedy: &'static str,
    },
    /// sacct's default format truncates names and numbers.
    #[error("line 1: names may be truncated in aligned columns; run sacct with --parsable2")]
    AlignedColumns,
    /// squeue shows no resource use.
    #[error("squeue shows no resource use; use the output of sacct")]
    NoUsage,
    /// A benchmark file does not contain the id of its task.
    #[error(
        "a benchmark file of Snakemake does not contain the id of its task; the probe recognizes \
         jobs of Snakemake by itself, and `ebb import` reads this file"
    )]
    NoTaskId,
    /// A benchmark file does not contain the name of its rule, and no pattern matches it.
    #[error(
        "the file does not contain the name of its rule, and no pattern matches its path; add --snakefile Snakefile or a pattern such as --benchmark-pattern 'benchmarks/{{sample}}.{{rule}}.txt', or run Snakemake with --benchmark-extended"
    )]
    NoRule,
    /// No rule of the Snakefile writes this benchmark file.
    #[error("no rule of the Snakefile has a benchmark file with such a path")]
    NoSuchBenchmark,
    /// Two rules of the Snakefile may have written a benchmark file.
    #[error(
        "rules {first} and {second} of the Snakefile may both have written it: run Snakemake \
         with --benchmark-extended"
    )]
    AmbiguousBenchmark {
        /// The first rule.
        first: String,
        /// The second rule.
        second: String,
    },
}

impl From<Unnamed> for ImportError {
    fn from(unnamed: Unnamed) -> Self {
        match unnamed {
            Unnamed::NoPattern => Self::NoRule,
            Unnamed::NoRule => Self::NoSuchBenchmark,
            Unnamed::Ambiguous { first, second } => Self::AmbiguousBenchmark { first, second },
        }
    }
}

/// A file to read.
pub struct Source<'a> {
    /// Its path, for messages and for patterns of benchmark files.
    pub path: &'a str,
    /// The program that wrote it; `None` to detect it from the first line.
    pub kind: Option<Kind>,
    /// When it was written; benchmark files contain no time.
    pub modified: Option<Timestamp>,
}

/// Reads records of one format.
trait Parser {
    fn line(&mut self, number: u64, line: &str, sink: &mut Sink<'_>);
    fn finish(&mut self, sink: &mut Sink<'_>);

    /// Whether a line of blanks may be a part of a record.
    fn reads_blank_lines(&self) -> bool {
        false
    }

    /// Notes about data that the file lacks, for readers of the recommendations.
    fn notes(&self) -> Vec<Note>;
}

/// A note about data that a file lacks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Note {
    text: String,
    matters: Matters,
}

/// When a reader of the recommendations needs a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Matters {
    Always,
    WithSeveralRuns,
    WithoutRequests,
}

impl From<String> for Note {
    fn from(text: String) -> Self {
        let matters = Matters::Always;
        Self { text, matters }
    }
}

/// A use of the records of a file.
trait Destination {
    /// Takes the record of a task that ended.
    fn take(&mut self, of: &Origin<'_>, record: Record) -> Result<(), Refusal>;

    /// Takes the record of a task that still runs.
    fn take_open(&mut self, of: &Origin<'_>, record: Record) -> Result<(), Refusal>;
}

/// Where a record is from.
struct Origin<'a> {
    file: &'a str,
    source: Kind,
    line: u64,
}

/// Why a record cannot be used.
struct Refusal {
    field: &'static str,
    problem: String,
}

impl Refusal {
    fn at(self, line: u64) -> BadLine {
        BadLine {
            line,
            field: self.field.to_owned(),
            problem: self.problem,
        }
    }
}

impl From<Full> for Refusal {
    fn from(Full(what): Full) -> Self {
        Self {
            field: "name",
            problem: format!("too many {what}"),
        }
    }
}

/// The destination of the records of one file.
struct Sink<'a> {
    destination: &'a mut dyn Destination,
    file: &'a str,
    source: Kind,
    bad: &'a mut BadLines,
}

impl<'a> Sink<'a> {
    fn file(&self) -> &str {
        self.file
    }

    fn origin(&self, line: u64) -> Origin<'a> {
        Origin {
            file: self.file,
            source: self.source,
            line,
        }
    }

    fn take(&mut self, line: u64, record: Result<Record, BadLine>) {
        let origin = self.origin(line);
        let taken = record.and_then(|record| {
            let taken = self.destination.take(&origin, record);
            taken.map_err(|refusal| refusal.at(line))
        });
        if let Err(bad) = taken {
            self.bad.add(bad);
        }
    }

    /// The same for a task that still runs.
    fn take_open(&mut self, line: u64, record: Record) {
        let origin = self.origin(line);
        if let Err(refusal) = self.destination.take_open(&origin, record) {
            self.bad.add(refusal.at(line));
        }
    }
}

/// Lines of one file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BadLines {
    /// The first of them, at most 20.
    pub first: Vec<BadLine>,
    /// The number of all of them.
    pub count: u64,
    /// The number of lines by problem.
    pub by_problem: BTreeMap<String, u64>,
}

impl BadLines {
    fn add(&mut self, bad: BadLine) {
        self.count += 1;
        // The value is not part of the problem.
        let problem = bad.problem.split('\'').next().unwrap_or_default();
        let problem = format!("{}: {}", bad.field, problem.trim());
        if self.by_problem.len() < MAX_BAD_LINES || self.by_problem.contains_key(&problem) {
            *self.by_problem.entry(problem).or_default() += 1;
        }
        if self.first.len() < MAX_BAD_LINES {
            self.first.push(bad);
        }
    }
}

/// An import in progress.
#[derive(Default)]
pub struct Import {
    fold: Fold,
    naming: FileNaming,
    snakefile: Option<Snakefile>,
    notes: BTreeSet<Note>,
    records: u64,
    skipped: u64,
}

impl Import {
    /// An import with these patterns of benchmark files.
    pub fn new(naming: FileNaming) -> Self {
        Self {
            naming,
            ..Self::default()
        }
    }

    /// The same, with the rules of the Snakefile that wrote benchmark files.
    #[must_use]
    pub fn with_snakefile(mut self, snakefile: Snakefile) -> Self {
        snakefile.add_to(&mut self.naming);
        self.snakefile = Some(snakefile);
        self
    }

    /// Records read so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Reads one file, plain or gzipped. Calls `progress` at intervals with the number of lines
    /// read.
    ///
    /// # Errors
    /// If none of its lines can be used.
    pub fn read(
        &mut self,
        source: &Source<'_>,
        bytes: impl Read,
        mut progress: impl FnMut(u64),
    ) -> Result<BadLines, ImportError> {
        let mut opened = OpenFile::open(source, bytes)?;
        let mut parser = self.parser(opened.kind, source, &opened.first)?;
        let bad = opened.read(parser.as_mut(), source.path, self, &mut progress)?;
        if !opened.has_rows {
            return Err(ImportError::NoRow);
        }
        self.notes.extend(parser.notes());
        self.skipped += bad.count;
        Ok(bad)
    }

    fn parser(
        &self,
        kind: Kind,
        source: &Source<'_>,
        first: &str,
    ) -> Result<Box<dyn Parser>, ImportError> {
        Ok(match kind {
            Kind::Nextflow => Box::new(nextflow::Trace::from_header(first)?),
            Kind::Sacct => Box::new(sacct::Accounting::from_header(first)?),
            Kind::Squeue => return Err(ImportError::NoUsage),
            Kind::Snakemake => {
                let snakefile = self.snakefile.as_ref();
                let rules = snakemake::Rules {
                    naming: &self.naming,
                    snakefile,
                };
                Box::new(snakemake::Benchmark::open(source, first, rules)?)
            }
        })
    }

    /// Ends the import and returns its result.
    pub fn finish(self) -> Imported {
        let (steps, runs) = self.fold.finish();
        let per_core = steps.iter().filter(|step| step.has_memory_per_core).count();
        let note = (per_core > 0).then(|| {
            format!(
                "{} with mem_mb_per_cpu: cores and memory stay, because the one changes the other",
                counted(per_core, "rule", "rules")
            )
        });
        let has_several = runs.len() > 1;
        let has_requests = |step: &ImportedStep| {
            let request = step.profile.present_request().request;
            request.cores.is_some() && request.memory.is_some()
        };
        let knows_requests = steps.iter().all(has_requests);
        let is_of_use = |note: &Note| match note.matters {
            Matters::Always => true,
            Matters::WithSeveralRuns => has_several,
            Matters::WithoutRequests => !knows_requests,
        };
        let notes = self.notes.into_iter().filter(is_of_use);
        let notes = notes.map(|note| note.text);
        Imported {
            steps,
            runs,
            notes: notes.chain(note).collect(),
            records: self.records,
            skipped: self.skipped,
        }
    }
}

impl Destination for Import {
    fn take(&mut self, of: &Origin<'_>, record: Record) -> Result<(), Refusal> {
        let kind = of.source.of_step();
        self.fold.take(kind, of.file, of.line, record)?;
        self.records += 1;
        Ok(())
    }

    /// Only the use of a task that ended is known.
    fn take_open(&mut self, _: &Origin<'_>, _: Record) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A file after its first line.
struct OpenFile<'a> {
    lines: Lines<'a>,
    first: String,
    kind: Kind,
    /// Whether something follows the header.
    has_rows: bool,
}

impl<'a> OpenFile<'a> {
    fn open(source: &Source<'_>, bytes: impl Read + 'a) -> Result<Self, ImportError> {
        let mut content = unpack(bytes)?;
        if nextflow_report::is_html(content.fill_buf()?) {
            let trace = nextflow_report::to_trace(content, &nextflow::FIELDS)?;
            content = Box::new(Cursor::new(trace));
        }
        let mut lines = Lines::from_unpacked(content);
        let first = first_line(&mut lines)?;
        let kind = source.kind.or_else(|| Kind::from_first_line(&first));
        Ok(Self {
            kind: kind.ok_or_else(|| unknown(&first))?,
            lines,
            first,
            has_rows: false,
        })
    }

    /// Reads all records. Calls `progress` at intervals with the number of lines read.
    fn read(
        &mut self,
        parser: &mut dyn Parser,
        file: &str,
        destination: &mut dyn Destination,
        progress: &mut dyn FnMut(u64),
    ) -> Result<BadLines, ImportError> {
        let mut bad = BadLines::default();
        let mut sink = Sink {
            destination,
            file,
            source: self.kind,
            bad: &mut bad,
        };
        self.has_rows = self.first.starts_with('{');
        if self.has_rows {
            parser.line(1, &self.first, &mut sink);
        }
        while let Some(Line { number, text }) = self.lines.read_line()? {
            let is_blank = text.as_ref().is_ok_and(|line| line.trim().is_empty());
            if is_blank && !parser.reads_blank_lines() {
                continue;
            }
            self.has_rows = true;
            match text {
                Ok(line) => parser.line(number, line, &mut sink),
                Err(unusable) => sink.bad.add(BadLine {
                    line: number,
                    field: "line".to_owned(),
                    problem: unusable.problem(),
                }),
            }
            if number % LINES_A_REPORT == 0 {
                progress(number);
            }
        }
        parser.finish(&mut sink);
        Ok(bad)
    }
}

/// Why the format of a file is unknown, by its first line.
fn unknown(first: &str) -> ImportError {
    if first.trim_start().starts_with(['{', '[']) {
        ImportError::Json
    } else if first.trim_start().starts_with('"') {
        ImportError::Quoted
    } else if sacct::Accounting::is_record(first) {
        ImportError::NoHeader
    } else {
        ImportError::Unknown
    }
}

fn first_line(lines: &mut Lines<'_>) -> Result<String, ImportError> {
    while let Some(line) = lines.read_line()? {
        match line.text {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) if text.trim_end().contains('\r') => return Err(ImportError::CarriageReturns),
            Ok(text) => return Ok(text.to_owned()),
            Err(_) => return Err(ImportError::Unknown),
        }
    }
    Err(ImportError::Empty)
}

/// The data of all files.
#[derive(Debug)]
pub struct Imported {
    /// Steps by name.
    pub steps: Vec<ImportedStep>,
    /// The names of the pipeline runs, or the days if no run is known.
    pub runs: Vec<String>,
    /// Notes about missing data.
    pub notes: Vec<String>,
    /// Records read; those of the same attempt count once.
    pub records: u64,
    /// Lines that could not be used.
    pub skipped: u64,
}

/// Recommends the present request, with its risk.
fn keep_request(advice: &mut StepAdvice, need: &Need) {
    advice.should_ask = advice.asks;
    advice.slowdown_ppm = None;
    if let Some(memory) = advice.asks.memory {
        advice.risk = need.risk_after(memory);
    }
}

impl Imported {
    /// Sums over all steps.
    pub fn totals(&self) -> StepTotals {
        self.steps
            .iter()
            .fold(StepTotals::default(), |sum, step| sum.plus(&step.totals))
    }

    /// A note if nearly all of many steps have a single task. Their names are then hardly those of steps.
    pub fn note_on_names(&self) -> Option<String> {
        const MANY: usize = 10;
        // Engines know the name of a step without its sample.
        let by_users = || {
            let is_by_user = |step: &&ImportedStep| {
                step.kind == StepKind::SlurmJob && step.name_form == NameForm::Exact
            };
            self.steps.iter().filter(is_by_user)
        };
        let all = by_users().count();
        let single = by_users().filter(|step| step.totals.tasks == 1).count();
        (all >= MANY && single * 10 >= all * 9).then(|| {
            format!(
                "{single} of {all} steps have a single task: their names may contain the sample. Only \
                 tasks of the same name are compared, so give the jobs of a step one name"
            )
        })
    }

    /// Failures of all steps by kind; the kind with the most lost time comes first.
    pub fn failures(&self) -> Vec<FailureCount> {
        FailureCount::merge(self.steps.iter().flat_map(|step| &step.failures))
    }

    /// The recommended request of each step, by name. `input` is the size of the input, which
    /// counts if the need depends on it.
    pub fn advice(&self, input: Option<Bytes>) -> Vec<StepAdvice> {
        let mut policy = Policy::default();
        // These files contain only ended tasks, so a short task is as complete as a long one.
        policy.overprovisioned.min_wall_seconds = 0;
        let advice = self.steps.iter().filter_map(|step| {
            let self_sizing = ebb_sizing::self_sizing::find_self_sizing(&step.name, []);
            let need = ebb_analysis::step_history::need::step_need(
                &step.profile,
                input,
                self_sizing.as_ref(),
                &policy,
            );
            let subject = StepSubject {
                name: &step.name,
                name_form: step.name_form,
                kind: step.kind,
                profile: &step.profile,
                need: &need,
                self_sizing: self_sizing.as_ref(),
            };
            let mut advice =
                ebb_analysis::advice::step::advise_step(subject, &policy, Catalogue::built_in())?;
            if let Some(limit) = &mut advice.time_limit
                && step.exceeded_input(input).is_some()
            {
                limit.should_ask = limit.should_ask.max(limit.asks);
            }
            let asks = advice.asks.memory;
            let grows = asks.is_some() && advice.should_ask.memory > asks;
            if step.has_memory_per_core || step.has_whole_nodes && !grows {
                keep_request(&mut advice, &need);
            } else if step.has_whole_nodes {
                advice.should_ask.cores = advice.asks.cores;
            }
            advice.usage = Some(step.totals);
            advice.failures.clone_from(&step.failures);
            Some(advice)
        });
        advice.collect()
    }
}
