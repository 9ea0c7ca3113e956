//! The cause that keeps an idle node alive, and the patience for this cause.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::finding::evidence::idle::KeptAliveBy;
use ebb_model::inventory::batch::ComputeEnvironment;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::instance::{Controller, Instance};
use ebb_node_state::node_state::NodeState;
use ebb_telemetry::identity::{AccountId, NodeId};
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::facts::Facts;

/// The cause that keeps a node alive; `None` if unknown. The settings of a Batch environment come
/// first, because the end of a task would not release the machine.
pub(crate) fn of(facts: &Facts<'_>, instance: &Instance, node: &NodeState) -> Option<KeptAliveBy> {
    let environment = environment(facts, instance);
    let by_batch = environment.and_then(|env| by_batch(facts, instance, env));
    let by_delay = || environment.and_then(delay).map(KeptAliveBy::ScaleInDelay);
    let by_step = || by_step(&instance.id, node);
    by_batch.or_else(by_step).or_else(by_delay)
}

fn by_batch(
    facts: &Facts<'_>,
    instance: &Instance,
    environment: &ComputeEnvironment,
) -> Option<KeptAliveBy> {
    let batch = &facts.inventory.batch;
    let (_, worker) = batch.container_instances.on(&instance.id)?;
    if let Some(tasks) = worker.running_tasks.filter(|tasks| *tasks > 0) {
        return Some(KeptAliveBy::DaemonTasks(tasks));
    }
    if environment.enabled == Some(false) {
        return Some(KeptAliveBy::DisabledEnvironment);
    }
    let least = environment.min_vcpus.filter(|vcpus| *vcpus > 0)?;
    Some(KeptAliveBy::MinimumCapacity(least))
}

fn by_step(id: &NodeId, node: &NodeState) -> Option<KeptAliveBy> {
    let mut keepers: Vec<KeptAliveBy> = node
        .running(id)
        .filter_map(|step| {
            let name = &step.usage.name;
            let keeper = KeptAliveBy::step(name);
            match step.usage.id.kind {
                StepKind::Session => Some(KeptAliveBy::Login(name.clone())),
                // Every machine has services and process trees; of these only a notebook is a
                // cause.
                StepKind::Service | StepKind::Tree => {
                    matches!(keeper, KeptAliveBy::Notebook(_)).then_some(keeper)
                }
                _ => Some(keeper),
            }
        })
        .collect();
    // A notebook owns its sessions and a task its login, so the notebook or task is the cause.
    keepers.sort_by_key(|keeper| match keeper {
        KeptAliveBy::Notebook(_) => 0,
        KeptAliveBy::QuietStep(_) => 1,
        _ => 2,
    });
    keepers.into_iter().next()
}

/// Minutes for which an environment keeps its machines after their last job; `None` if it does not.
fn delay(environment: &ComputeEnvironment) -> Option<u32> {
    let minutes = environment.scale_down_delay_minutes;
    minutes.filter(|minutes| *minutes > 0)
}

/// Time that an idle node may remain idle.
pub(crate) enum Patience {
    /// The node is waste after this time.
    For(Duration),
    /// The node waits on purpose, with the reason.
    Meant(String),
}

/// The shortest patience of all causes.
pub(crate) fn least_patience(facts: &Facts<'_>) -> Duration {
    let daemons = Duration::from_secs(facts.policy.batch.daemon_task_seconds);
    daemons.min(facts.policy.idle.after())
}

pub(crate) fn patience(
    facts: &Facts<'_>,
    instance: &Instance,
    keeper: Option<&KeptAliveBy>,
    ends: &LastEnds<'_>,
) -> Patience {
    let (idle, batch) = (facts.policy.idle.after(), &facts.policy.batch);
    match keeper {
        Some(KeptAliveBy::DaemonTasks(_)) => Patience::For(least_patience(facts)),
        Some(KeptAliveBy::MinimumCapacity(_)) => {
            Patience::For(Duration::from_secs(batch.minimum_capacity_seconds).max(idle))
        }
        _ => scale_in_delay(facts, instance, ends).map_or(Patience::For(idle), Patience::Meant),
    }
}

/// End of the last job of each machine, collected once for all machines.
pub(crate) type LastEnds<'a> = BTreeMap<&'a NodeId, Timestamp>;

pub(crate) fn last_ends<'a>(facts: &Facts<'a>) -> LastEnds<'a> {
    let batch = &facts.inventory.batch;
    let mut ends = LastEnds::new();
    for job in batch.jobs.values() {
        let over = matches!(job.status, JobStatus::Succeeded | JobStatus::Failed);
        if let (Some(node), Some(at), true) = (batch.node_of(job), job.stopped_at, over) {
            let known = ends.entry(node).or_insert(at);
            *known = at.max(*known);
        }
    }
    ends
}

/// Reason why a node is not waste yet: its environment keeps machines after their last job on
/// purpose.
fn scale_in_delay(facts: &Facts<'_>, instance: &Instance, ends: &LastEnds<'_>) -> Option<String> {
    let minutes = delay(environment(facts, instance)?)?;
    let grace = Duration::from_secs(facts.policy.batch.scale_in_grace_seconds);
    let delay = Duration::from_secs(u64::from(minutes) * 60) + grace;
    let ended = *ends.get(&instance.id)?;
    let ago: Duration = facts.now.duration_since(ended).try_into().ok()?;
    (ago < delay).then(|| {
        format!(
            "its compute environment keeps instances for {minutes} min after their last job \
             (scale-in delay), and the last job ended {} ago",
            HumanDuration(ago)
        )
    })
}

pub(crate) fn environment<'a>(
    facts: &Facts<'a>,
    instance: &Instance,
) -> Option<&'a ComputeEnvironment> {
    let Some(Controller::BatchEnvironment(name)) = facts.controller(instance) else {
        return None;
    };
    let environments = &facts.inventory.batch.environments;
    environments.iter().find(|e| {
        e.name == name
            && e.region == instance.region
            && AccountId::may_be_one(e.account.as_ref(), instance.account.as_ref())
    })
}
