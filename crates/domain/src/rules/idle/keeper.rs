//! Who keeps an idle node alive, and how long that is given.

use std::time::Duration;

use crate::finding::KeptAliveBy;
use crate::fleet::{ComputeEnvironment, Controller, Instance};
use crate::judge::Facts;
use crate::state::NodeState;
use crate::step::StepKind;

/// What keeps it, where that shows: what a Batch environment is told comes first, for
/// no end of a step would free its machine.
pub(super) fn of(facts: &Facts<'_>, instance: &Instance, node: &NodeState) -> Option<KeptAliveBy> {
    let by_batch = environment(facts, instance).and_then(|env| by_batch(facts, instance, env));
    by_batch.or_else(|| by_step(node))
}

fn by_batch(
    facts: &Facts<'_>,
    instance: &Instance,
    environment: &ComputeEnvironment,
) -> Option<KeptAliveBy> {
    let batch = &facts.inventory.batch;
    let mut workers = batch.container_instances.values();
    let worker = workers.find(|worker| worker.node == instance.id)?;
    if let Some(tasks) = worker.running_tasks.filter(|tasks| *tasks > 0) {
        return Some(KeptAliveBy::DaemonTasks(tasks));
    }
    let least = environment.min_vcpus.filter(|vcpus| *vcpus > 0)?;
    Some(KeptAliveBy::MinimumCapacity(least))
}

fn by_step(node: &NodeState) -> Option<KeptAliveBy> {
    let mut keepers: Vec<KeptAliveBy> = node
        .running()
        .filter_map(|step| {
            let name = &step.usage.name;
            let keeper = KeptAliveBy::step(name);
            match step.usage.id.kind {
                StepKind::Session => Some(KeptAliveBy::Login(name.clone())),
                // Services and bare trees are on every machine; only a notebook tells.
                StepKind::Service | StepKind::Tree => {
                    matches!(keeper, KeptAliveBy::Notebook(_)).then_some(keeper)
                }
                _ => Some(keeper),
            }
        })
        .collect();
    // A notebook has its sessions, and a step its login: the former is the cause.
    keepers.sort_by_key(|keeper| match keeper {
        KeptAliveBy::Notebook(_) => 0,
        KeptAliveBy::QuietStep(_) => 1,
        _ => 2,
    });
    keepers.into_iter().next()
}

/// How long a quiet node is given.
pub(super) fn patience(facts: &Facts<'_>, keeper: Option<&KeptAliveBy>) -> Duration {
    let (idle, batch) = (facts.policy.idle.after(), &facts.policy.batch);
    match keeper {
        Some(KeptAliveBy::DaemonTasks(_)) => {
            Duration::from_secs(batch.daemon_task_seconds).min(idle)
        }
        Some(KeptAliveBy::MinimumCapacity(_)) => {
            Duration::from_secs(batch.minimum_capacity_seconds).max(idle)
        }
        _ => idle,
    }
}

pub(super) fn environment<'a>(
    facts: &Facts<'a>,
    instance: &Instance,
) -> Option<&'a ComputeEnvironment> {
    let Some(Controller::BatchEnvironment(name)) = facts.controller(instance) else {
        return None;
    };
    let environments = &facts.inventory.batch.environments;
    environments
        .iter()
        .find(|e| e.name == name && e.region == instance.region)
}
