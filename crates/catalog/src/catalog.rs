//! The catalogue of machine types and list prices. It is built into the program and refreshed with
//! later answers of AWS. Spot prices and the account's own costs are not part of it.
//!
//! `scripts/catalogue` makes the files under `catalogue/data` and describes how the prices were
//! checked. Refused prices are listed in `data/dropped.csv`.

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
use crate::refreshed_prices::{DescribedType, Refreshed};
use crate::storage_prices::{self, StoragePrices};
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};

/// Machine types with their specs, and their on-demand prices by region.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    source: String,
    /// The date of the list that [`PriceBasis::Earlier`] prices are from.
    earlier: Option<Date>,
    /// Sorted by name.
    types: Vec<TypeSpec>,
    /// Sorted by the index of the type in each region, and so by its name.
    prices: BTreeMap<Region, Vec<Priced>>,
    /// Regions whose prices AWS returned later, with the time.
    refresh_times: BTreeMap<Region, Timestamp>,
    /// Types that EC2 described later, with the time.
    described: BTreeMap<InstanceType, Timestamp>,
    /// Prices of types whose specs are unknown; no task is placed on such a type.
    beyond: BTreeMap<Region, BTreeMap<InstanceType, UsdPerHour>>,
    /// Fargate prices that AWS returned later.
    fargate: BTreeMap<Region, FargatePrices>,
    /// Prices of volumes, snapshots and addresses that AWS returned later.
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
    /// The built-in catalogue. It is parsed at first use and then kept.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Reads a catalogue from the text of `types.csv` and `prices.csv`. An error contains the file
    /// and line of the first invalid entry.
    pub fn parse(types: &str, prices: &str) -> Result<Self, CatalogueError> {
        let types = parse::types(types)?;
        let prices = parse::prices(prices, &types)?;
        Ok(Self {
            source: prices.source,
            earlier: prices.earlier,
            types,
            prices: prices.by_region,
            refresh_times: BTreeMap::new(),
            described: BTreeMap::new(),
            beyond: BTreeMap::new(),
            fargate: BTreeMap::new(),
            storage: BTreeMap::new(),
        })
    }

    /// The specs of a type; `None` if the catalogue does not know it.
    pub fn spec(&self, name: &InstanceType) -> Option<&TypeSpec> {
        self.types.get(self.index(name)?)
    }

    /// The on-demand price; `None` if the catalogue has no reliable price.
    pub fn on_demand(&self, region: &Region, name: &InstanceType) -> Option<UsdPerHour> {
        Some(self.list_price(region, name)?.usd_per_hour)
    }

    /// The on-demand price with its basis; `None` if the catalogue has no reliable price.
    pub fn list_price(&self, region: &Region, name: &InstanceType) -> Option<ListPrice> {
        let Some(index) = self.index(name) else {
            let refreshed_price = self.beyond.get(region)?.get(name)?;
            return Some(ListPrice {
                usd_per_hour: *refreshed_price,
                basis: PriceBasis::Refresh,
            });
        };
        let priced = self.prices.get(region)?;
        let at = priced.binary_search_by_key(&index, |p| p.type_index).ok()?;
        Some(priced[at].price)
    }

    /// When the list price of a type was requested, or the date of the built-in price. `None`
    /// without a price, or if its source contains no date.
    pub fn price_as_of(&self, region: &Region, name: &InstanceType) -> Option<Timestamp> {
        match self.list_price(region, name)?.basis {
            PriceBasis::Refresh => self.refreshed_at(region),
            PriceBasis::Listed | PriceBasis::Unchecked | PriceBasis::FromFamily => self.built_at(),
            PriceBasis::Earlier => begin_of(self.earlier?),
        }
    }

    /// The time of most list prices of a region.
    pub fn prices_as_of(&self, region: &Region) -> Option<Timestamp> {
        self.refreshed_at(region).or_else(|| self.built_at())
    }

    /// The start of the day of the built-in prices.
    fn built_at(&self) -> Option<Timestamp> {
        begin_of(self.day()?)
    }

    /// All types, sorted by name.
    pub fn types(&self) -> &[TypeSpec] {
        &self.types
    }

    /// Whether any type of a family such as `m5` is known.
    pub fn knows_family(&self, family: &str) -> bool {
        let at = self
            .types
            .partition_point(|spec| spec.name.as_str() < family);
        // Types of a family with a longer name may come first: `m7i-flex.` before `m7i.`.
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

    /// The source and date of the built-in prices, in one line.
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
    /// The on-demand prices of Fargate in a region; `None` if they are unknown.
    pub fn fargate(&self, region: &Region, architecture: Architecture) -> Option<FargateRates> {
        let built_in = Some(fargate_prices::BUILT_IN.1)
            .filter(|_| region.as_str() == fargate_prices::BUILT_IN.0);
        let refreshed_prices = self.fargate.get(region).copied();
        let of = |prices: FargatePrices| match architecture {
            Architecture::X86_64 => prices.x86_64,
            Architecture::Arm64 => prices.arm64,
        };
        refreshed_prices.and_then(of).or(built_in.and_then(of))
    }

    /// When AWS returned the Fargate prices of a region, or the date of the catalogue that contains
    /// the built-in price. `None` without a price.
    pub fn fargate_as_of(&self, region: &Region, architecture: Architecture) -> Option<Timestamp> {
        self.fargate(region, architecture)?;
        let is_refreshed = self
            .fargate
            .get(region)
            .is_some_and(|prices| match architecture {
                Architecture::X86_64 => prices.x86_64.is_some(),
                Architecture::Arm64 => prices.arm64.is_some(),
            });
        match is_refreshed {
            true => self.refreshed_at(region),
            false => self.built_at(),
        }
    }
}

impl Catalogue {
    /// A price of storage or addresses in a region: AWS's answer, or otherwise the built-in price.
    /// `None` without both.
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
        let refreshed_price = self.storage.get(region).and_then(&of);
        refreshed_price.or_else(|| of(remembered()))
    }

    /// When AWS returned prices of storage or addresses in a region; `None` if it did not.
    pub fn storage_refreshed_at(&self, region: &Region) -> Option<Timestamp> {
        self.storage
            .get(region)
            .and_then(|_| self.refreshed_at(region))
    }

    /// Whether AWS returned all prices of volumes and snapshots in a region.
    pub fn has_refreshed_storage(&self, region: &Region) -> bool {
        let refreshed_prices = self.storage.get(region);
        refreshed_prices.is_some_and(StoragePrices::is_whole)
    }
}

impl Catalogue {
    /// The date of the built-in prices; `None` if the source contains no date.
    pub fn day(&self) -> Option<Date> {
        super::parse::day_of(&self.source)
    }

    /// The catalogue with the described machine types, and with prices that are newer than its own.
    /// A type without specs has a price and is never recommended, because no task could be placed
    /// on it.
    #[must_use]
    pub fn with(&self, refreshed: &Refreshed) -> Self {
        let mut catalogue = self.with_types(&refreshed.types);
        for (region, region_prices) in &refreshed.regions {
            let day = region_prices.at.to_zoned(TimeZone::UTC).date();
            if region_prices.on_demand.is_empty() || self.day().is_some_and(|own| day <= own) {
                continue;
            }
            let kept = catalogue.prices.remove(region).unwrap_or_default();
            let mut by_type: BTreeMap<usize, ListPrice> =
                kept.iter().map(|p| (p.type_index, p.price)).collect();
            for (name, usd_per_hour) in &region_prices.on_demand {
                if usd_per_hour.0 <= Usd::ZERO {
                    continue;
                }
                let price = ListPrice {
                    usd_per_hour: *usd_per_hour,
                    basis: PriceBasis::Refresh,
                };
                match catalogue.index(name) {
                    Some(index) => _ = by_type.insert(index, price),
                    None => {
                        let beyond = catalogue.beyond.entry(region.clone()).or_default();
                        beyond.insert(name.clone(), *usd_per_hour);
                    }
                }
            }
            let priced = by_type.into_iter();
            let priced = priced.map(|(type_index, price)| Priced { type_index, price });
            catalogue.prices.insert(region.clone(), priced.collect());
            catalogue
                .refresh_times
                .insert(region.clone(), region_prices.at);
            catalogue
                .fargate
                .insert(region.clone(), region_prices.fargate);
            catalogue
                .storage
                .insert(region.clone(), region_prices.storage.clone());
        }
        catalogue
    }

    /// The catalogue with these types, which replace its types of the same names.
    fn with_types(&self, described_types: &BTreeMap<InstanceType, DescribedType>) -> Self {
        if described_types.is_empty() {
            return self.clone();
        }
        let own = self.types.iter();
        let mut by_name: BTreeMap<&InstanceType, &TypeSpec> =
            own.map(|spec| (&spec.name, spec)).collect();
        by_name.extend(
            described_types
                .values()
                .map(|kind| (&kind.spec.name, &kind.spec)),
        );
        let place: BTreeMap<&InstanceType, usize> = by_name.keys().copied().zip(0..).collect();
        // Both are sorted by name, so the order is kept.
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
        described.extend(
            described_types
                .values()
                .map(|kind| (kind.spec.name.clone(), kind.at)),
        );
        Self {
            prices: prices.collect(),
            types: by_name.into_values().cloned().collect(),
            described,
            ..self.clone()
        }
    }

    /// When EC2 described a type; `None` if only the built-in specs exist, or none.
    pub fn described_at(&self, name: &InstanceType) -> Option<Timestamp> {
        self.described.get(name).copied()
    }

    /// The latest time at which AWS returned prices; `None` if all prices are built in.
    pub fn last_refreshed(&self) -> Option<Timestamp> {
        self.refresh_times.values().max().copied()
    }

    /// The source and time of all prices, in one line.
    pub fn sources(&self) -> String {
        let mut all = self.source.clone();
        let day = |at: &Timestamp| at.strftime("%Y-%m-%d").to_string();
        if let Some(oldest) = self.refresh_times.values().min() {
            let (many, day) = (self.refresh_times.len(), day(oldest));
            all += &format!("; {many} regions from the AWS Price List of {day} or later");
        }
        if let Some(oldest) = self.described.values().min() {
            let (many, day) = (self.described.len(), day(oldest));
            all += &format!("; {many} machine types from EC2 of {day} or later");
        }
        all
    }

    /// When AWS returned the prices of a region; `None` if the built-in prices are used.
    pub fn refreshed_at(&self, region: &Region) -> Option<Timestamp> {
        self.refresh_times.get(region).copied()
    }
}
