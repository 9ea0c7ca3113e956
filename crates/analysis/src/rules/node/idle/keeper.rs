//! The cause that keeps an idle node alive, and the patience for this cause.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::finding::evidence::idle::KeptAliveBy;
use ebb_model::inventory::batch::ComputeEnvironment;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::instance::{Controller, Instance, InstanceState};
use ebb_node_state::node_state::NodeState;
use ebb_telemetry::identity::{AccountId, NodeId, Region};
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::rules::batch::context::environment_named;
use crate::rules::batch::never_joined::ENVIRONMENT;

/// The calls that list the live jobs of AWS Batch. An ended job owns no task that runs.
const JOBS: [&str; 3] = [
    "batch:DescribeJobQueues",
    "batch:DescribeJobs",
    "batch:ListJobs",
];

/// The cause that keeps a node alive; `None` if unknown. The settings of a Batch environment come
/// first, because the end of a task would not release the machine.
pub(crate) fn find_keeper(
    facts: &Facts<'_>,
    instance: &Instance,
    node: &NodeState,
    fleet: &BatchFleet<'_>,
) -> Option<KeptAliveBy> {
    let environment = environment(facts, instance);
    let by_batch = environment.and_then(|env| by_batch(facts, instance, env, fleet));
    let by_delay = || environment.and_then(delay).map(KeptAliveBy::ScaleInDelay);
    let by_step = || by_step(&instance.id, node);
    by_batch.or_else(by_step).or_else(by_delay)
}

fn by_batch(
    facts: &Facts<'_>,
    instance: &Instance,
    environment: &ComputeEnvironment,
    fleet: &BatchFleet<'_>,
) -> Option<KeptAliveBy> {
    let batch = &facts.inventory.batch;
    let (_, worker) = batch.container_instances.on(&instance.id)?;
    if let Some(tasks) = worker.running_tasks.filter(|tasks| *tasks > 0) {
        return Some(KeptAliveBy::DaemonTasks(tasks));
    }
    // A minimum keeps a machine only if the others have less.
    let own = vcpus(facts, instance)?;
    let others = fleet.vcpus_of(instance).saturating_sub(own);
    let least = environment.min_vcpus;
    let least = least.filter(|least| others < u64::from(*least))?;
    Some(match environment.enabled {
        Some(false) => KeptAliveBy::DisabledEnvironment,
        _ => KeptAliveBy::MinimumCapacity(least),
    })
}

fn vcpus(facts: &Facts<'_>, instance: &Instance) -> Option<u64> {
    let spec = facts.catalogue.spec(&instance.instance_type)?;
    Some(spec.vcpus.into())
}

fn by_step(id: &NodeId, node: &NodeState) -> Option<KeptAliveBy> {
    let mut keepers: Vec<KeptAliveBy> = node
        .running(id)
        .filter_map(|step| {
            let name = &step.usage.name;
            let keeper = KeptAliveBy::step(name);
            match step.usage.id.kind {
                // The services of a user go on after the logout if the user lingers.
                StepKind::Session if step.usage.id.key.starts_with("user-") => None,
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
    fleet: &BatchFleet<'_>,
) -> Patience {
    let (idle, batch) = (facts.policy.idle.after(), &facts.policy.batch);
    match keeper {
        Some(KeptAliveBy::DaemonTasks(tasks)) if may_miss_jobs(facts, instance) => {
            Patience::Meant(format!(
                "{tasks} ECS tasks run on it. They may belong to jobs of AWS Batch: the jobs of its \
                 region could not all be read"
            ))
        }
        Some(KeptAliveBy::DaemonTasks(_)) => Patience::For(least_patience(facts)),
        Some(KeptAliveBy::MinimumCapacity(_)) => {
            Patience::For(Duration::from_secs(batch.minimum_capacity_seconds).max(idle))
        }
        _ => scale_in_delay(facts, instance, &fleet.ends)
            .map_or(Patience::For(idle), Patience::Meant),
    }
}

/// Whether a failed call may hide jobs on a machine.
fn may_miss_jobs(facts: &Facts<'_>, instance: &Instance) -> bool {
    let (account, region) = (instance.account.as_ref(), instance.region.as_str());
    let mut gaps = facts.inventory.gaps.iter();
    gaps.any(|gap| gap.may_hide_from(account, region, &JOBS))
}

/// Data about all machines of AWS Batch, collected once.
pub(crate) struct BatchFleet<'a> {
    ends: LastEnds<'a>,
    /// vCPUs of the running machines of each environment.
    vcpus: BTreeMap<EnvironmentKey<'a>, u64>,
}

/// Region, account and name of an environment.
type EnvironmentKey<'a> = (&'a Region, Option<&'a AccountId>, &'a str);

/// End of the last job of each machine.
type LastEnds<'a> = BTreeMap<&'a NodeId, Timestamp>;

impl<'a> BatchFleet<'a> {
    pub(crate) fn from_facts(facts: &Facts<'a>) -> Self {
        let mut vcpus_of: BTreeMap<EnvironmentKey<'a>, u64> = BTreeMap::new();
        for instance in facts.inventory.instances.values() {
            let vcpus = vcpus(facts, instance).filter(|_| instance.state == InstanceState::Running);
            if let Some((key, vcpus)) = key_of(instance).zip(vcpus) {
                *vcpus_of.entry(key).or_default() += vcpus;
            }
        }
        Self {
            ends: last_ends(facts),
            vcpus: vcpus_of,
        }
    }

    fn vcpus_of(&self, instance: &Instance) -> u64 {
        let vcpus = key_of(instance).and_then(|key| self.vcpus.get(&key));
        vcpus.copied().unwrap_or_default()
    }
}

fn key_of(instance: &Instance) -> Option<EnvironmentKey<'_>> {
    let name = instance.tags.get(ENVIRONMENT)?;
    Some((&instance.region, instance.account.as_ref(), name))
}

fn last_ends<'a>(facts: &Facts<'a>) -> LastEnds<'a> {
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
    environment_named(facts, instance, &name)
}
