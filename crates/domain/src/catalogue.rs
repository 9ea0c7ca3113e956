//! The catalogue of machine types and list prices: built into the program, and renewed by
//! what AWS told of either later. Spot and what an account really pays live elsewhere.
//!
//! `scripts/catalogue` makes the files under `catalogue/data` and says how the
//! prices were checked; what it refused stands in `catalogue/data/dropped.csv`.

pub mod advisor;
mod fargate;
mod parse;
mod refreshed;
mod storage;
#[cfg(test)]
mod tests;

pub use fargate::{FargatePrices, FargateRates};
pub use parse::{CatalogueError, Problem};
pub use refreshed::{Refreshed, RegionPrices, ToldType};
pub use storage::StoragePrices;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::identity::{InstanceType, Region};
use crate::units::{Bytes, UsdPerHour};

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

/// What a machine type has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeSpec {
    /// Its name, such as `m5.xlarge`.
    pub name: InstanceType,
    /// Virtual processors: hardware threads.
    pub vcpus: u32,
    /// Physical cores; `None` when the source does not tell.
    pub cores: Option<u32>,
    /// Memory as advertised; the kernel sees a little less.
    pub memory: Bytes,
    /// What its programs are compiled for.
    pub architecture: Architecture,
    /// Sustained clock in MHz; `None` when the source does not tell.
    pub clock_mhz: Option<u32>,
    /// Its GPUs; `None` when it has none.
    pub gpus: Option<Devices>,
    /// Accelerators that are not GPUs (Inferentia, Trainium, FPGA, media);
    /// `None` when it has none.
    pub accelerators: Option<Devices>,
    /// Network that it can sustain, in Mbit/s; `None` when the source does not tell.
    pub network_baseline_mbps: Option<u32>,
    /// Network that it can reach for a while, in Mbit/s; `None` when the source does not
    /// tell.
    pub network_burst_mbps: Option<u32>,
    /// EBS bandwidth that it can sustain, in Mbit/s; `None` when the source does not tell.
    pub ebs_baseline_mbps: Option<u32>,
    /// EBS bandwidth that it can reach for a while, in Mbit/s; `None` when the source
    /// does not tell.
    pub ebs_burst_mbps: Option<u32>,
    /// Local disks together; `None` when it has none.
    pub local_disk: Option<Bytes>,
    /// Who makes its processor: `Intel`, `AMD` or `AWS`; `None` when the source does not
    /// tell.
    pub processor: Option<String>,
    /// Earns and spends CPU credits, so that its vCPUs are not whole for long.
    pub burstable: bool,
    /// Bare metal.
    pub metal: bool,
    /// Belongs to what AWS calls the current generation.
    pub current_generation: bool,
    /// Is sold on the spot market.
    pub spot: bool,
    /// What it is built on; `None` when the source does not tell.
    #[serde(default)]
    pub hypervisor: Option<Hypervisor>,
}

/// What a machine is built on.
///
/// Source: EC2 User Guide, "Instances built on the AWS Nitro System".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hypervisor {
    /// The Nitro System, bare metal included.
    Nitro,
    /// What came before it.
    Xen,
}

impl TypeSpec {
    /// How many GPUs it has.
    pub(crate) fn gpu_count(&self) -> u32 {
        self.gpus.as_ref().map_or(0, |gpus| gpus.count)
    }
}

/// GPUs or accelerators of one machine type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Devices {
    /// How many. A type with a part of a GPU counts as one, with less memory.
    pub count: u32,
    /// The model, such as `T4`.
    pub name: String,
    /// Memory of all of them together; `None` when the source does not tell.
    pub memory: Option<Bytes>,
}

impl Devices {
    /// Memory of one of them; `None` when the source does not tell.
    pub fn memory_each(&self) -> Option<Bytes> {
        let all = self.memory?.0;
        all.checked_div(self.count.into()).map(Bytes)
    }
}

/// What a machine's programs are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Architecture {
    /// Intel and AMD, 64 bits.
    #[serde(rename = "x86_64")]
    X86_64,
    /// Graviton and other Arm, 64 bits.
    #[serde(rename = "arm64")]
    Arm64,
}

/// An on-demand price and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPrice {
    /// The price.
    pub usd_per_hour: UsdPerHour,
    /// Where it comes from.
    pub basis: PriceBasis,
}

/// Where a price of the catalogue comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriceBasis {
    /// From the list, and it agrees with its family.
    Listed,
    /// From the list, with nothing in that region to check it against.
    Unchecked,
    /// Size times the family's price in that region, or that of a region which charges
    /// the same: the list has none for this type there, or that of dedicated tenancy.
    FromFamily,
    /// From an earlier list, because the newest has none that can be used.
    Earlier,
    /// As AWS's Price List told it after the program was built.
    Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Priced {
    type_index: usize,
    price: ListPrice,
}

static BUILT_IN: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::parse(
        include_str!("catalogue/data/types.csv"),
        include_str!("catalogue/data/prices.csv"),
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
