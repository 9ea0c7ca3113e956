//! Idle address: an Elastic IP address without an association. EC2 does not report since when, so
//! the first sweep that found it counts.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Unused;
use ebb_model::finding::{Action, Remedy};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::storage::Address;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::rules::storage::storage_cost;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;

const KIND: FindingKind = FindingKind::IdleAddress;

/// Evaluates every address.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let addresses = facts.inventory.storage.addresses.values();
    addresses
        .filter_map(|address| evaluate_address(facts, address, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about one address.
pub(crate) fn explain(facts: &Facts<'_>, address: &Address) -> Vec<Check> {
    RuleTrace::written(KIND, |q| evaluate_address(facts, address, q))
}

fn evaluate_address(facts: &Facts<'_>, address: &Address, q: &mut RuleTrace) -> Option<Verdict> {
    let has_it = address.association.as_deref();
    if !q.holds(
        "With what is the address associated?",
        (has_it.unwrap_or("nothing"), "nothing"),
        has_it.is_none(),
    ) {
        return None;
    }
    let free = FreeAddress::find(facts, address);
    let shown = match free.since_first_sweep {
        true => format!("{}, since the first sweep", free.free_for),
        false => free.free_for.to_string(),
    };
    let least = facts.policy.storage.unused_after();
    let expect = format!(
        "at least {}, or since the first sweep",
        HumanDuration(least)
    );
    if !q.holds(
        "For how long have sweeps found it without an association?",
        (shown, expect),
        free.since_first_sweep || free.free_for.0 >= least,
    ) {
        return None;
    }
    let price = facts
        .catalogue
        .storage(&address.region, |prices| prices.address);
    let saving = price.map(UsdPerHour::a_month);
    if !storage_cost::is_worth_it(facts, saving, q) {
        return None;
    }
    Some(storage_cost::make_finding(
        facts,
        storage_cost::StorageWaste {
            kind: KIND,
            id: &address.id,
            region: &address.region,
            tags: &address.tags,
            node: None,
            // EC2 reports neither the allocation nor the disassociation time.
            since: free.since,
            evidence: Unused::Address {
                public_ip: address.public_ip.clone(),
            },
            confidence: free.confidence(),
            saving_a_month: saving,
            remedy: Remedy {
                action: Action::Delete,
                advice: "Release the address, unless an external system relies on it.".into(),
                command: Some(format!(
                    "aws ec2 release-address --region {} {}",
                    address.region,
                    shell::option("--allocation-id", &address.id)
                )),
            },
        },
    ))
}

/// An address without an association.
struct FreeAddress {
    /// The first of the consecutive sweeps that found it so; now for the first one.
    since: Timestamp,
    free_for: HumanDuration,
    /// Whether the first sweep of all found it so. Nothing is known about the time before.
    since_first_sweep: bool,
}

impl FreeAddress {
    fn find(facts: &Facts<'_>, address: &Address) -> Self {
        let since = facts.memory.unassociated_since.get(&address.id).copied();
        let since = since.unwrap_or(facts.now);
        let free_for = Duration::try_from(facts.now.duration_since(since));
        let first_sweep = facts.memory.first_sweep;
        Self {
            since,
            free_for: HumanDuration(free_for.unwrap_or_default()),
            since_first_sweep: first_sweep.is_none_or(|first| since <= first),
        }
    }

    fn confidence(&self) -> Confidence {
        let free_for = &self.free_for;
        Confidence {
            level: Level::Medium,
            reason: match free_for.0.is_zero() {
                true => "EC2 reports that the address is not associated, but not since when".into(),
                false => format!(
                    "each sweep for {free_for} found the address without an association; EC2 does \
                     not report since when"
                ),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sweep_memory::next_memory;
    use crate::testing::{World, region};
    use ebb_model::visibility_gap::Gap;
    use ebb_telemetry::money::Usd;
    use ebb_telemetry::testing::at;

    fn world(association: Option<&str>) -> World {
        let address = Address {
            account: None,
            id: "eipalloc-1".into(),
            region: region(),
            public_ip: Some("192.0.2.1".into()),
            association: association.map(str::to_owned),
            tags: BTreeMap::new(),
        };
        let mut world = World::default();
        let addresses = &mut world.inventory.storage.addresses;
        addresses.insert(address.id.clone(), address);
        world
    }

    #[test]
    fn an_address_is_waste_while_nothing_has_it() {
        let check = |association: Option<&str>, expect: Option<i64>| {
            let saving = world(association)
                .verdict()
                .ok()
                .map(|f| f.saving_or_zero());
            assert_eq!(saving, expect.map(Usd::from_micros));
        };
        check(None, Some(3_650_000));
        check(Some("eipassoc-1"), None);
    }

    #[test]
    fn an_address_that_sweeps_saw_in_use_is_reported_after_a_week() {
        const DAY: u64 = 86_400;
        let check = |first_day: u64, free_day: u64, expect: Option<&str>| {
            let mut world = world(None);
            world.memory.first_sweep = Some(at(first_day * DAY));
            let free = [("eipalloc-1".to_owned(), at(free_day * DAY))];
            world.memory.unassociated_since = free.into();
            world.now = at(20 * DAY);
            let reason = world.verdict().ok().map(|found| found.confidence.reason);
            assert_eq!(reason.as_deref(), expect, "{first_day} {free_day}");
        };
        let text = "each sweep for 8 d 0 h found the address without an association; EC2 does not \
                    report since when";
        check(1, 12, Some(text));
        check(1, 14, None);
        // The first sweep found it.
        let new = "EC2 reports that the address is not associated, but not since when";
        check(20, 20, Some(new));
        check(1, 20, None);
    }

    #[test]
    fn sweeps_remember_the_first_that_found_an_address_free() {
        let mut world = world(None);
        let first = next_memory(&world.facts());
        world.memory = first.clone();
        world.now = at(86_400);
        assert_eq!(next_memory(&world.facts()), first);
        world.inventory.storage.addresses.clear();
        let forgotten = next_memory(&world.facts());
        assert!(forgotten.unassociated_since.is_empty());
        assert_eq!(forgotten.first_sweep, first.first_sweep);
    }

    #[test]
    fn a_sweep_that_cannot_read_the_addresses_keeps_the_time_of_a_free_one() {
        const DAY: u64 = 86_400;
        let check = |scope: &str, expect: Option<Timestamp>| {
            let mut world = world(None);
            world.memory.first_sweep = Some(at(0));
            let free = [("eipalloc-1".to_owned(), at(DAY))];
            world.memory.unassociated_since = free.into();
            world.now = at(60 * DAY);
            let listed = std::mem::take(&mut world.inventory.storage.addresses);
            world.inventory.gaps = vec![Gap::new(scope, "RequestLimitExceeded")];
            world.memory = next_memory(&world.facts());
            world.inventory.storage.addresses = listed;
            world.inventory.gaps.clear();
            world.memory = next_memory(&world.facts());
            let since = world.verdict().ok().map(|found| found.window.from);
            assert_eq!(since, expect, "{scope}");
        };
        check("us-east-1: ec2:DescribeAddresses", Some(at(DAY)));
        check("us-east-1: inventory", Some(at(DAY)));
        check("us-east-1: ec2:DescribeVolumes", None);
    }
}
