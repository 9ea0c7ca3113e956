//! Spot prices and zones page by page, bands of the advisor's file, a reservation of one account,
//! and placement scores, over the real SDK.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use ebb_catalog::catalog::Catalogue;
use ebb_cloud::accounts::Accounts;
use ebb_cloud::ports::MarketSource;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::spot_market::SpotWish;
use ebb_sweep::collect::spot_market::Sold;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_tests::simulated::Simulated;
use jiff::Timestamp;
use serde_json::json;

/// Two machines: 438 dollars upfront for 8,760 hours and one cent an hour, each.
const RESERVED: i64 = 2 * (50_000 + 10_000);

/// Requests the market data of the regions where something runs.
pub(crate) async fn are_known(
    account: &Simulated,
    all: &Accounts,
    found: &Inventory,
) -> Result<()> {
    let charge = json!({"Frequency": "Hourly", "Amount": 0.01});
    let reserved = json!({
        "ReservedInstancesId": "ri-1", "InstanceType": "m5.large", "InstanceCount": 2,
        "Duration": 31_536_000, "FixedPrice": 438.0, "RecurringCharges": [charge],
        "State": "active", "CurrencyCode": "USD",
    });
    let reserved = json!({"region": "us-east-1", "reserved": [reserved]});
    account.extension("ec2/reserved-instances", &reserved)?;
    let mut inventory = found.clone();
    inventory.gaps.clear();
    let mut sold = Sold::default();
    sold.refresh(
        all,
        &mut inventory,
        (Catalogue::built_in(), Timestamp::now()),
    )
    .await;
    assert!(inventory.gaps.is_empty(), "{:#?}", inventory.gaps);

    let markets = &inventory.markets;
    let (home, kind) = (Region::new("us-east-1")?, InstanceType::new("c6i.xlarge")?);
    let requested_regions: Vec<&Region> = markets.spot.keys().collect();
    let running_regions: BTreeMap<&Region, ()> = found
        .instances
        .values()
        .map(|instance| (&instance.region, ()))
        .collect();
    assert_eq!(
        requested_regions,
        running_regions.into_keys().collect::<Vec<_>>()
    );
    let terms = markets.spot[&home]
        .get(&kind)
        .context("c6i.xlarge on spot")?;
    // The simulator's list price minus its discount, in the cheapest zone.
    assert_eq!(terms.per_hour.0.micros(), 61_200);
    assert!(terms.as_of.is_some());
    assert_eq!(terms.taken_back_ppm, Some(50_000));
    assert!(markets.zones[&home][&kind].len() > 2);
    let paid: Vec<_> = markets
        .commitments
        .iter()
        .map(|paid| (paid.id.as_str(), paid.per_hour.0.micros()))
        .collect();
    assert_eq!(paid, [("ri-1", RESERVED)]);
    are_scored(account, all).await
}

/// Answers in the form of the EC2 API reference, pages `GetSpotPlacementScores` and
/// `SpotPlacementScore`, which contain no example.
async fn are_scored(account: &Simulated, all: &Accounts) -> Result<()> {
    let scores = json!({"scores": {"us-east-1": 7, "us-west-1": 5}});
    account.extension("ec2/spot-scores", &scores)?;
    let score = async |place: &str, names: &[&str]| {
        let types = names.iter().map(|name| InstanceType::new(*name));
        let wish = SpotWish {
            region: Region::new(place)?,
            types: types.collect::<Result<_, _>>()?,
            machines: 4,
        };
        Ok::<_, anyhow::Error>(all.spot_score(&wish).await)
    };
    let three = ["c6i.large", "m6i.large", "r6i.large"];
    assert_eq!(score("us-east-1", &three).await?, Ok(Some(7)));
    assert_eq!(score("eu-central-1", &three).await?, Ok(None));
    let refused = score("us-east-1", &three[..2]).await?;
    let why = refused.expect_err("two are too few").to_string();
    assert!(why.contains("fewer than three types"), "{why}");
    Ok(())
}
