//! Orphans: containers that still run after their job ended, and containers that no service knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Finding, Remedy, Resource, StepLink};
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::batch::job::{Job, JobStatus};
use ebb_model::inventory::batch::task::task_id;
use ebb_telemetry::step::{PlacedStep, StepKind};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::rules::batch::context::{
    KIND, StuckObservation, gpus_of, is_whole, make_finding, part_of, silent_for, since,
};
use crate::rules::remedy::open_shell;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

/// Evaluates every container on a worker.
pub(crate) fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let known = KnownTasks::from_facts(facts);
    running(facts)
        .filter_map(|one| evaluate_container(facts, &one, &known, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about the container with an id.
pub(crate) fn explain(facts: &Facts<'_>, id: &str) -> Vec<Check> {
    let Some((node, _)) = id.split_once('/') else {
        return Vec::new();
    };
    let known = KnownTasks::from_facts(facts);
    running(facts)
        .filter(|one| one.worker.node.as_str() == node && one.id() == id)
        .flat_map(|one| RuleTrace::written(KIND, |q| evaluate_container(facts, &one, &known, q)))
        .collect()
}

/// Ids of the containers that neither Batch nor ECS knows, as in findings.
pub(crate) fn jobless<'a>(facts: &Facts<'a>) -> impl Iterator<Item = String> {
    let known = KnownTasks::from_facts(facts);
    let facts = *facts;
    running(&facts)
        .filter(move |one| one.is_fresh(&facts) && known.has_none_of(&facts, one))
        .map(|one| one.id())
}

/// A running container of a task on a worker.
struct Running<'a> {
    worker: &'a ContainerInstance,
    step: PlacedStep,
    /// Time since the last heartbeat of the probe; `None` if there is none.
    silent: Option<Duration>,
}

impl Running<'_> {
    fn id(&self) -> String {
        format!("{}/{}", self.worker.node, self.task())
    }

    fn task(&self) -> &str {
        &self.step.usage.id.key
    }

    fn is_fresh(&self, facts: &Facts<'_>) -> bool {
        self.silent
            .is_some_and(|silent| silent <= facts.policy.idle.after())
    }
}

fn running<'a>(facts: &Facts<'a>) -> impl Iterator<Item = Running<'a>> + use<'a> {
    let facts = *facts;
    let workers = facts.inventory.batch.container_instances.values();
    workers.flat_map(move |worker| {
        let state = facts.state.nodes.get(&worker.node);
        let silent = state.and_then(|state| silent_for(&facts, state));
        let steps = state
            .into_iter()
            .flat_map(|state| state.running(&worker.node));
        let tasks = steps.filter(|step| step.usage.id.kind == StepKind::EcsTask);
        tasks.map(move |step| Running {
            worker,
            step,
            silent,
        })
    })
}

/// Tasks that Batch or ECS knows.
struct KnownTasks<'a> {
    /// Tasks of Batch with their end; the end is `None` for a running task.
    over: BTreeMap<&'a str, Option<Timestamp>>,
    /// Tasks that ECS reports.
    of_ecs: BTreeSet<&'a str>,
}

impl<'a> KnownTasks<'a> {
    fn from_facts(facts: &Facts<'a>) -> Self {
        let batch = &facts.inventory.batch;
        Self {
            over: batch.jobs.values().flat_map(over).collect(),
            of_ecs: batch.tasks.keys().filter_map(|arn| task_id(arn)).collect(),
        }
    }

    /// Whether neither Batch nor ECS knows the task; false if the list of ECS tasks is empty or
    /// incomplete.
    fn has_none_of(&self, facts: &Facts<'_>, one: &Running<'_>) -> bool {
        !self.over.contains_key(one.task()) && self.ecs_has(facts, one) == Some(false)
    }

    fn ecs_has(&self, facts: &Facts<'_>, one: &Running<'_>) -> Option<bool> {
        let tells = !self.of_ecs.is_empty() && is_whole(facts, &one.worker.region);
        tells.then(|| self.of_ecs.contains(one.task()))
    }
}

/// Tasks of a job with their end; the end is `None` for a running task.
fn over(job: &Job) -> impl Iterator<Item = (&str, Option<Timestamp>)> {
    let ended = matches!(job.status, JobStatus::Succeeded | JobStatus::Failed);
    let current = job
        .task_id()
        .map(|task| (task, job.stopped_at.filter(|_| ended)));
    let earlier = job.attempts.iter().filter_map(|attempt| {
        let task = task_id(attempt.task_arn.as_deref()?)?;
        Some((task, attempt.stopped_at))
    });
    // If a task is in both lists, the entry of the job is last and has priority.
    earlier.chain(current)
}

fn evaluate_container(
    facts: &Facts<'_>,
    one: &Running<'_>,
    known: &KnownTasks<'_>,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let heard = one
        .silent
        .map(|silent| format!("{} ago", HumanDuration(silent)));
    let is_fresh = one.is_fresh(facts);
    q.holds(
        "When did the probe on its machine last send a heartbeat?",
        (
            heard.unwrap_or_else(|| "never".to_owned()),
            format_args!("at most {} ago", HumanDuration(facts.policy.idle.after())),
        ),
        is_fresh.then_some(true),
    );
    let over = known.over.get(one.task());
    let is_under_way = matches!(over, Some(None));
    let goes_on = q.holds(
        "Does a running Batch job use the container?",
        (
            match over {
                Some(None) => "yes",
                Some(Some(_)) => "no: its job has ended",
                None => "no: AWS Batch knows no such job",
            },
            "",
        ),
        !is_under_way,
    );
    if !goes_on || !is_fresh {
        return None;
    }
    match over.copied().flatten() {
        Some(ended) => outlived(facts, one, ended, q),
        None => vanished(facts, one, known, q),
    }
}

/// A container whose job ended at `ended`.
fn outlived(
    facts: &Facts<'_>,
    one: &Running<'_>,
    ended: Timestamp,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let patience = Duration::from_secs(facts.policy.batch.orphan_seconds);
    let ago = since(facts, ended)?;
    q.holds(
        "How long ago did its job end?",
        (
            HumanDuration(ago),
            format_args!("at least {}", HumanDuration(patience)),
        ),
        ago >= patience,
    )
    .then(|| make_container_finding(facts, one, ended, Some(ended)))?
}

/// A container that no service knows any more.
fn vanished(
    facts: &Facts<'_>,
    one: &Running<'_>,
    known: &KnownTasks<'_>,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let is_listed = known.ecs_has(facts, one);
    if !q.holds(
        "Does ECS list its task?",
        (
            match is_listed {
                Some(true) => "yes",
                Some(false) => "no",
                None => "unknown: not all ECS tasks could be read",
            },
            "",
        ),
        is_listed.map(|knows| !knows),
    ) {
        return None;
    }
    let jobless = facts.memory.jobless.get(&one.id());
    let (sweeps, least) = (
        jobless.map_or(0, |jobless| jobless.sweeps),
        facts.policy.batch.vanished_sweeps,
    );
    let again = q.holds(
        "In how many consecutive sweeps was this the case?",
        (sweeps, format_args!("at least {least}")),
        (sweeps >= least).then_some(true),
    );
    match jobless.filter(|_| again) {
        Some(jobless) => make_container_finding(facts, one, jobless.since, None),
        None => Some(Verdict::undetermined(
            KIND,
            &one.id(),
            Some(&one.step.usage.name),
            format!(
                "neither AWS Batch nor ECS lists its job; reported after {least} consecutive \
                 sweeps, {sweeps} so far"
            ),
        )),
    }
}

/// Waste since `from`. `ended` is the end of the job; `None` if no job is known.
fn make_container_finding(
    facts: &Facts<'_>,
    one: &Running<'_>,
    from: Timestamp,
    ended: Option<Timestamp>,
) -> Option<Verdict> {
    let (worker, step) = (one.worker, &one.step);
    let instance = facts.instance(&worker.node)?;
    let task = one.task();
    let observation = StuckObservation {
        window: Window {
            from,
            to: step.observed_at.max(from),
        },
        coverage: None,
        stuck: Stuck::Orphan {
            cpu: step.usage.cpu,
        },
        confidence: Confidence {
            level: Level::High,
            reason: "the probe observes its processes, but neither AWS Batch nor ECS lists a \
                     running job for them"
                .into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: format!(
                "Stop the container of task {task} on {}. The ECS agent no longer manages it.",
                worker.node
            ),
            command: Some(open_shell(instance)),
        },
    };
    let resource = Resource {
        id: one.id(),
        name: Some(step.usage.name.clone()),
        node: Some(worker.node.to_string()),
        origin: step.origin,
        ..Resource::of_instance(instance, facts.controller(instance), step.origin)
    };
    let mut finding = make_finding(resource, None, observation);
    if let (None, Evidence::StuckJob(evidence)) = (ended, &mut finding.evidence) {
        evidence.stuck_for = None;
    }
    let request = step.usage.requested.into();
    let price = part_of(facts, instance, request, gpus_of(step));
    Some(Verdict::Waste(Box::new(Finding {
        cost: price.map(|price| price.wasted_over(finding.window)),
        steps: vec![StepLink::from_step(step, &step.usage.name, None)],
        ..finding
    })))
}
