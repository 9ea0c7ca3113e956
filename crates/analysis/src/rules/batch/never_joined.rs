//! Running machines of an environment that never joined its cluster while jobs wait for them.
//! Causes are a bad image, role or network.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::time::Window;

use crate::facts::Facts;
use crate::rules::batch::context::{
    StuckObservation, environment_named, is_whole, make_worker_finding, silent_for, since,
};
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

fn make_finding(facts: &Facts<'_>, instance: &Instance) -> Option<Verdict> {
    let state = facts.state.nodes.get(&instance.id);
    let silent = state.and_then(|state| silent_for(facts, state));
    let environment = instance.tags.get(ENVIRONMENT)?;
    let observation = StuckObservation {
        window: Window {
            from: instance.launched_at?,
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::NeverJoined {
            lives: silent.map(|silent| silent <= facts.policy.idle.after()),
        },
        confidence: Confidence {
            level: Level::High,
            reason: "AWS Batch started this instance, but ECS does not list it now".into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: format!(
                "Check the AMI, instance role and subnets of compute environment {environment}. \
                 The ECS agent must reach ECS; otherwise jobs wait for this instance without end."
            ),
            command: Some(format!(
                "aws ec2 get-console-output --region {} --instance-id {}",
                instance.region, instance.id
            )),
        },
    };
    Some(make_worker_finding(facts, instance, observation))
}
