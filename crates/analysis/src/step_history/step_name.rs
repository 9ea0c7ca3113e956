//! The step of a task: the process or rule of which it is one execution. The best source decides:
//! a label, a tag, a rule of the policy, the name of its Batch job, its job definition, or the name
//! that the probe read.
//!
//! Some names only number a task, such as a job id or the hash of a work folder. Each task would be
//! a step of its own. The executables that did the work name the step then.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::advice::step::NameForm;
use ebb_model::inventory::batch::job::Job;
use ebb_model::policy::Policy;
use ebb_model::policy::name_rule::Drawn;
use ebb_telemetry::identity::split_uuid;
use ebb_telemetry::step::{PlacedStep, StepKind, StepUsage};

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

/// Programs that start others. They name a step only if nothing else ran.
const SHELLS: [&str; 8] = [
    "bash", "sh", "dash", "zsh", "ksh", "fish", "busybox", "tini",
];

/// The name of a step with its relation to the name in the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepName {
    pub(crate) text: String,
    pub(crate) form: NameForm,
}

impl StepName {
    fn exact(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            form: NameForm::Exact,
        }
    }

    /// Addition to the reason of the confidence in a finding.
    pub(crate) fn note(&self) -> &'static str {
        match self.form {
            NameForm::Executables => "; no source names the step, so its executables name it",
            NameForm::Exact | NameForm::NextflowJob => "",
        }
    }
}

/// Names of processes that the tags of jobs contain, by the form that Nextflow gives them in the
/// name of a Batch job. That form has no separators, so it is only compared with known names.
#[derive(Debug, Default)]
pub(crate) struct KnownProcesses<'a> {
    by_form: BTreeMap<String, BTreeSet<&'a str>>,
}

impl<'a> KnownProcesses<'a> {
    pub(crate) fn of(jobs: impl Iterator<Item = &'a Job>) -> Self {
        let mut by_form: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for process in jobs.filter_map(tag) {
            by_form
                .entry(batch_form(process))
                .or_default()
                .insert(process);
        }
        Self { by_form }
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

/// The name of the step of a task.
pub(crate) fn find_step_name(
    step: &PlacedStep,
    job: Option<&Job>,
    (policy, known): (&Policy, &KnownProcesses<'_>),
) -> StepName {
    let labelled = workflow_runs::label_of(step, "step").or_else(|| tag(job?));
    let named = labelled.or_else(|| workflow_runs::draw(Drawn::Step, (step, job), policy));
    if let Some(name) = named {
        return StepName::exact(name);
    }
    let usage = &step.usage;
    let by_source = match job {
        Some(job) => by_job(job, known),
        None => (!is_number_only(usage)).then(|| StepName::exact(&usage.name)),
    };
    by_source
        .or_else(|| by_executables(usage))
        .unwrap_or_else(|| StepName::exact(job.map_or(usage.name.as_str(), name_in_batch)))
}

/// The name from a Batch job; `None` if the job is one of Nextflow whose process is unknown.
fn by_job(job: &Job, known: &KnownProcesses<'_>) -> Option<StepName> {
    if let Some(rule) = snakemake_rule(&job.name) {
        return Some(StepName::exact(rule));
    }
    match &job.definition {
        // Nextflow registers one definition for each container image, not for each process.
        Some(definition) if definition.starts_with("nf-") => {
            known.find(&job.name).map(StepName::exact)
        }
        _ => Some(StepName::exact(name_in_batch(job))),
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
        StepKind::Container | StepKind::EcsTask | StepKind::Pod => {
            name == usage.id.key || is_hash(name)
        }
        _ => is_shell(name) || name.starts_with("memfd:"),
    }
}

fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

/// The executables that did the work, in alphabetical order: `bwa+samtools`. `None` if none is
/// known.
fn by_executables(usage: &StepUsage) -> Option<StepName> {
    let others = usage.tools.iter().filter(|tool| !is_shell(&tool.name));
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
    })
}

#[cfg(test)]
mod tests {
    use ebb_model::inventory::batch::job::{JobId, JobStatus};
    use ebb_telemetry::step::ToolUsage;
    use ebb_telemetry::testing::placed_step;
    use ebb_telemetry::units::CpuTime;

    use super::*;
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
        });
        step.usage.tools = tools.collect();
        step
    }

    fn name(step: &PlacedStep, job: Option<&Job>, others: &[Job]) -> (String, NameForm) {
        let known = KnownProcesses::of(others.iter().chain(job));
        let name = find_step_name(step, job, (&Policy::default(), &known));
        (name.text, name.form)
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
        check(StepKind::Tree, "bash", work);
        check(StepKind::Tree, "train.py", "train.py");
        let only_shell = task(StepKind::Tree, "bash", &[("bash", 3)]);
        assert_eq!(
            name(&only_shell, None, &[]),
            ("bash".to_owned(), NameForm::Exact)
        );
    }
}
