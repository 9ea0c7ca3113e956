//! Groups records by step. Each attempt counts once, attempts of a task are kept together, and each
//! step has sums over all attempts and its newest attempts in full.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ebb_model::advice::step::{NameForm, StepTotals};
use ebb_model::step_profile::failure::{FailureCount, FailureKind};
use ebb_model::step_profile::tasks::AttemptRecord;
use ebb_model::step_profile::{LARGEST_OLDER, MAX_RUNS, Run, RunKey, StepProfile};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{MemorySource, PeakMemory, Requested, StepEnd, StepId, StepKind};
use ebb_telemetry::units::{Bytes, CpuTime};
use jiff::Timestamp;

use super::record::{Ending, Record, identity_of};

/// The most step names; a real pipeline has hundreds.
const MAX_STEPS: usize = 10_000;

/// The most runs that are distinguished.
const MAX_RUNS_OF_PIPELINES: usize = 100_000;

/// The most attempts that are recognized as duplicates, at 16 bytes each: more than a year of a
/// large pipeline.
const MAX_IDENTITIES: usize = 8_000_000;

/// The most failed attempts that wait for the next attempt of their task.
const MAX_PENDING: usize = 100_000;

/// The most failed attempts of one task that wait. No engine retries as often: these are tasks without
/// names, and each is one of its own.
const MAX_PENDING_OF_TASK: usize = 100;

/// The most tasks of one name that wait. A step that is scattered over a genome has tens or hundreds.
const MAX_PENDING_OF_NAME: usize = 1_000;

/// Lines without times are a millisecond apart, and their runs so many.
const MILLISECONDS_A_RUN: i64 = 10_000_000;

/// A share in per cent. A tool that failed by itself counts as short of memory if its next attempt
/// used at least this share of the failed attempt's request.
const NEARLY_ALL_PERCENT: u128 = 75;

/// A limit was exceeded; the text names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full(pub(super) &'static str);

/// Steps while records are added.
#[derive(Debug, Default)]
pub(super) struct Fold {
    steps: Vec<StepRecords>,
    by_name: HashMap<StepKey, u32>,
    runs: PipelineRuns,
    known: HashMap<u64, u32>,
    /// Failed attempts by task. Several tasks of a step may have the same name, such as the intervals
    /// of one sample.
    pending: HashMap<TaskKey, Vec<Vec<Attempt>>>,
    /// The number of attempts in `pending`.
    waiting: usize,
    tasks: u64,
}

/// The key of a step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StepKey {
    kind: StepKind,
    name: String,
    named_by: Option<String>,
}

/// The common properties of attempts that may belong to one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TaskKey {
    step: u32,
    run: u32,
    task: u64,
}

/// Runs by name; a resumed run is the same as the run that it resumes.
#[derive(Debug, Default)]
struct PipelineRuns {
    names: Vec<String>,
    same_as: Vec<u32>,
    by_name: HashMap<String, u32>,
}

impl PipelineRuns {
    fn number(&mut self, name: &str) -> Result<u32, Full> {
        if let Some(known) = self.by_name.get(name) {
            return Ok(*known);
        }
        if self.names.len() >= MAX_RUNS_OF_PIPELINES {
            return Err(Full("runs"));
        }
        let number = u32::try_from(self.names.len()).map_err(|_| Full("runs"))?;
        self.names.push(name.to_owned());
        self.same_as.push(number);
        self.by_name.insert(name.to_owned(), number);
        Ok(number)
    }

    fn first(&self, mut run: u32) -> u32 {
        while let Some(next) = self.same_as.get(run as usize).filter(|next| **next != run) {
            run = *next;
        }
        run
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.first(one), self.first(other));
        if let Some(same) = self.same_as.get_mut(one.max(other) as usize) {
            *same = one.min(other);
        }
    }
}

/// The records of one step.
#[derive(Debug)]
struct StepRecords {
    name: String,
    named_by: Option<String>,
    name_form: NameForm,
    kind: StepKind,
    has_memory_per_core: bool,
    totals: StepTotals,
    failures: BTreeMap<(FailureKind, Option<i64>), FailureCount>,
    /// The newest attempts, and those of the others with the largest peaks; at most twice
    /// [`MAX_RUNS`].
    attempts: Vec<Attempt>,
    sums: Sums,
}

/// Sums that are shown in seconds.
#[derive(Debug, Default)]
struct Sums {
    wall: Duration,
    lost: Duration,
    requested_core_nanos: u128,
    used_core_nanos: u128,
    requested_byte_millis: u128,
    used_byte_millis: u128,
    core_wall: u128,
    memory_wall: u128,
}

/// One attempt in compact form.
#[derive(Debug, Clone)]
struct Attempt {
    observed_at: Timestamp,
    submitted: Option<Timestamp>,
    started_at: Timestamp,
    wall: Duration,
    occupied: Option<Duration>,
    occupied_at_most: Option<Duration>,
    parallel_tasks: u32,
    nodes: u64,
    has_whole_nodes: bool,
    cpu: Option<CpuTime>,
    peak: Option<Bytes>,
    peak_is_bound: bool,
    disk: Option<Bytes>,
    input: Option<Bytes>,
    requested: Requested,
    time_limit: Option<Duration>,
    exit_status: Option<i64>,
    failure: Option<FailureKind>,
    is_reported: bool,
    is_retried: bool,
    is_ignored: bool,
    /// The run, or the first of those that resumed each other.
    run: u32,
    own_run: u32,
    sample: Option<u64>,
    task: u64,
    number: u32,
}

/// A step with all data from its records.
#[derive(Debug)]
pub struct ImportedStep {
    /// The process, rule or job name.
    pub name: String,
    /// How this name relates to the name in the engine's configuration.
    pub name_form: NameForm,
    /// The kind of its tasks.
    pub kind: StepKind,
    /// Its configuration requests memory for each core.
    pub has_memory_per_core: bool,
    /// Its newest task got whole nodes, whatever it requested.
    pub has_whole_nodes: bool,
    /// Its newest attempts.
    pub profile: StepProfile,
    /// Sums over all attempts.
    pub totals: StepTotals,
    /// Failures by kind; the kind with the most lost time comes first.
    pub failures: Vec<FailureCount>,
}

impl ImportedStep {
    /// The largest input of a task, if `input` is larger: such a task may need more than all.
    pub fn exceeded_input(&self, input: Option<Bytes>) -> Option<Bytes> {
        let runs = self.profile.by_time();
        let largest = runs.iter().filter_map(|run| run.input).max();
        largest.filter(|largest| input > Some(*largest))
    }
}

impl Fold {
    /// Adds a record; `line` is its line in the file `file`.
    pub(super) fn take(
        &mut self,
        kind: StepKind,
        file: &str,
        line: u64,
        record: Record,
    ) -> Result<(), Full> {
        let own_run = self.runs.number(record.run.as_deref().unwrap_or(file))?;
        let run = self.runs.first(own_run);
        if let Some(identity) = record.identity {
            if let Some(first) = self.known.get(&identity) {
                // A resumed run lists the tasks of the run before it.
                self.runs.join(*first, run);
                return Ok(());
            }
            if self.known.len() >= MAX_IDENTITIES {
                return Err(Full("attempts"));
            }
            self.known.insert(identity, run);
        }
        let step = self.step(kind, &record)?;
        let key = TaskKey {
            step,
            run,
            task: identity_of(&[&record.task]),
        };
        let attempt = Attempt {
            own_run,
            ..Attempt::from_record(&record, run, line)
        };
        match record.ending {
            Ending::Failed(_) => self.failed(key, attempt, record.attempt),
            Ending::Completed => self.completed(key, attempt, record.attempt),
        }
        Ok(())
    }

    fn step(&mut self, kind: StepKind, record: &Record) -> Result<u32, Full> {
        let key = StepKey {
            kind,
            name: record.step.clone(),
            named_by: record.named_by.clone(),
        };
        if let Some(known) = self.by_name.get(&key) {
            if let Some(step) = self.steps.get_mut(*known as usize) {
                step.name_form = step.name_form.max(record.name_form);
                step.has_memory_per_core |= record.has_memory_per_core;
            }
            return Ok(*known);
        }
        if self.steps.len() >= MAX_STEPS {
            return Err(Full("steps"));
        }
        let number = u32::try_from(self.steps.len()).map_err(|_| Full("steps"))?;
        self.steps.push(StepRecords {
            name: record.step.clone(),
            named_by: record.named_by.clone(),
            name_form: record.name_form,
            kind,
            has_memory_per_core: record.has_memory_per_core,
            totals: StepTotals::default(),
            failures: BTreeMap::new(),
            attempts: Vec::new(),
            sums: Sums::default(),
        });
        self.by_name.insert(key, number);
        Ok(number)
    }

    /// A failed attempt waits for the next attempt of its task, which shows why it failed.
    fn failed(&mut self, key: TaskKey, mut attempt: Attempt, number: Option<u32>) {
        if self.waiting >= MAX_PENDING {
            self.give_up_waiting();
        }
        let mut attempts = self.take_earlier(key, &attempt, number);
        attempt.number = number.unwrap_or(1).max(next_number(&attempts));
        if let Some(before) = attempts.last_mut() {
            before.is_retried = true;
        }
        attempts.push(attempt);
        if attempts.len() >= MAX_PENDING_OF_TASK {
            for attempt in attempts {
                self.keep(key.step, vec![attempt]);
            }
            return;
        }
        self.waiting += attempts.len();
        let tasks = self.pending.entry(key).or_default();
        tasks.push(attempts);
        if tasks.len() >= MAX_PENDING_OF_NAME {
            for attempts in self.pending.remove(&key).unwrap_or_default() {
                self.waiting -= attempts.len();
                self.keep(key.step, attempts);
            }
        }
    }

    fn completed(&mut self, key: TaskKey, mut attempt: Attempt, number: Option<u32>) {
        let mut attempts = self.take_earlier(key, &attempt, number);
        attempt.number = number.unwrap_or(1).max(next_number(&attempts));
        for failed in &mut attempts {
            failed.is_retried = true;
            failed.failure = failed
                .failure
                .map(|kind| after_retry(kind, failed, &attempt));
        }
        attempts.push(attempt);
        self.keep(key.step, attempts);
    }

    /// Takes the failed attempts of one task that waited for this one: those with the number before
    /// it, then the last that ended before its submission, with a request that is not larger.
    fn take_earlier(&mut self, key: TaskKey, next: &Attempt, number: Option<u32>) -> Vec<Attempt> {
        let Some(tasks) = self.pending.get_mut(&key) else {
            return Vec::new();
        };
        let rank = |attempts: &Vec<Attempt>| {
            let last = attempts.last()?;
            let is_later = next.submitted.is_some_and(|at| at >= last.observed_at);
            let continues = match number {
                // A resumed run counts its attempts from 1 again.
                Some(number) => last.number < number || (is_later && last.own_run != next.own_run),
                // It was submitted before the other ended, so it cannot be its retry.
                None => next.submitted.is_none() || is_later,
            };
            let is_not_larger = last.requested.memory <= next.requested.memory;
            continues.then_some((is_later, last.number, is_not_larger, last.observed_at))
        };
        let ranked = tasks.iter().enumerate();
        let ranked = ranked.filter_map(|(index, attempts)| Some((rank(attempts)?, index)));
        let Some((_, index)) = ranked.max() else {
            return Vec::new();
        };
        let attempts = tasks.swap_remove(index);
        self.waiting -= attempts.len();
        if tasks.is_empty() {
            self.pending.remove(&key);
        }
        attempts
    }

    /// Failed attempts without a later attempt are failed tasks.
    fn give_up_waiting(&mut self) {
        self.waiting = 0;
        for (key, tasks) in std::mem::take(&mut self.pending) {
            for attempts in tasks {
                self.keep(key.step, attempts);
            }
        }
    }

    /// Adds all attempts of one task.
    fn keep(&mut self, step: u32, attempts: Vec<Attempt>) {
        self.tasks += 1;
        let Some(records) = self.steps.get_mut(step as usize) else {
            return;
        };
        records.totals.tasks += 1;
        for attempt in attempts {
            records.add(&attempt);
            records.attempts.push(Attempt {
                task: self.tasks,
                ..attempt
            });
        }
        if records.attempts.len() >= 2 * MAX_RUNS {
            records.forget();
        }
    }

    /// All steps by name, and the names of the runs.
    pub(super) fn finish(mut self) -> (Vec<ImportedStep>, Vec<String>) {
        self.give_up_waiting();
        let mut steps: Vec<ImportedStep> = Vec::with_capacity(self.steps.len());
        let mut users: HashMap<(StepKind, String), u32> = HashMap::new();
        for records in &self.steps {
            *users.entry(records.kind_and_name()).or_default() += 1;
        }
        for mut records in std::mem::take(&mut self.steps) {
            if users.get(&records.kind_and_name()) > Some(&1)
                && let Some(user) = records.named_by.take()
            {
                records.name = format!("{} of {user}", records.name);
            }
            records.forget();
            steps.push(records.finish(&self.runs));
        }
        steps.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
        let runs = self.runs.names.iter().enumerate();
        let own = runs.filter(|(number, _)| self.runs.first(*number as u32) as usize == *number);
        let names = own.map(|(_, name)| name.clone()).collect();
        (steps, names)
    }
}

/// Keeps the first and the last attempt of a task and those with the greatest needs, [`LARGEST_OLDER`]
/// in all. The last one shows what was enough.
fn cut(mut task: Vec<Attempt>) -> Vec<Attempt> {
    if task.len() > LARGEST_OLDER {
        let last = task.iter().map(|one| one.number).max().unwrap_or(0);
        let is_between = |one: &Attempt| one.number > 1 && one.number < last;
        task.sort_by_key(|one| (is_between(one), Reverse(one.greatest_need())));
        task.truncate(LARGEST_OLDER);
    }
    task
}

/// Moves tasks to the result, from the first on, while all their attempts fit. A task that does not
/// fit stays.
fn take_fitting(tasks: &mut Vec<Vec<Attempt>>, most: usize) -> Vec<Attempt> {
    let mut taken = Vec::with_capacity(most);
    tasks.retain_mut(|task| {
        let fits = taken.len() + task.len() <= most;
        if fits {
            taken.append(task);
        }
        !fits
    });
    taken
}

fn next_number(earlier: &[Attempt]) -> u32 {
    let last = earlier.iter().map(|one| one.number).max();
    last.unwrap_or(0).saturating_add(1)
}

/// Why an attempt failed, by the time that it took; `None` if it did not fail. The signals that end an
/// attempt at its time limit also have other senders, such as a scheduler at a limit of memory.
fn failure(record: &Record) -> Option<FailureKind> {
    let Ending::Failed(kind) = record.ending else {
        return None;
    };
    let took = record.occupied.unwrap_or(record.wall);
    let took_percent = |percent: u32| {
        let limit = record.time_limit.filter(|limit| !limit.is_zero());
        limit.map(|limit| took >= limit / 100 * percent)
    };
    Some(match kind {
        FailureKind::TimeLimit if took_percent(75) == Some(false) => FailureKind::Terminated,
        FailureKind::OutOfMemory | FailureKind::Terminated | FailureKind::NoExitStatus
            if !record.is_reported && took_percent(98) == Some(true) =>
        {
            FailureKind::TimeLimit
        }
        kind => kind,
    })
}

/// Why an attempt failed, derived from the successful attempt after it.
fn after_retry(kind: FailureKind, failed: &Attempt, well: &Attempt) -> FailureKind {
    let (Some(had), Some(then)) = (failed.requested.memory, well.requested.memory) else {
        return kind;
    };
    let held_nearly_all = well
        .peak
        .is_some_and(|peak| u128::from(peak.0) * 100 >= u128::from(had.0) * NEARLY_ALL_PERCENT);
    match kind {
        FailureKind::OutOfMemory if then <= had && !failed.is_reported => FailureKind::Killed,
        FailureKind::Error if then > had && held_nearly_all => FailureKind::SuspectedOutOfMemory,
        FailureKind::Terminated if well.peak > Some(had) => FailureKind::SuspectedOutOfMemory,
        kind => kind,
    }
}

impl Attempt {
    /// Its peak memory, or the request that was too small for it.
    fn greatest_need(&self) -> Option<Bytes> {
        let is_killed = self.failure == Some(FailureKind::OutOfMemory);
        self.peak.max(self.requested.memory.filter(|_| is_killed))
    }

    /// Runs and lines without times are assumed to be in chronological order.
    fn from_record(record: &Record, run: u32, line: u64) -> Self {
        let of_run = i64::try_from(line)
            .unwrap_or(i64::MAX)
            .min(MILLISECONDS_A_RUN - 1);
        let by_line = i64::from(run) * MILLISECONDS_A_RUN + of_run;
        let by_line = Timestamp::from_millisecond(by_line).ok();
        let ended = record
            .ended
            .or_else(|| record.started?.checked_add(record.wall).ok())
            .or(by_line)
            .unwrap_or(Timestamp::UNIX_EPOCH);
        Self {
            observed_at: ended,
            submitted: record.submitted,
            started_at: record
                .started
                .or_else(|| ended.checked_sub(record.wall).ok())
                .unwrap_or(ended),
            wall: record.wall,
            occupied: record.occupied,
            occupied_at_most: record.occupied_at_most,
            parallel_tasks: record.parallel_tasks,
            nodes: record.nodes.max(1),
            has_whole_nodes: record.has_whole_nodes,
            cpu: record.cpu,
            peak: record.peak,
            peak_is_bound: record.peak_is_bound,
            disk: record.disk,
            input: record.input,
            requested: record.requested,
            time_limit: record.time_limit,
            exit_status: record.exit_status,
            failure: failure(record),
            is_reported: record.is_reported,
            is_retried: record.is_retried == Some(true),
            is_ignored: record.is_ignored,
            run,
            own_run: run,
            sample: record
                .sample
                .as_deref()
                .map(|sample| identity_of(&[sample])),
            task: 0,
            number: 1,
        }
    }

    fn end(&self) -> StepEnd {
        match (self.failure, self.exit_status) {
            (None, _) => StepEnd::Exited(0),
            (Some(kind), _) if kind.is_out_of_memory() => StepEnd::OutOfMemory,
            // It failed, even if its own exit status is 0.
            (Some(_), status) => {
                let status = status.and_then(|status| u8::try_from(status).ok());
                StepEnd::Exited(status.filter(|status| *status > 0).unwrap_or(u8::MAX))
            }
        }
    }

    fn into_run(self, runs: &PipelineRuns) -> Run {
        let end = self.end();
        Run {
            observed_at: self.observed_at,
            started_at: self.started_at,
            wall: self.wall,
            quiet: Duration::ZERO,
            end,
            cpu: self.cpu,
            peak_cores: None,
            peak_memory: self.peak.map(|bytes| PeakMemory {
                bytes,
                source: match self.peak_is_bound {
                    true => MemorySource::MaxRssUpperBound,
                    false => MemorySource::ProcessesSampled,
                },
            }),
            disk: self.disk,
            input: self.input,
            requested: self.requested,
            machine: None,
            origin: Origin::Measured,
            detail: StepDetail::default(),
            machine_cores: None,
            among_others: None,
            shares_machine: None,
            record: Some(Box::new(AttemptRecord {
                pipeline_run: format!("{:06}", runs.first(self.run)),
                task: self.task.to_string(),
                sample: self.sample.map(|sample| format!("{sample:016x}")),
                attempt: self.number,
                exit_status: self.exit_status,
                failure: self.failure,
                time_limit: self.time_limit,
                occupied: self.occupied,
                occupied_at_most: self.occupied_at_most,
                parallel_tasks: self.parallel_tasks,
            })),
        }
    }
}

impl StepRecords {
    fn kind_and_name(&self) -> (StepKind, String) {
        (self.kind, self.name.clone())
    }

    fn add(&mut self, attempt: &Attempt) {
        let (totals, sums) = (&mut self.totals, &mut self.sums);
        totals.attempts += 1;
        sums.wall = sums.wall.saturating_add(attempt.wall);
        let nanos = attempt.wall.as_nanos();
        let millis = attempt.wall.as_millis();
        // Another request would not change what an attempt with whole nodes occupies.
        let counted = match attempt.has_whole_nodes {
            true => Requested::default(),
            false => attempt.requested,
        };
        if let (Some(requested), Some(cpu)) = (counted.cores, attempt.cpu) {
            sums.requested_core_nanos += nanos * u128::from(requested.0) / 1000;
            sums.used_core_nanos += u128::from(cpu.0);
            sums.core_wall += nanos;
            totals.core_attempts += 1;
        }
        if let (Some(requested), Some(peak)) = (counted.memory, attempt.peak) {
            // Both values are for one node.
            let millis = millis.saturating_mul(u128::from(attempt.nodes));
            let used = match attempt.peak_is_bound && attempt.failure.is_none() {
                // It succeeded with its request, so it used no more.
                true => peak.0.min(requested.0),
                false => peak.0,
            };
            let add = |sum: &mut u128, bytes: u64| {
                *sum = sum.saturating_add(millis.saturating_mul(u128::from(bytes)));
            };
            add(&mut sums.requested_byte_millis, requested.0);
            add(&mut sums.used_byte_millis, used);
            sums.memory_wall = sums.memory_wall.saturating_add(millis);
            totals.memory_attempts += 1;
        }
        let Some(kind) = attempt.failure else {
            return;
        };
        totals.failed += 1;
        sums.lost = sums.lost.saturating_add(attempt.wall);
        let count = self
            .failures
            .entry((kind, attempt.exit_status))
            .or_insert(FailureCount {
                kind,
                exit_status: attempt.exit_status,
                attempts: 0,
                retried: 0,
                ignored: 0,
                lost_seconds: 0,
            });
        count.attempts = count.attempts.saturating_add(1);
        count.retried = count.retried.saturating_add(u32::from(attempt.is_retried));
        count.ignored = count.ignored.saturating_add(u32::from(attempt.is_ignored));
        count.lost_seconds = count.lost_seconds.saturating_add(attempt.wall.as_secs());
    }

    /// Keeps at most [`MAX_RUNS`] attempts: those of the newest tasks, and of the others those with the
    /// greatest needs. The attempts of a task stay or go together, because a retry alone would count as a
    /// first attempt with its larger request. The age of a task is that of its first attempt; otherwise tasks
    /// with late retries would displace those without.
    fn forget(&mut self) {
        if self.attempts.len() <= MAX_RUNS {
            return;
        }
        let mut by_task: BTreeMap<u64, Vec<Attempt>> = BTreeMap::new();
        for attempt in self.attempts.drain(..) {
            by_task.entry(attempt.task).or_default().push(attempt);
        }
        let time = |task: &Vec<Attempt>| {
            let times = task.iter().map(|one| (one.observed_at, one.task));
            times.min()
        };
        let mut tasks: Vec<Vec<Attempt>> = by_task.into_values().map(cut).collect();
        tasks.sort_by_key(|task| Reverse(time(task)));
        self.attempts = take_fitting(&mut tasks, MAX_RUNS - LARGEST_OLDER);
        let need = |task: &Vec<Attempt>| task.iter().map(Attempt::greatest_need).max();
        tasks.sort_by_key(|task| Reverse((need(task), time(task))));
        self.attempts
            .extend(take_fitting(&mut tasks, LARGEST_OLDER));
    }

    fn finish(self, runs: &PipelineRuns) -> ImportedStep {
        let (mut totals, sums) = (self.totals, self.sums);
        let seconds = |n: u128, of: u128| u64::try_from(n / of).unwrap_or(u64::MAX);
        totals.wall_seconds = sums.wall.as_secs();
        totals.lost_seconds = sums.lost.as_secs();
        totals.asked_core_seconds = seconds(sums.requested_core_nanos, 1_000_000_000);
        totals.used_core_seconds = seconds(sums.used_core_nanos, 1_000_000_000);
        totals.asked_gib_seconds = seconds(sums.requested_byte_millis, 1000 << 30);
        totals.used_gib_seconds = seconds(sums.used_byte_millis, 1000 << 30);
        totals.core_wall_seconds = seconds(sums.core_wall, 1_000_000_000);
        totals.memory_wall_seconds = seconds(sums.memory_wall, 1000);
        let newest = self.attempts.iter().max_by_key(|one| one.observed_at);
        let has_whole_nodes = newest.is_some_and(|newest| newest.has_whole_nodes);
        let mut profile = StepProfile::default();
        let kind = self.kind;
        profile.extend((0_u32..).zip(self.attempts).map(|(number, attempt)| {
            let key = RunKey {
                seen_on: String::new(),
                step: StepId {
                    kind,
                    key: number.to_string(),
                },
            };
            (key, attempt.into_run(runs))
        }));
        let mut failures: Vec<FailureCount> = self.failures.into_values().collect();
        failures.sort_by(|a, b| (b.lost_seconds, a).cmp(&(a.lost_seconds, b)));
        ImportedStep {
            name: self.name,
            has_memory_per_core: self.has_memory_per_core,
            has_whole_nodes,
            name_form: self.name_form,
            kind: self.kind,
            profile,
            totals,
            failures,
        }
    }
}
