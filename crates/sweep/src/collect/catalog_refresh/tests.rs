use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_cloud::documents::prices::{BestKnown, KEY, load, save};
use ebb_cloud::fake::clock::FakeClock;
use ebb_cloud::fake::markets::{FakeMarkets, FakePrices};
use ebb_cloud::fake::objects::FakeObjects;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::UsdPerHour;

use super::*;

fn region(name: &str) -> Region {
    Region::new(name).expect("a region")
}

#[tokio::test]
async fn what_was_told_is_kept_and_what_refuses_is_said() {
    let kind = InstanceType::new("m5.large").expect("a type");
    let listed = BTreeMap::from([(kind.clone(), UsdPerHour::from_micros(99_000))]);
    let prices = FakePrices::new(BTreeMap::from([(region("eu-west-1"), listed)]));
    let markets = FakeMarkets::default();
    markets.refuse();
    let both = [region("eu-west-1"), region("us-east-1")];
    let now = "2026-11-22T00:00:00Z".parse().expect("a time");
    let (refreshed, gaps) = refresh(&prices, Some(&markets), &both, now).await;
    let scopes: Vec<_> = gaps.iter().map(|gap| gap.scope.as_str()).collect();
    let refused = [
        "eu-west-1: spot prices",
        "us-east-1: machine types",
        "us-east-1: list prices",
    ];
    assert_eq!(scopes, refused);
    let objects = FakeObjects::new(FakeClock::at(now));
    assert_eq!(load(&objects).await, Ok(Refreshed::default()));
    save(&objects, &refreshed).await.expect("it is kept");
    let best = BestKnown::read(&objects).await;
    let price = best.catalogue.on_demand(&region("eu-west-1"), &kind);
    assert_eq!(price, Some(UsdPerHour::from_micros(99_000)));
    assert_eq!(best.unread, None);
    // Another program wrote after the read. Neither its file nor an unreadable file is overwritten.
    let nothing = Refreshed::default();
    save(&objects, &nothing).await.expect("it is kept");
    best.keep(&objects, refreshed.clone()).await;
    assert_eq!(load(&objects).await, Ok(nothing));
    let best = BestKnown::read(&objects).await;
    best.keep(&objects, refreshed.clone()).await;
    assert_eq!(load(&objects).await.as_ref(), Ok(&refreshed));
    objects.insert(KEY, b"{".to_vec());
    let best = BestKnown::read(&objects).await;
    assert_eq!(&best.catalogue, Catalogue::built_in());
    let reason = &best.unread.as_ref().expect("it is said").reason;
    assert!(reason.contains("ebb catalog refresh"), "{reason}");
    best.keep(&objects, refreshed).await;
    assert!(load(&objects).await.is_err());
}
