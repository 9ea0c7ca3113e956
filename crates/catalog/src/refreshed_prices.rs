//! Prices and machine types that AWS returned after the program was built.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fargate_prices::FargatePrices;
use crate::machine_type::TypeSpec;
use crate::spot_terms::SpotTerms;
use crate::storage_prices::StoragePrices;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;

/// Answers of AWS over time: prices for Linux with shared tenancy, and specs of machine types.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Refreshed {
    /// The newest answer about each region.
    pub regions: BTreeMap<Region, RegionPrices>,
    /// The newest specs of each machine type.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<InstanceType, DescribedType>,
}

/// Specs of one machine type from EC2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribedType {
    /// The time of the answer.
    pub at: Timestamp,
    /// The specs.
    pub spec: TypeSpec,
}

/// Prices of one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionPrices {
    /// The time of the answer.
    pub at: Timestamp,
    /// On-demand prices from AWS's Price List.
    pub on_demand: BTreeMap<InstanceType, UsdPerHour>,
    /// Spot prices of the cheapest zone.
    #[serde(default)]
    pub spot: BTreeMap<InstanceType, SpotTerms>,
    /// Fargate prices for Linux; each is `None` if it is unknown.
    #[serde(default)]
    pub fargate: FargatePrices,
    /// Prices of volumes, snapshots and public addresses; each is `None` if it is unknown.
    #[serde(default)]
    pub storage: StoragePrices,
}

impl Refreshed {
    /// Adds later answers; regions and types without a later answer stay unchanged.
    pub fn absorb(&mut self, later: Self) {
        self.regions.extend(later.regions);
        self.types.extend(later.types);
    }

    /// Adds the specs of machine types.
    pub fn describe(&mut self, specs: impl IntoIterator<Item = TypeSpec>, at: Timestamp) {
        let specs = specs.into_iter();
        self.types
            .extend(specs.map(|spec| (spec.name.clone(), DescribedType { at, spec })));
    }

    /// True if it contains no regions and no types.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty() && self.types.is_empty()
    }

    /// The time of the oldest region; `None` without regions.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.regions.values().map(|prices| prices.at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalogue;

    fn make_refreshed(at: &str, prices: &[(&str, i64)]) -> Refreshed {
        let kind = |name: &str| InstanceType::new(name).expect("a type");
        let each = prices
            .iter()
            .map(|(name, micros)| (kind(name), UsdPerHour::from_micros(*micros)));
        let prices = RegionPrices {
            at: at.parse().expect("a time"),
            on_demand: each.collect(),
            spot: BTreeMap::new(),
            fargate: FargatePrices::default(),
            storage: StoragePrices::default(),
        };
        let region = Region::new("eu-west-1").expect("a region");
        Refreshed {
            regions: BTreeMap::from([(region, prices)]),
            ..Refreshed::default()
        }
    }

    #[test]
    fn later_prices_hold_and_the_rest_stays() {
        let check = |refreshed: Refreshed, expect: (&str, Option<i64>)| {
            let catalogue = Catalogue::built_in().with(&refreshed);
            let region = Region::new("eu-west-1").expect("a region");
            let kind = InstanceType::new(expect.0).expect("a type");
            let price = catalogue.on_demand(&region, &kind);
            assert_eq!(price.map(|p| p.0.micros()), expect.1, "{}", expect.0);
        };
        let now = "2026-11-22T00:00:00Z";
        let prices = [("m5.large", 99_000), ("x99.large", 1), ("m5.xlarge", 0)];
        check(make_refreshed(now, &prices), ("m5.large", Some(99_000)));
        check(make_refreshed(now, &prices), ("m5.xlarge", Some(214_000)));
        check(make_refreshed(now, &prices), ("x99.large", Some(1)));
        // Older than the built-in prices.
        check(
            make_refreshed("2025-03-01T00:00:00Z", &prices),
            ("m5.large", Some(107_000)),
        );
    }

    #[test]
    fn each_price_says_since_when_it_is_known() {
        let region = |name: &str| Region::new(name).expect("a region");
        let refreshed = make_refreshed("2026-11-22T00:00:00Z", &[("m5.large", 99_000)]);
        let catalogue = Catalogue::built_in().with(&refreshed);
        assert!(catalogue.refreshed_at(&region("eu-west-1")).is_some());
        assert!(catalogue.refreshed_at(&region("us-east-1")).is_none());
        assert_eq!(catalogue.day(), "2025-03-02".parse().ok());
        let again = Catalogue::built_in().with(&Refreshed::default());
        assert_eq!(&again, Catalogue::built_in());
    }

    #[test]
    fn a_type_that_was_described_later_is_placed_and_moves_no_price_to_another() {
        let now = "2026-11-22T00:00:00Z";
        let kind = |name: &str| InstanceType::new(name).expect("a type");
        let like = Catalogue::built_in()
            .spec(&kind("m5.large"))
            .expect("it is");
        let mut refreshed = make_refreshed(now, &[("a9.large", 77_000)]);
        let at = now.parse().expect("a time");
        let named = |name: &str| TypeSpec {
            name: kind(name),
            ..like.clone()
        };
        // One type sorts before all built-in types; another replaces a built-in type and has fewer
        // cores.
        let more = TypeSpec {
            vcpus: 3,
            ..named("m5.xlarge")
        };
        refreshed.describe([named("a0.large"), named("a9.large"), more], at);
        let text = serde_json::to_string(&refreshed).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Refreshed>(&text).ok(),
            Some(refreshed.clone())
        );
        let catalogue = Catalogue::built_in().with(&refreshed);
        let mut all = Catalogue::built_in().regions();
        assert!(all.all(|region| {
            let before = Catalogue::built_in().types_in(region);
            before
                .map(|(spec, price)| (&spec.name, price))
                .all(|(name, price)| catalogue.on_demand(region, name) == Some(price))
        }));
        let region = Region::new("eu-west-1").expect("a region");
        let mut here = catalogue.types_in(&region);
        assert!(here.any(|(spec, _)| spec.name == kind("a9.large")));
        let cores = |name: &str| Some(catalogue.spec(&kind(name))?.vcpus);
        assert_eq!((cores("m5.xlarge"), cores("a0.large")), (Some(3), Some(2)));
        assert_eq!(catalogue.described_at(&kind("a9.large")), Some(at));
        assert_eq!(catalogue.described_at(&kind("m5.large")), None);
        let sources = catalogue.sources();
        assert!(sources.ends_with("3 machine types from EC2 of 2026-11-22 or later"));
        let families = ["a0", "a9", "m5", "m7i-flex"].map(|name| catalogue.knows_family(name));
        assert_eq!(families, [true; 4]);
        assert!(!catalogue.knows_family("a"));
    }
}
