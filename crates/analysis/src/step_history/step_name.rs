//! The step of a task: the process or rule of which it is one execution. The best source decides.
//! In order, these are a label, a tag, a rule of the policy and a record of the engine. The name of
//! its Batch job, its job definition and the name that the probe read follow.
//!
//! Some names only number a task, such as a job id or the hash of a work folder. Each task would be
//! a step of its own. The image of its container and the executables that did the work name the
//! step then.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::advice::step::NameForm;
use ebb_model::inventory::batch::job::Job;
use ebb_model::policy::Policy;
use ebb_model::policy::name_rule::Drawn;
use ebb_model::report::workflow_runs::StepNameSource;
use ebb_model::task_record::{RecordSource, TaskRecord, is_shell, names_no_step};
use ebb_telemetry::identity::{is_uuid, split_uuid};
use ebb_telemetry::step::{PlacedStep, StepKind, StepUsage, ToolUsage};

use crate::step_history::container_name::{
    NextflowContainers, image_name, is_generated, is_numbered_pod,
};
use crate::step_history::engine_record::{Recorded, SlurmSteps, grid_form};
use crate::workflow_runs;

/// Tags that name the process of a job, the best first. The documentation of Ebb recommends
/// `nf_process` as a resource label of Nextflow; its Kubernetes executor sets
/// `nextflow.io/processName`.
///
/// Source: `K8sTaskHandler.getDefaultLabels` of Nextflow.
const STEP_TAGS: [&str; 3] = ["ebb:step", "nf_process", "nextflow.io/processName"];

/// Executables with less than this share of the CPU time of a task did not do its work, in parts
/// per million.
const MIN_SHARE_PPM: u128 = 100_000;

/// The most executables in a name.
const MAX_EXECUTABLES: usize = 3;

/// The commands of the rule "commands of batch systems", `probe/src/label_rules/default.toml`.
const BATCH_COMMANDS: [&str; 17] = [
    "sbatch", "srun", "salloc", "squeue", "sacct", "sinfo", "scancel", "scontrol", "sattach",
    "sstat", "qsub", "qstat", "qdel", "qacct", "bsub", "bjobs", "bkill",
];

/// The name of a step with its relation to the name in the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepName {
    pub(crate) text: String,
    pub(crate) form: NameForm,
    pub(crate) source: StepNameSource,
}

impl StepName {
    fn exact(text: impl Into<String>, source: StepNameSource) -> Self {
        Self {
            text: text.into(),
            form: NameForm::Exact,
            source,
        }
    }

    /// Addition to the advice of a finding; empty unless executables name the step.
    pub(crate) fn advice(&self) -> &'static str {
        match self.form {
            NameForm::Executables => " Its executables name this step, because no source names it.",
            NameForm::SlurmStep | NameForm::Exact | NameForm::NextflowJob => "",
        }
    }

    /// Addition to the reason of the confidence in a finding.
    pub(crate) fn note(&self) -> &'static str {
        match self.form {
            NameForm::Executables if self.source == StepNameSource::Image => {
                "; no source names the step, so its image and its executables name it"
            }
            NameForm::Executables => "; no source names the step, so its executables name it",
            NameForm::SlurmStep => {
                "; this is one step of a Slurm job, and the request of the job is for all its steps"
            }
            NameForm::Exact | NameForm::NextflowJob => "",
        }
    }
}

/// Names of processes from the tags of jobs and from traces. The keys are the forms that Nextflow
/// writes into the names of jobs. These forms have no separators, so they are only
/// compared with known names.
#[derive(Debug, Default)]
pub(crate) struct KnownProcesses<'a> {
    by_form: BTreeMap<String, BTreeSet<&'a str>>,
    by_grid_form: BTreeMap<String, BTreeSet<&'a str>>,
}

impl<'a> KnownProcesses<'a> {
    pub(crate) fn from_jobs(
        jobs: impl Iterator<Item = &'a Job>,
        records: &'a [TaskRecord],
    ) -> Self {
        let mut known = Self::default();
        let traced = records
            .iter()
            .filter(|record| record.source == RecordSource::NextflowTrace);
        let traced = traced.map(|record| record.step.as_str());
        let processes: BTreeSet<&str> = jobs.filter_map(tag).chain(traced).collect();
        for process in processes {
            let by_form = known.by_form.entry(batch_form(process)).or_default();
            by_form.insert(process);
            let by_grid = known.by_grid_form.entry(grid_form(process)).or_default();
            by_grid.insert(process);
        }
        known
    }

    /// The process of a job of a grid scheduler, from the part of the job's name before the tag. If
    /// no known process has this form, the name stays as it is. `None` if several have it.
    pub(crate) fn find_grid(&self, name: &'a str) -> Option<(&'a str, NameForm)> {
        match self.by_grid_form.get(name) {
            None => Some((name, NameForm::NextflowJob)),
            Some(names) if names.len() == 1 => Some((names.first()?, NameForm::Exact)),
            Some(_) => None,
        }
    }

    /// The process of a job that Nextflow named: the longest known name that the job's name begins
    /// with. `None` if no process is known, or if several have the same form.
    fn find(&self, job: &str) -> Option<&'a str> {
        let job = without_launch_id(job);
        let shorter = job.rmatch_indices('_').map(|(at, _)| &job[..at]);
        let mut forms = std::iter::once(job).chain(shorter);
        let names = forms.find_map(|form| self.by_form.get(form))?;
        names.first().copied().filter(|_| names.len() == 1)
    }
}

/// A name in the form of the name of a Batch job.
///
/// Source: `AwsBatchTaskHandler.normalizeJobName` of Nextflow: a blank becomes `_`, and all other
/// characters except letters, digits, `_` and `-` are removed.
fn batch_form(name: &str) -> String {
    let blanks = name.chars().map(|c| if c == ' ' { '_' } else { c });
    blanks
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        .collect()
}

/// The name of a job without `tw-ID-`, which Seqera Platform puts before it.
fn without_launch_id(job: &str) -> &str {
    let rest = job.strip_prefix("tw-");
    let rest = rest.and_then(|rest| rest.split_once('-'));
    rest.map_or(job, |(_, name)| name)
}

fn tag(job: &Job) -> Option<&str> {
    let mut tags = STEP_TAGS.iter().filter_map(|key| job.tags.get(*key));
    tags.find(|name| !name.is_empty()).map(String::as_str)
}

/// A task with everything that may name its step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedTask<'a> {
    pub(crate) step: &'a PlacedStep,
    pub(crate) job: Option<&'a Job>,
    pub(crate) recorded: Recorded<'a>,
}

/// Data of all tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameContext<'c, 'a> {
    pub(crate) policy: &'c Policy,
    pub(crate) processes: &'c KnownProcesses<'a>,
    pub(crate) slurm_steps: &'c SlurmSteps<'a>,
    pub(crate) nextflow_containers: &'c NextflowContainers<'a>,
}

/// One way to name a step.
type NameFinder = for<'a> fn(&NamedTask<'a>, &NameContext<'_, 'a>) -> Option<StepName>;

/// The sources of names, the best first. A label, a tag and a rule come first, because a person
/// wrote them for Ebb.
pub(crate) const SOURCES: [(&str, NameFinder); 7] = [
    ("label", by_label),
    ("tag", by_tag),
    ("rule", by_rule),
    ("record", by_record),
    ("job or program", by_program),
    ("image and executables", |task, _| by_image(task.step)),
    ("executables", |task, _| by_executables(&task.step.usage)),
];

/// The name of the step of a task, from the best source that names it.
pub(crate) fn find_step_name<'a>(task: &NamedTask<'a>, context: &NameContext<'_, 'a>) -> StepName {
    let name = SOURCES.iter().find_map(|(_, find)| find(task, context));
    name.unwrap_or_else(|| {
        let own = task.step.usage.name.as_str();
        let id = task.job.map_or(own, name_in_batch);
        StepName::exact(id, StepNameSource::Id)
    })
}

fn by_label<'a>(task: &NamedTask<'a>, context: &NameContext<'_, 'a>) -> Option<StepName> {
    let name = workflow_runs::label_of(task.step, "step")?;
    let suffix =
        slurm_suffix(task, context).filter(|_| context.slurm_steps.shares_label(task.step));
    let name = (name, NameForm::Exact, StepNameSource::Label);
    Some(with_suffix(name, suffix))
}

/// The step of a Slurm job that a task is, if the name of the job is not its name.
fn slurm_suffix<'a>(task: &NamedTask<'a>, context: &NameContext<'_, 'a>) -> Option<&'a str> {
    match task.step.usage.id.kind {
        StepKind::SlurmJob => context.slurm_steps.suffix(task.step),
        _ => None,
    }
}

fn with_suffix(
    (name, form, source): (&str, NameForm, StepNameSource),
    suffix: Option<&str>,
) -> StepName {
    match suffix {
        None => StepName {
            text: name.to_owned(),
            form,
            source,
        },
        Some(suffix) => StepName {
            text: format!("{name}.{suffix}"),
            form: NameForm::SlurmStep,
            source,
        },
    }
}

fn by_tag(task: &NamedTask<'_>, _: &NameContext<'_, '_>) -> Option<StepName> {
    Some(StepName::exact(tag(task.job?)?, StepNameSource::Tag))
}

fn by_rule(task: &NamedTask<'_>, context: &NameContext<'_, '_>) -> Option<StepName> {
    let name = workflow_runs::draw(Drawn::Step, task, context.policy)?;
    Some(StepName::exact(name, StepNameSource::Rule))
}

fn by_program(task: &NamedTask<'_>, context: &NameContext<'_, '_>) -> Option<StepName> {
    let usage = &task.step.usage;
    match task.job {
        Some(job) => by_job(job, context.processes),
        None => {
            (!is_number_only(usage)).then(|| StepName::exact(&usage.name, StepNameSource::Probe))
        }
    }
}

/// The name from the records of the engine.
fn by_record<'a>(task: &NamedTask<'a>, context: &NameContext<'_, 'a>) -> Option<StepName> {
    let (name, form) = task.recorded.names()?.step?;
    let is_in_container = context.nextflow_containers.has_work_of(task.step);
    if names_no_step(name) || is_in_container {
        return None;
    }
    let name = (name, form, StepNameSource::Record);
    Some(with_suffix(name, slurm_suffix(task, context)))
}

/// The name from a Batch job; `None` if the job is one of Nextflow whose process is unknown.
fn by_job(job: &Job, known: &KnownProcesses<'_>) -> Option<StepName> {
    if let Some(rule) = snakemake_rule(&job.name) {
        return Some(StepName::exact(rule, StepNameSource::JobName));
    }
    match &job.definition {
        // Nextflow registers one definition for each container image, not for each process.
        Some(definition) if definition.starts_with("nf-") => {
            let process = known.find(&job.name)?;
            Some(StepName::exact(process, StepNameSource::JobName))
        }
        Some(definition) => Some(StepName::exact(definition, StepNameSource::JobDefinition)),
        None => Some(StepName::exact(&job.name, StepNameSource::JobName)),
    }
}

/// The name of its job definition, otherwise its own.
fn name_in_batch(job: &Job) -> &str {
    job.definition.as_deref().unwrap_or(&job.name)
}

/// The rule in `snakejob-RULE-UUID`.
///
/// Source: `batch_job_builder.py` of snakemake-executor-plugin-aws-batch.
fn snakemake_rule(job: &str) -> Option<&str> {
    let (rule, _) = split_uuid(job.strip_prefix("snakejob-")?)?;
    rule.strip_suffix('-').filter(|rule| !rule.is_empty())
}

/// Whether the name of a task only numbers it, or is that of a shell.
fn is_number_only(usage: &StepUsage) -> bool {
    let name = usage.name.as_str();
    let is_hash = |text: &str| text.len() >= 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
    match usage.id.kind {
        // A job id, with its step.
        StepKind::SlurmJob => {
            name == usage.id.key || name.starts_with(|c: char| c.is_ascii_digit())
        }
        StepKind::NextflowTask => name == usage.id.key || name.contains('/'),
        StepKind::Container => name == usage.id.key || is_hash(name) || is_generated(name),
        // Nextflow registers one task definition for each container image.
        StepKind::EcsTask => {
            name == usage.id.key || is_hash(name) || name.starts_with("nf-") || is_uuid(name)
        }
        StepKind::Pod => name == usage.id.key || is_hash(name) || is_numbered_pod(name),
        _ => is_shell(name) || name.starts_with("memfd:"),
    }
}

/// Whether a program is runc before it starts the program of a container.
///
/// Source: runc, `libcontainer/nsenter/nsexec.c`; it starts itself as `/proc/self/exe`.
fn is_runtime(program: &str) -> bool {
    program == "exe" || program.starts_with("runc:[")
}

/// Whether a program submits jobs to a batch system or waits for them. The work is in the jobs.
fn is_batch_command(program: &str) -> bool {
    BATCH_COMMANDS.contains(&program)
}

/// The image of a container with the executables that did the work: `rnaseq/bwa+samtools`. One
/// image can be used by several processes, so the image alone would combine them. If both have the
/// same name, or if no executable is known, the image alone names the step.
fn by_image(task: &PlacedStep) -> Option<StepName> {
    let image = image_name(task)?;
    let executables = by_executables(&task.usage).map(|name| name.text);
    let text = match executables {
        Some(executables) if executables != image => format!("{image}/{executables}"),
        _ => image.to_owned(),
    };
    Some(StepName {
        text,
        form: NameForm::Executables,
        source: StepNameSource::Image,
    })
}

/// The executables that did the work, in alphabetical order: `bwa+samtools`. `None` if none is
/// known.
fn by_executables(usage: &StepUsage) -> Option<StepName> {
    let is_work = |tool: &&ToolUsage| {
        !is_shell(&tool.name) && !is_runtime(&tool.name) && !is_batch_command(&tool.name)
    };
    let others = usage.tools.iter().filter(is_work);
    let all: u128 = others.clone().map(|tool| u128::from(tool.cpu.0)).sum();
    let mut most: Vec<_> = others
        .filter(|tool| u128::from(tool.cpu.0) * 1_000_000 >= all * MIN_SHARE_PPM)
        .collect();
    most.sort_by(|a, b| (b.cpu, &a.name).cmp(&(a.cpu, &b.name)));
    let names: BTreeSet<&str> = most
        .into_iter()
        .take(MAX_EXECUTABLES)
        .map(|tool| tool.name.as_str())
        .collect();
    let text = names.into_iter().collect::<Vec<_>>().join("+");
    (!text.is_empty()).then_some(StepName {
        text,
        form: NameForm::Executables,
        source: StepNameSource::Executables,
    })
}

#[cfg(test)]
mod tests {
    use ebb_model::inventory::batch::job::{JobId, JobStatus};
    use ebb_model::task_record::TaskKey;
    use ebb_model::task_record::testing::slurm_record;
    use ebb_telemetry::step::SchedulerLabels;
    use ebb_telemetry::testing::placed_step;
    use ebb_telemetry::units::CpuTime;

    use super::*;
    use crate::step_history::container_name::tests::container;
    use crate::step_history::engine_record::RecordIndex;
    use crate::testing::region;

    fn job(name: &str, definition: Option<&str>, tags: &[(&str, &str)]) -> Job {
        let id = JobId::new("j").expect("an id");
        let mut job = Job::new(id, name, "q", region(), JobStatus::Running);
        job.definition = definition.map(str::to_owned);
        let tags = tags
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        job.tags = tags.collect();
        job
    }

    fn task(kind: StepKind, name: &str, tools: &[(&str, u64)]) -> PlacedStep {
        let mut step = placed_step(1, 0);
        step.usage.id.kind = kind;
        step.usage.id.key = name.to_owned();
        step.usage.name = name.to_owned();
        let tools = tools.iter().map(|(name, seconds)| ToolUsage {
            name: (*name).to_owned(),
            processes: 1,
            cpu: CpuTime::from_millis(seconds * 1_000),
            peak_memory: None,
            disk: None,
            events: None,
        });
        step.usage.tools = tools.collect();
        step
    }

    fn name(step: &PlacedStep, job: Option<&Job>, others: &[Job]) -> (String, NameForm) {
        let known = KnownProcesses::from_jobs(others.iter().chain(job), &[]);
        let name = find_step_name(
            &NamedTask {
                step,
                job,
                recorded: Recorded::Nothing,
            },
            &NameContext {
                policy: &Policy::default(),
                processes: &known,
                slurm_steps: &SlurmSteps::default(),
                nextflow_containers: &NextflowContainers::default(),
            },
        );
        (name.text, name.form)
    }

    #[test]
    fn a_record_names_a_step_unless_a_person_does() {
        let rule = "[[names]]\nfrom = \"job\"\nform = \"{step}_{sample}\"\n";
        let policy = Policy::parse(rule).expect("a policy");
        let records = [
            slurm_record("1", "align"),
            slurm_record("2", "bash"),
            slurm_record("3", "sort_S1"),
        ];
        let check = |key: &str, label: Option<&str>, expect: (&str, StepNameSource)| {
            let mut step = task(StepKind::SlurmJob, key, &[("bwa", 9)]);
            step.usage.cpu = CpuTime::from_millis(9_000);
            let labels = label.map(|label| [("step".to_owned(), label.to_owned())].into());
            step.usage.detail.scheduler_labels = labels.map(|labels| {
                Box::new(SchedulerLabels {
                    trace_id: None,
                    labels,
                })
            });
            let known = KnownProcesses::default();
            let index = RecordIndex::from_records(&records);
            let task = NamedTask {
                step: &step,
                job: None,
                recorded: index.find((&step, None), &known),
            };
            let context = NameContext {
                policy: &policy,
                processes: &known,
                slurm_steps: &SlurmSteps::from_tasks([&step].into_iter()),
                nextflow_containers: &NextflowContainers::default(),
            };
            let name = find_step_name(&task, &context);
            assert_eq!((name.text.as_str(), name.source), expect, "{key}");
        };
        check("1.batch", None, ("align", StepNameSource::Record));
        check("1.batch", Some("mine"), ("mine", StepNameSource::Label));
        check("2.batch", None, ("bwa", StepNameSource::Executables));
        check("3.batch", None, ("sort", StepNameSource::Rule));
        check("4.batch", None, ("bwa", StepNameSource::Executables));
    }

    #[test]
    fn a_job_is_named_by_tags_its_own_name_or_its_definition() {
        let check = |job: Job, expect: &str, form: NameForm| {
            let step = task(
                StepKind::EcsTask,
                "0123456789ab",
                &[("bash", 1), ("bwa", 9)],
            );
            assert_eq!(
                name(&step, Some(&job), &[]),
                (expect.to_owned(), form),
                "{job:?}"
            );
        };
        let image = Some("nf-quay-io-biocontainers-bwa");
        check(
            job("ALIGN_S1", image, &[("nf_process", "A:ALIGN")]),
            "A:ALIGN",
            NameForm::Exact,
        );
        // All processes of one image have the same definition.
        check(job("ALIGN_S1", image, &[]), "bwa", NameForm::Executables);
        check(job("align-7", Some("align"), &[]), "align", NameForm::Exact);
        check(job("align-7", None, &[]), "align-7", NameForm::Exact);
        let snakemake = "snakejob-map_reads-5f3c2a10-0001-4d2e-9b6a-3e1f00000017";
        check(
            job(snakemake, Some(snakemake), &[]),
            "map_reads",
            NameForm::Exact,
        );
        check(job("snakejob-x", Some("d"), &[]), "d", NameForm::Exact);
    }

    #[test]
    fn a_name_without_separators_is_compared_with_known_names_only() {
        let image = Some("nf-image");
        let known = [
            ("A:ALIGN", "1"),
            ("A:ALIGN_SORT", "2"),
            ("B:C", "3"),
            ("BC", "4"),
        ];
        let others = known.map(|(process, n)| job(n, image, &[("nf_process", process)]));
        let check = |name_of_job: &str, expect: &str| {
            let step = task(StepKind::EcsTask, "0123456789ab", &[("bwa", 9)]);
            let job = job(name_of_job, image, &[]);
            assert_eq!(name(&step, Some(&job), &others).0, expect, "{name_of_job}");
        };
        check("AALIGN_S1R1", "A:ALIGN");
        check("tw-3kQ-AALIGN_S1R1", "A:ALIGN");
        check("AALIGN_SORT_S1", "A:ALIGN_SORT");
        check("AALIGN", "A:ALIGN");
        // Two processes have this form, and none has the other.
        check("BC_S1", "bwa");
        check("AALIGNER_S1", "bwa");
    }

    #[test]
    fn executables_name_a_task_that_has_only_a_number() {
        let tools = [
            ("bash", 50),
            ("bwa", 60),
            ("samtools", 9),
            ("gzip", 1),
            ("sort", 30),
        ];
        let check = |kind: StepKind, own: &str, expect: &str| {
            let mut step = task(kind, own, &tools);
            step.usage.id.key = "a key".to_owned();
            assert_eq!(name(&step, None, &[]).0, expect, "{kind:?} {own}");
        };
        let work = "bwa+sort";
        check(StepKind::SnakemakeJob, "bash", work);
        check(StepKind::SnakemakeJob, "memfd:script", work);
        check(StepKind::SlurmJob, "1.batch", work);
        check(StepKind::NextflowTask, "ab/cdef0123", work);
        check(StepKind::Container, "0123456789ab", work);
        check(StepKind::Container, "web", "web");
        let pod = "lab/nf-abcdef0123456789abcdef0123456789-1a2b3";
        check(StepKind::Pod, pod, work);
        check(StepKind::Pod, "lab/nf-core-web", "lab/nf-core-web");
        check(StepKind::Tree, "bash", work);
        check(StepKind::Tree, "train.py", "train.py");
        let only_shell = task(StepKind::Tree, "bash", &[("bash", 3)]);
        assert_eq!(
            name(&only_shell, None, &[]),
            ("bash".to_owned(), NameForm::Exact)
        );
    }

    #[test]
    fn the_commands_that_submit_jobs_and_wait_for_them_do_not_do_the_work() {
        let driver = |tools| name(&task(StepKind::Tree, "bash", tools), None, &[]).0;
        assert_eq!(driver(&[("squeue", 60), ("fastqc", 9)]), "fastqc");
        assert_eq!(driver(&[("squeue", 60), ("sbatch", 9)]), "bash");

        let rules = include_str!("../../../../probe/src/label_rules/default.toml");
        let (_, rule) = rules
            .split_once("name = \"commands of batch systems\"")
            .expect("the rule");
        let (_, list) = rule.split_once('[').expect("a list");
        let (list, _) = list.split_once(']').expect("a list");
        let commands = list.split(',').map(|one| one.trim().trim_matches('"'));
        let commands: Vec<_> = commands.filter(|one| !one.is_empty()).collect();
        assert_eq!(commands, BATCH_COMMANDS);
    }

    #[test]
    fn a_container_has_the_name_that_a_person_gave_or_that_of_its_image_and_executables() {
        let check = |own: &str, image: Option<&str>, tools: &[(&str, u64)], expect: &str| {
            let labels = image.map_or_else(Vec::new, |image| vec![("container.image", image)]);
            let mut step = container(own, &labels);
            step.usage.tools = task(StepKind::Container, own, tools).usage.tools;
            assert_eq!(name(&step, None, &[]).0, expect, "{own} {image:?}");
        };
        let bwa = Some("quay.io/biocontainers/bwa:0.7.17");
        let work = [
            ("exe", 9),
            ("runc:[0:PARENT]", 9),
            ("bash", 1),
            ("bwa", 9),
            ("samtools", 9),
        ];
        check("align", bwa, &work, "align");
        check("hopeful_bose", bwa, &work, "bwa/bwa+samtools");
        check("hopeful_bose", bwa, &[("bwa", 9)], "bwa");
        check("hopeful_bose", bwa, &[("bash", 9)], "bwa");
        check("0123456789ab", bwa, &[("bwa", 9)], "bwa");
        check(
            "nxf-a1B2c3D4e5F6a1B2c3D4e5F6",
            Some("sha256:0123"),
            &work,
            "bwa+samtools",
        );
        check("hopeful_bose", None, &work, "bwa+samtools");
        check("hopeful_bose", None, &[("bash", 9)], "hopeful_bose");
    }

    /// The client of the container runtime does no work of the process.
    #[test]
    fn a_container_of_nextflow_has_the_name_in_the_trace() {
        let hash = "ab/cdef0123456789abcdef0123456789";
        let mut work = container("hopeful_bose", &[("nextflow.hash", hash)]);
        work.usage.tools = task(StepKind::Container, "", &[("bwa", 9)]).usage.tools;
        let client = task(StepKind::NextflowTask, hash, &[("bash", 1), ("docker", 1)]);
        let pod_name = format!("lab/nf-{}-x7k2p", hash.replace('/', ""));
        let mut pod = task(StepKind::Pod, &pod_name, &[("bwa", 9)]);
        pod.usage.id.key = "a uid".to_owned();
        let mut record = slurm_record("1", "RNA:ALIGN");
        record.source = RecordSource::NextflowTrace;
        record.keys = vec![TaskKey::nextflow_task("ab/cdef01").expect("a hash")];
        let records = [record];
        let check = |step: &PlacedStep, tasks: &[&PlacedStep], expect: &str| {
            let known = KnownProcesses::default();
            let index = RecordIndex::from_records(&records);
            let named = NamedTask {
                step,
                job: None,
                recorded: index.find((step, None), &known),
            };
            let context = NameContext {
                policy: &Policy::default(),
                processes: &known,
                slurm_steps: &SlurmSteps::default(),
                nextflow_containers: &NextflowContainers::from_tasks(tasks.iter().copied()),
            };
            assert_eq!(find_step_name(&named, &context).text, expect, "{step:?}");
        };
        let all = [&work, &client];
        check(&work, &all, "RNA:ALIGN");
        check(&client, &all, "docker");
        check(&client, &[&client], "RNA:ALIGN");
        check(&pod, &all, "RNA:ALIGN");
        assert_eq!(name(&pod, None, &[]).0, "bwa");
    }
}
