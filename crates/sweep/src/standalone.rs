//! A sweep without a deployment: the data of probes, the state, the lake and the reports share one
//! place of an object store.

use async_trait::async_trait;
use ebb_cloud::ports::{BillSource, CloudError, CloudResult, InventorySource};
use ebb_cloud::store::StoreError;
use ebb_cloud::store::objects::StoreObjects;
use ebb_cloud::store::queue::ObjectQueue;
use ebb_lake::{Lake, LakeError};
use ebb_model::inventory::Inventory;
use ebb_model::visibility_gap::Gap;
use ebb_notify::digest::Channels;
use ebb_telemetry::identity::Region;
use thiserror::Error;

use crate::collect::account::Account;
use crate::run::Ports;

/// The key of the policy file in such a place.
pub const POLICY_KEY: &str = "config/policy.toml";

/// Why the place cannot be opened.
#[derive(Debug, Error)]
pub enum SiteError {
    /// The object store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lake cannot be opened.
    #[error(transparent)]
    Lake(#[from] LakeError),
}

/// An opened place.
pub struct Site {
    objects: StoreObjects,
    queue: ObjectQueue<StoreObjects>,
    dead_letters: ObjectQueue<StoreObjects>,
    lake: Lake,
}

impl Site {
    /// Opens `file:///…`, `s3://…` or `gs://…`; see [`ebb_cloud::store::open`].
    ///
    /// # Errors
    /// If the URL names no place that can be opened.
    pub async fn open(url: &str) -> Result<Self, SiteError> {
        let objects = StoreObjects::open(url)?;
        Ok(Self {
            queue: ObjectQueue::heartbeats(objects.clone(), "sweep"),
            dead_letters: ObjectQueue::dead_letters(objects.clone()),
            lake: Lake::open(&format!("{}/lake", url.trim_end_matches('/'))).await?,
            objects,
        })
    }

    /// The objects of the place.
    pub fn objects(&self) -> &StoreObjects {
        &self.objects
    }

    /// The ports of a sweep over this place.
    pub fn ports<'a>(&'a self, account: Account<'a>, channels: Channels<'a>) -> Ports<'a> {
        Ports {
            account,
            queue: &self.queue,
            dead_letters: &self.dead_letters,
            objects: &self.objects,
            event_log: &self.lake,
            channels,
        }
    }
}

/// An account without a cloud: a sweep sees only the data of probes and the bill.
pub fn account_without_cloud(bill: Option<&dyn BillSource>) -> Account<'_> {
    Account {
        inventory: &NoCloud,
        metrics: None,
        bill,
        markets: None,
        prices: None,
        regions: &[],
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NoCloud;

#[async_trait]
impl InventorySource for NoCloud {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        Ok(Vec::new())
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        Err(CloudError::Missing {
            operation: "inventory".to_owned(),
            what: region.to_string(),
        })
    }

    fn not_entered(&self) -> Vec<Gap> {
        Vec::new()
    }
}
