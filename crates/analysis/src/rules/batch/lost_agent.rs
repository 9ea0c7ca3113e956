//! A worker whose ECS agent is disconnected. The probe shows whether the agent or the host fails.
//! If only the probe is silent, the idle rule reports it.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy, Resource};
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::batch::task::Health;
use ebb_model::inventory::instance::Instance;
use ebb_telemetry::origin::labelled;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::rules::batch::context::{
    KIND, StuckObservation, found, found_worker, silent_for, since,
};
use crate::rules::remedy::open_shell;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::shell;

/// Evaluates every worker.
pub(crate) fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let workers = facts.inventory.batch.container_instances.values();
    workers
        .filter_map(|worker| {
            let impaired = || impaired(facts, worker, &mut RuleTrace::unwritten(KIND));
            judge_one(facts, worker).or_else(impaired)
        })
        .collect()
}

/// A worker whose container runtime fails the health check of ECS. Running tasks may continue, so
/// the finding has no cost, but an engineer should look at the worker.
pub(crate) fn impaired(
    facts: &Facts<'_>,
    worker: &ContainerInstance,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let (told, is_impaired) = match worker.health {
        Some(Health::Ok) => ("well", Some(false)),
        Some(Health::Impaired) => ("impaired", Some(true)),
        Some(Health::Initializing) | None => ("not told", None),
    };
    let is_impaired = q.holds(
        "how is its container runtime, by ECS's own check?",
        (told, ""),
        is_impaired,
    );
    let instance = facts.instance(&worker.node).filter(|_| is_impaired)?;
    let undetermined = |when: String| {
        let why = format!("ECS says that its container runtime is impaired, {when}");
        let (id, name) = (worker.node.as_str(), instance.name());
        Some(Verdict::undetermined(KIND, id, name, why))
    };
    let patience = facts.policy.batch.agent_disconnected();
    let so_far = worker.health_since.and_then(|from| since(facts, from));
    let shown = so_far.map_or_else(|| "not told".to_owned(), |t| HumanDuration(t).to_string());
    q.holds(
        "for how long?",
        (shown, format_args!("at least {}", HumanDuration(patience))),
        so_far.and_then(|so_far| (so_far >= patience).then_some(true)),
    );
    let Some(from) = worker.health_since else {
        return undetermined("and not since when: what is placed on it may hang".into());
    };
    let window = Window {
        from,
        to: facts.now.max(from),
    };
    if window.length() < patience {
        let (for_now, patience) = (HumanDuration(window.length()), HumanDuration(patience));
        return undetermined(format!("for {for_now}; a verdict takes {patience}"));
    }
    Some(found_impaired(facts, instance, window))
}

fn found_impaired(facts: &Facts<'_>, instance: &Instance, window: Window) -> Verdict {
    let seen = StuckObservation {
        window,
        coverage: None,
        stuck: Stuck::RuntimeImpaired,
        confidence: Confidence {
            level: Level::High,
            reason: "ECS's own health check of the container runtime says so, and since when"
                .into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: "Restart its container runtime, or let the compute environment replace the \
                     instance; what is placed on it may hang."
                .into(),
            command: Some(open_shell(instance)),
        },
    };
    let controller = facts.controller(instance);
    let resource = Resource::of_instance(instance, controller, labelled(&instance.tags));
    Verdict::Waste(Box::new(found(resource, None, seen)))
}

fn judge_one(facts: &Facts<'_>, worker: &ContainerInstance) -> Option<Verdict> {
    let since: Timestamp = *facts.memory.disconnected_since.get(&worker.node)?;
    let instance = facts.instance(&worker.node)?;
    let undetermined = |reason: String| {
        let (id, name) = (worker.node.as_str(), instance.name());
        Some(Verdict::undetermined(KIND, id, name, reason))
    };
    let window = Window {
        from: since,
        to: facts.now,
    };
    let patience = facts.policy.batch.agent_disconnected();
    if window.length() < patience {
        return undetermined(format!(
            "its ECS agent was first seen disconnected {} ago; a verdict takes {}",
            HumanDuration(window.length()),
            HumanDuration(patience)
        ));
    }
    let state = facts.state.nodes.get(&worker.node);
    let Some(silent_for) = state.and_then(|state| silent_for(facts, state)) else {
        return undetermined(
            "its ECS agent is disconnected, and no probe tells whether it lives".into(),
        );
    };
    let agent_alone = silent_for <= facts.policy.idle.after();
    let seen = match agent_alone {
        true => StuckObservation {
            window,
            coverage: None,
            stuck: Stuck::AgentDisconnected,
            confidence: Confidence {
                level: Level::High,
                reason: match worker.health {
                    Some(Health::Impaired) => {
                        "ECS says disconnected at every sweep and its container runtime impaired, \
                         and the probe shows the host alive"
                    }
                    _ => "ECS says disconnected at every sweep, and the probe shows the host alive",
                }
                .into(),
            },
            remedy: Remedy {
                action: Action::Investigate,
                advice: "Restart the ECS agent, or let the compute environment replace the \
                         instance; no job can be placed on it."
                    .into(),
                command: Some(format!(
                    "aws ecs list-container-instances --region {} {}",
                    worker.region,
                    shell::option("--cluster", &worker.cluster_arn)
                )),
            },
        },
        false => StuckObservation {
            window,
            coverage: None,
            stuck: Stuck::HostLost { silent_for },
            confidence: Confidence {
                level: Level::Medium,
                reason: "ECS and the probe lost it both, and it is billed; nobody can look inside"
                    .into(),
            },
            remedy: Remedy {
                action: Action::Investigate,
                advice: "Look at its status checks and console output; let its environment or \
                         group replace it."
                    .into(),
                command: Some(format!(
                    "aws ec2 describe-instance-status --region {} --instance-ids {}",
                    worker.region, worker.node
                )),
            },
        },
    };
    Some(found_worker(facts, instance, seen))
}
