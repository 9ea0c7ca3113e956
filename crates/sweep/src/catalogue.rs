//! Prices that AWS told later than the program was built: asked for, kept in the lake,
//! and read from there by the sweep and the API.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_cloud::ports::{CloudError, CloudResult, MarketSource, Objects, PriceSource, PutOptions};
use ebb_domain::catalogue::{Catalogue, Refreshed, RegionPrices};
use ebb_domain::fleet::{Gap, InstanceState, Inventory, Provider};
use ebb_domain::identity::Region;
use futures::{StreamExt, stream};
use jiff::Timestamp;

/// Where they lie.
pub const KEY: &str = "lake/catalogue/v1/prices.json";

/// All regions together take about 5 MB.
const MAX_BYTES: u64 = 64 << 20;

/// List prices change seldom.
const FRESH: Duration = Duration::from_secs(24 * 3600);

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

/// Asks for the list prices of the regions where something runs of a type that has none:
/// one that came after the program. A region that told within a day is not asked again.
pub async fn where_missing(
    prices: &dyn PriceSource,
    catalogue: &Catalogue,
    inventory: &Inventory,
    now: Timestamp,
) -> (Refreshed, Vec<Gap>) {
    let is_fresh = |region: &Region| {
        let until = catalogue.told_at(region);
        let until = until.and_then(|at| at.checked_add(FRESH).ok());
        until.is_some_and(|until| now < until)
    };
    let machines = inventory.instances.values();
    let missing: BTreeSet<Region> = machines
        .filter(|one| one.state == InstanceState::Running && one.provider == Provider::Aws)
        .filter(|one| {
            catalogue
                .list_price(&one.region, &one.instance_type)
                .is_none()
        })
        .map(|one| one.region.clone())
        .filter(|region| !is_fresh(region))
        .collect();
    let regions: Vec<Region> = missing.into_iter().collect();
    refresh(prices, None, &regions, now).await
}

/// Asks each region for its on-demand and, where there is who tells, spot prices; tells what refused. A region whose
/// list refuses is left out, and one whose spot prices do has none.
pub async fn refresh(
    prices: &dyn PriceSource,
    markets: Option<&dyn MarketSource>,
    regions: &[Region],
    now: Timestamp,
) -> (Refreshed, Vec<Gap>) {
    // Their own, so that what is asked may be awaited on any thread.
    let own: Vec<Region> = regions.to_vec();
    let asked = own.into_iter().map(|region| async move {
        let spot = async {
            match markets {
                Some(markets) => markets.spot_prices(&region).await,
                None => Ok(Default::default()),
            }
        };
        let both = futures::join!(prices.on_demand(&region), spot);
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
        all.regions.insert(region, told);
    }
    (all, gaps)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebb_cloud::fake::{FakeClock, FakeMarkets, FakeObjects, FakePrices};
    use ebb_domain::fleet::{Instance, Market};
    use ebb_domain::identity::{InstanceType, NodeId};
    use ebb_domain::units::UsdPerHour;

    use super::*;

    fn region(name: &str) -> Region {
        Region::new(name).expect("a region")
    }

    #[tokio::test]
    async fn a_type_without_a_price_has_the_list_asked_and_no_other_region_is() {
        let kind = |name: &str| InstanceType::new(name).expect("a type");
        let mut inventory = Inventory::default();
        let machines = [
            ("i-1", "eu-west-1", "x99.large"),
            ("i-2", "us-east-1", "m5.large"),
            ("i-3", "eu-west-3", "x99.large"),
        ];
        for (id, place, name) in machines {
            let id = NodeId::new(id).expect("a node");
            let running = InstanceState::Running;
            let market = Market::OnDemand;
            let one = Instance::new(id.clone(), region(place), kind(name), running, market);
            inventory.instances.insert(id, one);
        }
        let price = UsdPerHour::from_micros(99_000);
        let told = BTreeMap::from([(kind("x99.large"), price)]);
        let prices = FakePrices::new(BTreeMap::from([(region("eu-west-1"), told)]));
        let now: Timestamp = "2026-11-22T00:00:00Z".parse().expect("a time");
        let built_in = Catalogue::built_in();
        let (told, gaps) = where_missing(&prices, built_in, &inventory, now).await;
        let scopes: Vec<_> = gaps.iter().map(|gap| gap.scope.as_str()).collect();
        assert_eq!(scopes, ["eu-west-3: list prices"]);
        assert_eq!(
            told.regions.keys().collect::<Vec<_>>(),
            [&region("eu-west-1")]
        );
        let catalogue = built_in.with(&told);
        let got = catalogue.on_demand(&region("eu-west-1"), &kind("x99.large"));
        assert_eq!(got, Some(price));
        // A type that even the list of today does not have is not asked about all day.
        let other = inventory.instances.values_mut().next().expect("the first");
        other.instance_type = kind("x98.large");
        let (told, _) = where_missing(&prices, &catalogue, &inventory, now).await;
        assert!(told.regions.is_empty());
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
        let (refreshed, gaps) = refresh(&prices, Some(&markets), &both, now).await;
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
