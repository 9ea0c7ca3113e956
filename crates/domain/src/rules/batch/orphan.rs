//! Orphans: a container goes on after its job is over, or is nobody's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{Seen, Verdict, found, gpus_of, is_whole, part_of, silent_for, since};
use crate::finding::{
    Action, Confidence, Evidence, Finding, Level, Remedy, Resource, StepLink, Stuck, Window,
};
use crate::fleet::{ContainerInstance, Job, JobStatus, task_id};
use crate::judge::Facts;
use crate::step::{PlacedStep, StepKind};

/// Judges every container on a worker whose probe is heard of.
pub(super) fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let batch = &facts.inventory.batch;
    let known = Known {
        over: batch.jobs.values().flat_map(over).collect(),
        of_ecs: batch.tasks.keys().filter_map(|arn| task_id(arn)).collect(),
    };
    let mut verdicts = Vec::new();
    for worker in batch.container_instances.values() {
        let Some(state) = facts.state.nodes.get(&worker.node) else {
            continue;
        };
        let is_fresh = silent_for(facts, state).is_some_and(|age| age <= facts.policy.idle.after());
        let tasks = state
            .running(&worker.node)
            .filter(|step| step.usage.id.kind == StepKind::EcsTask);
        let orphans = tasks.filter(|_| is_fresh).filter_map(|step| {
            let orphaned = orphaned(facts, worker, &step, &known)?;
            found_one(facts, worker, &step, &orphaned)
        });
        verdicts.extend(orphans);
    }
    verdicts
}

/// Tasks that somebody knows.
struct Known<'a> {
    /// Those of Batch, with when each was over; `None` for one under way.
    over: BTreeMap<&'a str, Option<Timestamp>>,
    /// Those that ECS tells.
    of_ecs: BTreeSet<&'a str>,
}

/// The tasks of a job, with when each was over; `None` for one that is under way.
fn over(job: &Job) -> impl Iterator<Item = (&str, Option<Timestamp>)> {
    let ended = matches!(job.status, JobStatus::Succeeded | JobStatus::Failed);
    let current = job
        .task_id()
        .map(|task| (task, job.stopped_at.filter(|_| ended)));
    let earlier = job.attempts.iter().filter_map(|attempt| {
        let task = task_id(attempt.task_arn.as_deref()?)?;
        Some((task, attempt.stopped_at))
    });
    // Of a task that is both, the job's own word counts: it comes last.
    earlier.chain(current)
}

/// Since when a container is nobody's.
enum Orphaned {
    /// Since its job was over.
    Since(Timestamp),
    /// Nobody knows of its job any more, and so not of its end either.
    Unknown,
}

fn orphaned(
    facts: &Facts<'_>,
    worker: &ContainerInstance,
    step: &PlacedStep,
    known: &Known<'_>,
) -> Option<Orphaned> {
    let task = step.usage.id.key.as_str();
    let (from, orphaned) = match known.over.get(task) {
        Some(ended) => ((*ended)?, Orphaned::Since((*ended)?)),
        None => {
            // ECS must tell its tasks, and this be none of them.
            let tells = !known.of_ecs.is_empty() && is_whole(facts, &worker.region);
            let is_nobodys = tells && !known.of_ecs.contains(task);
            is_nobodys.then_some((step.started_at, Orphaned::Unknown))?
        }
    };
    let patience = Duration::from_secs(facts.policy.batch.orphan_seconds);
    (since(facts, from)? >= patience).then_some(orphaned)
}

fn found_one(
    facts: &Facts<'_>,
    worker: &ContainerInstance,
    step: &PlacedStep,
    orphaned: &Orphaned,
) -> Option<Verdict> {
    let to = step.observed_at;
    let from = match orphaned {
        Orphaned::Since(from) => *from,
        Orphaned::Unknown => to,
    };
    let instance = facts.instance(&worker.node)?;
    let task = &step.usage.id.key;
    let seen = Seen {
        window: Window {
            from,
            to: to.max(from),
        },
        coverage: None,
        stuck: Stuck::Orphan {
            cpu: step.usage.cpu,
        },
        confidence: Confidence {
            level: Level::High,
            reason: "a probe sees its processes, and neither Batch nor ECS knows of them".into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: format!(
                "Stop the container of task {task} on {}; its agent has lost it.",
                worker.node
            ),
            command: Some(format!(
                "aws ssm start-session --region {} --target {}",
                worker.region, worker.node
            )),
        },
    };
    let resource = Resource {
        id: format!("{}/{task}", worker.node),
        name: Some(step.usage.name.clone()),
        node: Some(worker.node.to_string()),
        origin: step.origin,
        ..Resource::of_instance(instance, facts.controller(instance), step.origin)
    };
    let mut finding = found(resource, None, seen);
    if let (Orphaned::Unknown, Evidence::StuckJob(evidence)) = (orphaned, &mut finding.evidence) {
        evidence.stuck_for = None;
    }
    let asked = step.usage.requested.into();
    let price = part_of(facts, instance, asked, gpus_of(step));
    Some(Verdict::Waste(Box::new(Finding {
        cost: price.map(|price| price.wasted_over(finding.window)),
        steps: vec![StepLink {
            name: step.usage.name.clone(),
            id: step.usage.id.clone(),
            node: worker.node.to_string(),
            job: None,
        }],
        ..finding
    })))
}
