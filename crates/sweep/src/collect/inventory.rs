//! Reads the inventory of all accounts.

use ebb_model::inventory::Inventory;
use ebb_model::visibility_gap::{ALL_REGIONS, Refused, WHOLE_INVENTORY};
use futures::{StreamExt, stream};

use crate::collect::account::{Account, REGIONS_AT_ONCE};

/// Everything in the requested regions. The same answers give the same inventory in any order.
pub async fn inventory(account: &Account<'_>) -> Inventory {
    let mut account_inventory = Inventory::default();
    let mut regions = account.regions.to_vec();
    if regions.is_empty() {
        match account.inventory.regions().await {
            Ok(enabled) => regions = enabled,
            Err(error) => account_inventory
                .gaps
                .push(Refused::from(error).gap(ALL_REGIONS)),
        }
    }
    account_inventory
        .gaps
        .extend(account.inventory.not_entered());
    regions.sort();
    regions.dedup();
    if !account.regions.is_empty() {
        let asked = account.regions.iter().cloned();
        account_inventory.scope.regions.extend(asked);
    }
    let requests = regions.into_iter().map(|region| async move {
        let answer = account.inventory.gather(&region).await;
        (region, answer)
    });
    let mut answers = stream::iter(requests).buffered(REGIONS_AT_ONCE);
    while let Some((region, answer)) = answers.next().await {
        match answer {
            Ok(inventory) => account_inventory.absorb(inventory),
            Err(error) => {
                let gap = Refused::from(error).gap(format!("{region}: {WHOLE_INVENTORY}"));
                account_inventory.gaps.push(gap);
            }
        }
    }
    account_inventory.gaps.sort();
    account_inventory
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ebb_cloud::fake::account::FakeInventory;
    use ebb_telemetry::identity::Region;

    use super::*;

    #[tokio::test]
    async fn the_inventory_names_the_regions_only_if_the_configuration_limits_them() {
        let region = Region::new("us-east-1").expect("a region");
        let source = FakeInventory::default();
        source.set(region.clone(), Ok(Inventory::default()));
        let asked = async |regions: &[Region]| {
            let account = Account {
                inventory: &source,
                metrics: None,
                bill: None,
                markets: None,
                prices: None,
                regions,
            };
            inventory(&account).await.scope.regions
        };
        assert_eq!(asked(&[]).await, BTreeSet::new());
        let limited = [region.clone()];
        assert_eq!(asked(&limited).await, BTreeSet::from([region]));
    }
}
