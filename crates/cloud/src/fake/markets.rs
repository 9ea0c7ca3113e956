//! Market data in memory.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use ebb_catalog::fargate_prices::FargatePrices;
use ebb_catalog::machine_type::TypeSpec;
use ebb_catalog::spot_advisor::Advisor;
use ebb_catalog::spot_terms::SpotTerms;
use ebb_catalog::storage_prices::StoragePrices;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::spot_market::{Markets, SpotWish};
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;

use super::shared::Shared;
use crate::ports::{CloudError, CloudResult, MarketSource, PriceSource};

/// A price list by region, and machine types that all these regions have. Other regions refuse. It
/// records its requests.
#[derive(Debug, Clone, Default)]
pub struct FakePrices {
    by_region: BTreeMap<Region, BTreeMap<InstanceType, UsdPerHour>>,
    types: Vec<TypeSpec>,
    requests: Shared<Vec<String>>,
}

impl FakePrices {
    /// A price list with these prices.
    pub fn new(by_region: BTreeMap<Region, BTreeMap<InstanceType, UsdPerHour>>) -> Self {
        Self {
            by_region,
            ..Self::default()
        }
    }

    /// Adds these types.
    pub fn with_types(self, types: Vec<TypeSpec>) -> Self {
        Self { types, ..self }
    }

    /// The requests since the last call, such as `eu-west-1 prices`.
    pub fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock())
    }

    fn listed(
        &self,
        region: &Region,
        (what, operation): (&str, &str),
    ) -> CloudResult<&BTreeMap<InstanceType, UsdPerHour>> {
        self.requests.lock().push(format!("{region} {what}"));
        self.by_region
            .get(region)
            .ok_or_else(|| CloudError::Failed {
                operation: operation.to_owned(),
                message: format!("{region} is not on the list"),
            })
    }
}

#[async_trait]
impl PriceSource for FakePrices {
    async fn on_demand(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, UsdPerHour>> {
        self.listed(region, ("prices", "pricing:GetProducts"))
            .cloned()
    }

    async fn fargate(&self, _: &Region) -> CloudResult<FargatePrices> {
        Ok(FargatePrices::default())
    }

    async fn storage(&self, _: &Region) -> CloudResult<StoragePrices> {
        Ok(StoragePrices::default())
    }

    async fn types(
        &self,
        region: &Region,
        named: Option<&BTreeSet<String>>,
    ) -> CloudResult<Vec<TypeSpec>> {
        self.listed(region, ("types", "ec2:DescribeInstanceTypes"))?;
        let fits = |name: &str, pattern: &String| match pattern.split_once('*') {
            Some((begin, end)) => name.starts_with(begin) && name.ends_with(end),
            None => name == pattern,
        };
        let is_wanted = |spec: &&TypeSpec| {
            named.is_none_or(|named| named.iter().any(|one| fits(spec.name.as_str(), one)))
        };
        Ok(self.types.iter().filter(is_wanted).cloned().collect())
    }
}

#[derive(Debug, Default)]
struct Sold {
    markets: Markets,
    advisor: Advisor,
    refuses: bool,
    request_counts: BTreeMap<&'static str, usize>,
}

/// Market data, and the number of requests of each kind.
#[derive(Debug, Clone, Default)]
pub struct FakeMarkets(Shared<Sold>);

impl FakeMarkets {
    /// Market data with these answers.
    pub fn new(markets: Markets, advisor: Advisor) -> Self {
        Self(Shared::new(Sold {
            markets,
            advisor,
            ..Sold::default()
        }))
    }

    /// Refuses every call from now on.
    pub fn refuse(&self) {
        self.0.lock().refuses = true;
    }

    /// The number of requests of each kind.
    pub fn asked(&self) -> BTreeMap<&'static str, usize> {
        self.0.lock().request_counts.clone()
    }

    fn answer<T>(&self, what: &'static str, read: impl Fn(&Sold) -> T) -> CloudResult<T> {
        let mut sold = self.0.lock();
        *sold.request_counts.entry(what).or_default() += 1;
        match sold.refuses {
            true => Err(CloudError::Failed {
                operation: what.to_owned(),
                message: "it refuses".to_owned(),
            }),
            false => Ok(read(&sold)),
        }
    }
}

#[async_trait]
impl MarketSource for FakeMarkets {
    async fn spot_prices(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, SpotTerms>> {
        let read = |sold: &Sold| sold.markets.spot.get(region).cloned().unwrap_or_default();
        self.answer("spot_prices", read)
    }

    async fn zones(
        &self,
        region: &Region,
    ) -> CloudResult<BTreeMap<InstanceType, BTreeSet<String>>> {
        let read = |sold: &Sold| sold.markets.zones.get(region).cloned().unwrap_or_default();
        self.answer("zones", read)
    }

    async fn reserved(&self, region: &Region) -> CloudResult<Vec<Commitment>> {
        self.answer("reserved", |sold: &Sold| {
            let here = |paid: &&Commitment| paid.region.as_ref() == Some(region);
            sold.markets
                .commitments
                .iter()
                .filter(here)
                .cloned()
                .collect()
        })
    }

    async fn spot_score(&self, wish: &SpotWish) -> CloudResult<Option<u8>> {
        self.answer("spot_score", |sold: &Sold| {
            let mut scores = sold.markets.scores.iter();
            scores.find(|one| one.wish == *wish).map(|one| one.score)
        })
    }

    async fn interruptions(&self) -> CloudResult<Advisor> {
        self.answer("interruptions", |sold: &Sold| sold.advisor.clone())
    }
}
