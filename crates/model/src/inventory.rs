//! What is there, as the cloud's inventory tells it: instances and Batch.
//! Reading it is `ebb-cloud`'s business.

pub mod batch;
pub mod commitments;
pub mod host;
pub mod instance;
pub mod second_opinion;
pub mod spot_market;
pub mod storage;

use std::collections::BTreeMap;

use ebb_telemetry::identity::{AccountId, NodeId};
use serde::{Deserialize, Serialize};

use crate::inventory::batch::BatchFleet;
use crate::inventory::instance::{Instance, InstanceState, Provider};
use crate::inventory::second_opinion::SecondOpinion;
use crate::inventory::spot_market::Markets;
use crate::inventory::storage::Storage;
use crate::visibility_gap::Gap;

/// All that was seen, and what could not be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    /// Instances by id.
    pub instances: BTreeMap<NodeId, Instance>,
    /// Batch and the ECS beneath it.
    pub batch: BatchFleet,
    /// Volumes and addresses.
    #[serde(default)]
    pub storage: Storage,
    /// What the cloud's own advisers say, where they are switched on.
    #[serde(default)]
    pub opinions: Vec<SecondOpinion>,
    /// Spot prices, zones and commitments.
    #[serde(default)]
    pub markets: Markets,
    /// What could not be seen and why.
    pub gaps: Vec<Gap>,
}

impl Inventory {
    /// Takes in what another region or account answered.
    pub fn absorb(&mut self, other: Self) {
        self.instances.extend(other.instances);
        self.batch.absorb(other.batch);
        self.storage.absorb(other.storage);
        self.opinions.extend(other.opinions);
        self.markets.absorb(other.markets);
        self.gaps.extend(other.gaps);
    }

    /// Says whose all of it is that does not say so itself.
    pub fn belongs_to(&mut self, account: &AccountId) {
        let instances = self.instances.values_mut().map(|one| &mut one.account);
        let of_batch = self.batch.accounts();
        for of in instances.chain(of_batch).chain(self.storage.accounts()) {
            of.get_or_insert_with(|| account.clone());
        }
    }

    /// AWS's machines that run.
    pub fn running_on_aws(&self) -> impl Iterator<Item = &Instance> {
        self.instances
            .values()
            .filter(|one| one.state == InstanceState::Running && one.provider == Provider::Aws)
    }
}
