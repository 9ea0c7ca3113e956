//! Names of tasks from the files that [`Import`](super::Import) reads, and from squeue. The ids of
//! the tasks connect them with the tasks that probes observe.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use ebb_model::step_profile::failure::FailureKind;
use ebb_model::task_record::{RecordSource, RecordText, TaskKey, TaskRecord};
use ebb_telemetry::step::Requested;
use jiff::{SignedDuration, Timestamp};

use super::record::{Ending, Record};
use super::{
    BadLines, Destination, ImportError, Kind, OpenFile, Origin, Parser, Refusal, Source, nextflow,
    sacct, squeue,
};

/// Time zones are up to 14 hours before UTC and up to 12 hours after UTC. A local time was read as
/// UTC, so the instant is at most this much earlier or later.
const EAST: SignedDuration = SignedDuration::from_hours(14);
const WEST: SignedDuration = SignedDuration::from_hours(12);

/// The most ids that are kept while files are read, at about 400 bytes each.
const MAX_IDS: usize = 400_000;

/// Values for all records of the files.
#[derive(Debug, Clone, Default)]
pub struct NameSettings {
    /// The run of all tasks; `None` if the records name it, or if it is unknown.
    pub run: Option<RecordText>,
    /// The pipeline of all tasks.
    pub pipeline: Option<RecordText>,
    /// The earliest end of a record; earlier ones are counted only.
    pub not_before: Timestamp,
    /// The time of reading: the time up to which the records of running tasks are valid.
    pub now: Timestamp,
}

/// Names in the order of their ids, while files are read.
#[derive(Debug)]
pub struct TaskNames {
    settings: NameSettings,
    records: BTreeMap<Vec<TaskKey>, BTreeSet<TaskRecord>>,
    notes: BTreeSet<String>,
    counts: NameCounts,
}

/// Number of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameCounts {
    /// Records of the files.
    pub read: u64,
    /// Records that ended too long ago.
    pub old: u64,
    /// Records of tasks that have not started, which no probe has observed.
    pub not_started: u64,
}

impl TaskNames {
    /// No names yet.
    pub fn new(settings: NameSettings) -> Self {
        Self {
            settings,
            records: BTreeMap::new(),
            notes: BTreeSet::new(),
            counts: NameCounts::default(),
        }
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
        let first = opened.first.as_str();
        let mut parser: Box<dyn Parser> = match opened.kind {
            Kind::Nextflow => Box::new(nextflow::Trace::from_header(first)?),
            Kind::Sacct => Box::new(sacct::Accounting::from_header(first)?),
            Kind::Squeue => Box::new(squeue::Queue::from_header(first)?),
            Kind::Snakemake => return Err(ImportError::NoTaskId),
        };
        opened.read(parser.as_mut(), source.path, self, &mut progress)
    }

    /// Counts so far.
    pub fn counts(&self) -> NameCounts {
        self.counts
    }

    /// Notes about missing data.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(String::as_str)
    }

    /// All records, those that end last first.
    pub fn finish(self) -> Vec<TaskRecord> {
        let mut records: Vec<TaskRecord> = self.records.into_values().flatten().collect();
        records.sort_by(|a, b| (b.until, a).cmp(&(a.until, b)));
        records
    }

    fn add(&mut self, of: &Origin<'_>, record: Record, is_open: bool) -> Result<(), Refusal> {
        self.counts.read += 1;
        if record.is_local_time {
            self.notes.insert(format!(
                "{}: the times have no time zone, so a task is recognized by its id and a day; use \
                 SLURM_TIME_FORMAT=%s for Slurm, or trace.raw = true for Nextflow",
                of.file
            ));
        }
        let Some((from, until)) = self.window(&record, is_open) else {
            self.counts.not_started += 1;
            return Ok(());
        };
        if until < self.settings.not_before {
            self.counts.old += 1;
            return Ok(());
        }
        let record = self.record(of, record, (from, until))?;
        if self.records.len() >= MAX_IDS && !self.records.contains_key(&record.keys) {
            return Err(refusal("id", format!("more than {MAX_IDS} ids")));
        }
        self.records
            .entry(record.keys.clone())
            .or_default()
            .insert(record);
        Ok(())
    }

    /// When the task ran at the most. `None` if it has not started, or if its times are unknown.
    fn window(&self, record: &Record, is_open: bool) -> Option<(Timestamp, Timestamp)> {
        let now = self.settings.now;
        let from = record.started.or(record.submitted.filter(|_| !is_open))?;
        let until = match (record.ended, is_open) {
            (_, true) => now,
            (Some(end), false) => end,
            (None, false) => from.saturating_add(record.wall).ok()?,
        };
        let (early, late) = match record.is_local_time {
            true => (EAST, WEST),
            false => Default::default(),
        };
        let from = from.saturating_sub(early).ok()?.min(now);
        let late = until.saturating_add(late).ok()?;
        Some((from, late.min(now).max(from)))
    }

    fn record(
        &self,
        of: &Origin<'_>,
        record: Record,
        (from, until): (Timestamp, Timestamp),
    ) -> Result<TaskRecord, Refusal> {
        let source = match of.source {
            Kind::Sacct => RecordSource::Sacct,
            Kind::Squeue => RecordSource::Squeue,
            Kind::Nextflow | Kind::Snakemake => RecordSource::NextflowTrace,
        };
        let id = match source {
            RecordSource::NextflowTrace => ("hash", "missing or invalid; add it to trace.fields"),
            RecordSource::Sacct => ("JobIDRaw", "missing or invalid; add it to sacct --format"),
            RecordSource::Squeue => ("JOBID", "invalid; use %A in the format of squeue"),
        };
        if record.keys.is_empty() {
            return Err(refusal(id.0, id.1));
        }
        let name = record.name.as_deref().and_then(RecordText::new);
        let name = name.ok_or_else(|| refusal("JobName", "missing; add it to sacct --format"))?;
        let step = RecordText::new(&record.step).ok_or_else(|| refusal("name", "empty"))?;
        let text = |value: Option<String>| RecordText::new(&value?);
        let run = self.settings.run.clone();
        Ok(TaskRecord {
            source,
            keys: record.keys,
            step,
            form: record.name_form,
            name,
            sample: text(record.sample),
            attempt: record.attempt,
            run: run.or_else(|| text(record.engine_run)),
            pipeline: self.settings.pipeline.clone(),
            requested: Requested {
                // The cores of a job on several nodes may differ between them.
                cores: record.requested.cores.filter(|_| record.nodes <= 1),
                memory: record.requested.memory,
            },
            // A trace contains only the exit status.
            is_out_of_memory: source == RecordSource::Sacct
                && record.ending == Ending::Failed(FailureKind::OutOfMemory),
            from,
            until,
        })
    }
}

fn refusal(field: &'static str, problem: impl Into<String>) -> Refusal {
    Refusal {
        field,
        problem: problem.into(),
    }
}

impl Destination for TaskNames {
    fn take(&mut self, of: &Origin<'_>, record: Record) -> Result<(), Refusal> {
        self.add(of, record, false)
    }

    /// A trace is written when tasks end, so its run has ended before its open tasks.
    fn take_open(&mut self, of: &Origin<'_>, record: Record) -> Result<(), Refusal> {
        self.add(of, record, of.source != Kind::Nextflow)
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::advice::step::NameForm;
    use ebb_telemetry::units::{Bytes, MilliCores};
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

    /// 2026-11-20T00:00:00Z.
    const DAY: i64 = 1_795_132_800;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn names() -> TaskNames {
        TaskNames::new(NameSettings {
            not_before: at(DAY - 14 * 86_400),
            now: at(DAY + 3_600),
            ..NameSettings::default()
        })
    }

    fn read(names: &mut TaskNames, text: &str) -> BadLines {
        let source = Source {
            path: "a file",
            kind: None,
            modified: None,
        };
        names
            .read(&source, text.as_bytes(), |_| ())
            .expect("it is read")
    }

    /// Id, step, form, sample, seconds after the day.
    fn list_records(records: &[TaskRecord]) -> Vec<String> {
        let lines = records.iter().map(|record| {
            let keys: Vec<String> = record.keys.iter().map(ToString::to_string).collect();
            let sample = record.sample.as_ref().map_or("-", RecordText::as_str);
            let form = match record.form {
                NameForm::Exact => "=",
                _ => "~",
            };
            let second = |at: Timestamp| at.as_second() - DAY;
            format!(
                "{} {form}{} {sample} {}..{}",
                keys.join(" "),
                record.step.as_str(),
                second(record.from),
                second(record.until)
            )
        });
        lines.collect()
    }

    /// Lines of `sacct -D` of Slurm 22.05.8: a requeued job with a comment that contains the
    /// separator, and a job on two nodes.
    #[test]
    fn each_attempt_of_a_job_has_a_record_with_its_request() {
        let mut all = names();
        let text = format!(
            "JobID|JobIDRaw|State|Elapsed|Start|End|ReqMem|AllocCPUS|NNodes|Restarts|JobName|Comment\n\
             7|7|REQUEUED|00:00:10|{DAY}|{}|100M|2|1|0|again|A|b|1\n\
             7.batch|7.batch|CANCELLED|00:00:10|{DAY}|{}||2|1||batch|\n\
             7|7|COMPLETED|00:00:30|{}|{}|100M|2|1|1|again|A|b|1\n\
             8|8|COMPLETED|00:00:30|{DAY}|{}|200M|3|2||wide|\n\
             9|9|OUT_OF_MEMORY|00:00:01|{DAY}|{}|100M|1|1||oom|\n\
             9.batch|9.batch|OUT_OF_MEMORY|00:00:01|{DAY}|{}||1|1||batch|\n",
            DAY + 10,
            DAY + 10,
            DAY + 130,
            DAY + 160,
            DAY + 30,
            DAY + 1,
            DAY + 1,
        );
        assert_eq!(read(&mut all, &text).first, []);
        let records = all.finish();
        assert_eq!(
            list_records(&records),
            [
                "slurm:7 =again - 130..160",
                "slurm:8 =wide - 0..30",
                "slurm:7 =again - 0..10",
                "slurm:9 =oom - 0..1",
            ]
        );
        let out_of_memory: Vec<_> = records.iter().map(|one| one.is_out_of_memory).collect();
        assert_eq!(out_of_memory, [false, false, false, true]);
        let attempts: Vec<_> = records.iter().map(|record| record.attempt).collect();
        assert_eq!(attempts, [Some(2), None, Some(1), None]);
        let requests: Vec<_> = records.iter().map(|record| record.requested).collect();
        let request = |cores: Option<u64>, mib: u64| Requested {
            cores: cores.map(|cores| MilliCores(cores * 1_000)),
            memory: Some(Bytes(mib << 20)),
        };
        let again = request(Some(2), 100);
        assert_eq!(
            requests,
            [again, request(None, 100), again, request(Some(1), 100)]
        );
    }

    const SACCT: &str = "JobID|JobIDRaw|State|Elapsed|Start|End|WorkDir|JobName|Comment";

    #[test]
    fn a_job_of_slurm_is_named_by_its_number_while_it_runs_and_after() {
        let mut all = names();
        let text = format!(
            "{SACCT}\n\
             7|7|COMPLETED|00:10:00|{DAY}|{}|/w/ab/cdef0123456789abcdef0123456789|nf-RNA_ALIGN_(S1)|\n\
             7.batch|7.batch|COMPLETED|00:10:00|{DAY}|{}||batch|\n\
             17_4|21|COMPLETED|00:00:09|{DAY}|{}|/home/ana|many|\n\
             8|8|RUNNING|00:10:00|{DAY}|Unknown|/home/ana|sort|\n\
             9|9|PENDING|00:00:00|Unknown|Unknown|/home/ana|wait|\n\
             {UUID}|10|COMPLETED|00:00:01|{DAY}|{DAY}|/home/ana|{UUID}|rule_bwa_wildcards_A\n",
            DAY + 600,
            DAY + 600,
            DAY + 9,
        );
        assert_eq!(read(&mut all, &text).first, []);
        let counts = all.counts();
        assert_eq!((counts.read, counts.old, counts.not_started), (5, 0, 1));
        assert_eq!(all.notes().count(), 0);
        let records = all.finish();
        assert_eq!(
            list_records(&records),
            [
                "slurm:8 =sort - 0..3600",
                "slurm:7 nextflow:ab/cdef01 ~RNA_ALIGN S1 0..600",
                "slurm:21 =many array index 4 0..9",
                "slurm:10 =bwa A 0..0",
            ]
        );
        let run = records[3].run.as_ref().map(RecordText::as_str);
        assert_eq!((run, records[1].run.as_ref()), (Some(UUID), None));
    }

    #[test]
    fn a_row_without_the_number_of_its_job_is_reported() {
        let mut all = names();
        let text = format!(
            "JobID|State|Elapsed|Start|End|JobName\n\
             17_4|COMPLETED|00:00:09|{DAY}|{DAY}|many\n\
             7|COMPLETED|00:00:09|{DAY}|{DAY}|one\n"
        );
        let bad = read(&mut all, &text);
        assert_eq!(bad.count, 1);
        assert_eq!(
            bad.first[0].to_string(),
            "2: JobIDRaw: missing or invalid; add it to sacct --format"
        );
        assert_eq!(list_records(&all.finish()), ["slurm:7 =one - 0..0"]);
    }

    #[test]
    fn a_trace_names_tasks_by_hash_and_jobs_of_batch_by_id() {
        let mut all = names();
        let ms = DAY * 1000;
        let text = format!(
            "hash\tnative_id\tname\tprocess\ttag\tstatus\tstart\tcomplete\trealtime\tattempt\n\
             ab/cdef12\t4711\tRNA:ALIGN (S1)\tRNA:ALIGN\tS1\tCOMPLETED\t{ms}\t{}\t60000\t2\n\
             cd/000001\t{UUID}:3\tQC (1)\tQC\t-\tFAILED\t{ms}\t{}\t1000\t1\n",
            ms + 60_000,
            ms + 1_000,
        );
        assert_eq!(read(&mut all, &text).first, []);
        let records = all.finish();
        assert_eq!(
            list_records(&records),
            [
                "nextflow:ab/cdef12 =RNA:ALIGN S1 0..60".to_owned(),
                format!("nextflow:cd/000001 batch:{UUID}:3 =QC - 0..1"),
            ]
        );
        assert_eq!(records[0].attempt, Some(2));
        assert_eq!(records[0].name.as_str(), "RNA:ALIGN (S1)");
    }

    #[test]
    fn squeue_names_jobs_that_run() {
        let mut all = names();
        let text = format!(
            "JOBID|STATE|START_TIME|WORK_DIR|CPUS|NODES|NAME|COMMENT\n\
             7|RUNNING|{DAY}|/home/ana|2|1|align|(null)\n\
             8|PENDING|{DAY}|/home/ana|2|1|wait|(null)\n\
             9|RUNNING|{DAY}|/home/ana|2|2|wide|A|b|1\n"
        );
        assert_eq!(read(&mut all, &text).first, []);
        let records = all.finish();
        assert_eq!(
            list_records(&records),
            ["slurm:7 =align - 0..3600", "slurm:9 =wide - 0..3600"]
        );
        let cores: Vec<_> = records.iter().map(|one| one.requested.cores).collect();
        assert_eq!(cores, [Some(MilliCores(2_000)), None]);
    }

    #[test]
    fn local_times_widen_the_window_and_are_noted() {
        let mut all = names();
        let text = "JOBID|STATE|START_TIME|NAME\n7|RUNNING|2026-11-20T00:00:00|align\n";
        read(&mut all, text);
        assert_eq!(all.notes().count(), 1);
        assert_eq!(
            list_records(&all.finish()),
            ["slurm:7 =align - -50400..3600"]
        );
    }

    #[test]
    fn old_records_and_settings_and_files_without_ids() {
        let run = RecordText::new("angry_euler");
        let mut all = TaskNames::new(NameSettings {
            run: run.clone(),
            pipeline: RecordText::new("rnaseq"),
            ..names().settings
        });
        let old = DAY - 20 * 86_400;
        let text = format!(
            "{SACCT}\n7|7|COMPLETED|00:00:01|{old}|{old}|/w|a|\n8|8|COMPLETED|00:00:01|{DAY}|{DAY}|/w|b|\n"
        );
        read(&mut all, &text);
        assert_eq!(all.counts().old, 1);
        let records = all.finish();
        assert_eq!((records.len(), &records[0].run), (1, &run));
        let benchmark = "s\th:m:s\tmax_rss\n1.0\t0:00:01\t10\n";
        let source = Source {
            path: "b.txt",
            kind: None,
            modified: None,
        };
        let error = names().read(&source, benchmark.as_bytes(), |_| ());
        let error = error.expect_err("it has no ids").to_string();
        assert!(error.contains("does not contain the id"), "{error}");
    }

    proptest! {
        #[test]
        fn any_row_gives_a_valid_record_or_none(row in "[|0-9a-zA-Z._()\\-/:\u{1b}\u{202e} ]{0,200}") {
            let mut all = names();
            let text = format!("{SACCT}\n7|7|COMPLETED|00:00:01|{DAY}|{DAY}|{row}\n{row}\n");
            read(&mut all, &text);
            for record in all.finish() {
                let json = serde_json::to_string(&record).expect("JSON");
                prop_assert_eq!(serde_json::from_str(&json).ok(), Some(record));
            }
        }
    }
}
