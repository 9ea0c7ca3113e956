//! Volumes and addresses, which are billed whether or not anything uses them.

use std::collections::BTreeMap;

use ebb_telemetry::identity::{AccountId, NodeId, Region};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// All volumes and addresses that were seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// Volumes of EBS by id.
    pub volumes: BTreeMap<String, Volume>,
    /// Elastic addresses by allocation id.
    pub addresses: BTreeMap<String, Address>,
    /// Snapshots of EBS by id, the account's own.
    pub snapshots: BTreeMap<String, Snapshot>,
}

impl Storage {
    /// Takes in what another region or account answered.
    pub fn absorb(&mut self, other: Self) {
        self.volumes.extend(other.volumes);
        self.addresses.extend(other.addresses);
        self.snapshots.extend(other.snapshots);
    }

    /// Whose each of them is.
    pub(crate) fn accounts(&mut self) -> impl Iterator<Item = &mut Option<AccountId>> {
        let volumes = self.volumes.values_mut().map(|one| &mut one.account);
        let addresses = self.addresses.values_mut().map(|one| &mut one.account);
        let snapshots = self.snapshots.values_mut().map(|one| &mut one.account);
        volumes.chain(addresses).chain(snapshots)
    }

    /// In whose account a volume, address or snapshot is.
    pub fn account_of(&self, id: &str) -> Option<&AccountId> {
        let volume = self.volumes.get(id).map(|one| &one.account);
        let address = || self.addresses.get(id).map(|one| &one.account);
        let snapshot = || self.snapshots.get(id).map(|one| &one.account);
        volume.or_else(address).or_else(snapshot)?.as_ref()
    }

    /// The tags of a volume, address or snapshot.
    pub fn tags_of(&self, id: &str) -> Option<&BTreeMap<String, String>> {
        let volume = self.volumes.get(id).map(|volume| &volume.tags);
        volume
            .or_else(|| self.addresses.get(id).map(|address| &address.tags))
            .or_else(|| self.snapshots.get(id).map(|snapshot| &snapshot.tags))
    }
}

/// One volume of EBS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its id.
    pub id: String,
    /// Where it is.
    pub region: Region,
    /// Whose it is; `None` when the answer did not say.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// What it is, such as `gp3`.
    pub volume_type: String,
    /// Its size.
    pub size_gib: u64,
    /// When it was made; `None` when the answer did not say.
    pub created_at: Option<Timestamp>,
    /// The machines that it is attached to.
    pub attached_to: Vec<NodeId>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// One Elastic address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Its allocation id.
    pub id: String,
    /// Where it is.
    pub region: Region,
    /// Whose it is; `None` when the answer did not say.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The address itself; `None` when the answer did not say.
    pub public_ip: Option<String>,
    /// What it is associated with, a machine, interface or gateway; `None` for
    /// nothing.
    pub association: Option<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// One snapshot of EBS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// Where it is.
    pub region: Region,
    /// Whose it is; `None` when the answer did not say.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The volume it was made of, which may be gone; `None` for a copy, whose volume
    /// EC2 calls `vol-ffffffff`.
    pub volume: Option<String>,
    /// The size of that volume; what is billed is what of it was written, and less.
    pub size_gib: u64,
    /// What of it is stored, when it were restored alone; `None` when not told.
    pub stored_bytes: Option<u64>,
    /// When it was made; `None` when the answer did not say.
    pub created_at: Option<Timestamp>,
    /// Images of the account that are made of it; `None` when they could not be read.
    pub images: Option<Vec<String>>,
    /// True when it lies in the archive tier, which costs a quarter.
    pub archived: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}
