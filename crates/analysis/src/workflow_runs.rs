//! Assigns tasks to runs, pipelines and samples. A task without an assignment belongs to the run
//! `unassigned`. The module never guesses, and reports the share of assigned tasks.

pub mod batch_family;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use ebb_model::policy::Policy;
use ebb_model::policy::name_rule::{Drawn, NameSource};
use ebb_model::report::workflow_runs::{
    JoinedBy, Runs, TaskLabels, TaskRuntime, UNASSIGNED, WorkflowRun,
};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::safe_text::{counted, one_line};
use ebb_telemetry::step::container_labels::FROM_PROBE;
use ebb_telemetry::step::resource_usage::SchedulerLabels;
use ebb_telemetry::step::{PlacedStep, StepEnd};
use ebb_telemetry::tags::{PIPELINE_TAG, RUN_TAG};
use ebb_telemetry::units::CpuTime;

use crate::facts::Facts;
use crate::in_turns::first_in_turns;
use crate::step_history::by_step::Profiles;
use crate::step_history::engine_record::Recorded;
use crate::step_history::nextflow_task;
use crate::step_history::observed_task::ObservedTask;
use crate::step_history::step_name::NamedTask;
use crate::workflow_runs::batch_family::Families;

/// Limit on reported runs; the newest are reported, in turn those of each node.
pub const MAX_RUNS: usize = 200;

/// Limit on reported tasks with labels; the newest are reported.
pub const MAX_TASK_LABELS: usize = 200;

/// Limit on named samples of a run.
const MAX_SAMPLES: usize = 20;

/// The pipeline runs of all observed tasks.
pub(crate) fn find_workflow_runs(facts: &Facts<'_>, profiles: &Profiles<'_>) -> Runs {
    let families = Families::from_jobs(facts.inventory.batch.known_jobs());
    let mut report = Runs::default();
    let mut runs: BTreeMap<Option<(JoinedBy, String)>, RunSum> = BTreeMap::new();
    for task in profiles
        .by_step
        .values()
        .flat_map(|profiled| &profiled.runs)
    {
        let run = run_of(task, facts.policy, &families);
        report.steps += 1;
        *report.named.entry(task.name.source).or_default() += 1;
        let runtime = TaskRuntime::from_kind(task.step.usage.id.kind, task.job);
        let of_runtime = report.named_by_runtime.entry(runtime).or_default();
        of_runtime.tasks += 1;
        of_runtime.named += usize::from(task.name.source.is_given());
        if let Some((by, _)) = &run {
            *report.joined.entry(*by).or_default() += 1;
        }
        let sample = sample_of(task, facts.policy);
        if let Some(scheduler_labels) = labels_from_schedulers(task.step) {
            report.task_labels.push(TaskLabels {
                node: task.step.node.clone(),
                step: task.name().to_owned(),
                key: task.step.usage.id.key.clone(),
                at: task.step.observed_at,
                run: (run.as_ref()).map_or(UNASSIGNED.to_owned(), |(_, key)| key.clone()),
                sample: sample.map(str::to_owned),
                scheduler_labels,
            });
        }
        runs.entry(run)
            .or_insert_with(|| RunSum::new(task))
            .add(task, sample, facts.policy);
    }
    let newest = |step: &TaskLabels| (std::cmp::Reverse(step.at), step.key.clone());
    report.task_labels.sort_by_cached_key(newest);
    report.task_labels_left_out = report.task_labels.len().saturating_sub(MAX_TASK_LABELS);
    report.task_labels.truncate(MAX_TASK_LABELS);
    let unassigned = runs.remove(&None).map(|sum| sum.into_run(None));
    let room = MAX_RUNS - usize::from(unassigned.is_some());
    report.left_out = runs.len().saturating_sub(room);
    report.runs = newest_in_turn(runs, room);
    report.runs.extend(unassigned);
    report
}

/// The newest runs, in turn those of each node, so that a node with many runs hides no other. A run of
/// several nodes comes in the first turn.
fn newest_in_turn(
    runs: BTreeMap<Option<(JoinedBy, String)>, RunSum>,
    room: usize,
) -> Vec<WorkflowRun> {
    let runs = runs.into_iter();
    let mut runs: Vec<(Option<NodeId>, WorkflowRun)> = runs
        .map(|(run, sum)| (sum.only_node.clone(), sum.into_run(run)))
        .collect();
    runs.sort_by(|(_, a), (_, b)| newest_first(a, b));
    let runs = first_in_turns(runs, 1, room);
    let mut runs: Vec<WorkflowRun> = runs.into_iter().map(|(_, run)| run).collect();
    runs.sort_by(newest_first);
    runs
}

fn newest_first(a: &WorkflowRun, b: &WorkflowRun) -> Ordering {
    (b.to, &a.run).cmp(&(a.to, &b.run))
}

/// A gap for tasks whose records name different steps.
pub(crate) fn disagreements(profiles: &Profiles<'_>) -> Option<Gap> {
    let runs = profiles.by_step.values().flat_map(|one| &one.runs);
    let mut keys: Vec<&str> = runs
        .filter(|task| task.recorded == Recorded::Disagreement)
        .map(|task| task.step.usage.id.key.as_str())
        .collect();
    keys.sort_unstable();
    let first = keys.first()?;
    Some(Gap::new(
        "task names",
        format!(
            "{} with records of different steps, such as {}; these records are not used",
            counted(keys.len(), "task", "tasks"),
            one_line(first)
        ),
    ))
}

/// Sums over the tasks of a run.
struct RunSum {
    run: WorkflowRun,
    /// `None` with tasks on several nodes.
    only_node: Option<NodeId>,
    pipelines: BTreeSet<String>,
    samples: BTreeSet<String>,
}

impl RunSum {
    fn new(first: &ObservedTask<'_>) -> Self {
        Self {
            run: WorkflowRun {
                run: String::new(),
                by: None,
                pipeline: None,
                steps: 0,
                running: 0,
                failed: 0,
                cpu: CpuTime(0),
                from: first.step.started_at,
                to: first.step.observed_at,
                samples: Vec::new(),
                samples_left_out: 0,
                origin: first.step.origin,
                cost_breakdown: None,
            },
            only_node: Some(first.step.node.clone()),
            pipelines: BTreeSet::new(),
            samples: BTreeSet::new(),
        }
    }

    fn add(&mut self, task: &ObservedTask<'_>, sample: Option<&str>, policy: &Policy) {
        let (run, step) = (&mut self.run, task.step);
        self.only_node.take_if(|node| *node != step.node);
        run.steps += 1;
        run.running += usize::from(step.usage.end == StepEnd::Running);
        run.failed += usize::from(step.usage.end.is_bad());
        run.cpu = run.cpu.saturating_add(step.usage.cpu);
        run.from = run.from.min(step.started_at);
        run.to = run.to.max(step.observed_at);
        run.origin = run.origin.max(step.origin);
        self.pipelines.extend(pipeline(task, policy));
        self.samples.extend(sample.map(str::to_owned));
    }

    fn into_run(self, run: Option<(JoinedBy, String)>) -> WorkflowRun {
        let samples = self.samples.len();
        let mut pipelines = self.pipelines.into_iter();
        let one = pipelines.next().filter(|_| run.is_some());
        let (by, run) = run.unzip();
        WorkflowRun {
            run: run.unwrap_or(UNASSIGNED.to_owned()),
            by,
            pipeline: one.filter(|_| pipelines.next().is_none()),
            samples: self.samples.into_iter().take(MAX_SAMPLES).collect(),
            samples_left_out: samples.saturating_sub(MAX_SAMPLES),
            ..self.run
        }
    }
}

/// The run of a task, from the most reliable source.
pub(crate) fn run_of(
    task: &ObservedTask<'_>,
    policy: &Policy,
    families: &Families<'_>,
) -> Option<(JoinedBy, String)> {
    let labelled = || Some((JoinedBy::Label, label(task, "run")?.to_owned()));
    let tagged = || Some((JoinedBy::Tag, tagged(task)?));
    let recorded = || Some((JoinedBy::Record, task.recorded.names()?.run?.to_owned()));
    let launched = || {
        let run = task.step.usage.detail.run.as_ref()?;
        // Two nodes, or two boots of one node, may have launchers with the same number. This prefix
        // of the random boot id distinguishes the boots of one node.
        let (node, boot) = (&task.step.node, &task.step.boot);
        let key = format!("{} {node}/{boot:.8}/{}", run.launcher, run.key);
        Some((JoinedBy::Launcher, key))
    };
    let of_family = || families.run(&task.job?.id);
    let named = || {
        let run = by_rule(Drawn::Run, task, policy)?;
        Some((JoinedBy::Name, run.to_owned()))
    };
    labelled()
        .or_else(tagged)
        .or_else(recorded)
        .or_else(launched)
        .or_else(of_family)
        .or_else(named)
}

/// The sample of a task, from a label, a rule of the policy, a tag of Nextflow or a record of the
/// engine.
pub(crate) fn sample_of<'a>(task: &ObservedTask<'a>, policy: &Policy) -> Option<&'a str> {
    let tagged = || nextflow_task::sample_of(task.job?);
    let recorded = || task.recorded.names()?.sample;
    drawn(Drawn::Sample, "sample", task, policy)
        .or_else(tagged)
        .or_else(recorded)
}

/// The run from the tag of Ebb, or from the tags that Nextflow sets.
///
/// Source: `K8sTaskHandler.getDefaultLabels` of Nextflow. Users also set these names on Batch jobs
/// by `resourceLabels`.
fn tagged(task: &ObservedTask<'_>) -> Option<String> {
    let tags = &task.job?.tags;
    if let Some(run) = tags.get(RUN_TAG) {
        return Some(run.clone());
    }
    let session = tags.get("nextflow.io/sessionId");
    // A resumed run has the session of the previous run and a new name.
    match (tags.get("nextflow.io/runName"), session) {
        (Some(name), Some(session)) => Some(format!("{name} {session}")),
        (None, Some(session)) => Some(session.clone()),
        // Names alone repeat between projects.
        (_, None) => None,
    }
}

/// The pipeline of a task; `None` if no source names one.
pub(crate) fn pipeline(task: &ObservedTask<'_>, policy: &Policy) -> Option<String> {
    if let Some(name) = label(task, "pipeline") {
        return Some(name.to_owned());
    }
    let of_job = task.job.and_then(|job| job.tags.get(PIPELINE_TAG));
    let tagged = of_job.or_else(|| task.instance.tags.get(PIPELINE_TAG));
    let run = task.step.usage.detail.run.as_ref();
    let recorded = || Some(task.recorded.names()?.pipeline?.to_owned());
    let launched = || run.and_then(|run| run.pipeline.clone());
    let named = || by_rule(Drawn::Pipeline, task, policy).map(str::to_owned);
    tagged
        .cloned()
        .or_else(recorded)
        .or_else(launched)
        .or_else(named)
}

fn label<'a>(task: &ObservedTask<'a>, key: &str) -> Option<&'a str> {
    label_of(task.step, key)
}

/// The labels of a task without those that the probe sends about its container and those that only
/// name it. `None` if there are no others.
fn labels_from_schedulers(step: &PlacedStep) -> Option<SchedulerLabels> {
    let mut labels = SchedulerLabels::clone(step.usage.detail.scheduler_labels.as_ref()?);
    labels
        .labels
        .retain(|key, _| !FROM_PROBE.contains(&key.as_str()) && !matches!(&**key, "step" | "task"));
    (labels != SchedulerLabels::default()).then_some(labels)
}

/// The value of a label that the scheduler sent about a task.
pub(crate) fn label_of<'a>(step: &'a PlacedStep, key: &str) -> Option<&'a str> {
    step.usage.label(key)
}

/// The value of a label, otherwise of a rule.
fn drawn<'a>(
    wanted: Drawn,
    key: &str,
    task: &ObservedTask<'a>,
    policy: &Policy,
) -> Option<&'a str> {
    label(task, key).or_else(|| by_rule(wanted, task, policy))
}

fn by_rule<'a>(wanted: Drawn, task: &ObservedTask<'a>, policy: &Policy) -> Option<&'a str> {
    draw(wanted, &task.task(), policy)
}

/// The value that the rules of the policy derive from the names of a task and its job.
pub(crate) fn draw<'a>(wanted: Drawn, task: &NamedTask<'a>, policy: &Policy) -> Option<&'a str> {
    let (step, job) = (task.step, task.job);
    let recorded = || task.recorded.names()?.name;
    policy.names.iter().find_map(|rule| {
        let name = match &rule.from {
            NameSource::Job => job.map(|job| job.name.as_str()).or_else(recorded),
            NameSource::Step => Some(step.usage.name.as_str()),
            NameSource::Tag(key) => job?.tags.get(key).map(String::as_str),
            NameSource::Label(key) => label_of(step, key),
        };
        rule.form.draw(wanted, name?)
    })
}
