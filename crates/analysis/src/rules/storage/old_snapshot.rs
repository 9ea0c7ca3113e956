//! Old snapshot: its volume no longer exists, no image uses it, and no backup policy deletes it.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Unused;
use ebb_model::finding::{Action, Remedy};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::storage::Snapshot;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::units::Bytes;

use crate::facts::Facts;
use crate::rules::storage::storage_cost;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;

const KIND: FindingKind = FindingKind::OldSnapshot;

/// Tags of snapshots that AWS Backup or Data Lifecycle Manager deletes.
const KEPT_BY_POLICY: [&str; 2] = ["aws:backup:source-resource", "aws:dlm:lifecycle-policy-id"];

/// The call that lists volumes.
const VOLUMES: &str = "ec2:DescribeVolumes";

/// Evaluates every snapshot.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let snapshots = facts.inventory.storage.snapshots.values();
    snapshots
        .filter_map(|snapshot| evaluate_snapshot(facts, snapshot, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about one snapshot.
pub(crate) fn explain(facts: &Facts<'_>, snapshot: &Snapshot) -> Vec<Check> {
    RuleTrace::written(KIND, |q| evaluate_snapshot(facts, snapshot, q))
}

fn evaluate_snapshot(facts: &Facts<'_>, snapshot: &Snapshot, q: &mut RuleTrace) -> Option<Verdict> {
    if !is_unused(facts, snapshot, q) {
        return None;
    }
    let after = Duration::from_secs(facts.policy.storage.snapshot_after_seconds);
    let question = (&mut *q, "How old is the snapshot?");
    let made = storage_cost::long_since(facts, snapshot.created_at, after, question)?;
    let saving = a_month(facts, snapshot);
    if !storage_cost::is_worth_it(facts, saving, q) {
        return None;
    }
    let tier = if snapshot.archived { " archived" } else { "" };
    let (id, region) = (&snapshot.id, &snapshot.region);
    Some(storage_cost::make_finding(
        facts,
        storage_cost::StorageWaste {
            kind: KIND,
            id,
            region,
            tags: &snapshot.tags,
            node: None,
            // EC2 does not report when the volume was deleted.
            since: facts.now,
            evidence: Unused::Snapshot {
                what: format!(
                    "{} GiB{tier} snapshot {}",
                    snapshot.size_gib,
                    storage_cost::made(made)
                ),
                volume: snapshot.volume.clone(),
            },
            confidence: Confidence {
                level: Level::Low,
                reason:
                    "the snapshot may be the last copy; blocks shared with other snapshots are \
                     billed once, so the cost is an upper bound"
                        .into(),
            },
            saving_a_month: saving,
            remedy: Remedy {
                action: Action::Delete,
                advice: "Delete the snapshot if nobody needs this copy. Otherwise move it to the \
                         archive tier, and add a tag with the reason."
                    .into(),
                command: Some(format!(
                    "aws ec2 delete-snapshot --region {region} {}",
                    shell::option("--snapshot-id", id)
                )),
            },
        },
    ))
}

/// Whether no volume, image and backup policy needs the snapshot.
fn is_unused(facts: &Facts<'_>, snapshot: &Snapshot, q: &mut RuleTrace) -> bool {
    let volumes = &facts.inventory.storage.volumes;
    let volume = snapshot.volume.as_ref();
    let has_volume = volume.is_some_and(|id| volumes.contains_key(id));
    let is_kept = KEPT_BY_POLICY
        .iter()
        .any(|tag| snapshot.tags.contains_key(*tag));
    // The list of volumes must be complete; otherwise every volume would seem deleted.
    let (account, region) = (snapshot.account.as_ref(), snapshot.region.as_str());
    let mut gaps = facts.inventory.gaps.iter();
    let has_all_volumes = !gaps.any(|gap| gap.may_hide_from(account, region, &[VOLUMES]));
    let images = snapshot.images.as_ref().map(Vec::len);
    let shown = images.map_or("unknown".to_owned(), |images| images.to_string());
    let yes_or_no = |yes| if yes { "yes" } else { "no" };
    q.holds(
        "Could all resources of its region be read?",
        (yes_or_no(has_all_volumes), "yes"),
        has_all_volumes.then_some(true),
    ) && q.holds(
        "Does its source volume exist?",
        (yes_or_no(has_volume), "no"),
        !has_volume,
    ) && q.holds(
        "How many AMIs use the snapshot?",
        (shown, 0),
        images.map(|images| images == 0),
    ) && q.holds(
        "Does a backup policy keep the snapshot?",
        (yes_or_no(is_kept), "no"),
        !is_kept,
    )
}

fn a_month(facts: &Facts<'_>, snapshot: &Snapshot) -> Option<Usd> {
    let price = facts
        .catalogue
        .storage(&snapshot.region, |prices| match snapshot.archived {
            true => prices.archived_snapshot,
            false => prices.snapshot,
        });
    let known_size = snapshot.stored_bytes.map(Bytes);
    let stored = known_size.unwrap_or(Bytes::gib(snapshot.size_gib));
    Some(UsdPerHour(price?).part(stored.0, Bytes::gib(1).0).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, old_snapshot, volume};
    use ebb_model::visibility_gap::Gap;

    fn snapshot(days: u64, change: impl Fn(&mut Snapshot)) -> World {
        let mut snapshot = old_snapshot(days);
        change(&mut snapshot);
        let mut world = World::default();
        world
            .inventory
            .storage
            .snapshots
            .insert("snap-1".into(), snapshot);
        world
    }

    #[test]
    fn an_old_snapshot_is_waste_when_nothing_is_left_of_what_it_was_made_of() {
        let check = |name: &str, world: &World, expect: Option<i64>| {
            let found = world
                .evaluate()
                .findings
                .into_iter()
                .find(|f| f.kind == KIND);
            let saving = found.map(|finding| finding.saving_or_zero().micros());
            assert_eq!(saving, expect, "{name}");
        };
        check("old", &snapshot(100, |_| {}), Some(5_000_000));
        check(
            "archived",
            &snapshot(100, |s| s.archived = true),
            Some(1_250_000),
        );
        check("young", &snapshot(80, |_| {}), None);
        check("small", &snapshot(100, |s| s.size_gib = 10), None);
        check(
            "of an image",
            &snapshot(100, |s| s.images = Some(vec!["ami-1".into()])),
            None,
        );
        check("images unknown", &snapshot(100, |s| s.images = None), None);
        check(
            "a copy",
            &snapshot(100, |s| s.volume = None),
            Some(5_000_000),
        );
        let kept = |s: &mut Snapshot| {
            s.tags
                .insert("aws:dlm:lifecycle-policy-id".into(), "policy-1".into());
        };
        check("kept by a policy", &snapshot(100, kept), None);
        let mut has_volume = snapshot(100, |s| s.volume = Some("vol-1".into()));
        let volume = volume(1, "gp3", 1);
        has_volume
            .inventory
            .storage
            .volumes
            .insert("vol-1".into(), volume);
        check("its volume is there", &has_volume, None);
        let mut blind = snapshot(100, |_| {});
        blind
            .inventory
            .gaps
            .push(Gap::new("us-east-1: ec2:DescribeVolumes", "AccessDenied"));
        check("volumes not told", &blind, None);
        for scope in ["us-east-1: list prices", "us-east-1: ecs:DescribeTasks"] {
            blind.inventory.gaps[0].scope = scope.into();
            check("something else not read", &blind, Some(5_000_000));
        }
        blind.inventory.gaps[0].scope = "account 000000000002: sts:AssumeRole".into();
        check("an account not entered", &blind, None);
    }
}
