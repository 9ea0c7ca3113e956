//! A worker whose ECS agent is disconnected. The probe shows whether the agent or the host fails.
//! If only the probe is silent, the idle rule reports it.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::batch::task::Health;
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_node_state::node_state::NodeState;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::rules::batch::context::{
    KIND, StuckObservation, make_worker_finding, silent_for, since, worker_without_cost,
};
use crate::rules::remedy::open_shell;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::shell;

/// The calls that list the workers of AWS Batch.
const WORKERS: [&str; 3] = [
    "batch:DescribeComputeEnvironments",
    "ecs:DescribeContainerInstances",
    "ecs:ListContainerInstances",
];

/// Evaluates every worker.
pub(crate) fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let workers = facts.inventory.batch.container_instances.values();
    workers
        .filter_map(|worker| {
            let impaired = || impaired(facts, worker, &mut RuleTrace::unwritten(KIND));
            evaluate_worker(facts, worker).or_else(impaired)
        })
        .chain(hidden(facts))
        .collect()
}

/// Workers with a disconnected agent in earlier sweeps that this sweep could not read.
fn hidden<'a>(facts: &Facts<'a>) -> impl Iterator<Item = Verdict> + use<'a> {
    let (inventory, facts) = (facts.inventory, *facts);
    let known = facts.memory.disconnected_since.keys();
    let instances = known.filter_map(move |node| inventory.instances.get(node));
    let unread = instances.filter(move |instance| may_be_hidden(&facts, instance));
    unread.map(|instance| {
        let reason = "earlier sweeps found its ECS agent disconnected, and this sweep could not \
                      read the container instances of its region";
        Verdict::undetermined(KIND, instance.id.as_str(), instance.name(), reason)
    })
}

/// Whether a running machine is not listed as a worker, and a failed call may hide it.
pub(crate) fn may_be_hidden(facts: &Facts<'_>, instance: &Instance) -> bool {
    let inventory = facts.inventory;
    let workers = &inventory.batch.container_instances;
    let (account, region) = (instance.account.as_ref(), instance.region.as_str());
    let mut gaps = inventory.gaps.iter();
    instance.state == InstanceState::Running
        && workers.on(&instance.id).is_none()
        && gaps.any(|gap| gap.may_hide_from(account, region, &WORKERS))
}

/// A worker whose container runtime fails the health check of ECS. Running tasks may continue, so
/// the finding has no cost, but an engineer should look at the worker.
pub(crate) fn impaired(
    facts: &Facts<'_>,
    worker: &ContainerInstance,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let (status, is_impaired) = match worker.health {
        Some(Health::Ok) => ("healthy", Some(false)),
        Some(Health::Impaired) => ("impaired", Some(true)),
        Some(Health::Initializing) | None => ("unknown", None),
    };
    let is_impaired = q.holds(
        "What does the ECS health check report for the container runtime?",
        (status, ""),
        is_impaired,
    );
    let instance = facts.instance(&worker.node).filter(|_| is_impaired)?;
    let undetermined = |when: String| {
        let why = format!("ECS reports an impaired container runtime, {when}");
        let (id, name) = (worker.node.as_str(), instance.name());
        Some(Verdict::undetermined(KIND, id, name, why))
    };
    let patience = facts.policy.batch.agent_disconnected();
    let so_far = worker.health_since.and_then(|from| since(facts, from));
    let shown = so_far.map_or_else(|| "unknown".to_owned(), |t| HumanDuration(t).to_string());
    q.holds(
        "For how long?",
        (shown, format_args!("at least {}", HumanDuration(patience))),
        so_far.and_then(|so_far| (so_far >= patience).then_some(true)),
    );
    let Some(from) = worker.health_since else {
        return undetermined("but not since when; tasks on this instance may hang".into());
    };
    let window = Window {
        from,
        to: facts.now.max(from),
    };
    if window.length() < patience {
        let (for_now, patience) = (HumanDuration(window.length()), HumanDuration(patience));
        return undetermined(format!("for {for_now}; reported after {patience}"));
    }
    Some(make_impaired_finding(facts, instance, window))
}

fn make_impaired_finding(facts: &Facts<'_>, instance: &Instance, window: Window) -> Verdict {
    let observation = StuckObservation {
        window,
        coverage: None,
        stuck: Stuck::RuntimeImpaired,
        confidence: Confidence {
            level: Level::High,
            reason: "the ECS health check reports this status and its start".into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: "Restart the container runtime, or let the compute environment replace the \
                     instance. Until then, tasks on this instance may hang."
                .into(),
            command: Some(open_shell(instance)),
        },
    };
    Verdict::Waste(Box::new(worker_without_cost(facts, instance, observation)))
}

fn evaluate_worker(facts: &Facts<'_>, worker: &ContainerInstance) -> Option<Verdict> {
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
            "its ECS agent was first found disconnected {} ago; reported after {}",
            HumanDuration(window.length()),
            HumanDuration(patience)
        ));
    }
    let state = facts.state.nodes.get(&worker.node);
    let Some(silent_for) = state.and_then(|state| silent_for(facts, state)) else {
        return undetermined(
            "its ECS agent is disconnected, and there is no probe to show whether the instance \
             works"
                .into(),
        );
    };
    if silent_for > facts.policy.idle.after() {
        let observation = host_lost(worker, window, silent_for);
        return Some(make_worker_finding(facts, instance, observation));
    }
    let is_at_work = state.is_some_and(|state| works(facts, state));
    let observation = agent_disconnected(worker, window, is_at_work);
    Some(match is_at_work {
        // Its tasks continue without the agent.
        true => Verdict::Waste(Box::new(worker_without_cost(facts, instance, observation))),
        false => make_worker_finding(facts, instance, observation),
    })
}

/// Whether the tasks of a node were active lately.
pub(crate) fn works(facts: &Facts<'_>, state: &NodeState) -> bool {
    let ago = state.active_until.and_then(|until| since(facts, until));
    ago.is_some_and(|ago| ago <= facts.policy.idle.after())
}

fn agent_disconnected(
    worker: &ContainerInstance,
    window: Window,
    is_at_work: bool,
) -> StuckObservation {
    StuckObservation {
        window,
        coverage: None,
        stuck: Stuck::AgentDisconnected,
        confidence: Confidence {
            level: Level::High,
            reason: match worker.health {
                Some(Health::Impaired) => {
                    "every sweep found the ECS agent disconnected, ECS reports an impaired \
                     container runtime, and the probe still sends heartbeats"
                }
                _ => {
                    "every sweep found the ECS agent disconnected, and the probe still sends \
                     heartbeats"
                }
            }
            .into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: match is_at_work {
                true => {
                    "Restart the ECS agent. Its tasks still run, and they end if the instance is \
                     replaced. AWS Batch cannot place more jobs on it."
                }
                false => {
                    "Restart the ECS agent, or let the compute environment replace the instance. \
                     AWS Batch cannot place jobs on it."
                }
            }
            .into(),
            command: Some(format!(
                "aws ecs list-container-instances --region {} {}",
                worker.region,
                shell::option("--cluster", &worker.cluster_arn)
            )),
        },
    }
}

fn host_lost(worker: &ContainerInstance, window: Window, silent_for: Duration) -> StuckObservation {
    StuckObservation {
        window,
        coverage: None,
        stuck: Stuck::HostLost { silent_for },
        confidence: Confidence {
            level: Level::Medium,
            reason: "neither the ECS agent nor the probe responds, and the instance is billed"
                .into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: "Check the EC2 status checks and the console output. Let the compute \
                     environment or Auto Scaling group replace the instance."
                .into(),
            command: Some(format!(
                "aws ec2 describe-instance-status --region {} --instance-ids {}",
                worker.region, worker.node
            )),
        },
    }
}
