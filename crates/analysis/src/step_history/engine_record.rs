//! Finds what engines and schedulers recorded about a task. A record belongs to a task if both have
//! the same id and their times overlap. Records that name different steps name none.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::advice::step::NameForm;
use ebb_model::inventory::batch::job::Job;
use ebb_model::task_record::{RecordSource, RecordText, TaskKey, TaskRecord};
use ebb_telemetry::step::{PlacedStep, Requested, StepKind};
use ebb_telemetry::units::CpuTime;

use crate::step_history::nextflow_task;
use crate::step_history::step_name::KnownProcesses;
use crate::workflow_runs::label_of;

/// The least share of the CPU time of a Slurm job for a step that did work of the job,
/// in parts per million. `sbatch` scripts that only call `srun` use almost no CPU.
const MIN_SHARE_PPM: u128 = 100_000;

/// The content of all records about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Recorded<'a> {
    /// There is no record.
    #[default]
    Nothing,
    /// The records name different steps.
    Disagreement,
    /// The records agree.
    Names(RecordedNames<'a>),
}

impl<'a> Recorded<'a> {
    /// The names; `None` without a record, or if the records disagree.
    pub(crate) fn names(&self) -> Option<RecordedNames<'a>> {
        match self {
            Self::Names(names) => Some(*names),
            Self::Nothing | Self::Disagreement => None,
        }
    }
}

/// Names from the records of one task. A value is `None` if no record contains it, or if they
/// contain different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RecordedNames<'a> {
    /// The process, rule or job name, and its relation to the engine. `None` if the name has no
    /// separators and several processes have that form.
    pub(crate) step: Option<(&'a str, NameForm)>,
    /// The full name of the task or job.
    pub(crate) name: Option<&'a str>,
    pub(crate) run: Option<&'a str>,
    pub(crate) pipeline: Option<&'a str>,
    pub(crate) sample: Option<&'a str>,
    pub(crate) attempt: Option<u32>,
    /// The request of the task or job; each value is `None` like the others.
    pub(crate) requested: Requested,
    /// Whether a record reports that the job ran out of memory.
    pub(crate) is_out_of_memory: bool,
}

/// Records by id.
#[derive(Debug, Default)]
pub(crate) struct RecordIndex<'a> {
    by_key: BTreeMap<&'a TaskKey, Vec<&'a TaskRecord>>,
}

impl<'a> RecordIndex<'a> {
    pub(crate) fn from_records(records: &'a [TaskRecord]) -> Self {
        let mut by_key: BTreeMap<&TaskKey, Vec<&TaskRecord>> = BTreeMap::new();
        for record in records {
            for key in &record.keys {
                by_key.entry(key).or_default().push(record);
            }
        }
        Self { by_key }
    }

    /// The records of a task, those with its id first. A Slurm job that Nextflow submitted has a work
    /// folder, whose record in the trace has the exact name. Other jobs may be submitted from the
    /// same folder, so only the trace names it.
    pub(crate) fn of_task(&self, step: &PlacedStep, job: Option<&Job>) -> Vec<&'a TaskRecord> {
        let mut found: Vec<&TaskRecord> = Vec::new();
        if self.by_key.is_empty() {
            return found;
        }
        let add = |key: &TaskKey, found: &mut Vec<&'a TaskRecord>| {
            for record in self.overlapping(key, step) {
                if !found.contains(&record) {
                    found.push(record);
                }
            }
        };
        let own = key_of(step, job);
        for key in own.into_iter().chain(nextflow_task::work_folder(step, job)) {
            add(&key, &mut found);
        }
        let folders: BTreeSet<&TaskKey> = found
            .iter()
            .filter(|record| is_of_nextflow(record))
            .flat_map(|record| &record.keys)
            .filter(|key| matches!(key, TaskKey::NextflowTask(_)))
            .collect();
        for folder in folders {
            add(folder, &mut found);
        }
        found
    }

    fn overlapping(&self, key: &TaskKey, step: &PlacedStep) -> Vec<&'a TaskRecord> {
        let is_folder = matches!(key, TaskKey::NextflowTask(_));
        let records = self.by_key.get(key).into_iter().flatten().copied();
        records
            .filter(|record| !is_folder || record.source == RecordSource::NextflowTrace)
            .filter(|record| record.overlaps(step.started_at, step.observed_at))
            .collect()
    }

    /// Combines the records of a task.
    pub(crate) fn find(
        &self,
        (step, job): (&PlacedStep, Option<&Job>),
        known: &KnownProcesses<'a>,
    ) -> Recorded<'a> {
        let records = self.of_task(step, job);
        if records.is_empty() {
            return Recorded::Nothing;
        }
        let with_form = |is_exact: bool| {
            let records = records.iter();
            let same = records.filter(move |record| (record.form == NameForm::Exact) == is_exact);
            same.map(|record| record.step.as_str())
                .collect::<BTreeSet<&str>>()
        };
        let (exact, shortened) = (with_form(true), with_form(false));
        let step = match (exact.first(), shortened.first()) {
            _ if exact.len() > 1 || shortened.len() > 1 => return Recorded::Disagreement,
            (Some(exact), Some(shortened)) if grid_form(exact) != **shortened => {
                return Recorded::Disagreement;
            }
            (Some(exact), _) => Some((*exact, NameForm::Exact)),
            (None, Some(shortened)) => known.find_grid(shortened),
            (None, None) => None,
        };
        let text = |value: fn(&TaskRecord) -> Option<&RecordText>| {
            only(records.iter().filter_map(|record| value(record))).map(RecordText::as_str)
        };
        Recorded::Names(RecordedNames {
            step,
            name: records.first().map(|record| record.name.as_str()),
            run: text(|record| record.run.as_ref()),
            pipeline: text(|record| record.pipeline.as_ref()),
            sample: text(|record| record.sample.as_ref()),
            attempt: only(records.iter().filter_map(|record| record.attempt.as_ref())).copied(),
            requested: Requested {
                cores: only(records.iter().filter_map(|r| r.requested.cores.as_ref())).copied(),
                memory: only(records.iter().filter_map(|r| r.requested.memory.as_ref())).copied(),
            },
            is_out_of_memory: records.iter().any(|record| record.is_out_of_memory),
        })
    }
}

/// Whether Nextflow submitted the job of a record.
fn is_of_nextflow(record: &TaskRecord) -> bool {
    record.form == NameForm::NextflowJob || record.name.as_str().starts_with("nf-")
}

/// The value, if all are equal.
fn only<'v, T: PartialEq>(mut values: impl Iterator<Item = &'v T>) -> Option<&'v T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The id under which an engine or scheduler records a task.
fn key_of(step: &PlacedStep, job: Option<&Job>) -> Option<TaskKey> {
    let key = step.usage.id.key.as_str();
    match step.usage.id.kind {
        StepKind::SlurmJob => TaskKey::slurm_job(slurm_job(key).0),
        StepKind::NextflowTask => TaskKey::nextflow_task(key),
        _ => TaskKey::batch_job(job?.id.as_str()),
    }
}

/// The job and the step in `7.batch`.
fn slurm_job(key: &str) -> (&str, Option<&str>) {
    match key.split_once('.') {
        Some((job, step)) => (job, Some(step)),
        None => (key, None),
    }
}

/// The name of a process as Nextflow writes it into the name of a job of a grid scheduler.
///
/// Source: `AbstractGridExecutor.sanitizeJobName` of Nextflow.
pub(crate) fn grid_form(process: &str) -> String {
    let replaced = |c: char| matches!(c, ' ' | '/' | ':' | '@' | '*' | '?' | '=');
    process.replace(replaced, "_")
}

/// The steps of Slurm jobs that did the work of their jobs.
#[derive(Debug, Default)]
pub(crate) struct SlurmSteps<'a> {
    by_job: BTreeMap<&'a str, BTreeMap<Option<&'a str>, SlurmStep<'a>>>,
}

/// One step of a Slurm job, with all attempts of the job.
#[derive(Debug, Default)]
struct SlurmStep<'a> {
    cpu: CpuTime,
    /// Its label `step`; `None` without one.
    label: Option<&'a str>,
}

impl<'a> SlurmSteps<'a> {
    pub(crate) fn from_tasks(tasks: impl Iterator<Item = &'a PlacedStep>) -> Self {
        let mut by_job: BTreeMap<&str, BTreeMap<Option<&str>, SlurmStep<'_>>> = BTreeMap::new();
        for task in tasks.filter(|task| task.usage.id.kind == StepKind::SlurmJob) {
            let (job, step) = slurm_job(&task.usage.id.key);
            let known = by_job.entry(job).or_default().entry(step).or_default();
            known.cpu = known.cpu.saturating_add(task.usage.cpu);
            known.label = label_of(task, "step").or(known.label);
        }
        Self { by_job }
    }

    /// The step that distinguishes a task from the other tasks of its job, such as `0` or `batch`.
    /// `None` if this task alone did the work of the job, so that the name of the job is its name.
    pub(crate) fn suffix(&self, task: &'a PlacedStep) -> Option<&'a str> {
        let (job, step) = slurm_job(&task.usage.id.key);
        let steps = self.by_job.get(job)?;
        let all: u128 = steps.values().map(|step| u128::from(step.cpu.0)).sum();
        let mut workers = steps
            .iter()
            .filter(|(_, step)| u128::from(step.cpu.0) * 1_000_000 >= all * MIN_SHARE_PPM);
        let is_only = workers.next().is_some_and(|(worker, _)| *worker == step);
        step.filter(|_| !is_only || workers.next().is_some())
    }

    /// Whether another step of the job of this task has the same label `step`. A `TaskProlog` sends
    /// the labels of a job from each of its steps.
    pub(crate) fn shares_label(&self, task: &'a PlacedStep) -> bool {
        let (job, own) = slurm_job(&task.usage.id.key);
        let label = label_of(task, "step");
        let mut others = self.by_job.get(job).into_iter().flatten();
        label.is_some() && others.any(|(step, other)| *step != own && other.label == label)
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::task_record::testing::slurm_record;
    use ebb_telemetry::testing::placed_step;
    use jiff::SignedDuration;

    use super::*;

    fn task(kind: StepKind, key: &str) -> PlacedStep {
        let mut step = placed_step(1, 0);
        step.usage.id.kind = kind;
        step.usage.id.key = key.to_owned();
        step
    }

    fn slurm(key: &str) -> PlacedStep {
        task(StepKind::SlurmJob, key)
    }

    fn trace(hash: &str, process: &str) -> TaskRecord {
        TaskRecord {
            source: RecordSource::NextflowTrace,
            keys: vec![TaskKey::nextflow_task(hash).expect("a hash")],
            ..slurm_record("1", process)
        }
    }

    fn nextflow_job(id: &str, step: &str, hash: Option<&str>) -> TaskRecord {
        let mut record = slurm_record(id, step);
        record.form = NameForm::NextflowJob;
        record.keys.extend(hash.and_then(TaskKey::nextflow_task));
        record
    }

    fn find<'a>(records: &'a [TaskRecord], task: &PlacedStep) -> Recorded<'a> {
        let known = KnownProcesses::from_jobs([].into_iter(), records);
        RecordIndex::from_records(records).find((task, None), &known)
    }

    fn step<'a>(records: &'a [TaskRecord], task: &PlacedStep) -> Option<(&'a str, NameForm)> {
        find(records, task).names().and_then(|names| names.step)
    }

    #[test]
    fn a_record_belongs_to_a_task_with_its_id_and_time() {
        let records = [slurm_record("7", "align"), trace("ab/cdef12", "RNA:SORT")];
        let align = Some(("align", NameForm::Exact));
        for key in ["7", "7.batch", "7.0", "7.extern"] {
            assert_eq!(step(&records, &slurm(key)), align, "{key}");
        }
        for key in ["8", "77", "", "7x.0"] {
            assert_eq!(find(&records, &slurm(key)), Recorded::Nothing, "{key}");
        }
        let local = task(StepKind::NextflowTask, "ab/cdef1200aabb");
        assert_eq!(step(&records, &local), Some(("RNA:SORT", NameForm::Exact)));
        let other = task(StepKind::Container, "7");
        assert_eq!(find(&records, &other), Recorded::Nothing);
        // The same number an hour before the job began.
        let early = slurm("7");
        let mut records = records;
        records[0].from = early.observed_at + SignedDuration::from_hours(1);
        assert_eq!(find(&records, &early), Recorded::Nothing);
    }

    #[test]
    fn records_that_name_different_steps_name_none() {
        let records = [slurm_record("7", "align"), slurm_record("7", "sort")];
        assert_eq!(find(&records, &slurm("7.0")), Recorded::Disagreement);
        let records = [
            nextflow_job("7", "RNA_ALIGN", Some("ab/cdef12")),
            trace("ab/cdef12", "RNA:SORT"),
        ];
        assert_eq!(find(&records, &slurm("7.0")), Recorded::Disagreement);
    }

    #[test]
    fn jobs_from_one_work_folder_do_not_name_each_other() {
        let mut nested = slurm_record("8", "many");
        nested.keys.extend(TaskKey::nextflow_task("ab/cdef12"));
        let records = [
            nextflow_job("7", "RNA_ALIGN", Some("ab/cdef12")),
            nested,
            trace("ab/cdef12", "RNA:ALIGN"),
        ];
        let align = Some(("RNA:ALIGN", NameForm::Exact));
        assert_eq!(step(&records, &slurm("7.0")), align);
        assert_eq!(
            step(&records, &slurm("8.0")),
            Some(("many", NameForm::Exact))
        );
        let local = task(StepKind::NextflowTask, "ab/cdef12");
        assert_eq!(step(&records, &local), align);
    }

    #[test]
    fn a_job_with_the_exact_name_also_has_the_run_of_its_work_folder() {
        let mut job = nextflow_job("7", "RNA:ALIGN", Some("ab/cdef12"));
        job.form = NameForm::Exact;
        job.name = RecordText::new("nf-RNA_ALIGN_(S1)").expect("a name");
        let mut traced = trace("ab/cdef12", "RNA:ALIGN");
        traced.run = RecordText::new("angry_euler");
        let records = [job, traced];
        let names = find(&records, &slurm("7.0")).names().expect("they agree");
        assert_eq!(names.step, Some(("RNA:ALIGN", NameForm::Exact)));
        assert_eq!(names.run, Some("angry_euler"));
    }

    #[test]
    fn a_name_with_replaced_characters_is_compared_with_known_processes() {
        let exact = |name| Some((name, NameForm::Exact));
        // By its work folder.
        let records = [
            nextflow_job("7", "RNA_ALIGN", Some("ab/cdef12")),
            trace("ab/cdef12", "RNA:ALIGN"),
        ];
        assert_eq!(step(&records, &slurm("7.0")), exact("RNA:ALIGN"));
        // By the only process with this form.
        let records = [
            nextflow_job("7", "RNA_ALIGN", None),
            trace("00/000000", "RNA:ALIGN"),
        ];
        assert_eq!(step(&records, &slurm("7.0")), exact("RNA:ALIGN"));
        // Two processes have it.
        let records = [
            nextflow_job("7", "RNA_ALIGN", None),
            trace("00/000000", "RNA:ALIGN"),
            trace("00/000001", "RNA_ALIGN"),
        ];
        assert_eq!(step(&records, &slurm("7.0")), None);
        // No process is known.
        let records = [nextflow_job("7", "RNA_ALIGN", None)];
        let as_is = Some(("RNA_ALIGN", NameForm::NextflowJob));
        assert_eq!(step(&records, &slurm("7.0")), as_is);
    }

    #[test]
    fn values_that_differ_between_records_are_unknown() {
        let named = |run: &str, attempt| TaskRecord {
            run: RecordText::new(run),
            sample: RecordText::new("S1"),
            attempt,
            ..slurm_record("7", "align")
        };
        let records = [named("a", Some(2)), named("b", None)];
        let names = find(&records, &slurm("7")).names().expect("they agree");
        assert_eq!(
            (names.run, names.sample, names.attempt),
            (None, Some("S1"), Some(2))
        );
    }

    #[test]
    fn a_step_of_a_job_has_a_suffix_unless_it_alone_did_the_work() {
        let check = |steps: &[(&str, u64)], expect: &[Option<&str>]| {
            let tasks = steps.iter().map(|(key, seconds)| {
                let mut task = slurm(key);
                task.usage.cpu = CpuTime::from_millis(seconds * 1_000);
                task
            });
            let tasks: Vec<PlacedStep> = tasks.collect();
            let all = SlurmSteps::from_tasks(tasks.iter());
            let got: Vec<_> = tasks.iter().map(|task| all.suffix(task)).collect();
            assert_eq!(got, expect, "{steps:?}");
        };
        check(&[("7.batch", 100)], &[None]);
        check(&[("7.batch", 0)], &[None]);
        check(&[("7", 100)], &[None]);
        // `srun` in a script, or Snakemake on Slurm.
        check(&[("7.batch", 1), ("7.0", 99)], &[Some("batch"), None]);
        check(
            &[("7.batch", 1), ("7.0", 40), ("7.1", 60), ("8.batch", 5)],
            &[Some("batch"), Some("0"), Some("1"), None],
        );
        check(&[("7.extern", 0), ("7.batch", 9)], &[Some("extern"), None]);
    }

    #[test]
    fn a_label_is_shared_if_another_step_of_the_job_has_it() {
        let labelled = |key: &str, label: &str| {
            let mut task = slurm(key);
            let labels = [("step".to_owned(), label.to_owned())].into();
            task.usage.detail.scheduler_labels =
                Some(Box::new(ebb_telemetry::step::SchedulerLabels {
                    labels,
                    ..Default::default()
                }));
            task
        };
        let tasks = [
            labelled("7.batch", "align"),
            labelled("7.0", "align"),
            labelled("8.batch", "align"),
            slurm("8.0"),
            labelled("9.0", "a"),
            labelled("9.1", "b"),
        ];
        let all = SlurmSteps::from_tasks(tasks.iter());
        let got = tasks.each_ref().map(|task| all.shares_label(task));
        assert_eq!(got, [true, true, false, false, false, false]);
    }

    #[test]
    fn requests_that_differ_between_records_are_unknown() {
        use ebb_telemetry::units::{Bytes, MilliCores};
        let asks = |cores: Option<u64>, mib: u64| TaskRecord {
            requested: Requested {
                cores: cores.map(|cores| MilliCores(cores * 1_000)),
                memory: Some(Bytes(mib << 20)),
            },
            ..slurm_record("7", "align")
        };
        let check = |records: &[TaskRecord], cores: Option<u64>, mib: Option<u64>| {
            let names = find(records, &slurm("7.0")).names().expect("they agree");
            let expect = Requested {
                cores: cores.map(|cores| MilliCores(cores * 1_000)),
                memory: mib.map(|mib| Bytes(mib << 20)),
            };
            assert_eq!(names.requested, expect);
        };
        check(&[asks(Some(2), 100)], Some(2), Some(100));
        check(&[asks(Some(2), 100), asks(None, 200)], Some(2), None);
    }
}
