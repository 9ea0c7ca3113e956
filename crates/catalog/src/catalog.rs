//! The catalogue of machine types and list prices: built into the program, and renewed by
//! what AWS told of either later. Spot and what an account really pays live elsewhere.
//!
//! `scripts/catalogue` makes the files under `catalogue/data` and says how the
//! prices were checked; what it refused stands in `data/dropped.csv`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::fargate_prices::{self, FargatePrices, FargateRates};
use crate::list_price::{ListPrice, PriceBasis, Priced};
use crate::machine_type::{Architecture, TypeSpec};
use crate::parse::{self, CatalogueError};
use crate::refreshed_prices::{Refreshed, ToldType};
use crate::storage_prices::{self, StoragePrices};
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};

/// Machine types with what they have, and their on-demand prices by region.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    source: String,
    /// The day of the list that prices of [`PriceBasis::Earlier`] are of.
    earlier: Option<Date>,
    /// Sorted by name.
    types: Vec<TypeSpec>,
    /// Each sorted by the index of its type, and so by the type's name.
    prices: BTreeMap<Region, Vec<Priced>>,
    /// Regions whose prices AWS told later, and when.
    told: BTreeMap<Region, Timestamp>,
    /// Types that EC2 described later, and when.
    described: BTreeMap<InstanceType, Timestamp>,
    /// What was told of types whose specs are not known: they have a price, and nothing is
    /// placed on them.
    beyond: BTreeMap<Region, BTreeMap<InstanceType, UsdPerHour>>,
    /// What Fargate charges where AWS told it later.
    fargate: BTreeMap<Region, FargatePrices>,
    /// What volumes, snapshots and addresses cost where AWS told it later.
    storage: BTreeMap<Region, StoragePrices>,
}

static BUILT_IN: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::parse(
        include_str!("data/types.csv"),
        include_str!("data/prices.csv"),
    )
    .expect("the built-in catalogue parses; a test reads all of it")
});

impl Catalogue {
    /// The catalogue in the program. It is parsed at first use and then kept.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Reads a catalogue from the text of `types.csv` and `prices.csv`; errs
    /// with file and line at the first thing that is not as it must be.
    pub fn parse(types: &str, prices: &str) -> Result<Self, CatalogueError> {
        let types = parse::types(types)?;
        let prices = parse::prices(prices, &types)?;
        Ok(Self {
            source: prices.source,
            earlier: prices.earlier,
            types,
            prices: prices.by_region,
            told: BTreeMap::new(),
            described: BTreeMap::new(),
            beyond: BTreeMap::new(),
            fargate: BTreeMap::new(),
            storage: BTreeMap::new(),
        })
    }

    /// What a type has; `None` for one that the catalogue does not know.
    pub fn spec(&self, name: &InstanceType) -> Option<&TypeSpec> {
        self.types.get(self.index(name)?)
    }

    /// The on-demand price; `None` where the catalogue has none it trusts.
    pub fn on_demand(&self, region: &Region, name: &InstanceType) -> Option<UsdPerHour> {
        Some(self.list_price(region, name)?.usd_per_hour)
    }

    /// The on-demand price with its basis; `None` where the catalogue has none
    /// it trusts.
    pub fn list_price(&self, region: &Region, name: &InstanceType) -> Option<ListPrice> {
        let Some(index) = self.index(name) else {
            let told = self.beyond.get(region)?.get(name)?;
            return Some(ListPrice {
                usd_per_hour: *told,
                basis: PriceBasis::Told,
            });
        };
        let priced = self.prices.get(region)?;
        let at = priced.binary_search_by_key(&index, |p| p.type_index).ok()?;
        Some(priced[at].price)
    }

    /// When the list price of a type was asked for, or of which day the built-in one is;
    /// `None` without a price, or where its source names no day.
    pub fn price_as_of(&self, region: &Region, name: &InstanceType) -> Option<Timestamp> {
        match self.list_price(region, name)?.basis {
            PriceBasis::Told => self.told_at(region),
            PriceBasis::Listed | PriceBasis::Unchecked | PriceBasis::FromFamily => self.built_at(),
            PriceBasis::Earlier => begin_of(self.earlier?),
        }
    }

    /// Of when most list prices of a region are.
    pub fn prices_as_of(&self, region: &Region) -> Option<Timestamp> {
        self.told_at(region).or_else(|| self.built_at())
    }

    /// The begin of the day that the built-in prices are of.
    fn built_at(&self) -> Option<Timestamp> {
        begin_of(self.day()?)
    }

    /// All types, sorted by name.
    pub fn types(&self) -> &[TypeSpec] {
        &self.types
    }

    /// Whether any type of a family is known, such as `m5`.
    pub fn knows_family(&self, family: &str) -> bool {
        let at = self
            .types
            .partition_point(|spec| spec.name.as_str() < family);
        // Names of longer families may stand before its own: `m7i-flex.` before `m7i.`.
        let mut from = self.types[at..]
            .iter()
            .map_while(|spec| spec.name.as_str().strip_prefix(family));
        from.any(|rest| rest.starts_with('.'))
    }

    /// The types that have a price in a region, sorted by name.
    pub fn types_in(&self, region: &Region) -> impl Iterator<Item = (&TypeSpec, UsdPerHour)> {
        let priced = self.prices.get(region).into_iter().flatten();
        priced.map(|p| (&self.types[p.type_index], p.price.usd_per_hour))
    }

    /// The regions that have prices, sorted.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.prices.keys()
    }

    /// Where the built-in prices come from and of which day, in one line.
    pub fn as_of(&self) -> &str {
        &self.source
    }

    fn index(&self, name: &InstanceType) -> Option<usize> {
        self.types.binary_search_by(|t| t.name.cmp(name)).ok()
    }
}

fn begin_of(day: Date) -> Option<Timestamp> {
    let begin = day.to_zoned(TimeZone::UTC).ok()?;
    Some(begin.timestamp())
}

impl Catalogue {
    /// What Fargate charges in a region, on demand; `None` where nobody told.
    pub fn fargate(&self, region: &Region, architecture: Architecture) -> Option<FargateRates> {
        let built_in = Some(fargate_prices::BUILT_IN.1)
            .filter(|_| region.as_str() == fargate_prices::BUILT_IN.0);
        let told = self.fargate.get(region).copied();
        let of = |prices: FargatePrices| match architecture {
            Architecture::X86_64 => prices.x86_64,
            Architecture::Arm64 => prices.arm64,
        };
        told.and_then(of).or(built_in.and_then(of))
    }

    /// When AWS told what Fargate charges in a region; `None` where it told nothing, for the
    /// built-in price has no day.
    pub fn fargate_told_at(&self, region: &Region) -> Option<Timestamp> {
        self.fargate.get(region).and_then(|_| self.told_at(region))
    }
}

impl Catalogue {
    /// A price of storage or addresses in a region: as AWS told it, and what it did not tell
    /// as it is remembered. Unknown where neither is.
    pub fn storage<T>(
        &self,
        region: &Region,
        of: impl Fn(&StoragePrices) -> Option<T>,
    ) -> Option<T> {
        let remembered = || {
            storage_prices::REMEMBERED
                .get(region.as_str())
                .unwrap_or(&storage_prices::ELSEWHERE)
        };
        let told = self.storage.get(region).and_then(&of);
        told.or_else(|| of(remembered()))
    }

    /// When AWS told prices of storage or addresses in a region; `None` where it told none.
    pub fn storage_told_at(&self, region: &Region) -> Option<Timestamp> {
        self.storage.get(region).and_then(|_| self.told_at(region))
    }

    /// Whether AWS told what volumes and snapshots cost in a region, all of it.
    pub fn tells_storage(&self, region: &Region) -> bool {
        let told = self.storage.get(region);
        told.is_some_and(StoragePrices::is_whole)
    }
}

impl Catalogue {
    /// The day that the built-in prices are of; `None` where the source names none.
    pub fn day(&self) -> Option<Date> {
        super::parse::day_of(&self.source)
    }

    /// The same with the machine types that were described and with prices that are younger
    /// than its own. Types whose specs are not known have a price and are never offered,
    /// because nothing could be placed on them.
    #[must_use]
    pub fn with(&self, refreshed: &Refreshed) -> Self {
        let mut all = self.with_types(&refreshed.types);
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
                match all.index(name) {
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
            all.fargate.insert(region.clone(), told.fargate);
            all.storage.insert(region.clone(), told.storage.clone());
        }
        all
    }

    /// The same with these types, in the place of what it had of the same names.
    fn with_types(&self, told: &BTreeMap<InstanceType, ToldType>) -> Self {
        if told.is_empty() {
            return self.clone();
        }
        let own = self.types.iter();
        let mut by_name: BTreeMap<&InstanceType, &TypeSpec> =
            own.map(|spec| (&spec.name, spec)).collect();
        by_name.extend(told.values().map(|told| (&told.spec.name, &told.spec)));
        let place: BTreeMap<&InstanceType, usize> = by_name.keys().copied().zip(0..).collect();
        // Both are sorted by name, so that what moves stays in order.
        let moved = |priced: &Priced| {
            let name = &self.types.get(priced.type_index)?.name;
            Some(Priced {
                type_index: *place.get(name)?,
                ..*priced
            })
        };
        let prices = self.prices.iter();
        let prices = prices.map(|(region, all)| {
            let moved = all.iter().filter_map(moved);
            (region.clone(), moved.collect())
        });
        let mut described = self.described.clone();
        described.extend(told.values().map(|told| (told.spec.name.clone(), told.at)));
        Self {
            prices: prices.collect(),
            types: by_name.into_values().cloned().collect(),
            described,
            ..self.clone()
        }
    }

    /// When EC2 described a type; `None` where what is built in holds, or nothing.
    pub fn described_at(&self, name: &InstanceType) -> Option<Timestamp> {
        self.described.get(name).copied()
    }

    /// When AWS told prices last; `None` where only the built-in ones hold.
    pub fn told_last(&self) -> Option<Timestamp> {
        self.told.values().max().copied()
    }

    /// Where all the prices come from and of when, in one line.
    pub fn sources(&self) -> String {
        let mut all = self.source.clone();
        let day = |at: &Timestamp| at.strftime("%Y-%m-%d").to_string();
        if let Some(oldest) = self.told.values().min() {
            let (many, day) = (self.told.len(), day(oldest));
            all += &format!("; {many} regions as AWS's Price List told them on {day} or later");
        }
        if let Some(oldest) = self.described.values().min() {
            let (many, day) = (self.described.len(), day(oldest));
            all += &format!("; {many} machine types as EC2 described them on {day} or later");
        }
        all
    }

    /// When AWS told the prices of a region; `None` where the built-in ones hold.
    pub fn told_at(&self, region: &Region) -> Option<Timestamp> {
        self.told.get(region).copied()
    }
}
