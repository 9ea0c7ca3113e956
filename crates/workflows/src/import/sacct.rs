//! Slurm's accounting in the format of `sacct --parsable2` or `--parsable`, also with another
//! `--delimiter`. The line of a job contains its request; the lines of its steps (`7.batch`, `7.0`)
//! contain its usage.
//!
//! Source: "sacct", Slurm's manual. `MaxRSS` is the largest of a step's tasks. A step therefore
//! uses at most that value times its tasks on the fullest node.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ebb_model::step_profile::failure::FailureKind;
use ebb_model::task_record::TaskKey;
use ebb_telemetry::step::Requested;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use jiff::Timestamp;

use super::job_name::{JobName, nextflow_hash};
use super::quantity::{bytes, clock, cores, is_local, minutes, plain_seconds, slurm_time, whole};
use super::record::{
    BadLine, Column, Ending, Header, Record, Row, counted_lines, excerpt, identity_of,
    killed_if_used_little,
};
use super::slurm_gpus::{self, GpuTimes};
use super::{ImportError, Note, Parser, Sink};

/// Slurm's exit status of a step that its cgroup killed for lack of memory.
const OUT_OF_MEMORY: i64 = 125;

/// A job that signal 9 ended, with at least this share of its request in use, ran out of memory: where
/// Slurm limits memory without cgroups, it reports only the signal.
const ALL_OF_MEMORY_PERCENT: u128 = 95;

/// The most failed jobs whose later attempts are recognized.
const MAX_FAILED_JOBS: usize = 100_000;

/// Reads the output of sacct.
pub(super) struct Accounting {
    separator: char,
    width: usize,
    /// A column that is not the last has values that contain the separator.
    is_ambiguous: bool,
    columns: SacctColumns,
    open: Option<Job>,
    jobs: u64,
    /// Jobs without lines of steps.
    bare: u64,
    /// Jobs that have not ended.
    open_jobs: u64,
    /// Jobs that ended before they got a core.
    never_began: u64,
    /// Jobs with a step whose MaxRSS is blank or 0.
    unsampled: u64,
    /// Jobs with different numbers of cores on their nodes.
    uneven: u64,
    /// Completed jobs with a step that ran out of memory.
    survived_kills: u64,
    /// Jobs that occupied whole nodes instead of their request.
    whole_nodes: u64,
    gpus: GpuTimes,
    notes: BTreeSet<&'static str>,
    /// The runs of failed jobs whose run is a day. Slurm may run such a job again on another day.
    failed_on: HashMap<String, String>,
}

struct SacctColumns {
    job_id: Column,
    job_id_raw: Column,
    cluster: Column,
    sluid: Column,
    job_name: Column,
    comment: Column,
    state: Column,
    exit_code: Column,
    restarts: Column,
    elapsed: Column,
    total_cpu: Column,
    max_rss: Column,
    req_mem: Column,
    alloc_cpus: Column,
    req_cpus: Column,
    alloc_tres: Column,
    used_tres: Column,
    user: Column,
    ntasks: Column,
    nnodes: Column,
    submit: Column,
    start: Column,
    end: Column,
    time_limit: Column,
    work_dir: Column,
}

/// A job whose lines are being read.
struct Job {
    id: String,
    line: u64,
    /// `None` before the line of the job itself.
    record: Option<Result<Record, BadLine>>,
    /// The job has not ended.
    is_open: bool,
    steps: Vec<Step>,
    killed_for_memory: bool,
    allocated_cores: Option<MilliCores>,
    gpus: u64,
    /// The greatest use of GPUs by a step; `None` if Slurm did not gather it.
    gpu_use: Option<u64>,
}

impl Job {
    fn new(id: String, line: u64) -> Self {
        Self {
            id,
            line,
            record: None,
            is_open: false,
            steps: Vec::new(),
            killed_for_memory: false,
            allocated_cores: None,
            gpus: 0,
            gpu_use: None,
        }
    }
}

/// The memory of a step of a job.
struct Step {
    kind: StepKind,
    /// `None` if MaxRSS is blank, 0 or invalid: accounting took no sample of it.
    held: Option<Bytes>,
    /// `None` without NTasks.
    tasks: Option<u64>,
    /// `None` without AllocCPUS.
    cores: Option<MilliCores>,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
}

/// The kind of a step of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepKind {
    /// `7.batch` or another named step.
    Named,
    /// `7.extern`: processes that belong to no other step.
    Extern,
    /// `7.0`: started by `srun`.
    Numbered,
}

impl StepKind {
    fn from_step(step: &str) -> Self {
        match step {
            "extern" => Self::Extern,
            _ if step.bytes().all(|byte| byte.is_ascii_digit()) => Self::Numbered,
            _ => Self::Named,
        }
    }
}

impl Accounting {
    /// Whether this first line is from sacct, in any of its formats.
    pub(super) fn is_header(line: &str) -> bool {
        separator_of(line).is_some() || is_aligned(line)
    }

    /// Whether this first line is a record of sacct instead of its header.
    pub(super) fn is_record(line: &str) -> bool {
        let mut values = line.split('|');
        let id = values.next().unwrap_or_default();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_.[]%,+-".contains(c);
        values.next().is_some()
            && id.starts_with(|c: char| c.is_ascii_digit())
            && id.chars().all(is_part)
    }

    pub(super) fn from_header(line: &str) -> Result<Self, ImportError> {
        let separator = match separator_of(line) {
            Some(separator) => separator,
            None if is_aligned(line) => return Err(ImportError::AlignedColumns),
            None if Self::is_record(line) => return Err(ImportError::NoHeader),
            None => '|',
        };
        let header = Header::parse(line, separator);
        // The number of a job also names it, but not the index in its array.
        let has = |column: &str| header.has(column) || header.has(&format!("{column}Raw"));
        if let Some(column) = ["JobID", "State", "Elapsed"].into_iter().find(|c| !has(c)) {
            let remedy = "add it to sacct --format";
            return Err(ImportError::MissingColumn { column, remedy });
        }
        let columns = SacctColumns::from_header(&header);
        Ok(Self {
            separator,
            width: header.len(),
            is_ambiguous: is_ambiguous(&header, separator),
            notes: columns.missing(),
            columns,
            open: None,
            jobs: 0,
            bare: 0,
            open_jobs: 0,
            never_began: 0,
            unsampled: 0,
            uneven: 0,
            survived_kills: 0,
            whole_nodes: 0,
            gpus: GpuTimes::default(),
            failed_on: HashMap::new(),
        })
    }

    /// Another output of sacct follows in the same file, perhaps with other columns.
    fn begin_another(&mut self, line: &str, separator: char) {
        let header = Header::parse(line, separator);
        self.separator = separator;
        self.width = header.len();
        self.is_ambiguous = is_ambiguous(&header, separator);
        self.columns = SacctColumns::from_header(&header);
        self.notes.extend(self.columns.missing());
    }

    /// Gives all attempts of a job the run of the first one.
    fn join_attempts(&mut self, job: &str, record: &mut Record) {
        if record.engine_run.is_some() {
            return;
        }
        if record.ending == Ending::Completed {
            // A later job with this id is another one.
            if let Some(first) = self.failed_on.remove(job) {
                record.run = Some(first);
            }
        } else if let Some(first) = self.failed_on.get(job) {
            record.run = Some(first.clone());
        } else if let (Ending::Failed(_), Some(run)) = (record.ending, &record.run)
            && self.failed_on.len() < MAX_FAILED_JOBS
        {
            self.failed_on.insert(job.to_owned(), run.clone());
        }
    }

    fn close(&mut self, sink: &mut Sink<'_>) {
        let Some(mut job) = self.open.take() else {
            return;
        };
        let record = match job.record.take() {
            Some(record) if !job.is_open => record,
            open => {
                self.open_jobs += 1;
                if let Some(Ok(record)) = open {
                    sink.take_open(job.line, record);
                }
                return;
            }
        };
        self.jobs += 1;
        // A line that cannot be read is reported as such.
        self.bare += u64::from(job.steps.is_empty() && record.is_ok());
        let record = record.map(|mut record| {
            self.join_attempts(&job.id, &mut record);
            self.whole_nodes += u64::from(record.has_whole_nodes);
            self.gpus
                .add(&record.step, job.gpus, record.wall, job.gpu_use);
            let held = self.held(&job, &record);
            (record.peak, record.peak_is_bound) = match held {
                Some(held) => (Some(held.bytes), held.is_bound),
                None => (None, false),
            };
            // Accounting took no sample, or a service outside of the job did the work.
            let is_sampled = record.peak.is_some();
            record.cpu = record.cpu.filter(|cpu| cpu.0 > 0 || is_sampled);
            // A job on several nodes has at least one task on each.
            let nodes = if record.nodes > 1 { record.nodes } else { 0 };
            let tasks = tasks_at_once(&job.steps).max(nodes);
            record.parallel_tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
            match (job.killed_for_memory, record.ending) {
                (false, _) => {}
                // Its script went on, so it held all of its memory at least once.
                (true, Ending::Completed) => {
                    self.survived_kills += 1;
                    record.peak = record.peak.max(record.requested.memory);
                    record.peak_is_bound &= record.requested.memory.is_none();
                }
                (true, Ending::Failed(_)) => {
                    record.ending = Ending::Failed(FailureKind::OutOfMemory);
                    record.is_reported = true;
                }
            }
            let memory = record.peak.zip(record.requested.memory);
            if record.ending == Ending::Failed(FailureKind::Killed) && memory.is_some_and(used_all)
            {
                record.ending = Ending::Failed(FailureKind::OutOfMemory);
            }
            if !record.is_reported {
                record.ending = killed_if_used_little(record.ending, memory, record.wall);
            }
            record
        });
        sink.take(job.line, record);
    }

    /// The most memory that the steps of a job used at the same time on its fullest node; `None` if
    /// the memory of any step is unknown.
    fn held(&mut self, job: &Job, record: &Record) -> Option<Held> {
        let (steps, nodes) = (&job.steps, record.nodes.max(1));
        if !is_even(job, nodes) {
            self.uneven += 1;
            return None;
        }
        let is_single = record.requested.cores.is_some_and(|cores| cores.0 <= 1000);
        let on_fullest = |step: &Step| {
            let tasks = match (step.tasks, step.kind) {
                (Some(tasks), _) => tasks,
                (None, StepKind::Numbered) if !is_single => return None,
                (None, _) => 1,
            };
            Some(step.held?.0.saturating_mul(tasks.div_ceil(nodes).max(1)))
        };
        let counted = || steps.iter().filter(|step| step.kind != StepKind::Extern);
        counted().next()?;
        if counted().any(|step| step.held.is_none()) {
            self.unsampled += 1;
            return None;
        }
        let mut all_along: u64 = 0;
        let mut numbered = Vec::new();
        for step in steps {
            match step.kind {
                StepKind::Extern => {
                    all_along = all_along.saturating_add(on_fullest(step).unwrap_or(0));
                }
                StepKind::Named => all_along = all_along.saturating_add(on_fullest(step)?),
                StepKind::Numbered => numbered.push((step, on_fullest(step)?)),
            }
        }
        let times = numbered
            .iter()
            .map(|(step, held)| Some((step.started?, step.ended?, *held)));
        let times: Option<Vec<_>> = times.collect();
        let at_once = match times {
            Some(times) => most_at_once(times),
            None => {
                self.notes
                    .insert("no Start and End of steps; the steps of a job count as sequential");
                numbered.iter().map(|(_, held)| *held).max().unwrap_or(0)
            }
        };
        let bytes = Bytes(all_along.saturating_add(at_once));
        let of_one_task = counted().filter_map(|step| step.held).max()?;
        let is_certain = used_all((of_one_task, bytes))
            || record
                .requested
                .memory
                .is_some_and(|request| of_one_task > request);
        let has_many = counted().any(|step| step.tasks.is_some_and(|tasks| tasks > 1));
        Some(Held {
            bytes,
            is_bound: !is_certain && (counted().count() > 1 || has_many),
        })
    }
}

struct Held {
    bytes: Bytes,
    /// The peaks of several tasks may be of different times. A task that alone used nearly all of it, or
    /// more than the request, makes the amount certain: Slurm did not limit this job.
    is_bound: bool,
}

/// Whether a job has the same number of cores on each of its nodes, by those of its script on the
/// first node. Otherwise the tasks on the fullest node are unknown.
fn is_even(job: &Job, nodes: u64) -> bool {
    let of_script = job.steps.iter().filter(|step| step.kind == StepKind::Named);
    let on_first = of_script.filter_map(|step| step.cores).min();
    on_first
        .zip(job.allocated_cores)
        .is_none_or(|(first, all)| nodes <= 1 || first.0.saturating_mul(nodes) == all.0)
}

/// Whether an amount is all of another but a few per cent, such as a peak of a request.
fn used_all((amount, whole): (Bytes, Bytes)) -> bool {
    u128::from(amount.0) * 100 >= u128::from(whole.0) * ALL_OF_MEMORY_PERCENT
}

/// The most tasks of a job that `srun` ran at the same time; 0 when unknown.
fn tasks_at_once(steps: &[Step]) -> u64 {
    let of_one = steps.iter().filter_map(|step| step.tasks).max();
    let numbered = steps.iter().filter(|step| step.kind == StepKind::Numbered);
    let times = numbered.filter_map(|step| Some((step.started?, step.ended?, step.tasks?)));
    of_one.unwrap_or(0).max(most_at_once(times.collect()))
}

/// The delimiter of a header; `None` if it is no header of sacct.
fn separator_of(line: &str) -> Option<char> {
    ['|', ',', ';', '\t', '^'].into_iter().find(|separator| {
        let header = Header::parse(line, *separator);
        let known = ["JobID", "JobIDRaw"].iter().any(|name| header.has(name));
        let others = ["JobName", "State", "Elapsed"];
        known || others.iter().filter(|name| header.has(name)).count() > 1
    })
}

/// Whether a column before the last one has values such as `cpu=1,mem=1G`, in lines that commas separate.
fn is_ambiguous(header: &Header, separator: char) -> bool {
    let has_commas = |name: &str| {
        let index = header.index(name);
        index.is_some_and(|index| index + 1 < header.len())
    };
    separator == ',' && COMMA_COLUMNS.iter().any(|name| has_commas(name))
}

const COMMA_COLUMNS: [&str; 5] = [
    "AllocTRES",
    "ReqTRES",
    "TRESUsageInMax",
    "TRESUsageInTot",
    "TRESUsageInAve",
];

/// Columns that are cut and filled with blanks, the default of sacct.
fn is_aligned(line: &str) -> bool {
    let mut words = line.split_whitespace();
    !line.contains('|') && words.next() == Some("JobID") && words.next().is_some()
}

/// The largest sum of overlapping intervals. An interval that ends when another begins does not
/// overlap it.
fn most_at_once(times: Vec<(Timestamp, Timestamp, u64)>) -> u64 {
    let mut turns: Vec<(Timestamp, bool, u64)> = Vec::with_capacity(2 * times.len());
    for (from, to, amount) in times {
        turns.push((from, true, amount));
        turns.push((to.max(from), false, amount));
    }
    turns.sort_unstable();
    let (mut now, mut most) = (0_u64, 0);
    for (_, begins, amount) in turns {
        now = match begins {
            true => now.saturating_add(amount),
            false => now.saturating_sub(amount),
        };
        most = most.max(now);
    }
    most
}

impl Parser for Accounting {
    fn line(&mut self, number: u64, line: &str, sink: &mut Sink<'_>) {
        // Most lines are no header; the test is cheaper than to split them.
        let may_begin = line.contains("JobID") || line.contains("Elapsed");
        if may_begin && let Some(separator) = separator_of(line) {
            self.close(sink);
            return self.begin_another(line, separator);
        }
        let row = Row::of_columns(number, line, self.separator, self.width);
        let (separator, width) = (self.separator, self.width);
        let whole = || Row::check_fields(number, line.split(separator).count(), width);
        if self.is_ambiguous
            && let Err(bad) = whole()
        {
            return sink.take(number, Err(bad));
        }
        // The last column may contain the separator. Any other with it moves the values.
        let explain = |bad: BadLine| whole().err().unwrap_or(bad);
        let id = match row.required(self.columns.job_id) {
            Ok(id) => id,
            Err(bad) => return sink.take(number, Err(bad)),
        };
        let (job_id, step) = match id.split_once('.') {
            Some((job_id, step)) => (job_id, Some(step)),
            None => (id, None),
        };
        let job_id = self.columns.in_cluster(&row, job_id);
        let is_open = self.open.as_ref().is_some_and(|job| job.id == job_id);
        if !is_open || step.is_none() {
            self.close(sink);
            self.open = Some(Job::new(job_id, number));
        }
        match step {
            Some(step) => match self.columns.step(&row, step) {
                Ok(read) => self.add_step(read),
                Err(bad) => {
                    self.add_step(ReadStep::of_bad_line(step));
                    sink.take(number, Err(bad));
                }
            },
            None if self.columns.never_began(&row) => {
                self.open = None;
                self.never_began += 1;
            }
            None => {
                let ending = self.columns.ending(&row).map_err(explain);
                let is_open = matches!(ending, Ok(None));
                let record = ending.and_then(|ending| {
                    // The ending of an open record is not used.
                    let ending = ending.unwrap_or_default();
                    self.columns.record(&row, id, ending).map_err(explain)
                });
                if let Some(job) = &mut self.open {
                    job.record = Some(record);
                    job.is_open = is_open;
                    job.allocated_cores = self.columns.allocated_cores(&row).ok().flatten();
                    let gpus = row.text(self.columns.alloc_tres).map(slurm_gpus::allocated);
                    job.gpus = gpus.unwrap_or(0);
                }
            }
        }
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        self.close(sink);
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes: Vec<String> = self.notes.iter().map(|note| (*note).to_owned()).collect();
        let jobs = |count| counted_lines(count, ("job", "jobs"));
        if self.open_jobs > 0 {
            notes.push(format!(
                "skipped {} that did not end yet",
                jobs(self.open_jobs)
            ));
        }
        if self.never_began > 0 {
            notes.push(format!(
                "skipped {} that ended before they began",
                jobs(self.never_began)
            ));
        }
        if self.columns.max_rss.is_there() && self.bare > 0 {
            notes.push(format!(
                "no memory data for {} without lines of steps; if sacct ran with -X, run it without",
                jobs(self.bare)
            ));
        }
        if self.uneven > 0 {
            notes.push(format!(
                "no memory data for {} with different numbers of cores on their nodes, because the \
                 memory of the fullest node is unknown",
                jobs(self.uneven)
            ));
        }
        if self.whole_nodes > 0 {
            notes.push(format!(
                "{} got whole nodes, as with --exclusive; the sums are without them, because new requests \
                 change nothing before --exclusive is removed",
                jobs(self.whole_nodes)
            ));
        }
        notes.extend(self.gpus.note());
        if self.survived_kills > 0 {
            notes.push(format!(
                "{} completed although a step ran out of memory; each counts as one that used all \
                 of its memory",
                jobs(self.survived_kills)
            ));
        }
        if self.columns.max_rss.is_there() && self.unsampled > 0 {
            notes.push(format!(
                "no memory data for {}, because MaxRSS is blank or 0; this occurs in steps shorter \
                 than JobAcctGatherFrequency",
                jobs(self.unsampled)
            ));
        }
        notes.into_iter().map(Note::from).collect()
    }
}

/// The parsed line of a step.
struct ReadStep {
    step: Option<Step>,
    killed_for_memory: bool,
    gpu_use: Option<u64>,
}

impl ReadStep {
    /// The memory in a line that cannot be read is unknown, and so is that of the job.
    fn of_bad_line(step: &str) -> Self {
        Self {
            step: Some(Step {
                kind: StepKind::from_step(step),
                held: None,
                tasks: None,
                cores: None,
                started: None,
                ended: None,
            }),
            killed_for_memory: false,
            gpu_use: None,
        }
    }
}

impl Accounting {
    fn add_step(&mut self, read: ReadStep) {
        if let Some(job) = &mut self.open {
            job.steps.extend(read.step);
            job.killed_for_memory |= read.killed_for_memory;
            job.gpu_use = job.gpu_use.max(read.gpu_use);
        }
    }
}

impl SacctColumns {
    fn from_header(header: &Header) -> Self {
        let at = |name| header.column(name);
        let either = |name, other| match header.has(name) {
            true => at(name),
            false => at(other),
        };
        Self {
            job_id: either("JobID", "JobIDRaw"),
            job_id_raw: at("JobIDRaw"),
            cluster: at("Cluster"),
            sluid: at("SLUID"),
            job_name: at("JobName"),
            comment: at("Comment"),
            state: at("State"),
            exit_code: at("ExitCode"),
            restarts: at("Restarts"),
            elapsed: either("Elapsed", "ElapsedRaw"),
            total_cpu: at("TotalCPU"),
            max_rss: at("MaxRSS"),
            req_mem: at("ReqMem"),
            alloc_cpus: either("AllocCPUS", "NCPUS"),
            req_cpus: at("ReqCPUS"),
            alloc_tres: at("AllocTRES"),
            used_tres: ["TRESUsageInMax", "TRESUsageInTot", "TRESUsageInAve"]
                .into_iter()
                .find(|name| header.has(name))
                .map_or_else(|| at("TRESUsageInMax"), at),
            user: at("User"),
            ntasks: at("NTasks"),
            nnodes: at("NNodes"),
            submit: at("Submit"),
            start: at("Start"),
            end: at("End"),
            time_limit: either("Timelimit", "TimelimitRaw"),
            work_dir: at("WorkDir"),
        }
    }

    /// Notes about missing columns: what is unknown without them, and how to add them.
    fn missing(&self) -> BTreeSet<&'static str> {
        let is_missing = |column: Column| !column.is_there();
        let has_memory = self.max_rss.is_there();
        let notes = [
            (
                is_missing(self.job_name),
                "no names of jobs, so each job is a step of its own; add JobName to sacct --format",
            ),
            (
                is_missing(self.user),
                "no users, so jobs of several users with one name are one step; add User to sacct --format",
            ),
            (
                is_missing(self.exit_code),
                "no exit status, so only the state shows why a job failed; add ExitCode to sacct --format",
            ),
            (
                is_missing(self.time_limit),
                "no time limits; add Timelimit to sacct --format",
            ),
            (
                is_missing(self.work_dir),
                "no folders, so all jobs of a day are one run; add WorkDir to sacct --format",
            ),
            (
                is_missing(self.submit) && is_missing(self.start),
                "no times, so jobs that are in two files count twice, and all are one run; add Submit and \
                 Start to sacct --format",
            ),
            (
                is_missing(self.req_mem),
                "no requests of memory; add ReqMem to sacct --format",
            ),
            (
                self.req_mem.is_there() && is_missing(self.nnodes),
                "no numbers of nodes, so the memory of a job on several nodes counts as that of one; \
                 add NNodes to sacct --format",
            ),
            (
                is_missing(self.alloc_cpus) && is_missing(self.req_cpus),
                "no requests of cores; add ReqCPUS to sacct --format",
            ),
            (
                self.alloc_cpus.is_there() && is_missing(self.req_cpus),
                "no requests of cores but what jobs got, which is more with --exclusive; add ReqCPUS to sacct \
                 --format",
            ),
            (
                is_missing(self.total_cpu),
                "no use of cores; add TotalCPU to sacct --format",
            ),
            (!has_memory, "no memory data; add MaxRSS to sacct --format"),
            (
                has_memory && is_missing(self.ntasks),
                "no memory data for srun steps of jobs with several cores, because MaxRSS is the \
                 memory of one task; add NTasks to sacct --format",
            ),
        ];
        let missing = notes.into_iter().filter(|(is_missing, _)| *is_missing);
        missing.map(|(_, note)| note).collect()
    }

    fn step(&self, row: &Row<'_>, step: &str) -> Result<ReadStep, BadLine> {
        let state = row.text(self.state).unwrap_or_default();
        let held = row.get(self.max_rss, bytes)?;
        let text = row.text(self.max_rss).unwrap_or_default();
        let tasks = row
            .get(self.ntasks, whole)?
            .and_then(|n| u64::try_from(n).ok());
        Ok(ReadStep {
            step: Some(Step {
                kind: StepKind::from_step(step),
                held: held
                    .filter(|held| held.0 > 0)
                    .or_else(|| below_rounding(text)),
                tasks,
                cores: row.get(self.alloc_cpus, cores)?,
                started: row.moment(self.start, slurm_time)?,
                ended: row.moment(self.end, slurm_time)?,
            }),
            killed_for_memory: state.starts_with("OUT_OF_ME"),
            gpu_use: row.text(self.used_tres).and_then(slurm_gpus::used),
        })
    }

    /// The id of a job among those of several clusters, which number their jobs independently.
    fn in_cluster(&self, row: &Row<'_>, job_id: &str) -> String {
        match row.text(self.cluster) {
            Some(cluster) => format!("{cluster} {job_id}"),
            None => job_id.to_owned(),
        }
    }

    /// Whether the job ended before it got a core.
    fn never_began(&self, row: &Row<'_>) -> bool {
        let state = row.text(self.state).unwrap_or_default();
        let is_failed = matches!(ending(state, None, false), Some(Ending::Failed(_)));
        is_failed && row.text(self.alloc_cpus) == Some("0")
    }

    /// `None` for a job that still runs or waits.
    fn ending(&self, row: &Row<'_>) -> Result<Option<Ending>, BadLine> {
        let state = row.required(self.state)?;
        let exit_status = self.exit_status(row)?;
        let is_signal_9 = row.text(self.exit_code) == Some("0:9");
        let ending = ending(state, exit_status, is_signal_9);
        if ending.is_none() && !is_open(state) {
            return Err(row.bad(self.state, format!("unknown state '{}'", excerpt(state))));
        }
        Ok(ending)
    }

    fn record(&self, row: &Row<'_>, id: &str, ending: Ending) -> Result<Record, BadLine> {
        let exit_status = self.exit_status(row)?;
        let name = JobName::parse(
            row.text(self.job_name).unwrap_or(id),
            row.text(self.comment),
        );
        let name = name.map_err(|problem| row.bad(self.job_name, problem))?;
        let wall = self.wall(row)?;
        let (requested, allocated) = (self.requested_cores(row)?, self.allocated_cores(row)?);
        let cpu = row.get(self.total_cpu, clock)?;
        let (submitted, started) = (
            row.moment(self.submit, slurm_time)?,
            row.moment(self.start, slurm_time)?,
        );
        let first_time = row.text(self.submit).or(row.text(self.start));
        let in_cluster = self.in_cluster(row, id);
        // All children of an array have the name of its first task.
        let step = step_of(&name, id);
        let task = name.task.filter(|_| array_index(id).is_none());
        let task = task.unwrap_or_else(|| in_cluster.clone());
        let state = row.text(self.state).unwrap_or_default();
        let user = row.text(self.user).filter(|_| !name.is_of_engine);
        Ok(Record {
            step,
            named_by: user.map(str::to_owned),
            has_whole_nodes: requested.zip(allocated).is_some_and(has_whole_nodes),
            name_form: name.form,
            name: row.text(self.job_name).map(str::to_owned),
            keys: self.keys(row, id),
            is_local_time: row.text(self.start).is_some_and(is_local),
            engine_run: name.run.clone(),
            run: Some(run(name.run, row.text(self.work_dir), started)),
            task,
            identity: first_time.map(|at| identity_of(&["sacct", &in_cluster, at])),
            // Snakemake gives all tasks of an array the wildcards of the first one.
            sample: array_index(id).or(name.sample),
            attempt: name.attempt.or(self.attempt(row)?),
            submitted,
            started,
            ended: row.moment(self.end, slurm_time)?,
            wall,
            occupied: Some(wall),
            nodes: row
                .get(self.nnodes, whole)?
                .and_then(|n| u64::try_from(n).ok())
                .unwrap_or(1),
            ending,
            is_reported: state.starts_with("OUT_OF_ME"),
            // Slurm's own statuses add nothing to the state.
            exit_status: exit_status.filter(|status| {
                !(matches!(ending, Ending::Failed(_)) && matches!(*status, 0 | OUT_OF_MEMORY))
            }),
            cpu: cpu.map(|cpu| CpuTime(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX))),
            requested: Requested {
                cores: requested,
                memory: self.requested_memory(row, allocated.or(requested))?,
            },
            time_limit: self.time_limit(row)?,
            ..Record::default()
        })
    }

    fn wall(&self, row: &Row<'_>) -> Result<Duration, BadLine> {
        let read = match self.elapsed.name {
            "ElapsedRaw" => plain_seconds,
            _ => clock,
        };
        let wall = row.get(self.elapsed, read)?;
        wall.ok_or_else(|| row.bad(self.elapsed, "missing"))
    }

    /// The requested cores, or else the allocated ones. Slurm rounds a request up to whole cores, each with
    /// several CPUs, and to whole nodes if it has to.
    fn requested_cores(&self, row: &Row<'_>) -> Result<Option<MilliCores>, BadLine> {
        let requested = row.get(self.req_cpus, cores)?.filter(|cores| cores.0 > 0);
        Ok(match (requested, self.allocated_cores(row)?) {
            (Some(requested), Some(allocated)) => Some(requested.min(allocated)),
            (requested, allocated) => requested.or(allocated),
        })
    }

    fn allocated_cores(&self, row: &Row<'_>) -> Result<Option<MilliCores>, BadLine> {
        let allocated = row.get(self.alloc_cpus, cores)?;
        Ok(allocated.filter(|cores| cores.0 > 0))
    }

    /// The number of the job, which cgroups contain, its SLUID, and the hash of a Nextflow task.
    /// The id of a child of an array (`17_4`) is not its number.
    fn keys(&self, row: &Row<'_>, id: &str) -> Vec<TaskKey> {
        let number = TaskKey::slurm_job(row.text(self.job_id_raw).unwrap_or(id));
        let sluid = row.text(self.sluid).and_then(TaskKey::slurm_job);
        let hash = row.text(self.work_dir).and_then(nextflow_hash);
        number.into_iter().chain(sluid).chain(hash).collect()
    }

    /// The number of the attempt, from 1. Slurm counts restarts, from 0.
    fn attempt(&self, row: &Row<'_>) -> Result<Option<u32>, BadLine> {
        let restarts = row.get(self.restarts, whole)?;
        Ok(restarts.and_then(|count| u32::try_from(count).ok()?.checked_add(1)))
    }

    /// `status:signal` as one number, as a shell reports it.
    fn exit_status(&self, row: &Row<'_>) -> Result<Option<i64>, BadLine> {
        let Some(text) = row.text(self.exit_code) else {
            return Ok(None);
        };
        let (status, signal) = text.split_once(':').unwrap_or((text, "0"));
        match (status.parse::<i64>(), signal.parse::<i64>()) {
            (Ok(0), Ok(OUT_OF_MEMORY)) => Ok(Some(OUT_OF_MEMORY)),
            (Ok(_), Ok(signal)) if signal > 0 => Ok(Some(128 + signal)),
            (Ok(status), Ok(_)) => Ok(Some(status)),
            _ => Err(row.bad(self.exit_code, format!("invalid value '{}'", excerpt(text)))),
        }
    }

    fn time_limit(&self, row: &Row<'_>) -> Result<Option<Duration>, BadLine> {
        match row.text(self.time_limit) {
            Some("UNLIMITED" | "Partition_Limit" | "INVALID") => Ok(None),
            _ if self.time_limit.name == "TimelimitRaw" => row.get(self.time_limit, minutes),
            _ => row.get(self.time_limit, clock),
        }
    }

    /// The request on one node. `16G` is for the whole job; earlier releases write `4Gc` for each
    /// core and `16Gn` for each node.
    fn requested_memory(
        &self,
        row: &Row<'_>,
        cores: Option<MilliCores>,
    ) -> Result<Option<Bytes>, BadLine> {
        let Some(text) = row.text(self.req_mem) else {
            return Ok(None);
        };
        let bad = || row.bad(self.req_mem, format!("invalid value '{}'", excerpt(text)));
        let each = bytes(text.trim_end_matches(['c', 'n'])).ok_or_else(bad)?;
        // No request at all is written as 0.
        if each.0 == 0 {
            return Ok(None);
        }
        let nodes = row
            .get(self.nnodes, whole)?
            .and_then(|n| u64::try_from(n).ok());
        let nodes = nodes.unwrap_or(1).max(1);
        let of_cores = |cores: MilliCores| each.0.saturating_mul(cores.0) / 1000;
        Ok(match text.chars().last() {
            Some('n') => Some(each),
            Some('c') => cores.map(|cores| Bytes(of_cores(cores) / nodes)),
            _ => Some(Bytes(each.0 / nodes)),
        })
    }
}

/// The most that an amount of zero with decimals, such as `0.00G`, can be; `None` for an exact zero.
fn below_rounding(text: &str) -> Option<Bytes> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let is_zero = number.contains('.') && number.chars().all(|c| matches!(c, '0' | '.'));
    bytes(&format!("{number}5{unit}")).filter(|_| is_zero && !unit.is_empty())
}

/// Whether a job with this request got these cores because it got whole nodes. A request is also rounded
/// up to whole cores, most of which have two threads.
fn has_whole_nodes((requested, allocated): (MilliCores, MilliCores)) -> bool {
    const THREADS: u64 = 2;
    const ROUNDING: u64 = 8_000;
    allocated.0 > requested.0.saturating_mul(THREADS) && allocated.0 - requested.0 > ROUNDING
}

/// Whether a job in this state has not ended.
///
/// Source: "sacct", Slurm's documentation, section "JOB STATE CODES".
fn is_open(state: &str) -> bool {
    const OPEN: [&str; 16] = [
        "COMPLETING",
        "CONFIGURING",
        "EXPEDITING",
        "PENDING",
        "POWER_UP_NODE",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESIZING",
        "RESV_DEL_HOLD",
        "RUNNING",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "STOPPED",
        "SUSPENDED",
        "UPDATE_DB",
    ];
    // A narrow column cuts the state: `REQUEUE_H+`.
    let state = state.trim_end_matches('+');
    OPEN.iter().any(|open| open.starts_with(state))
}

/// `None` if it has not ended.
fn ending(state: &str, exit_status: Option<i64>, is_signal_9: bool) -> Option<Ending> {
    // `CANCELLED by 1000`, and `CANCELLED+` if the column was cut.
    let word = state.split(|c: char| c.is_whitespace() || c == '+').next();
    Some(match word.unwrap_or(state) {
        "COMPLETED" => Ending::Completed,
        state if state.starts_with("OUT_OF_ME") => Ending::Failed(FailureKind::OutOfMemory),
        "TIMEOUT" | "DEADLINE" => Ending::Failed(FailureKind::TimeLimit),
        "NODE_FAIL" | "BOOT_FAIL" | "LAUNCH_FAILED" | "RECONFIG_FAIL" | "PREEMPTED" => {
            Ending::Failed(FailureKind::MachineLost)
        }
        // An attempt that `sacct -D` shows: a user or a plugin put the job back into the queue.
        "REQUEUED" | "CANCELLED" | "REVOKED" => Ending::Failed(FailureKind::Cancelled),
        "FAILED" if exit_status == Some(OUT_OF_MEMORY) => Ending::Failed(FailureKind::OutOfMemory),
        // Slurm has a state of its own for jobs that ran out of memory.
        "FAILED" if is_signal_9 => Ending::Failed(FailureKind::Killed),
        "FAILED" => Ending::Failed(FailureKind::of_exit_status(exit_status)),
        _ => return None,
    })
}

/// The name of the run, otherwise the day on which the job began. Jobs of one day in the same
/// folder are not independent.
fn run(named: Option<String>, work_dir: Option<&str>, started: Option<Timestamp>) -> String {
    if let Some(run) = named {
        return run;
    }
    let folder = work_dir.map_or("", super::job_name::project_of);
    let day = started.map_or_else(String::new, |at| at.strftime("%F").to_string());
    format!("{folder} {day}").trim().to_owned()
}

/// The name of the step. Each part of a heterogeneous job (`7+1`) has its own request.
fn step_of(name: &JobName, id: &str) -> String {
    match id.split_once('+').filter(|_| !name.is_of_engine) {
        Some((_, part)) => format!("{}+{part}", name.step),
        None => name.step.clone(),
    }
}

/// The index in an array, such as 4 in `17_4`; it commonly identifies the input.
fn array_index(id: &str) -> Option<String> {
    let (_, index) = id.split_once('_')?;
    Some(format!("array index {index}"))
}
