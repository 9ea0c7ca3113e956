//! Prices as they were told after the program was built, and how they go into the
//! catalogue.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

use super::{Catalogue, ListPrice, PriceBasis, Priced};
use crate::fleet::SpotTerms;
use crate::identity::{InstanceType, Region};
use crate::units::{Usd, UsdPerHour};

/// Prices as AWS told them at one time, for Linux in shared tenancy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Refreshed {
    /// Each region as it was told last.
    pub regions: BTreeMap<Region, RegionPrices>,
}

/// What one region told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionPrices {
    /// When.
    pub at: Timestamp,
    /// On demand, by AWS's Price List.
    pub on_demand: BTreeMap<InstanceType, UsdPerHour>,
    /// Spot, of the cheapest zone.
    #[serde(default)]
    pub spot: BTreeMap<InstanceType, SpotTerms>,
}

impl Refreshed {
    /// Takes in what was told later; a region that was not told stays as it was.
    pub fn absorb(&mut self, later: Self) {
        self.regions.extend(later.regions);
    }

    /// When the region that was told longest ago was told; `None` for nothing at all.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.regions.values().map(|told| told.at).min()
    }
}

impl Catalogue {
    /// The day that the built-in prices are of; `None` where the source names none.
    pub fn day(&self) -> Option<Date> {
        self.source.rsplit(' ').next()?.parse().ok()
    }

    /// The same with prices that are younger than its own. Types whose specs are not
    /// known have a price and are never offered, because nothing could be placed on them.
    #[must_use]
    pub fn with(&self, refreshed: &Refreshed) -> Self {
        let mut all = self.clone();
        for (region, told) in &refreshed.regions {
            let day = told.at.to_zoned(TimeZone::UTC).date();
            if told.on_demand.is_empty() || self.day().is_some_and(|own| day <= own) {
                continue;
            }
            let kept = all.prices.remove(region).unwrap_or_default();
            let mut by_type: BTreeMap<usize, ListPrice> =
                kept.iter().map(|p| (p.type_index, p.price)).collect();
            for (name, usd_per_hour) in &told.on_demand {
                if usd_per_hour.0 <= Usd::ZERO {
                    continue;
                }
                let price = ListPrice {
                    usd_per_hour: *usd_per_hour,
                    basis: PriceBasis::Told,
                };
                match self.index(name) {
                    Some(index) => _ = by_type.insert(index, price),
                    None => {
                        let beyond = all.beyond.entry(region.clone()).or_default();
                        beyond.insert(name.clone(), *usd_per_hour);
                    }
                }
            }
            let priced = by_type.into_iter();
            let priced = priced.map(|(type_index, price)| Priced { type_index, price });
            all.prices.insert(region.clone(), priced.collect());
            all.told.insert(region.clone(), told.at);
        }
        all
    }

    /// When AWS told prices last; `None` where only the built-in ones hold.
    pub fn told_last(&self) -> Option<Timestamp> {
        self.told.values().max().copied()
    }

    /// Where all the prices come from and of when, in one line.
    pub fn sources(&self) -> String {
        let Some(oldest) = self.told.values().min() else {
            return self.source.clone();
        };
        format!(
            "{}; {} regions as AWS's Price List told them on {} or later",
            self.source,
            self.told.len(),
            oldest.strftime("%Y-%m-%d")
        )
    }

    /// When AWS told the prices of a region; `None` where the built-in ones hold.
    pub fn told_at(&self, region: &Region) -> Option<Timestamp> {
        self.told.get(region).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(at: &str, prices: &[(&str, i64)]) -> Refreshed {
        let kind = |name: &str| InstanceType::new(name).expect("a type");
        let each = prices
            .iter()
            .map(|(name, micros)| (kind(name), UsdPerHour::from_micros(*micros)));
        let prices = RegionPrices {
            at: at.parse().expect("a time"),
            on_demand: each.collect(),
            spot: BTreeMap::new(),
        };
        let region = Region::new("eu-west-1").expect("a region");
        Refreshed {
            regions: BTreeMap::from([(region, prices)]),
        }
    }

    #[test]
    fn what_was_told_later_holds_and_the_rest_stays() {
        let check = |refreshed: Refreshed, expect: (&str, Option<i64>)| {
            let catalogue = Catalogue::built_in().with(&refreshed);
            let region = Region::new("eu-west-1").expect("a region");
            let kind = InstanceType::new(expect.0).expect("a type");
            let price = catalogue.on_demand(&region, &kind);
            assert_eq!(price.map(|p| p.0.micros()), expect.1, "{}", expect.0);
        };
        let now = "2026-11-22T00:00:00Z";
        let prices = [("m5.large", 99_000), ("x99.large", 1), ("m5.xlarge", 0)];
        check(told(now, &prices), ("m5.large", Some(99_000)));
        check(told(now, &prices), ("m5.xlarge", Some(214_000)));
        check(told(now, &prices), ("x99.large", Some(1)));
        // Older than what is built in.
        check(
            told("2025-03-01T00:00:00Z", &prices),
            ("m5.large", Some(107_000)),
        );
    }

    #[test]
    fn each_price_says_since_when_it_is_known() {
        let region = |name: &str| Region::new(name).expect("a region");
        let refreshed = told("2026-11-22T00:00:00Z", &[("m5.large", 99_000)]);
        let catalogue = Catalogue::built_in().with(&refreshed);
        assert!(catalogue.told_at(&region("eu-west-1")).is_some());
        assert!(catalogue.told_at(&region("us-east-1")).is_none());
        assert_eq!(catalogue.day(), "2025-03-02".parse().ok());
        let again = Catalogue::built_in().with(&Refreshed::default());
        assert_eq!(&again, Catalogue::built_in());
    }
}
