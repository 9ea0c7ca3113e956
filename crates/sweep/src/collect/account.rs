//! Reads the account: inventory region by region, and what is paid for. What
//! refuses to be seen becomes a gap of the report, never an error.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_cloud::ports::metrics::MetricsSource;
use ebb_cloud::ports::{BillSource, InventorySource, MarketSource, PriceSource};
use ebb_model::inventory::Inventory;
use ebb_telemetry::identity::Region;
use jiff::Timestamp;

/// Regions asked at once; AWS bounds calls by region, so that they do not throttle each
/// other. Within one, what several kinds of calls answer is paged side by side.
pub(crate) const REGIONS_AT_ONCE: usize = 8;

/// What can be asked of an account.
#[derive(Clone, Copy)]
pub struct Account<'a> {
    /// What is there.
    pub inventory: &'a dyn InventorySource,
    /// Utilization; `None` to leave it out.
    pub metrics: Option<&'a dyn MetricsSource>,
    /// The bill; `None` to leave it out.
    pub bill: Option<&'a dyn BillSource>,
    /// What machines are sold for beside the list price; `None` to leave it out.
    pub markets: Option<&'a dyn MarketSource>,
    /// List prices and machine types, asked for where the catalogue lacks them or is old;
    /// `None` to leave it out.
    pub prices: Option<&'a dyn PriceSource>,
    /// The regions to look at; none means all that are enabled.
    pub regions: &'a [Region],
}

pub(crate) fn is_older(at: Timestamp, now: Timestamp, age: Duration) -> bool {
    at.saturating_add(age).is_ok_and(|until| until <= now)
}

pub(crate) fn where_something_runs(inventory: &Inventory) -> BTreeSet<Region> {
    let environments = inventory.batch.environments.iter();
    (inventory.running_on_aws())
        .map(|instance| instance.region.clone())
        .chain(environments.map(|environment| environment.region.clone()))
        .collect()
}
