//! A sweep refreshes list prices, stores them, and also works without them.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_cloud::documents::prices::KEY;
use ebb_cloud::failing::Fault;
use ebb_cloud::fake::FakePrices;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::UsdPerHour;

use crate::sample;
use crate::world::World;
use ebb_cloud::documents::prices;

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

#[tokio::test]
async fn prices_are_asked_for_by_the_week_and_lie_in_the_lake() {
    let kind = InstanceType::new("m5.large").expect("a type");
    let list = BTreeMap::from([(kind, UsdPerHour::from_micros(99_000))]);
    let source = FakePrices::new(BTreeMap::from([(sample::region(), list.clone())]));
    let mut world = World::new();
    world.prices = Some(source.clone());
    let prices = format!("{} prices", sample::region());
    for (after, expected) in [(Duration::ZERO, 1), (WEEK / 2, 0), (WEEK / 2, 1)] {
        world.clock.advance(after);
        let swept = world.sweep(&Fault::never()).await.expect("nothing fails");
        let requests = source.take_asked();
        let price_requests = requests.iter().filter(|one| **one == prices);
        assert_eq!(price_requests.count(), expected, "after {after:?}");
        let about = swept.gaps.iter().filter(|gap| gap.scope.contains("prices"));
        assert_eq!(about.count(), 0, "{:?}", swept.gaps);
    }
    let kept = prices::load(&world.objects).await.expect("it is there");
    assert_eq!(kept.regions[&sample::region()].on_demand, list);
}

#[tokio::test]
async fn a_list_that_refuses_is_a_gap_and_the_sweep_goes_on() {
    let mut world = World::new();
    world.prices = Some(FakePrices::default());
    let swept = world.sweep(&Fault::never()).await.expect("nothing fails");
    let scope = format!("{}: list prices", sample::region());
    assert!(
        swept.gaps.iter().any(|gap| gap.scope == scope),
        "{:?}",
        swept.gaps
    );
    assert!(world.objects.keys().iter().all(|key| key != KEY));
}
