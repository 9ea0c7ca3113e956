//! The sources of a cloud account. A refused call becomes a gap of the report, never an error.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_cloud::ports::metrics::MetricsSource;
use ebb_cloud::ports::{BillSource, InventorySource, MarketSource, PriceSource};
use ebb_model::inventory::Inventory;
use ebb_telemetry::identity::Region;
use jiff::Timestamp;

/// Regions that are asked at the same time. AWS limits calls for each region, so regions do not
/// throttle each other. Within a region, calls of several kinds are paged at the same time.
pub(crate) const REGIONS_AT_ONCE: usize = 8;

/// The sources that a sweep may ask.
#[derive(Clone, Copy)]
pub struct Account<'a> {
    /// The inventory.
    pub inventory: &'a dyn InventorySource,
    /// Utilization; `None` to leave it out.
    pub metrics: Option<&'a dyn MetricsSource>,
    /// The bill; `None` to leave it out.
    pub bill: Option<&'a dyn BillSource>,
    /// Spot prices, zones and reservations; `None` to leave them out.
    pub markets: Option<&'a dyn MarketSource>,
    /// List prices and machine types, requested where those of the catalogue are missing or old;
    /// `None` to leave them out.
    pub prices: Option<&'a dyn PriceSource>,
    /// The regions to scan; empty for all enabled regions.
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
