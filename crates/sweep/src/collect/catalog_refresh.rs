//! Requests prices and machine types of whole regions.

#[cfg(test)]
mod tests;

use ebb_catalog::refreshed_prices::{Refreshed, RegionPrices};
use ebb_cloud::ports::{MarketSource, PriceSource};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::Region;
use futures::{StreamExt, stream};
use jiff::Timestamp;

/// Regions that are asked at the same time. The Price List API serves all regions from one
/// endpoint.
const AT_ONCE: usize = 4;

/// Requests the on-demand prices, storage prices and machine types of each region. Spot prices are
/// included if `markets` is given.
///
/// Returns a gap for each refusal. A region whose price list is refused is left out; a region whose
/// spot prices are refused has none.
pub async fn refresh(
    prices: &dyn PriceSource,
    markets: Option<&dyn MarketSource>,
    regions: &[Region],
    now: Timestamp,
) -> (Refreshed, Vec<Gap>) {
    // An owned copy, so that the requests may be awaited on any thread.
    let own: Vec<Region> = regions.to_vec();
    let requests = own.into_iter().map(|region| async move {
        let spot = async {
            match markets {
                Some(markets) => markets.spot_prices(&region).await,
                None => Ok(Default::default()),
            }
        };
        let answer = futures::join!(
            prices.on_demand(&region),
            spot,
            prices.types(&region, None),
            prices.fargate(&region),
            prices.storage(&region),
        );
        (region, answer)
    });
    let (mut refreshed, mut gaps) = (Refreshed::default(), Vec::new());
    let mut answers = stream::iter(requests).buffered(AT_ONCE);
    while let Some((region, (on_demand, spot, types, fargate, storage))) = answers.next().await {
        let mut gap = |what: &str, reason: String| {
            gaps.push(Gap::new(format!("{region}: {what}"), reason));
        };
        match types {
            Ok(types) => refreshed.describe(types, now),
            Err(error) => gap("machine types", error.to_string()),
        }
        let on_demand = match on_demand {
            Ok(on_demand) if on_demand.is_empty() => {
                gap("list prices", "the Price List has no price".to_owned());
                continue;
            }
            Ok(on_demand) => on_demand,
            Err(error) => {
                gap("list prices", error.to_string());
                continue;
            }
        };
        let region_prices = RegionPrices {
            at: now,
            on_demand,
            spot: spot.unwrap_or_else(|error| {
                gap("spot prices", error.to_string());
                Default::default()
            }),
            fargate: fargate.unwrap_or_else(|error| {
                gap("Fargate's prices", error.to_string());
                Default::default()
            }),
            storage: storage.unwrap_or_else(|error| {
                gap("prices of storage", error.to_string());
                Default::default()
            }),
        };
        refreshed.regions.insert(region, region_prices);
    }
    (refreshed, gaps)
}
