//! Volumes, addresses and snapshots, which are billed whether used or not.

use std::collections::BTreeMap;

use ebb_telemetry::identity::{AccountId, NodeId, Region};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// All volumes, addresses and snapshots that were read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// EBS volumes by id.
    pub volumes: BTreeMap<String, Volume>,
    /// Elastic IP addresses by allocation id.
    pub addresses: BTreeMap<String, Address>,
    /// EBS snapshots of the account by id.
    pub snapshots: BTreeMap<String, Snapshot>,
}

impl Storage {
    /// Adds the storage of another region or account.
    pub fn absorb(&mut self, other: Self) {
        self.volumes.extend(other.volumes);
        self.addresses.extend(other.addresses);
        self.snapshots.extend(other.snapshots);
    }

    /// The accounts of all of them.
    pub(crate) fn accounts(&mut self) -> impl Iterator<Item = &mut Option<AccountId>> {
        let volumes = self.volumes.values_mut().map(|one| &mut one.account);
        let addresses = self.addresses.values_mut().map(|one| &mut one.account);
        let snapshots = self.snapshots.values_mut().map(|one| &mut one.account);
        volumes.chain(addresses).chain(snapshots)
    }

    /// The account of a volume, address or snapshot; `None` when unknown.
    pub fn account_of(&self, id: &str) -> Option<&AccountId> {
        let volume = self.volumes.get(id).map(|one| &one.account);
        let address = || self.addresses.get(id).map(|one| &one.account);
        let snapshot = || self.snapshots.get(id).map(|one| &one.account);
        volume.or_else(address).or_else(snapshot)?.as_ref()
    }

    /// The tags of a volume, address or snapshot; `None` for an unknown id.
    pub fn tags_of(&self, id: &str) -> Option<&BTreeMap<String, String>> {
        let volume = self.volumes.get(id).map(|volume| &volume.tags);
        volume
            .or_else(|| self.addresses.get(id).map(|address| &address.tags))
            .or_else(|| self.snapshots.get(id).map(|snapshot| &snapshot.tags))
    }
}

/// An EBS volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its id.
    pub id: String,
    /// The region.
    pub region: Region,
    /// The account; `None` when the response did not contain it.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The volume type, such as `gp3`.
    pub volume_type: String,
    /// The size.
    pub size_gib: u64,
    /// When it was created; `None` when the response did not contain it.
    pub created_at: Option<Timestamp>,
    /// The machines that it is attached to.
    pub attached_to: Vec<NodeId>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// An Elastic IP address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// The allocation id.
    pub id: String,
    /// The region.
    pub region: Region,
    /// The account; `None` when the response did not contain it.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The address itself; `None` when the response did not contain it.
    pub public_ip: Option<String>,
    /// The machine, interface or gateway that it is associated with; `None` when it is not
    /// associated.
    pub association: Option<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// An EBS snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// The region.
    pub region: Region,
    /// The account; `None` when the response did not contain it.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The source volume, which may have been deleted; `None` for a copy, whose volume EC2 calls
    /// `vol-ffffffff`.
    pub volume: Option<String>,
    /// The size of the source volume. The billed size is smaller: only written blocks are billed.
    pub size_gib: u64,
    /// The full size of the stored data; `None` when unknown.
    pub stored_bytes: Option<u64>,
    /// When it was created; `None` when the response did not contain it.
    pub created_at: Option<Timestamp>,
    /// Images of the account that use it; `None` when they could not be read.
    pub images: Option<Vec<String>>,
    /// True if it is in the archive tier, which costs a quarter.
    pub archived: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}
