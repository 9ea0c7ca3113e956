//! The inventory of the cloud provider: instances, Batch, storage and prices. The crate `ebb-cloud`
//! reads it.

pub mod batch;
pub mod commitments;
pub mod host;
pub mod instance;
pub mod second_opinion;
pub mod spot_market;
pub mod storage;

use std::collections::{BTreeMap, BTreeSet};

use ebb_telemetry::identity::{AccountId, NodeId, Region};
use serde::{Deserialize, Serialize};

use crate::inventory::batch::BatchFleet;
use crate::inventory::instance::{Instance, InstanceState, Provider};
use crate::inventory::second_opinion::SecondOpinion;
use crate::inventory::spot_market::Markets;
use crate::inventory::storage::Storage;
use crate::visibility_gap::Gap;

/// Everything that was read, and the gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    /// Instances by id.
    pub instances: BTreeMap<NodeId, Instance>,
    /// Batch and the ECS beneath it.
    pub batch: BatchFleet,
    /// Volumes, addresses and snapshots.
    #[serde(default)]
    pub storage: Storage,
    /// Recommendations of the cloud provider's own services, if they are enabled.
    #[serde(default)]
    pub opinions: Vec<SecondOpinion>,
    /// Spot prices, zones and commitments.
    #[serde(default)]
    pub markets: Markets,
    /// The configured regions and accounts.
    #[serde(default)]
    pub scope: InventoryScope,
    /// Parts that could not be read, with the reason.
    pub gaps: Vec<Gap>,
}

/// The configured regions and accounts, with those that refused. Nothing is known about the resources
/// of others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InventoryScope {
    /// Empty for all enabled regions.
    pub regions: BTreeSet<Region>,
    /// Empty if the accounts are not known.
    pub accounts: BTreeSet<AccountId>,
}

impl InventoryScope {
    /// Whether resources of this account and region were asked for; true for an unknown account.
    pub(crate) fn contains(&self, account: Option<&AccountId>, region: &str) -> bool {
        let has_region = || self.regions.iter().any(|one| one.as_str() == region);
        let has_account = |account: &AccountId| self.accounts.contains(account);
        (self.regions.is_empty() || has_region())
            && (self.accounts.is_empty() || account.is_none_or(has_account))
    }
}

impl Inventory {
    /// Adds the inventory of another region or account.
    pub fn absorb(&mut self, other: Self) {
        self.instances.extend(other.instances);
        self.batch.absorb(other.batch);
        self.storage.absorb(other.storage);
        self.opinions.extend(other.opinions);
        self.markets.absorb(other.markets);
        self.scope.regions.extend(other.scope.regions);
        self.scope.accounts.extend(other.scope.accounts);
        self.gaps.extend(other.gaps);
    }

    /// Sets the account of everything whose account is unknown.
    pub fn belongs_to(&mut self, account: &AccountId) {
        let instances = self.instances.values_mut().map(|one| &mut one.account);
        let of_batch = self.batch.accounts();
        for of in instances.chain(of_batch).chain(self.storage.accounts()) {
            of.get_or_insert_with(|| account.clone());
        }
    }

    /// Running AWS instances.
    pub fn running_on_aws(&self) -> impl Iterator<Item = &Instance> {
        self.instances
            .values()
            .filter(|one| one.state == InstanceState::Running && one.provider == Provider::Aws)
    }
}
