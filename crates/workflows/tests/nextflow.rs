//! Stand-ins for the executors of Nextflow. Nextflow itself does not run here. A stand-in makes what
//! each executor leaves behind, after its source: the id and the name of the task that a probe
//! observes, the jobs of AWS Batch, the rows of `sacct`, and the trace. The records are read as `ebb
//! names push` reads them, and the next sweep names the task.

use std::collections::BTreeMap;

use ebb_analysis::facts::Facts;
use ebb_analysis::step_history::name_explanation::{NameExplanation, explain_names};
use ebb_catalog::catalog::Catalogue;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::job::{Job, JobId, JobStatus};
use ebb_model::policy::Policy;
use ebb_model::report::workflow_runs::StepNameSource;
use ebb_model::sweep_memory::Memory;
use ebb_model::task_record::TaskRecord;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::identity::Region;
use ebb_telemetry::step::{PlacedStep, StepKind, ToolUsage};
use ebb_telemetry::testing::{at, placed_step};
use ebb_telemetry::units::CpuTime;
use ebb_workflows::import::Source;
use ebb_workflows::import::task_names::{NameSettings, TaskNames};

const HASH: &str = "abcdef0123456789abcdef0123456789";
const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";
const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const ECS_TASK: &str = "0123456789abcdef0123456789abcdef";

/// One execution of a process.
#[derive(Clone, Copy)]
struct Execution {
    process: &'static str,
    tag: &'static str,
}

const ALIGN: Execution = Execution {
    process: "RNA:ALIGN",
    tag: "S1.R1",
};

impl Execution {
    /// Source: `TaskRun.getName`.
    fn name(self) -> String {
        format!("{} ({})", self.process, self.tag)
    }

    /// Source: `AbstractGridExecutor.getJobNameFor` and `sanitizeJobName`.
    fn grid_name(self) -> String {
        let replaced = |c: char| " /:@*?=".contains(c);
        let name = format!("nf-{}", self.name().replace(replaced, "_"));
        name.chars().take(256).collect()
    }

    /// Source: `PbsExecutor.getJobNameFor`: no brackets, at most 15 characters.
    fn pbs_name(self) -> String {
        let name = self.grid_name().replace(['(', ')'], "");
        name.chars().take(15).collect()
    }

    /// Source: `AwsBatchTaskHandler.normalizeJobName`.
    fn batch_name(self) -> String {
        let name = self.name().replace(' ', "_");
        let kept = name
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c));
        kept.take(128).collect()
    }
}

/// The work folder of a task with [`HASH`].
fn folder() -> String {
    format!("/scratch/work/{}/{}", &HASH[..2], &HASH[2..])
}

/// A trace of one task, with the id that its executor assigns.
fn trace(of: Execution, native_id: &str) -> String {
    let short = format!("{}/{}", &HASH[..2], &HASH[2..8]);
    trace_with_hash(of, native_id, &short)
}

fn trace_with_hash(of: Execution, native_id: &str, hash: &str) -> String {
    let (from, to) = (at(0).as_millisecond(), at(600).as_millisecond());
    format!(
        "hash\tnative_id\tname\tprocess\ttag\tstatus\tstart\tcomplete\trealtime\tattempt\n\
         {hash}\t{native_id}\t{}\t{}\t{}\tCOMPLETED\t{from}\t{to}\t600000\t1\n",
        of.name(),
        of.process,
        of.tag
    )
}

/// The accounting of job 7.
fn sacct(name: &str, work_dir: &str, comment: &str) -> String {
    let (from, to) = (at(0).as_second(), at(600).as_second());
    format!(
        "JobID|JobIDRaw|State|Elapsed|Start|End|WorkDir|JobName|Comment\n\
         7|7|COMPLETED|00:10:00|{from}|{to}|{work_dir}|{name}|{comment}\n"
    )
}

/// A task that a probe observes; `bwa` did its work.
fn task(kind: StepKind, key: &str, name: &str) -> PlacedStep {
    let mut task = placed_step(1, 1);
    task.usage.id.kind = kind;
    task.usage.id.key = key.to_owned();
    task.usage.name = name.to_owned();
    task.usage.tools = vec![ToolUsage {
        name: "bwa".to_owned(),
        processes: 1,
        cpu: CpuTime::from_millis(1_000),
        peak_memory: None,
        disk: None,
        events: None,
    }];
    task
}

/// The Batch job of [`ECS_TASK`].
fn batch_job(id: &str, name: &str, tags: &[(&str, &str)]) -> Job {
    let region = Region::new("us-east-1").expect("a region");
    let id = JobId::new(id).expect("an id");
    let tags = tags
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Job {
        definition: Some("nf-quay-io-biocontainers-bwa-0-7-17".to_owned()),
        task_arn: Some(format!("arn:aws:ecs:us-east-1:1:task/b/{ECS_TASK}")),
        tags: tags.collect(),
        ..Job::new(id, name, "q", region, JobStatus::Succeeded)
    }
}

/// The facts of a sweep.
#[derive(Default)]
struct SweepFacts {
    records: Vec<TaskRecord>,
    inventory: Inventory,
}

impl SweepFacts {
    /// Reads the files as `ebb names push` does.
    fn push(mut self, files: &[String]) -> Self {
        let mut names = TaskNames::new(NameSettings {
            now: at(3_600),
            ..NameSettings::default()
        });
        for file in files {
            let source = Source {
                path: "a file",
                kind: None,
                modified: None,
            };
            let bad = names
                .read(&source, file.as_bytes(), |_| ())
                .expect("it is read");
            assert_eq!(bad.first, []);
        }
        self.records = names.finish();
        self
    }

    fn jobs(mut self, jobs: impl IntoIterator<Item = Job>) -> Self {
        let jobs = jobs.into_iter().map(|job| (job.id.clone(), job));
        self.inventory.batch.jobs.extend(jobs);
        self
    }

    fn explain(&self, task: PlacedStep) -> NameExplanation {
        let facts = Facts {
            now: at(3_600),
            state: &FleetState::default(),
            hours: &FleetHours::default(),
            inventory: &self.inventory,
            metrics: &BTreeMap::new(),
            bill: &BTreeMap::new(),
            billed: &[],
            finished: &[],
            left_out: &[],
            records: &self.records,
            memory: &Memory::default(),
            policy: &Policy::default(),
            catalogue: Catalogue::built_in(),
        };
        let key = task.usage.id.key.clone();
        let kept = [task];
        let explained = explain_names(&facts, &kept, &key, 1);
        explained.into_iter().next().expect("one task")
    }

    fn check(&self, task: PlacedStep, step: &str, source: StepNameSource) {
        let got = self.explain(task);
        assert_eq!((got.step.as_str(), got.source), (step, source));
        assert!(!got.records_disagree);
    }

    /// No source may claim a name.
    fn check_unnamed(&self, task: PlacedStep) {
        self.check(task, "bwa", StepNameSource::Executables);
    }
}

fn pushed(files: &[String]) -> SweepFacts {
    SweepFacts::default().push(files)
}

const RECORD: StepNameSource = StepNameSource::Record;

#[test]
fn local_tasks_join_the_trace_by_their_hash() {
    let key = format!("{}/{}", &HASH[..2], &HASH[2..]);
    let local = || task(StepKind::NextflowTask, &key, &key[..9]);
    pushed(&[trace(ALIGN, "4711")]).check(local(), "RNA:ALIGN", RECORD);
    SweepFacts::default().check_unnamed(local());
    let other = trace_with_hash(ALIGN, "4711", "ab/000000");
    pushed(&[other]).check_unnamed(local());
}

#[test]
fn a_local_container_joins_nothing() {
    let docker = task(StepKind::Container, CONTAINER, &CONTAINER[..12]);
    pushed(&[trace(ALIGN, "4711")]).check_unnamed(docker);
}

#[test]
fn jobs_of_slurm_join_the_trace_by_their_work_folder() {
    let slurm = || task(StepKind::SlurmJob, "7.batch", "7.batch");
    let name = ALIGN.grid_name();
    assert_eq!(name, "nf-RNA_ALIGN_(S1.R1)");
    let job = || sacct(&name, &folder(), "");
    pushed(&[job(), trace(ALIGN, "7")]).check(slurm(), "RNA:ALIGN", RECORD);
    // Only the name of the job, in which `:` is `_`.
    pushed(&[job()]).check(slurm(), "RNA_ALIGN", RECORD);
    // The trace alone: 7 could be a process.
    pushed(&[trace(ALIGN, "7")]).check_unnamed(slurm());
    // The name is cut after 256 characters.
    let long = Execution {
        tag: Box::leak("x".repeat(300).into_boxed_str()),
        ..ALIGN
    };
    let cut = sacct(&long.grid_name(), &folder(), "");
    pushed(&[cut]).check(slurm(), "RNA_ALIGN", RECORD);
    // The comment of `ebb init`, without a trace.
    let with_comment = sacct(&name, &folder(), "nf;RNA:ALIGN;S1.R1;2");
    pushed(&[with_comment]).check(slurm(), "RNA:ALIGN", RECORD);
}

#[test]
fn jobs_of_slurm_with_fusion_are_compared_with_the_processes_of_the_trace() {
    let slurm = || task(StepKind::SlurmJob, "7.batch", "7.batch");
    // The script comes from the standard input, so the work folder is that of the launch.
    let job = || sacct(&ALIGN.grid_name(), "/home/ana/project", "");
    pushed(&[job(), trace(ALIGN, "7")]).check(slurm(), "RNA:ALIGN", RECORD);
    let other = Execution {
        process: "RNA_ALIGN",
        tag: "S2",
    };
    let both = [
        job(),
        trace(ALIGN, "7"),
        trace_with_hash(other, "8", "ab/000000"),
    ];
    pushed(&both).check_unnamed(slurm());
}

#[test]
fn the_child_of_an_array_of_slurm_has_the_process_and_no_tag() {
    let (from, to) = (at(0).as_second(), at(600).as_second());
    let array = format!(
        "JobID|JobIDRaw|State|Elapsed|Start|End|WorkDir|JobName|Comment\n\
         5_2|7|COMPLETED|00:10:00|{from}|{to}|/scratch/work/array|nf-RNA_ALIGN_(1)|nf;RNA:ALIGN;;1\n"
    );
    let known = pushed(&[array]);
    let child = task(StepKind::SlurmJob, "7.batch", "7.batch");
    known.check(child.clone(), "RNA:ALIGN", RECORD);
    let record = &known.explain(child).records[0];
    let sample = record
        .sample
        .as_ref()
        .map(|sample| sample.as_str().to_owned());
    assert_eq!(sample.as_deref(), Some("array index 2"));
}

#[test]
fn the_name_of_a_job_of_pbs_names_nothing() {
    assert_eq!(ALIGN.pbs_name(), "nf-RNA_ALIGN_S1");
    let job = task(StepKind::Tree, "9@1", "bash");
    pushed(&[trace(ALIGN, "7.server")]).check_unnamed(job);
}

#[test]
fn jobs_of_batch_are_named_by_tag_trace_or_a_known_process() {
    let container = || task(StepKind::EcsTask, ECS_TASK, ECS_TASK);
    let name = ALIGN.batch_name();
    assert_eq!(name, "RNAALIGN_S1R1");
    let job = |tags: &[(&str, &str)]| batch_job(UUID, &name, tags);
    let tags = [("nf_process", "RNA:ALIGN")];
    let tagged = SweepFacts::default().jobs([job(&tags)]);
    tagged.check(container(), "RNA:ALIGN", StepNameSource::Tag);
    // With Fusion as well, the id of the job is in the trace.
    let traced = pushed(&[trace(ALIGN, UUID)]).jobs([job(&[])]);
    traced.check(container(), "RNA:ALIGN", RECORD);
    let by_hash = pushed(&[trace(ALIGN, "-")]).jobs([job(&[("nf_hash", HASH)])]);
    by_hash.check(container(), "RNA:ALIGN", RECORD);
    // Nothing is known: the job definition only names the image.
    SweepFacts::default()
        .jobs([job(&[])])
        .check_unnamed(container());

    // The name without separators, and with the prefix of Seqera Platform.
    let other = |process: &str, n: u32| {
        let mut other = batch_job(&format!("{UUID}:{n}"), "x", &[("nf_process", process)]);
        other.task_arn = None;
        other
    };
    let prefixed = || batch_job(UUID, &format!("tw-1a2B3c-{name}"), &[]);
    for job in [job(&[]), prefixed()] {
        let known = SweepFacts::default().jobs([job.clone(), other("RNA:ALIGN", 1)]);
        known.check(container(), "RNA:ALIGN", StepNameSource::JobName);
        let both = [job, other("RNA:ALIGN", 1), other("RNAALIGN", 2)];
        SweepFacts::default().jobs(both).check_unnamed(container());
    }
}

#[test]
fn the_child_of_an_array_of_batch_is_found_by_its_own_id() {
    let child = format!("{UUID}:3");
    // All children have the tags of the first one, whose hash is in the trace too.
    let tags = [("nf_hash", HASH), ("nf_tag", "S1.R1")];
    let own = Execution {
        process: "RNA:SORT",
        tag: "S3",
    };
    let files = [
        trace(ALIGN, &format!("{UUID}:0")),
        trace_with_hash(own, &child, "ab/000003"),
    ];
    let known = pushed(&files).jobs([batch_job(&child, "RNAALIGN_1", &tags)]);
    let container = task(StepKind::EcsTask, ECS_TASK, ECS_TASK);
    known.check(container, "RNA:SORT", RECORD);
}

#[test]
fn pods_join_the_trace_by_the_hash_in_their_names() {
    // Labels of pods, whose keys changed with 22.12 and whose values are cut after 63 characters,
    // are not read.
    for pod in [
        format!("lab/nf-{HASH}-1a2b3"),
        format!("lab/nf-{HASH}-1a2b3-x7k2p"),
    ] {
        let task = || task(StepKind::Pod, "7f1c2d3e-0000-4abc-8def-0123456789ab", &pod);
        pushed(&[trace(ALIGN, &pod)]).check(task(), "RNA:ALIGN", RECORD);
        SweepFacts::default().check_unnamed(task());
    }
}

#[test]
fn jobs_of_google_batch_join_nothing() {
    let container = task(StepKind::Container, CONTAINER, &CONTAINER[..12]);
    pushed(&[trace(ALIGN, "nf-abcdef01-1700000000000")]).check_unnamed(container);
}
