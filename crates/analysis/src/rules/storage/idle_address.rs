//! Idle address: an Elastic IP address without an association.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Unused;
use ebb_model::finding::{Action, Remedy};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::storage::Address;
use ebb_telemetry::money::UsdPerHour;

use crate::facts::Facts;
use crate::rules::storage::storage_cost;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;

const KIND: FindingKind = FindingKind::IdleAddress;

/// Evaluates every address.
pub fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let addresses = facts.inventory.storage.addresses.values();
    addresses
        .filter_map(|address| judge_one(facts, address, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about one address.
pub(crate) fn explain(facts: &Facts<'_>, address: &Address) -> Vec<Check> {
    RuleTrace::written(KIND, |q| judge_one(facts, address, q))
}

fn judge_one(facts: &Facts<'_>, address: &Address, q: &mut RuleTrace) -> Option<Verdict> {
    let has_it = address.association.as_deref();
    if !q.holds(
        "With what is the address associated?",
        (has_it.unwrap_or("nothing"), "nothing"),
        has_it.is_none(),
    ) {
        return None;
    }
    let price = facts.catalogue.storage(&address.region, |all| all.address);
    let saving = price.map(UsdPerHour::a_month);
    if !storage_cost::is_worth_it(facts, saving, q) {
        return None;
    }
    Some(storage_cost::found(
        facts,
        storage_cost::StorageWaste {
            kind: KIND,
            id: &address.id,
            region: &address.region,
            tags: &address.tags,
            node: None,
            // EC2 reports neither the allocation nor the disassociation time.
            since: facts.now,
            evidence: Unused::Address {
                public_ip: address.public_ip.clone(),
            },
            confidence: Confidence {
                level: Level::Medium,
                reason: "EC2 reports that the address is not associated, but not since when".into(),
            },
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::{World, region};
    use ebb_telemetry::money::Usd;

    #[test]
    fn an_address_is_waste_while_nothing_has_it() {
        let check = |association: Option<&str>, expect: Option<i64>| {
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
            let saving = world.verdict().ok().map(|f| f.saving_or_zero());
            assert_eq!(saving, expect.map(Usd::from_micros));
        };
        check(None, Some(3_650_000));
        check(Some("eipassoc-1"), None);
    }
}
