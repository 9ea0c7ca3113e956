//! Running machines of an environment that never joined its cluster while jobs wait for them.
//! Causes are a bad image, role or network.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::time::Window;

use crate::facts::Facts;
use crate::rules::batch::context::{
    StuckObservation, environment_named, is_whole, silent_for, since, worker_without_cost,
};
use crate::rules::batch::lost_agent::works;
use crate::rules::node::idle::quiet_since;
use crate::rules::verdict::Verdict;

/// The tag in which Batch stores the environment of a machine.
pub(crate) const ENVIRONMENT: &str = "aws:batch:compute-environment";

/// Status in ECS of an instance that failed to join.
const FAILED: &str = "REGISTRATION_FAILED";

/// Evaluates every machine.
pub(crate) fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    nodes(facts)
        .filter_map(|instance| make_finding(facts, instance))
        .collect()
}

/// Running machines of an environment that are not members of its ECS cluster. An environment on EKS
/// has none.
pub(crate) fn nodes<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a Instance> {
    let joined: BTreeSet<&NodeId> = facts
        .inventory
        .batch
        .container_instances
        .values()
        .filter(|worker| worker.status.as_deref() != Some(FAILED))
        .map(|worker| &worker.node)
        .collect();
    let patience = Duration::from_secs(facts.policy.batch.never_joined_seconds);
    let facts = *facts;
    let instances = facts.inventory.instances.values();
    instances.filter(move |instance| {
        let age = instance.launched_at.and_then(|at| since(&facts, at));
        instance.state == InstanceState::Running
            && has_cluster(&facts, instance)
            && !joined.contains(&instance.id)
            && age.is_some_and(|age| age >= patience)
            && is_whole(&facts, &instance.region)
    })
}

/// Whether the environment of a machine has an ECS cluster that it can join.
fn has_cluster(facts: &Facts<'_>, instance: &Instance) -> bool {
    let name = instance.tags.get(ENVIRONMENT);
    let environment = name.and_then(|name| environment_named(facts, instance, name));
    environment.is_some_and(|environment| environment.cluster_arn.is_some())
}

/// ECS does not report since when it does not list an instance, which may have worked before. The
/// waste begins after the last activity that the probe observed. If the probe is silent, or a task
/// ran, the window is empty. The history of findings extends it to the first sweep that missed the
/// instance. Without a sign of work the waste begins at the launch.
fn make_finding(facts: &Facts<'_>, instance: &Instance) -> Option<Verdict> {
    let launched = instance.launched_at?;
    let environment = instance.tags.get(ENVIRONMENT)?;
    let state = facts.state.nodes.get(&instance.id);
    let silent = state.and_then(|state| silent_for(facts, state));
    let lives = silent.map(|silent| silent <= facts.policy.idle.after());
    let observed = state.filter(|_| lives == Some(true));
    let quiet_since = observed.and_then(|state| quiet_since(instance, state));
    let unused_since = (!has_worked(facts, &instance.id)).then_some(launched);
    let is_at_work = observed.is_some_and(|state| works(facts, state));
    let observation = StuckObservation {
        window: Window {
            from: quiet_since
                .or(unused_since)
                .map_or(facts.now, |from| from.min(facts.now)),
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::NeverJoined { lives },
        confidence: Confidence {
            level: Level::High,
            reason: "AWS Batch started this instance, but ECS does not list it now".into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: advice(environment, is_at_work),
            command: Some(format!(
                "aws ec2 get-console-output --region {} --instance-id {}",
                instance.region, instance.id
            )),
        },
    };
    let mut finding = worker_without_cost(facts, instance, observation);
    if let Evidence::StuckJob(evidence) = &mut finding.evidence {
        evidence.stuck_for = since(facts, launched);
    }
    let price = facts.price_of(instance).filter(|_| !is_at_work);
    finding.cost = price.map(|price| price.wasted_over(finding.window));
    Some(Verdict::Waste(Box::new(finding)))
}

/// Whether a probe or a task was ever observed on a node.
fn has_worked(facts: &Facts<'_>, node: &NodeId) -> bool {
    facts.state.nodes.contains_key(node)
        || facts.hours.nodes.contains_key(node)
        || facts.finished.iter().any(|step| step.node == *node)
}

fn advice(environment: &str, is_at_work: bool) -> String {
    match is_at_work {
        true => format!(
            "Find out why the instance left the ECS cluster of compute environment {environment}. \
             Its processes still work, and they end if the instance is replaced. AWS Batch cannot \
             place more jobs on it."
        ),
        false => format!(
            "Check the AMI, instance role and subnets of compute environment {environment}. The \
             ECS agent must reach ECS; otherwise jobs wait for this instance without end."
        ),
    }
}
