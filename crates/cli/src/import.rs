//! `ebb import`: recommended requests of steps, from files of workflow systems and schedulers.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ebb_model::advice::step::StepAdvice;
use ebb_report::step_summary::Summary;
use ebb_telemetry::safe_text;
use ebb_telemetry::safe_text::{counted, one_line};
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::Bytes;
use ebb_workflows::export::{self, changed_steps};
use ebb_workflows::import::pattern::{FileNaming, PathPattern};
use ebb_workflows::import::snakefile::Snakefile;
use ebb_workflows::import::{
    BadLines, Import, ImportError, Imported, Kind, Source, is_trace_without_requests,
};
use jiff::Timestamp;

use crate::args::{Form, ImportArgs, ImportKind, StepOrder, TuneFormat};
use crate::output::{self, Outcome};
use crate::snakefile;
use crate::step_names::find_steps;
use crate::tune;
use ebb_report::step_summary;

/// The longest first line that is read to choose the order of the files.
const MAX_HEADER: u64 = 1 << 16;

/// Time after which the progress is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most bad lines of a file that are named.
const NAMED_LINES: usize = 5;

/// The most files with the same error that are named.
const NAMED_FILES: u64 = 3;

pub(crate) fn run(args: &ImportArgs) -> Result<Outcome> {
    let snakefile = args.snakefile.as_deref();
    let snakefile = snakefile.map(|path| snakefile::read(path, &args.run));
    let snakefile = snakefile.transpose()?;
    let mut import = Import::new(naming(args)?);
    if let Some(snakefile) = &snakefile {
        for note in snakefile.notes() {
            eprintln!("ebb: {}", one_line(note));
        }
        import = import.with_snakefile(snakefile.clone());
    }
    let mut progress = ImportProgress::new();
    let mut failures = FileErrors::default();
    for path in in_order(&args.files) {
        if let Err(error) = read(&mut import, path, args.kind, &mut progress) {
            progress.clear();
            failures.report(path, &error);
        }
    }
    progress.clear();
    failures.report_others();
    let imported = import.finish();
    for note in imported.notes.iter().chain(&imported.note_on_names()) {
        eprintln!("ebb: {note}");
    }
    if imported.records == 0 {
        bail!("no task could be read");
    }
    let mut steps = imported.advice(args.input);
    match args.step.as_deref() {
        Some(name) => note_inputs(args.input, &imported, &find_steps(name, &steps)?),
        None => note_inputs(args.input, &imported, &steps),
    }
    step_summary::sort(&mut steps, args.sort.into());
    if let (Some(snakefile), TuneFormat::Snakemake) = (&snakefile, args.form.format) {
        check_rules(snakefile, &steps)?;
    }
    let summary = Summary {
        runs: &imported.runs,
        totals: imported.totals(),
        failures: imported.failures(),
        skipped: imported.skipped,
    };
    if let Some(note) = other_engine(args.form.format, &imported) {
        eprintln!("ebb: {note}");
    }
    let evaluates = snakefile.is_none_or(|snakefile| snakefile.evaluates_profiles());
    let form = Form {
        numbers_only: !evaluates,
        ..args.form.clone()
    };
    write((args.step.as_deref(), &form), &summary, &steps)?;
    Ok(match failures.is_empty() {
        true => Outcome::Done,
        false => Outcome::Failed,
    })
}

/// The files in order, but traces without requests last: a resumed run repeats the tasks of the run before
/// it, and the first record of a task counts.
fn in_order(files: &[PathBuf]) -> Vec<&Path> {
    let mut files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    if files.len() > 1 {
        files.sort_by_cached_key(|path| {
            first_line(path).is_some_and(|line| is_trace_without_requests(&line))
        });
    }
    files
}

/// The first line of a file of text; `None` for a pipe, which can be read only once.
fn first_line(path: &Path) -> Option<String> {
    let is_file = path.metadata().is_ok_and(|known| known.is_file());
    let file = File::open(path).ok().filter(|_| is_file)?;
    let mut line = String::new();
    let mut start = io::BufReader::new(file.take(MAX_HEADER));
    start.read_line(&mut line).ok()?;
    Some(line)
}

/// The most steps that are named because of a large input.
const NAMED_INPUTS: usize = 5;

/// Prints notes about `--input`.
fn note_inputs(input: Option<Bytes>, imported: &Imported, advised: &[StepAdvice]) {
    let unknown = unknown_inputs(input, imported, advised);
    for note in unknown.iter().take(NAMED_INPUTS) {
        eprintln!("ebb: {note}");
    }
    let more = unknown.len().saturating_sub(NAMED_INPUTS);
    if more > 0 {
        let others = counted(more, "other step", "other steps");
        eprintln!("ebb: the same for {others}");
    }
    let has_sizes = advised.iter().any(|step| !step.by_input.is_empty());
    if input.is_some() && !has_sizes && unknown.is_empty() {
        eprintln!(
            "ebb: --input changes nothing: in no step the size of the input explains the memory"
        );
    }
}

/// Notes about steps that never had an input as large as `input`.
fn unknown_inputs(
    input: Option<Bytes>,
    imported: &Imported,
    advised: &[StepAdvice],
) -> Vec<String> {
    let unknown = imported.steps.iter().filter_map(|step| {
        let largest = step.exceeded_input(input)?;
        let of_step = |advice: &&StepAdvice| advice.step == step.name && advice.kind == step.kind;
        let advice = advised.iter().find(of_step)?;
        let what = match (advice.by_input.is_empty(), advice.time_limit.is_some()) {
            (false, true) => "the memory and the time limit for --input are",
            (false, false) => "the memory for --input is",
            (true, true) => "the time limit for --input is",
            (true, false) => return None,
        };
        let step = one_line(&step.name);
        Some(format!(
            "{step}: the largest input of a task was {largest}, so {what} unknown"
        ))
    });
    unknown.collect()
}

/// Errors of files by their text. Thousands of benchmark files can have the same one.
#[derive(Default)]
struct FileErrors(BTreeMap<String, u64>);

impl FileErrors {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Prints the error of a file, unless enough files had the same.
    fn report(&mut self, path: &Path, error: &anyhow::Error) {
        let text = format!("{error:#}");
        if self.0.get(&text).copied().unwrap_or_default() < NAMED_FILES {
            eprintln!("ebb: {}: {text}", path.display());
        }
        *self.0.entry(text).or_default() += 1;
    }

    /// Prints the number of files that were not named.
    fn report_others(&self) {
        for (text, count) in &self.0 {
            if let Some(others) = count.checked_sub(NAMED_FILES).filter(|n| *n > 0) {
                let others = counted(
                    usize::try_from(others).unwrap_or(usize::MAX),
                    "more file",
                    "more files",
                );
                eprintln!("ebb: {others}: {text}");
            }
        }
    }
}

/// A note if the steps do not belong to the engine of the format, which knows none of their names.
fn other_engine(format: TuneFormat, imported: &Imported) -> Option<String> {
    let is_known = |kind: StepKind| match format {
        TuneFormat::Nextflow => kind != StepKind::SnakemakeJob,
        TuneFormat::Snakemake => kind != StepKind::NextflowTask,
        TuneFormat::Slurm => kind == StepKind::SlurmJob,
        TuneFormat::Batch | TuneFormat::Terraform => false,
        _ => true,
    };
    let of_others = imported.steps.iter().find(|step| !is_known(step.kind))?;
    let (what, remedy) = match of_others.kind {
        StepKind::NextflowTask => ("processes of Nextflow", "nextflow"),
        StepKind::SnakemakeJob => ("rules of Snakemake", "snakemake"),
        _ => ("jobs of Slurm", "slurm"),
    };
    Some(format!(
        "the records contain {what}, whose names this format does not match; use --format {remedy}"
    ))
}

/// Fails for a rule that the Snakefile does not have: its profile would change nothing.
fn check_rules(snakefile: &Snakefile, steps: &[StepAdvice]) -> Result<()> {
    let unknown = changed_steps(steps).filter(|name| !snakefile.has_rule(name));
    let unknown: Vec<String> = unknown.take(20).map(one_line).collect();
    ensure!(
        unknown.is_empty(),
        "the Snakefile has no rule {}\n  the benchmark files may belong to another workflow or \
         version",
        unknown.join(", ")
    );
    Ok(())
}

fn write(
    (step, form): (Option<&str>, &Form),
    summary: &Summary<'_>,
    steps: &[StepAdvice],
) -> Result<()> {
    if form.format.text().is_some_and(export::Form::is_of_machines) {
        bail!(
            "these records do not contain machine types, which this format needs\n  use `ebb tune` \
             with a report"
        );
    }
    if let Some(name) = step {
        return tune::write(&find_steps(name, steps)?, form);
    }
    let text = match form.format {
        TuneFormat::Table => step_summary::table(summary, steps),
        TuneFormat::Json => safe_text::json(&step_summary::json(summary, steps)).into_owned(),
        _ => return tune::write(steps, form),
    };
    output::write(&text, form.output.as_deref())
}

fn naming(args: &ImportArgs) -> Result<FileNaming> {
    let mut naming = FileNaming::default();
    if let Some(folder) = env::current_dir().ok().as_deref().and_then(Path::to_str) {
        naming.set_working_directory(folder);
    }
    if let Some(pattern) = &args.benchmark_pattern {
        let read = PathPattern::new(pattern).context("--benchmark-pattern")?;
        if !read.names_rule() {
            bail!("--benchmark-pattern '{pattern}' has no wildcard {{rule}}");
        }
        naming.set_general(read);
    }
    Ok(naming)
}

/// Reads one file, or standard input for `-`.
fn read(
    import: &mut Import,
    path: &Path,
    kind: Option<ImportKind>,
    progress: &mut ImportProgress,
) -> Result<()> {
    let file = InputFile::open(path)?;
    file.read(kind, progress, |source, bytes, show| {
        import.read(source, bytes, show)
    })?;
    Ok(())
}

/// An opened file, or standard input for `-`.
pub(crate) struct InputFile {
    name: String,
    bytes: Box<dyn Read>,
    modified: Option<Timestamp>,
}

impl InputFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self {
                name: "standard input".to_owned(),
                bytes: Box::new(io::stdin()),
                modified: None,
            });
        }
        let file = File::open(path).context("failed to open")?;
        ensure!(
            !path.is_dir(),
            "it is a folder: name its files, such as {}/*",
            path.display()
        );
        let modified = file.metadata().and_then(|known| known.modified()).ok();
        Ok(Self {
            name: path.display().to_string(),
            bytes: Box::new(file),
            modified: modified.and_then(|at| Timestamp::try_from(at).ok()),
        })
    }

    /// Passes the file to `read` with a function that shows the number of lines read, and prints the
    /// skipped lines. Returns their number.
    pub(crate) fn read(
        self,
        kind: Option<ImportKind>,
        progress: &mut ImportProgress,
        read: impl FnOnce(
            &Source<'_>,
            Box<dyn Read>,
            &mut dyn FnMut(u64),
        ) -> Result<BadLines, ImportError>,
    ) -> Result<u64> {
        let source = Source {
            path: &self.name,
            kind: kind.map(Kind::from),
            modified: self.modified,
        };
        let mut show = |lines| progress.show(&self.name, lines);
        let bad = read(&source, self.bytes, &mut show)?;
        progress.clear();
        report_bad_lines(&self.name, &bad);
        Ok(bad.count)
    }
}

/// Names the first skipped lines, and counts the others by problem.
fn report_bad_lines(name: &str, bad: &BadLines) {
    for line in bad.first.iter().take(NAMED_LINES) {
        eprintln!("ebb: {name}:{line}; skipped");
    }
    if bad.count > NAMED_LINES as u64 {
        for (problem, count) in &bad.by_problem {
            let lines = counted(
                usize::try_from(*count).unwrap_or(usize::MAX),
                "line",
                "lines",
            );
            eprintln!("ebb: {name}: {lines} skipped: {problem}");
        }
    }
}

impl From<ImportKind> for Kind {
    fn from(kind: ImportKind) -> Self {
        match kind {
            ImportKind::Nextflow => Self::Nextflow,
            ImportKind::Snakemake => Self::Snakemake,
            ImportKind::Sacct => Self::Sacct,
            ImportKind::Squeue => Self::Squeue,
        }
    }
}

impl From<StepOrder> for step_summary::Order {
    fn from(order: StepOrder) -> Self {
        match order {
            StepOrder::Saving => Self::Saving,
            StepOrder::Name => Self::Name,
            StepOrder::Cpu => Self::Cpu,
            StepOrder::Memory => Self::Memory,
            StepOrder::Failures => Self::Failures,
        }
    }
}

/// The progress on standard error, if the import takes long.
pub(crate) struct ImportProgress {
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl ImportProgress {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            shown: None,
            is_terminal: io::stderr().is_terminal(),
        }
    }

    pub(crate) fn show(&mut self, file: &str, lines: u64) {
        let wait = match self.is_terminal {
            true => Duration::from_millis(500),
            false => Duration::from_secs(10),
        };
        let is_due = self.shown.is_none_or(|at| at.elapsed() >= wait);
        if self.begun.elapsed() < PATIENCE || !is_due {
            return;
        }
        let text = format!("ebb: {file}: {lines} lines read");
        match self.is_terminal {
            true => output::progress(&text),
            false => eprintln!("{text}"),
        }
        self.shown = Some(Instant::now());
    }

    pub(crate) fn clear(&mut self) {
        if self.is_terminal && self.shown.is_some() {
            output::progress("");
        }
    }
}
