//! List prices and machine types that the catalogue lacks, or that are old: what of them is
//! due, asked for in turns and within a bound of time, and what refused. None of it is
//! charged for.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::fargate_prices::FargatePrices;
use ebb_catalog::machine_type::TypeSpec;
use ebb_catalog::refreshed_prices::{Refreshed, RegionPrices};
use ebb_catalog::storage_prices::StoragePrices;
use ebb_cloud::ports::{CloudError, CloudResult, PriceSource};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::Provider;
use ebb_model::visibility_gap::{Gap, Refused};
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;
use futures::{StreamExt, future, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::collect::account::{REGIONS_AT_ONCE, is_older, where_something_runs};

/// After this a region's list is asked for anew. AWS changes a price a few times a year and
/// adds types by the month (an estimate), so that a week is seldom wrong, and a region's ten
/// pages a week are nothing.
const OLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// Where something runs that the list had no price for: it may have come since.
const LACKING: Duration = Duration::from_secs(24 * 3600);

/// What was asked for is not asked for again sooner, whatever came of it: no refusal is
/// cured in minutes.
const AGAIN: Duration = Duration::from_secs(3600);

/// Regions whose lists one sweep asks for, those that lack something first: the next sweep
/// asks the next, and a sweep's time is for judging.
const IN_TURN: usize = 4;

/// What a single look waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names that are asked about in one region at a time: what one call takes.
const NAMES: usize = 100;

/// What is asked for anew.
#[derive(Debug, Clone, Copy)]
pub struct Renew {
    /// List prices of regions that lack none, from this age on; `None` for never.
    older_than: Option<Duration>,
    /// Regions whose lists are asked for at the most.
    regions: usize,
    /// How long an answer is waited for.
    within: Duration,
}

impl Renew {
    /// Only what the catalogue lacks: a single look has nowhere to keep more.
    pub const MISSING: Self = Self {
        older_than: None,
        regions: usize::MAX,
        within: PATIENCE,
    };

    /// That, and what is old, all of it within so much time.
    pub fn old(within: Duration) -> Self {
        Self {
            older_than: Some(OLD),
            regions: IN_TURN,
            within: within.min(PATIENCE),
        }
    }
}

/// When each region was asked, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Listed {
    prices: BTreeMap<Region, Tried>,
    types: BTreeMap<Region, Tried>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Tried {
    at: Timestamp,
    /// Why something is still not known.
    refused: Option<Refused>,
}

impl Listed {
    /// Asks for what is due; tells what came and what is not known, and why.
    pub async fn refresh(
        &mut self,
        source: &dyn PriceSource,
        catalogue: &Catalogue,
        inventory: &Inventory,
        (renew, now): (Renew, Timestamp),
    ) -> (Refreshed, Vec<Gap>) {
        let lists = self.old_lists(catalogue, inventory, (renew, now));
        let mut unknown = unknown(catalogue, inventory);
        let matter = where_something_runs(inventory);
        self.prices.retain(|region, _| matter.contains(region));
        self.types.retain(|region, _| unknown.contains_key(region));
        unknown.retain(|region, _| !rests(&self.types, region, now));
        let prices = lists.into_iter().map(|region| async move {
            let all = async {
                Ok(future::join3(
                    source.on_demand(&region),
                    source.fargate(&region),
                    source.storage(&region),
                )
                .await)
            };
            let told = in_time(renew.within, all).await;
            (region, told)
        });
        let types = unknown.into_iter().take(REGIONS_AT_ONCE);
        let types = types.map(|(region, names)| async move {
            let told = in_time(renew.within, source.types(&region, Some(&names))).await;
            (region, names, told)
        });
        let (prices, types): (Vec<_>, Vec<_>) = future::join(
            stream::iter(prices).buffered(IN_TURN).collect(),
            stream::iter(types).buffered(REGIONS_AT_ONCE).collect(),
        )
        .await;
        let mut all = Refreshed::default();
        for (region, told) in prices {
            let refused = take_prices(&mut all, (&region, now), told).err();
            self.prices.insert(region, Tried { at: now, refused });
        }
        for (region, names, told) in types {
            let refused = take_types(&mut all, (&names, now), told).err();
            self.types.insert(region, Tried { at: now, refused });
        }
        (all, self.gaps().collect())
    }

    /// Regions whose list is due, those that lack a price first, then those that were told
    /// longest ago.
    fn old_lists(
        &self,
        catalogue: &Catalogue,
        inventory: &Inventory,
        (renew, now): (Renew, Timestamp),
    ) -> Vec<Region> {
        let lacking: BTreeSet<&Region> = (inventory.running_on_aws())
            .filter(|one| {
                let price = catalogue.list_price(&one.region, &one.instance_type);
                price.is_none()
            })
            .map(|one| &one.region)
            .collect();
        let due = where_something_runs(inventory)
            .into_iter()
            .filter_map(|region| {
                let lacks = lacking.contains(&region);
                let age = if lacks { LACKING } else { renew.older_than? };
                let told = catalogue.told_at(&region);
                let is_old = told.is_none_or(|at| is_older(at, now, age));
                let is_due = is_old && !rests(&self.prices, &region, now);
                is_due.then_some((!lacks, told, region))
            });
        let mut due: Vec<_> = due.collect();
        due.sort();
        due.truncate(renew.regions);
        due.into_iter().map(|(_, _, region)| region).collect()
    }

    fn gaps(&self) -> impl Iterator<Item = Gap> {
        let all = |tried: &BTreeMap<Region, Tried>, what: &str| -> Vec<Gap> {
            let refused = tried.iter().filter_map(|(region, tried)| {
                Some(tried.refused.clone()?.gap(format!("{region}: {what}")))
            });
            refused.collect()
        };
        let prices = all(&self.prices, "list prices");
        prices.into_iter().chain(all(&self.types, "machine types"))
    }
}

fn rests(tried: &BTreeMap<Region, Tried>, region: &Region, now: Timestamp) -> bool {
    let tried = tried.get(region);
    tried.is_some_and(|tried| !is_older(tried.at, now, AGAIN))
}

async fn in_time<T>(within: Duration, ask: impl Future<Output = CloudResult<T>>) -> CloudResult<T> {
    let late = |_| CloudError::Failed {
        operation: "asking".to_owned(),
        message: format!("no answer within {} s", within.as_secs()),
    };
    tokio::time::timeout(within, ask).await.map_err(late)?
}

type OnDemand = CloudResult<BTreeMap<InstanceType, UsdPerHour>>;

fn take_prices(
    all: &mut Refreshed,
    (region, now): (&Region, Timestamp),
    told: CloudResult<(
        OnDemand,
        CloudResult<FargatePrices>,
        CloudResult<StoragePrices>,
    )>,
) -> Result<(), Refused> {
    let (on_demand, fargate, storage) = told?;
    let on_demand = on_demand?;
    if on_demand.is_empty() {
        return Err(Refused::because("the Price List has none"));
    }
    let refusals = [
        fargate.as_ref().err().map(|error| ("of Fargate: ", error)),
        storage.as_ref().err().map(|error| ("of storage: ", error)),
    ];
    let refusals = refusals.into_iter().flatten();
    let refused = refusals.map(|(of, error)| {
        let refused = Refused::from(error.clone());
        Refused {
            reason: format!("{of}{}", refused.reason),
            ..refused
        }
    });
    let refused = refused.reduce(|all, next| {
        let denied = all.denied.clone().or(next.denied);
        Refused {
            denied,
            ..all.and("; ").and(&next.reason)
        }
    });
    let told = RegionPrices {
        at: now,
        on_demand,
        // Asked for hourly beside it, and kept apart.
        spot: BTreeMap::new(),
        fargate: fargate.unwrap_or_default(),
        storage: storage.unwrap_or_default(),
    };
    all.regions.insert(region.clone(), told);
    match refused {
        None => Ok(()),
        Some(refused) => Err(refused),
    }
}

fn take_types(
    all: &mut Refreshed,
    (names, now): (&BTreeSet<String>, Timestamp),
    told: CloudResult<Vec<TypeSpec>>,
) -> Result<(), Refused> {
    let told = told?;
    let is_told = |name: &&String| {
        let family = name.strip_suffix('*');
        told.iter().any(|spec| match family {
            Some(begin) => spec.name.as_str().starts_with(begin),
            None => spec.name.as_str() == *name,
        })
    };
    let untold: Vec<&str> = names
        .iter()
        .filter(|name| !is_told(name))
        .map(String::as_str)
        .collect();
    let untold = untold.join(", ");
    all.describe(told, now);
    match untold.is_empty() {
        true => Ok(()),
        false => Err(Refused::because(format!(
            "EC2 does not tell there what {untold} has: no step is judged against it or placed on it"
        ))),
    }
}

/// The machine types that are there, or that Batch may start, and that the catalogue does
/// not know; by region, as EC2 is asked about them. Of a family that it does not know all are
/// asked about.
fn unknown(catalogue: &Catalogue, inventory: &Inventory) -> BTreeMap<Region, BTreeSet<String>> {
    let mut unknown: BTreeMap<Region, BTreeSet<String>> = BTreeMap::new();
    let mut ask = |region: &Region, name: String| {
        let names = unknown.entry(region.clone()).or_default();
        if names.len() < NAMES {
            names.insert(name);
        }
    };
    let is_known = |kind: &InstanceType| catalogue.spec(kind).is_some();
    for one in inventory.instances.values() {
        if one.provider == Provider::Aws && !is_known(&one.instance_type) {
            ask(&one.region, one.instance_type.as_str().to_owned());
        }
    }
    for environment in &inventory.batch.environments {
        for name in &environment.instance_types {
            match InstanceType::new(name) {
                Ok(kind) if name.contains('.') && !is_known(&kind) => {
                    ask(&environment.region, name.clone());
                }
                Ok(_) if is_family(name) && !catalogue.knows_family(name) => {
                    ask(&environment.region, format!("{name}.*"));
                }
                _ => {}
            }
        }
    }
    unknown
}

/// `m8g` is one; `optimal` and `default_x86_64` leave the choice to Batch.
fn is_family(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.chars().all(plain) && name.contains(|c: char| c.is_ascii_digit())
}
