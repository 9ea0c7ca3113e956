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
    let families = Families::of(facts.inventory.batch.jobs.values());
    let mut told = Runs::default();
    let mut runs: BTreeMap<Option<(JoinedBy, String)>, RunSum> = BTreeMap::new();
    for seen in profiles
        .by_step
        .values()
        .flat_map(|profiled| &profiled.runs)
    {
        let run = run_of(seen, facts.policy, &families);
        told.steps += 1;
        *told.named.entry(seen.name.source).or_default() += 1;
        let runtime = TaskRuntime::of(seen.step.usage.id.kind, seen.job);
        let of_runtime = told.named_by_runtime.entry(runtime).or_default();
        of_runtime.tasks += 1;
        of_runtime.named += usize::from(seen.name.source.is_given());
        if let Some((by, _)) = &run {
            *told.joined.entry(*by).or_default() += 1;
        }
        let sample = sample_of(seen, facts.policy);
        if let Some(scheduler_labels) = labels_from_schedulers(seen.step) {
            told.task_labels.push(TaskLabels {
                node: seen.step.node.clone(),
                step: seen.name().to_owned(),
                key: seen.step.usage.id.key.clone(),
                at: seen.step.observed_at,
                run: (run.as_ref()).map_or(UNASSIGNED.to_owned(), |(_, key)| key.clone()),
                sample: sample.map(str::to_owned),
                scheduler_labels,
            });
        }
        runs.entry(run)
            .or_insert_with(|| RunSum::new(seen))
            .add(seen, sample, facts.policy);
    }
    let newest = |step: &TaskLabels| (std::cmp::Reverse(step.at), step.key.clone());
    told.task_labels.sort_by_cached_key(newest);
    told.task_labels_left_out = told.task_labels.len().saturating_sub(MAX_TASK_LABELS);
    told.task_labels.truncate(MAX_TASK_LABELS);
    let unassigned = runs.remove(&None).map(|sum| sum.into_run(None));
    let room = MAX_RUNS - usize::from(unassigned.is_some());
    told.left_out = runs.len().saturating_sub(room);
    told.runs = newest_in_turn(runs, room);
    told.runs.extend(unassigned);
    told
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
        .filter(|seen| seen.recorded == Recorded::Disagreement)
        .map(|seen| seen.step.usage.id.key.as_str())
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
    told: WorkflowRun,
    /// `None` with tasks on several nodes.
    only_node: Option<NodeId>,
    pipelines: BTreeSet<String>,
    samples: BTreeSet<String>,
}

impl RunSum {
    fn new(first: &ObservedTask<'_>) -> Self {
        Self {
            told: WorkflowRun {
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

    fn add(&mut self, seen: &ObservedTask<'_>, sample: Option<&str>, policy: &Policy) {
        let (told, step) = (&mut self.told, seen.step);
        self.only_node.take_if(|node| *node != step.node);
        told.steps += 1;
        told.running += usize::from(step.usage.end == StepEnd::Running);
        told.failed += usize::from(step.usage.end.is_bad());
        told.cpu = told.cpu.saturating_add(step.usage.cpu);
        told.from = told.from.min(step.started_at);
        told.to = told.to.max(step.observed_at);
        told.origin = told.origin.max(step.origin);
        self.pipelines.extend(pipeline(seen, policy));
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
            ..self.told
        }
    }
}

/// The run of a task, from the most reliable source.
pub(crate) fn run_of(
    seen: &ObservedTask<'_>,
    policy: &Policy,
    families: &Families<'_>,
) -> Option<(JoinedBy, String)> {
    let labelled = || Some((JoinedBy::Label, label(seen, "run")?.to_owned()));
    let tagged = || Some((JoinedBy::Tag, tagged(seen)?));
    let recorded = || Some((JoinedBy::Record, seen.recorded.names()?.run?.to_owned()));
    let launched = || {
        let run = seen.step.usage.detail.run.as_ref()?;
        // Two nodes, or two boots of one node, may have launchers with the same number. This prefix
        // of the random boot id distinguishes the boots of one node.
        let (node, boot) = (&seen.step.node, &seen.step.boot);
        let key = format!("{} {node}/{boot:.8}/{}", run.launcher, run.key);
        Some((JoinedBy::Launcher, key))
    };
    let of_family = || families.run(&seen.job?.id);
    let named = || {
        let run = by_rule(Drawn::Run, seen, policy)?;
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
pub(crate) fn sample_of<'a>(seen: &ObservedTask<'a>, policy: &Policy) -> Option<&'a str> {
    let tagged = || nextflow_task::sample_of(seen.job?);
    let recorded = || seen.recorded.names()?.sample;
    drawn(Drawn::Sample, "sample", seen, policy)
        .or_else(tagged)
        .or_else(recorded)
}

/// The run from the tag of Ebb, or from the tags that Nextflow sets.
///
/// Source: `K8sTaskHandler.getDefaultLabels` of Nextflow. Users also set these names on Batch jobs
/// by `resourceLabels`.
fn tagged(seen: &ObservedTask<'_>) -> Option<String> {
    let tags = &seen.job?.tags;
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
pub(crate) fn pipeline(seen: &ObservedTask<'_>, policy: &Policy) -> Option<String> {
    if let Some(name) = label(seen, "pipeline") {
        return Some(name.to_owned());
    }
    let of_job = seen.job.and_then(|job| job.tags.get(PIPELINE_TAG));
    let tagged = of_job.or_else(|| seen.instance.tags.get(PIPELINE_TAG));
    let run = seen.step.usage.detail.run.as_ref();
    let recorded = || Some(seen.recorded.names()?.pipeline?.to_owned());
    let launched = || run.and_then(|run| run.pipeline.clone());
    let named = || by_rule(Drawn::Pipeline, seen, policy).map(str::to_owned);
    tagged
        .cloned()
        .or_else(recorded)
        .or_else(launched)
        .or_else(named)
}

fn label<'a>(seen: &ObservedTask<'a>, key: &str) -> Option<&'a str> {
    label_of(seen.step, key)
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
    seen: &ObservedTask<'a>,
    policy: &Policy,
) -> Option<&'a str> {
    label(seen, key).or_else(|| by_rule(wanted, seen, policy))
}

fn by_rule<'a>(wanted: Drawn, seen: &ObservedTask<'a>, policy: &Policy) -> Option<&'a str> {
    draw(wanted, &seen.task(), policy)
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
