//! Reads the account: inventory region by region, and what is paid for. What
//! refuses to be seen becomes a gap of the report, never an error.

#[cfg(feature = "lake")]
pub mod kept;
mod paid;

pub use paid::{Paid, Wanted};

use ebb_cloud::ports::{BillSource, InventorySource, MetricsSource};
use ebb_domain::fleet::{Gap, Inventory};
use ebb_domain::identity::Region;
use futures::{StreamExt, stream};

use ebb_domain::life::ALL_REGIONS;

/// Regions asked at once; each region's answers are paged one after another.
const REGIONS_AT_ONCE: usize = 4;

/// What can be asked of an account.
#[derive(Clone, Copy)]
pub struct Account<'a> {
    /// What is there.
    pub inventory: &'a dyn InventorySource,
    /// Utilization; `None` to leave it out.
    pub metrics: Option<&'a dyn MetricsSource>,
    /// The bill; `None` to leave it out.
    pub bill: Option<&'a dyn BillSource>,
    /// The regions to look at; none means all that are enabled.
    pub regions: &'a [Region],
}

/// Everything in the regions asked for; the same answers give the same inventory,
/// whatever their order.
pub async fn inventory(account: &Account<'_>) -> Inventory {
    let mut all = Inventory::default();
    let mut regions = account.regions.to_vec();
    if regions.is_empty() {
        match account.inventory.regions().await {
            Ok(enabled) => regions = enabled,
            Err(error) => all.gaps.push(Gap {
                scope: ALL_REGIONS.to_owned(),
                reason: error.to_string(),
            }),
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
            Err(error) => all.gaps.push(Gap {
                scope: format!("{region}: inventory"),
                reason: error.to_string(),
            }),
        }
    }
    all.gaps.sort();
    all
}
