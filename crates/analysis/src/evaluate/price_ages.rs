//! Age of the prices that a report uses.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::inventory::instance::Provider;
use ebb_model::report::price_age::{PriceAge, PricedBy};
use ebb_telemetry::identity::Region;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::facts::Facts;

/// Returns each price source for the regions with AWS resources. Prices of other clouds are stated
/// by the user or billed.
pub(crate) fn of_prices(facts: &Facts<'_>) -> Vec<PriceAge> {
    let inventory = facts.inventory;
    let machines = inventory.instances.values();
    let machines = machines.filter(|one| one.provider == Provider::Aws);
    let environments = inventory.batch.environments.iter();
    let regions: BTreeSet<&Region> = machines
        .map(|machine| &machine.region)
        .chain(environments.map(|one| &one.region))
        .collect();
    let mut sources: BTreeMap<PricedBy, (BTreeSet<Region>, Option<Timestamp>)> = BTreeMap::new();
    let mut add = |by: PricedBy, region: &Region, at: Option<Timestamp>| {
        let (of, oldest) = sources.entry(by).or_insert_with(|| (BTreeSet::new(), at));
        of.insert(region.clone());
        // A source without a date counts as the oldest.
        *oldest = (*oldest).min(at);
    };
    let built_in = facts.catalogue.day();
    let built_in = built_in.and_then(|day| day.to_zoned(TimeZone::UTC).ok());
    let built_in = built_in.map(|day| day.timestamp());
    let requested_at = &inventory.markets.asked;
    for region in regions {
        match facts.catalogue.refreshed_at(region) {
            Some(at) => add(PricedBy::PriceList, region, Some(at)),
            None => add(PricedBy::BuiltIn, region, built_in),
        }
        if let Some(at) = requested_at.spot.get(region) {
            add(PricedBy::SpotPrices, region, Some(*at));
        }
        if let Some(at) = requested_at.bands {
            add(PricedBy::SpotAdvisor, region, Some(at));
        }
    }
    sources
        .into_iter()
        .map(|(by, (regions, at))| PriceAge::new(by, regions, at, facts.now))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::{SignedDuration, Timestamp};

    use crate::facts::Facts;
    use crate::testing::{World, instance};
    use ebb_catalog::catalog::Catalogue;
    use ebb_catalog::fargate_prices::FargatePrices;
    use ebb_catalog::refreshed_prices::{Refreshed, RegionPrices};
    use ebb_catalog::storage_prices::StoragePrices;
    use ebb_model::inventory::instance::Provider;
    use ebb_model::report::price_age::{PriceAge, PricedBy};
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::money::UsdPerHour;

    #[test]
    fn each_source_says_of_when_it_is_and_whether_that_is_long_ago() {
        let sources = |ages: &[PriceAge]| -> Vec<(PricedBy, bool)> {
            ages.iter().map(|age| (age.by, age.is_stale)).collect()
        };
        let mut world = World::with([instance(1)]);
        let built_in = (PricedBy::BuiltIn, true);
        assert_eq!(sources(&world.evaluate().price_ages), [built_in]);
        let (region, now) = (instance(1).region, world.now);
        let ago = |hours| now - SignedDuration::from_hours(hours);
        let requested_at = &mut world.inventory.markets.asked;
        requested_at.spot = BTreeMap::from([(region.clone(), ago(1))]);
        requested_at.bands = Some(ago(49));
        let spot = (PricedBy::SpotPrices, false);
        let bands = (PricedBy::SpotAdvisor, true);
        let ages = world.evaluate().price_ages;
        assert_eq!(sources(&ages), [built_in, spot, bands]);
        assert_eq!(ages[1].at, Some(ago(1)));
        assert!(ages[1].regions.contains(&region));
        for machine in world.inventory.instances.values_mut() {
            machine.provider = Provider::Own;
        }
        assert!(world.evaluate().price_ages.is_empty());
    }

    #[test]
    fn prices_that_were_asked_for_later_are_of_then() {
        let check = |at: &str, now: &str, stale: bool| {
            let time = |text: &str| -> Timestamp { text.parse().expect("a time") };
            let kind = InstanceType::new("m5.large").expect("a type");
            let prices = RegionPrices {
                at: time(at),
                on_demand: BTreeMap::from([(kind, UsdPerHour::from_micros(1))]),
                spot: BTreeMap::new(),
                fargate: FargatePrices::default(),
                storage: StoragePrices::default(),
            };
            let machine = instance(1);
            let regions = BTreeMap::from([(machine.region.clone(), prices)]);
            let catalogue = Catalogue::built_in().with(&Refreshed {
                regions,
                ..Refreshed::default()
            });
            let world = World::with([machine]);
            let facts = Facts {
                now: time(now),
                catalogue: &catalogue,
                ..world.facts()
            };
            let ages = super::of_prices(&facts);
            assert_eq!(ages[0].by, PricedBy::PriceList);
            assert_eq!((ages[0].at, ages[0].is_stale), (Some(time(at)), stale));
        };
        check("2026-01-01T00:00:00Z", "2026-03-31T00:00:00Z", false);
        check("2026-01-01T00:00:00Z", "2026-04-02T00:00:00Z", true);
    }
}
