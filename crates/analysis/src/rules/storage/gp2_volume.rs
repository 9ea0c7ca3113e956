//! A gp2 volume for which gp3 is cheaper at the same IOPS and throughput.

use ebb_catalog::storage_prices::StoragePrices;
use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Unused;
use ebb_model::finding::{Action, Remedy};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::storage::Volume;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::{Usd, UsdPerHour};

use crate::facts::Facts;
use crate::rules::storage::storage_cost;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;

const KIND: FindingKind = FindingKind::OldVolumeType;

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

/// A gp2 volume up to this size has at most 128 MiB/s.
const SMALL_GIB: u64 = 170;

/// IOPS and MiB/s of a gp2 volume with this size, which gp3 must provide.
///
/// Source: EBS user guide, "General Purpose SSD volumes". A gp2 volume has 3 IOPS a GiB, at most
/// 16,000, and bursts to 3,000. Its throughput is 128 MiB/s up to 170 GiB and 250 MiB/s from 334
/// GiB on. A gp3 volume has 3,000 IOPS and 125 MiB/s; more is sold separately.
fn needed(size_gib: u64) -> (u64, u64) {
    let iops = (3 * size_gib).clamp(3_000, 16_000);
    let mibps = if size_gib <= SMALL_GIB { 125 } else { 250 };
    (iops, mibps)
}

/// Cost in a month of a gp3 volume that replaces a gp2 volume of this size. If AWS reports no price
/// for IOPS and throughput, they are derived from the price of a GiB. The ratio is the same in
/// every region: an IOPS a sixteenth, a MiB/s a half.
///
/// Source: aws.amazon.com/ebs/pricing (us-east-1: 0.08, 0.005 and 0.04 USD).
fn as_gp3(facts: &Facts<'_>, region: &Region, size_gib: u64) -> Option<Usd> {
    let price = |of: fn(&StoragePrices) -> Option<Usd>| facts.catalogue.storage(region, of);
    let (iops, mibps) = needed(size_gib);
    let (iops, mibps) = (iops - 3_000, mibps - 125);
    let a_gib = price(|all| all.volumes.get("gp3").copied());
    match (price(|all| all.gp3_iops), price(|all| all.gp3_mibps)) {
        (Some(an_iops), Some(a_mibps)) => {
            let size = storage_cost::of_gib(a_gib, size_gib)?;
            let times = |price: Usd, many: u64| UsdPerHour(price).part(many, 1).0;
            Some(size + times(an_iops, iops) + times(a_mibps, mibps))
        }
        _ => storage_cost::of_gib(a_gib, size_gib + iops.div_ceil(16) + mibps.div_ceil(2)),
    }
}

fn evaluate_volume(facts: &Facts<'_>, volume: &Volume, q: &mut RuleTrace) -> Option<Verdict> {
    if !is_gp2_in_use(volume, q) {
        return None;
    }
    let (iops, mibps) = needed(volume.size_gib);
    let now = storage_cost::a_month(facts, volume);
    let then = as_gp3(facts, &volume.region, volume.size_gib);
    let saving = now.zip(then).map(|(now, then)| now - then);
    let shown = saving.map_or("unknown".to_owned(), |saving| saving.to_string());
    if !q.holds(
        "How much cheaper per month is gp3 with the same IOPS and throughput?",
        (shown, "more than $0.00"),
        saving.map(|saving| saving > Usd::ZERO),
    ) || !storage_cost::is_worth_it(facts, saving, q)
    {
        return None;
    }
    let reason = match volume.size_gib <= SMALL_GIB {
        true => "gp3 has the same IOPS and 125 instead of 128 MiB/s at a lower list price",
        false => "gp3 has the same IOPS and throughput at a lower list price",
    };
    Some(storage_cost::make_finding(
        facts,
        storage_cost::StorageWaste {
            kind: KIND,
            id: &volume.id,
            region: &volume.region,
            tags: &volume.tags,
            node: volume.attached_to.first().map(ToString::to_string),
            since: volume.created_at.unwrap_or(facts.now),
            evidence: Unused::OldType {
                what: storage_cost::described(volume),
                iops,
                mibps,
            },
            confidence: Confidence {
                level: Level::High,
                reason: reason.into(),
            },
            saving_a_month: saving,
            remedy: Remedy {
                action: Action::Upgrade,
                advice: "Change the volume type to gp3. The volume stays online during the change."
                    .into(),
                command: Some(format!(
                    "aws ec2 modify-volume --region {} {} --volume-type gp3 --iops {iops} \
                     --throughput {mibps}",
                    volume.region,
                    shell::option("--volume-id", &volume.id)
                )),
            },
        },
    ))
}

fn is_gp2_in_use(volume: &Volume, q: &mut RuleTrace) -> bool {
    // Another rule covers volumes without a machine.
    let machines = volume.attached_to.len();
    q.holds(
        "What is the volume type?",
        (&volume.volume_type, "gp2"),
        volume.volume_type == "gp2",
    ) && q.holds(
        "To how many instances is the volume attached?",
        (machines, "at least 1"),
        machines > 0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, volume};
    use ebb_telemetry::testing::node;

    #[test]
    fn gp3_is_advised_when_it_does_the_same_for_less() {
        let check = |volume_type: &str, size_gib, expect: Option<i64>| {
            let mut volume = volume(1, volume_type, size_gib);
            volume.attached_to = vec![node(1)];
            let mut world = World::default();
            let volumes = &mut world.inventory.storage.volumes;
            volumes.insert(volume.id.clone(), volume);
            let saving = world.verdict().ok().map(|f| f.saving_or_zero());
            assert_eq!(
                saving,
                expect.map(Usd::from_micros),
                "{volume_type} {size_gib}"
            );
        };
        check("gp2", 100, Some(2_000_000));
        check("gp3", 100, None);
        // A saving of 16 cents does not justify a change.
        check("gp2", 8, None);
        // Its 250 MiB/s cost extra: 8 USD less 5.04.
        check("gp2", 400, Some(2_960_000));
        // 6,000 IOPS and 250 MiB/s: 40 USD less 15.04 and 5.04.
        check("gp2", 2_000, Some(19_920_000));
        check("gp2", 200, None);
    }
}
