//! A worker whose ECS agent has lost touch. The probe tells whether the agent or the
//! host is at fault; where the probe alone is silent, the idle rule says so.

use jiff::Timestamp;

use super::{KIND, Seen, Verdict, found_worker, silent_for};
use crate::finding::{Action, Confidence, Level, Remedy, Stuck, Window};
use crate::fleet::{ContainerInstance, Health};
use crate::judge::Facts;
use crate::units::Spoken;

/// Judges every worker.
pub(super) fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let workers = facts.inventory.batch.container_instances.values();
    workers
        .filter_map(|worker| judge_one(facts, worker).or_else(|| impaired(facts, worker)))
        .collect()
}

/// ECS's own check of the container runtime says that it fails, and not since when: no
/// waste is claimed, but somebody should look.
fn impaired(facts: &Facts<'_>, worker: &ContainerInstance) -> Option<Verdict> {
    let is_impaired = worker.health == Some(Health::Impaired);
    let instance = facts.instance(&worker.node).filter(|_| is_impaired)?;
    Some(Verdict::undetermined(
        KIND,
        worker.node.as_str(),
        instance.name(),
        "ECS says that its container runtime is impaired, and not since when: what is placed on \
         it may hang",
    ))
}

fn judge_one(facts: &Facts<'_>, worker: &ContainerInstance) -> Option<Verdict> {
    let since: Timestamp = *facts.disconnected_since.get(&worker.node)?;
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
            Spoken(window.length()),
            Spoken(patience)
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
        true => Seen {
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
                    "aws ecs list-container-instances --region {} --cluster {}",
                    worker.region, worker.cluster_arn
                )),
            },
        },
        false => Seen {
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
