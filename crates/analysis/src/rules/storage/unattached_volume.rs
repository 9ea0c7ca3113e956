//! Unattached volume: no machine uses it, but it is still billed.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Unused;
use ebb_model::finding::{Action, Remedy};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::storage::Volume;

use crate::facts::Facts;
use crate::rules::storage::storage_cost;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;

const KIND: FindingKind = FindingKind::UnattachedVolume;

/// Evaluates every volume.
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
    let machines = volume.attached_to.len();
    if !q.holds(
        "To how many instances is the volume attached?",
        (machines, 0),
        machines == 0,
    ) {
        return None;
    }
    let after = facts.policy.storage.unused_after();
    let question = (&mut *q, "How old is the volume?");
    let made = storage_cost::long_since(facts, volume.created_at, after, question)?;
    let saving = storage_cost::a_month(facts, volume);
    if !storage_cost::is_worth_it(facts, saving, q) {
        return None;
    }
    Some(storage_cost::make_finding(
        facts,
        storage_cost::StorageWaste {
            kind: KIND,
            id: &volume.id,
            region: &volume.region,
            tags: &volume.tags,
            node: None,
            // EC2 does not report when the volume was detached, so it may have been in use until
            // now.
            since: facts.now,
            evidence: Unused::Volume {
                what: format!(
                    "{} {}",
                    storage_cost::described(volume),
                    storage_cost::made(made)
                ),
            },
            confidence: Confidence {
                level: Level::Medium,
                reason: "EC2 reports that the volume is not attached, but not since when".into(),
            },
            saving_a_month: saving,
            remedy: Remedy {
                action: Action::Delete,
                advice: "Create a snapshot and delete the volume.".into(),
                command: Some(format!(
                    "aws ec2 create-snapshot --region {} {}",
                    volume.region,
                    shell::option("--volume-id", &volume.id)
                )),
            },
        },
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{World, volume};
    use ebb_telemetry::money::Usd;
    use ebb_telemetry::testing::node;

    #[test]
    fn a_volume_without_a_machine_is_waste_after_a_week() {
        let check = |days_old: u64, size_gib, attached: bool, expect: Option<i64>| {
            let mut volume = volume(days_old, "gp3", size_gib);
            volume.attached_to = if attached { vec![node(1)] } else { Vec::new() };
            let mut world = World::default();
            let volumes = &mut world.inventory.storage.volumes;
            volumes.insert(volume.id.clone(), volume);
            let saving = world.verdict().ok().map(|f| f.saving_or_zero());
            assert_eq!(saving, expect.map(Usd::from_micros));
        };
        check(8, 100, false, Some(8_000_000));
        check(6, 100, false, None);
        check(8, 100, true, None);
        check(8, 1, false, None);
    }

    #[test]
    fn its_age_is_told_and_is_not_taken_for_the_time_in_which_nothing_had_it() {
        let volume = volume(8, "gp3", 100);
        let made = volume
            .created_at
            .expect("a time")
            .strftime("%Y-%m-%d")
            .to_string();
        let mut world = World::default();
        let volumes = &mut world.inventory.storage.volumes;
        volumes.insert(volume.id.clone(), volume);
        let finding = world.verdict().expect("it is waste");
        let text = format!("100 GiB gp3 of {made}, not attached to an instance");
        assert_eq!(finding.evidence.to_string(), text);
        let spent = finding.cost.map(|cost| cost.spent);
        assert_eq!(
            (finding.window.length().as_secs(), spent),
            (0, Some(Usd::ZERO))
        );
    }

    #[test]
    fn a_price_that_is_not_known_is_no_reason_for_silence_and_no_money() {
        let volume = volume(30, "io2", 500);
        let mut world = World::default();
        let volumes = &mut world.inventory.storage.volumes;
        volumes.insert(volume.id.clone(), volume);
        assert_eq!(world.verdict().expect("it is waste").cost, None);
    }
}
