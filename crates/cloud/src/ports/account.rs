//! Inventory, cost and use of an account. These are the only ports that name the model and the
//! catalog. A program without the feature `account`, such as the probe, compiles neither.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use ebb_catalog::fargate_prices::FargatePrices;
use ebb_catalog::machine_type::TypeSpec;
use ebb_catalog::spot_advisor::Advisor;
use ebb_catalog::spot_terms::SpotTerms;
use ebb_catalog::storage_prices::StoragePrices;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::spot_market::SpotWish;
use ebb_model::visibility_gap::{Gap, Refused};
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use jiff::Timestamp;

use super::{CloudError, CloudResult};

impl From<CloudError> for Refused {
    fn from(error: CloudError) -> Self {
        let reason = error.to_string();
        let denied = match error {
            CloudError::Denied { operation, .. } => Some(operation),
            _ => None,
        };
        Self { reason, denied }
    }
}

/// Reads the inventory. A part that refuses becomes a gap of the inventory; an error means that
/// nothing could be read.
#[async_trait]
pub trait InventorySource: Send + Sync {
    /// The enabled regions.
    async fn regions(&self) -> CloudResult<Vec<Region>>;

    /// The present instances and Batch resources of one region.
    async fn gather(&self, region: &Region) -> CloudResult<Inventory>;

    /// Gaps for parts that could not be requested, such as an account whose role cannot be assumed.
    fn not_entered(&self) -> Vec<Gap>;
}

/// Reads market data of machines in addition to the list price. All requests are free.
#[async_trait]
pub trait MarketSource: Send + Sync {
    /// The spot price of each type in the region's cheapest zone, for Linux, without interruption
    /// rates.
    async fn spot_prices(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, SpotTerms>>;

    /// The zones of a region that offer each type.
    async fn zones(&self, region: &Region)
    -> CloudResult<BTreeMap<InstanceType, BTreeSet<String>>>;

    /// The reservations of a region, which are paid for even if they are not used.
    async fn reserved(&self, region: &Region) -> CloudResult<Vec<Commitment>>;

    /// The spot placement score from 1 to 10 for all zones of the region together; `None` if the
    /// answer has no score. AWS limits the number of distinct requests a day.
    async fn spot_score(&self, wish: &SpotWish) -> CloudResult<Option<u8>>;

    /// The spot interruption rates of all regions.
    async fn interruptions(&self) -> CloudResult<Advisor>;
}

/// Reads on-demand prices for Linux with shared tenancy, and properties of machine types. All
/// requests are free.
#[async_trait]
pub trait PriceSource: Send + Sync {
    /// The price of each type that a region offers.
    async fn on_demand(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, UsdPerHour>>;

    /// Fargate's on-demand prices for Linux in a region.
    async fn fargate(&self, region: &Region) -> CloudResult<FargatePrices>;

    /// Prices of volumes, snapshots and public addresses in a region.
    async fn storage(&self, region: &Region) -> CloudResult<StoragePrices>;

    /// The machine types with these names that the region has; `*` matches any characters, and
    /// `None` means all types. A type without its size in the answer is left out.
    async fn types(
        &self,
        region: &Region,
        named: Option<&BTreeSet<String>>,
    ) -> CloudResult<Vec<TypeSpec>>;
}

/// The price of one request to Cost Explorer.
///
/// Source: "AWS Cost Management Pricing", 0.01 USD per paginated request.
pub const PRICE_PER_BILL_REQUEST: Usd = Usd::from_micros(10_000);

/// Reads the bill. Every request costs money.
#[async_trait]
pub trait BillSource: Send + Sync {
    /// Net amortized cost of each EC2 resource by day, for the last 14 days. `Denied` or `Failed`
    /// if the account has not opted in. Cost without a resource has the key [`NO_RESOURCE`].
    async fn by_resource(&self, to: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>>;

    /// The total cost of the same days, by service and by these cost allocation tags; empty from a
    /// source without this data.
    async fn by_day(&self, to: Timestamp, tags: &[String]) -> CloudResult<Vec<BilledDay>>;

    /// The active Savings Plans, and their utilization on the last complete days; empty from a
    /// source without this data.
    async fn plans(&self, to: Timestamp) -> CloudResult<Vec<Commitment>>;

    /// The minimum number of requests of [`BillSource::plans`].
    fn least_plan_requests(&self) -> u64;

    /// Gaps for parts that refused while the rest of a call succeeded, since the last call of this
    /// method.
    fn take_gaps(&self) -> Vec<Gap>;

    /// Number of requests so far, which are billed.
    fn requests(&self) -> u64;

    /// False if requests are free, so that no budget is needed and nothing is cached.
    fn is_charged_for(&self) -> bool;

    /// Gaps for parts of the bill that could not be read.
    fn gaps(&self, to: Timestamp) -> Vec<Gap>;

    /// The version of a bill that is free but takes time to read.
    async fn version(&self) -> BillVersion {
        BillVersion::Unknown
    }
}

/// Whether a bill has changed since it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BillVersion {
    /// It is read each time.
    Unknown,
    /// It has changed if this text has.
    Is(String),
    /// It is being written. An earlier version is better, if there is one.
    Unfinished,
}

/// The key of cost that the bill assigns to no resource.
pub const NO_RESOURCE: &str = "NoResourceId";
