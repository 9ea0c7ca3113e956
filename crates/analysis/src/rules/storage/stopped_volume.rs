//! Volume of a stopped machine: the machine costs nothing, but its volumes are still billed.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Unused;
use ebb_model::finding::{Action, Remedy};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;
use ebb_model::inventory::storage::Volume;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::rules::storage::storage_cost;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::StoppedMachinesVolume;

/// Evaluates every volume whose machines have all been stopped for a long time.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let volumes = facts.inventory.storage.volumes.values();
    volumes
        .filter_map(|volume| evaluate_volume(facts, volume, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about one volume.
pub(crate) fn explain(facts: &Facts<'_>, volume: &Volume) -> Vec<Check> {
    RuleTrace::written(KIND, |q| evaluate_volume(facts, volume, q))
}

fn evaluate_volume(facts: &Facts<'_>, volume: &Volume, q: &mut RuleTrace) -> Option<Verdict> {
    let stopped = stopped_instances(facts, volume);
    let stopped_count = stopped.as_ref().map_or(0, Vec::len);
    let last = stopped.and_then(|all| all.into_iter().max_by_key(|(_, since)| *since));
    let machines = volume.attached_to.len();
    if !q.holds(
        "How many of its instances are stopped?",
        (
            stopped_count,
            format_args!("all {machines}, and at least one"),
        ),
        last.is_some(),
    ) {
        return None;
    }
    let (machine, since) = last?;
    let since = since.max(volume.created_at.unwrap_or(since));
    let after = facts.policy.storage.unused_after();
    let question = (&mut *q, "How long have they been stopped?");
    let since = storage_cost::long_since(facts, Some(since), after, question)?;
    let saving = storage_cost::a_month(facts, volume);
    if !storage_cost::is_worth_it(facts, saving, q) {
        return None;
    }
    // A machine has an owner tag more often than its volumes.
    let tags = if volume.tags.is_empty() {
        &machine.tags
    } else {
        &volume.tags
    };
    Some(storage_cost::make_finding(
        facts,
        storage_cost::StorageWaste {
            kind: KIND,
            id: &volume.id,
            region: &volume.region,
            tags,
            node: Some(machine.id.to_string()),
            since,
            evidence: Unused::StoppedMachine {
                what: storage_cost::described(volume),
                machine: machine.name().unwrap_or(machine.id.as_str()).to_owned(),
            },
            confidence: Confidence {
                level: Level::High,
                reason: "EC2 reports when its instance was stopped".into(),
            },
            saving_a_month: saving,
            remedy: Remedy {
                action: Action::Delete,
                advice: "Create an AMI and terminate the instance if nobody will start it again."
                    .into(),
                command: Some(format!(
                    "aws ec2 create-image --region {} --instance-id {} --name {}-kept",
                    volume.region, machine.id, machine.id
                )),
            },
        },
    ))
}

/// The instances of a volume, each with the time since it is stopped; `None` if one is not.
fn stopped_instances<'a>(
    facts: &Facts<'a>,
    volume: &Volume,
) -> Option<Vec<(&'a Instance, Timestamp)>> {
    let instances = volume.attached_to.iter().map(|node| {
        let instance = facts.inventory.instances.get(node)?;
        Some((instance, instance.stopped_since()?))
    });
    instances.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, days_ago, instance, volume};
    use ebb_model::inventory::instance::InstanceState;

    #[test]
    fn a_volume_is_waste_when_its_machine_was_stopped_long_ago() {
        let check = |state: InstanceState, stopped_days: Option<u64>, expect: bool| {
            let mut machine = instance(1);
            machine.state = state;
            machine.state_since = stopped_days.map(days_ago);
            let mut world = World::with([machine.clone()]);
            let mut volume = volume(100, "gp3", 100);
            volume.attached_to = vec![machine.id.clone()];
            let volumes = &mut world.inventory.storage.volumes;
            volumes.insert(volume.id.clone(), volume);
            let found = world
                .evaluate()
                .findings
                .into_iter()
                .find(|f| f.kind == KIND);
            assert_eq!(found.is_some(), expect, "{state:?} {stopped_days:?}");
            if let Some(found) = found {
                assert_eq!(found.window.from, days_ago(8));
            }
        };
        check(InstanceState::Stopped, Some(8), true);
        check(InstanceState::Stopped, Some(6), false);
        check(InstanceState::Stopped, None, false);
        check(InstanceState::Running, Some(8), false);
    }
}
