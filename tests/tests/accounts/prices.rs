//! The Price List, machine types and spot prices over the real SDK: page by page, stored in a
//! bucket, and newer than the built-in data.

use std::time::Duration;

use anyhow::{Context, Result};
use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::{Architecture, TypeSpec};
use ebb_cloud::aws::{AwsMarkets, AwsPrices, SPOT_ADVISOR};
use ebb_cloud::documents::prices::BestKnown;
use ebb_cloud::fake::{FakeClock, FakeObjects};
use ebb_cloud::ports::PriceSource;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_tests::simulated::Simulated;
use jiff::Timestamp;
use serde_json::json;

use super::home;
use ebb_cloud::documents::prices;
use ebb_sweep::collect::catalog_refresh;

/// One of two regions has a price list.
pub(crate) async fn are_renewed(account: &Simulated) -> Result<()> {
    let listed = json!({"us-east-1": {
        "m5.large": 0.095, "m5.xlarge": 0.19, "c6i.xlarge": 0.171, "x99.large": 1.0,
    }});
    account.extension("prices", &listed)?;
    // The simulated account computes each page of machine types for seconds.
    let config = home(account).await?.with_patience(Duration::from_secs(120));
    let (prices, markets) = (
        AwsPrices::new(&config),
        AwsMarkets::new(&config, SPOT_ADVISOR),
    );
    let regions = [Region::new("us-east-1")?, Region::new("eu-west-2")?];
    let now = Timestamp::now();
    let (refreshed_prices, gaps) =
        catalog_refresh::refresh(&prices, Some(&markets), &regions, now).await;
    let scopes: Vec<_> = gaps.iter().map(|gap| gap.scope.as_str()).collect();
    assert_eq!(scopes, ["eu-west-2: list prices"]);
    assert_eq!(refreshed_prices.regions[&regions[0]].on_demand.len(), 4);

    let bucket = FakeObjects::new(FakeClock::at(now));
    prices::save(&bucket, &refreshed_prices).await?;
    let BestKnown {
        catalogue: best,
        unread,
        ..
    } = BestKnown::read(&bucket).await;
    assert_eq!(unread, None);
    let price = |name: &str| -> Result<i64> {
        let price = best.on_demand(&regions[0], &InstanceType::new(name)?);
        Ok(price.context("a price")?.0.micros())
    };
    assert_eq!((price("m5.large")?, price("m5.xlarge")?), (95_000, 190_000));
    let kind = InstanceType::new("c6i.xlarge")?;
    let spot = &refreshed_prices.regions[&regions[0]].spot;
    assert_eq!(spot[&kind].per_hour.0.micros(), 61_200);
    let fargate = best.fargate(&regions[0], Architecture::X86_64);
    let fargate = fargate.context("Fargate's price")?;
    let rates = (fargate.per_vcpu, fargate.per_gib);
    let micros = UsdPerHour::from_micros;
    assert_eq!(rates, (micros(50_000), micros(5_000)));
    assert_eq!(best.fargate(&regions[1], Architecture::X86_64), None);
    storage_is_partly_refreshed(&best, &regions[0]);
    let types = refreshed_prices
        .types
        .into_values()
        .map(|described| described.spec);
    are_as_built_in(&prices, &regions[0], types.collect()).await
}

/// Prices that AWS did not return are the built-in ones.
fn storage_is_partly_refreshed(best: &Catalogue, region: &Region) {
    let volume = |name: &str| {
        let usd = best.storage(region, |all| all.volumes.get(name).copied());
        usd.map(Usd::micros)
    };
    assert_eq!(
        (volume("gp3"), volume("gp2")),
        (Some(78_000), Some(100_000))
    );
    let all = [
        best.storage(region, |all| all.gp3_iops),
        best.storage(region, |all| all.gp3_mibps),
        best.storage(region, |all| all.snapshot),
        best.storage(region, |all| all.archived_snapshot),
    ];
    let micros = all.map(|usd| usd.map(Usd::micros));
    assert_eq!(
        micros,
        [Some(4_800), Some(39_000), Some(49_000), Some(12_500)]
    );
    let address = best.storage(region, |all| all.address);
    assert_eq!(address, Some(UsdPerHour::from_micros(4_000)));
    assert!(!best.has_refreshed_storage(region));
}

/// The simulator has the types from which the built-in catalogue was made, so the client must read
/// the same values.
async fn are_as_built_in(prices: &AwsPrices, region: &Region, specs: Vec<TypeSpec>) -> Result<()> {
    let built_in = Catalogue::built_in().types();
    assert_eq!(specs.len(), built_in.len());
    for (spec, own) in specs.iter().zip(built_in) {
        assert_eq!(spec, own);
    }
    let names = ["m5.large", "c6i.xlarge", "x99.large"].map(str::to_owned);
    let named = prices.types(region, Some(&names.into())).await?;
    let mut named: Vec<&str> = named.iter().map(|spec| spec.name.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, ["c6i.xlarge", "m5.large"]);
    Ok(())
}
