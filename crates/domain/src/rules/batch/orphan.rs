//! Orphans: a container goes on after its job is over.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{Seen, Verdict, found, silent_for, since};
use crate::finding::{
    Action, Confidence, Finding, Level, Remedy, Resource, StepLink, Stuck, Window,
};
use crate::fleet::{ContainerInstance, Job, JobStatus};
use crate::judge::Facts;
use crate::step::{PlacedStep, StepKind};

/// Judges every container on a worker whose probe is heard of.
pub(super) fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let batch = &facts.inventory.batch;
    let known: BTreeMap<&str, Timestamp> = batch.jobs.values().filter_map(over).collect();
    let mut verdicts = Vec::new();
    for worker in batch.container_instances.values() {
        let Some(state) = facts.state.nodes.get(&worker.node) else {
            continue;
        };
        let is_fresh = silent_for(facts, state).is_some_and(|age| age <= facts.policy.idle.after());
        let tasks = state
            .running()
            .filter(|step| step.usage.id.kind == StepKind::EcsTask);
        let orphans = tasks.filter(|_| is_fresh).filter_map(|step| {
            let from = orphan_since(facts, step, &known)?;
            found_one(facts, worker, step, from)
        });
        verdicts.extend(orphans);
    }
    verdicts
}

/// The task of a job that has ended, and when.
fn over(job: &Job) -> Option<(&str, Timestamp)> {
    let ended = matches!(job.status, JobStatus::Succeeded | JobStatus::Failed);
    Some((job.task_id()?, job.stopped_at.filter(|_| ended)?))
}

fn orphan_since(
    facts: &Facts<'_>,
    step: &PlacedStep,
    known: &BTreeMap<&str, Timestamp>,
) -> Option<Timestamp> {
    let from = *known.get(step.usage.id.key.as_str())?;
    let patience = Duration::from_secs(facts.policy.batch.orphan_seconds);
    (since(facts, from)? >= patience).then_some(from)
}

fn found_one(
    facts: &Facts<'_>,
    worker: &ContainerInstance,
    step: &PlacedStep,
    from: Timestamp,
) -> Option<Verdict> {
    let instance = facts.instance(&worker.node)?;
    let task = &step.usage.id.key;
    let seen = Seen {
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
            reason: "a probe sees its processes, and Batch says that its job is over".into(),
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
    let finding = found(resource, None, seen);
    let price = facts.price_of(instance).and_then(|whole| {
        let spec = facts.catalogue.spec(&instance.instance_type)?;
        let asked = step.usage.requested.into();
        let part = crate::placement::share_of_price(spec, whole.per_hour, asked)?;
        Some(whole.scaled(part, whole.per_hour))
    });
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
