//! Prices that AWS told later than the program was built: asked for, kept in the lake,
//! and read from there by the sweep and the API.

use ebb_cloud::ports::{CloudError, CloudResult, MarketSource, Objects, PriceSource, PutOptions};
use ebb_domain::catalogue::{Catalogue, Refreshed, RegionPrices};
use ebb_domain::fleet::Gap;
use ebb_domain::identity::Region;
use futures::{StreamExt, stream};
use jiff::Timestamp;

/// Where they lie.
pub const KEY: &str = "lake/catalogue/v1/prices.json";

/// All regions together take about 5 MB.
const MAX_BYTES: u64 = 64 << 20;

/// Regions asked at once; the Price List answers for all of them in one place.
const AT_ONCE: usize = 4;

/// What is kept; nothing where nobody has asked yet.
///
/// # Errors
/// When it is there and cannot be read.
pub async fn load(objects: &dyn Objects) -> CloudResult<Refreshed> {
    let object = match objects.get(KEY, MAX_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => return Ok(Refreshed::default()),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&object.bytes).map_err(|error| CloudError::Failed {
        operation: KEY.to_owned(),
        message: format!("{error}; `ebb catalog refresh` writes it anew"),
    })
}

/// Keeps it.
///
/// # Errors
/// When it cannot be written.
pub async fn save(objects: &dyn Objects, refreshed: &Refreshed) -> CloudResult<()> {
    let bytes = serde_json::to_vec(refreshed).map_err(|error| CloudError::Failed {
        operation: KEY.to_owned(),
        message: error.to_string(),
    })?;
    let options = PutOptions {
        content_type: Some("application/json"),
        ..PutOptions::default()
    };
    objects.put(KEY, bytes, options).await.map(drop)
}

/// The catalogue as it is best known; the built-in one, with a gap that says why, where
/// what is kept cannot be read.
pub async fn best_known(objects: &dyn Objects) -> (Catalogue, Option<Gap>) {
    match load(objects).await {
        Ok(refreshed) => (Catalogue::built_in().with(&refreshed), None),
        Err(error) => {
            let gap = Gap {
                scope: "refreshed prices".to_owned(),
                reason: format!("{error}; the built-in prices hold"),
            };
            (Catalogue::built_in().clone(), Some(gap))
        }
    }
}

/// Asks each region for its on-demand and spot prices; tells what refused. A region whose
/// list refuses is left out, and one whose spot prices do has none.
pub async fn refresh(
    prices: &dyn PriceSource,
    markets: &dyn MarketSource,
    regions: &[Region],
    now: Timestamp,
) -> (Refreshed, Vec<Gap>) {
    let asked = regions.iter().map(|region| async move {
        let both = futures::join!(prices.on_demand(region), markets.spot_prices(region));
        (region, both)
    });
    let (mut all, mut gaps) = (Refreshed::default(), Vec::new());
    let mut answers = stream::iter(asked).buffered(AT_ONCE);
    while let Some((region, (on_demand, spot))) = answers.next().await {
        let mut gap = |what: &str, reason: String| {
            gaps.push(Gap {
                scope: format!("{region}: {what}"),
                reason,
            });
        };
        let on_demand = match on_demand {
            Ok(told) if told.is_empty() => {
                gap("list prices", "the Price List has none".to_owned());
                continue;
            }
            Ok(told) => told,
            Err(error) => {
                gap("list prices", error.to_string());
                continue;
            }
        };
        let told = RegionPrices {
            at: now,
            on_demand,
            spot: spot.unwrap_or_else(|error| {
                gap("spot prices", error.to_string());
                Default::default()
            }),
        };
        all.regions.insert(region.clone(), told);
    }
    (all, gaps)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebb_cloud::fake::{FakeClock, FakeMarkets, FakeObjects, FakePrices};
    use ebb_domain::identity::InstanceType;
    use ebb_domain::units::UsdPerHour;

    use super::*;

    fn region(name: &str) -> Region {
        Region::new(name).expect("a region")
    }

    #[tokio::test]
    async fn what_was_told_is_kept_and_what_refuses_is_said() {
        let kind = InstanceType::new("m5.large").expect("a type");
        let told = BTreeMap::from([(kind.clone(), UsdPerHour::from_micros(99_000))]);
        let prices = FakePrices::new(BTreeMap::from([(region("eu-west-1"), told)]));
        let markets = FakeMarkets::default();
        markets.refuse();
        let both = [region("eu-west-1"), region("us-east-1")];
        let now = "2026-11-22T00:00:00Z".parse().expect("a time");
        let (refreshed, gaps) = refresh(&prices, &markets, &both, now).await;
        let scopes: Vec<_> = gaps.iter().map(|gap| gap.scope.as_str()).collect();
        assert_eq!(scopes, ["eu-west-1: spot prices", "us-east-1: list prices"]);
        let objects = FakeObjects::new(FakeClock::at(now));
        assert_eq!(load(&objects).await, Ok(Refreshed::default()));
        save(&objects, &refreshed).await.expect("it is kept");
        let (catalogue, gap) = best_known(&objects).await;
        let price = catalogue.on_demand(&region("eu-west-1"), &kind);
        assert_eq!((price, gap), (Some(UsdPerHour::from_micros(99_000)), None));
        objects.insert(KEY, b"{".to_vec());
        let (catalogue, gap) = best_known(&objects).await;
        assert_eq!(&catalogue, Catalogue::built_in());
        let reason = gap.expect("it is said").reason;
        assert!(reason.contains("ebb catalog refresh"), "{reason}");
    }
}
