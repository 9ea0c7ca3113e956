//! Reads the account: inventory region by region, and what is paid for. What
//! refuses to be seen becomes a gap of the report, never an error.

#[cfg(feature = "lake")]
pub mod kept;
mod listed;
mod paid;
mod sold;

pub use listed::{Listed, Renew};
pub use paid::{Paid, Wanted};
pub use sold::Sold;

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_cloud::ports::{BillSource, InventorySource, MarketSource, MetricsSource, PriceSource};
use ebb_model::inventory::Inventory;
use ebb_model::visibility_gap::{ALL_REGIONS, Refused};
use ebb_telemetry::identity::Region;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Regions asked at once; AWS bounds calls by region, so that they do not throttle each
/// other. Within one, what several kinds of calls answer is paged side by side.
const REGIONS_AT_ONCE: usize = 8;

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

/// What is kept of earlier sweeps, because asking costs money or time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// What was paid for.
    pub paid: Paid,
    /// What machines are sold for.
    pub sold: Sold,
    /// Which lists were asked for.
    pub listed: Listed,
}

fn is_older(at: Timestamp, now: Timestamp, age: Duration) -> bool {
    at.saturating_add(age).is_ok_and(|until| until <= now)
}

fn where_something_runs(inventory: &Inventory) -> BTreeSet<Region> {
    let environments = inventory.batch.environments.iter();
    (inventory.running_on_aws())
        .map(|instance| instance.region.clone())
        .chain(environments.map(|environment| environment.region.clone()))
        .collect()
}

/// Everything in the regions asked for; the same answers give the same inventory,
/// whatever their order.
pub async fn inventory(account: &Account<'_>) -> Inventory {
    let mut all = Inventory::default();
    let mut regions = account.regions.to_vec();
    if regions.is_empty() {
        match account.inventory.regions().await {
            Ok(enabled) => regions = enabled,
            Err(error) => all.gaps.push(Refused::from(error).gap(ALL_REGIONS)),
        }
    }
    all.gaps.extend(account.inventory.not_entered());
    regions.sort();
    regions.dedup();
    let asked = regions.into_iter().map(|region| async move {
        let answer = account.inventory.gather(&region).await;
        (region, answer)
    });
    let mut answers = stream::iter(asked).buffered(REGIONS_AT_ONCE);
    while let Some((region, answer)) = answers.next().await {
        match answer {
            Ok(inventory) => all.absorb(inventory),
            Err(error) => {
                let gap = Refused::from(error).gap(format!("{region}: inventory"));
                all.gaps.push(gap);
            }
        }
    }
    all.gaps.sort();
    all
}
