//! Requests list prices and machine types that the catalogue lacks, or whose age exceeds a limit.
//! Each sweep asks some of the regions, with a timeout. Refusals become gaps. AWS does not charge
//! for these calls.

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

/// Age after which the price list of a region is requested again. AWS changes a price a few times a
/// year and adds types each month (an estimate), so a list is seldom wrong within a week. Each
/// region needs ten pages a week.
const OLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// The same age for a region with a running machine that has no list price: AWS may have added one.
const LACKING: Duration = Duration::from_secs(24 * 3600);

/// Shortest time between two requests for the same list, whether or not the first succeeded: no
/// refusal is resolved within minutes.
const AGAIN: Duration = Duration::from_secs(3600);

/// Regions whose price lists one sweep requests; regions that lack a price come first. The next
/// sweep requests the next regions, because most of a sweep's time is needed for evaluation.
const IN_TURN: usize = 4;

/// Timeout of a request in a single scan.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most machine types that are requested in one region at a time: the limit of one call.
const NAMES: usize = 100;

/// Which prices and types are requested again.
#[derive(Debug, Clone, Copy)]
pub struct Renew {
    /// Age from which the list of a region that lacks no price is requested again; `None` for
    /// never.
    older_than: Option<Duration>,
    /// The most regions whose lists are requested.
    regions: usize,
    /// Timeout of each request.
    within: Duration,
}

impl Renew {
    /// Only what the catalogue lacks: a single scan has no place to store more.
    pub const MISSING: Self = Self {
        older_than: None,
        regions: usize::MAX,
        within: PATIENCE,
    };

    /// Missing prices and types, and lists older than a week; each request has this timeout.
    pub fn old(within: Duration) -> Self {
        Self {
            older_than: Some(OLD),
            regions: IN_TURN,
            within: within.min(PATIENCE),
        }
    }
}

/// When each region was asked last, and why it refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Listed {
    prices: BTreeMap<Region, Tried>,
    types: BTreeMap<Region, Tried>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Tried {
    at: Timestamp,
    /// Why a price or type is still unknown; `None` after a complete answer.
    refused: Option<Refused>,
}

impl Listed {
    /// Requests what is due. Returns the answers, and a gap for each list or type that is not
    /// known.
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
            let requests = async {
                Ok(future::join3(
                    source.on_demand(&region),
                    source.fargate(&region),
                    source.storage(&region),
                )
                .await)
            };
            let answer = in_time(renew.within, requests).await;
            (region, answer)
        });
        let types = unknown.into_iter().take(REGIONS_AT_ONCE);
        let types = types.map(|(region, names)| async move {
            let answer = in_time(renew.within, source.types(&region, Some(&names))).await;
            (region, names, answer)
        });
        let (prices, types): (Vec<_>, Vec<_>) = future::join(
            stream::iter(prices).buffered(IN_TURN).collect(),
            stream::iter(types).buffered(REGIONS_AT_ONCE).collect(),
        )
        .await;
        let mut refreshed = Refreshed::default();
        for (region, answer) in prices {
            let refused = take_prices(&mut refreshed, (&region, now), answer).err();
            self.prices.insert(region, Tried { at: now, refused });
        }
        for (region, names, answer) in types {
            let refused = take_types(&mut refreshed, (&names, now), answer).err();
            self.types.insert(region, Tried { at: now, refused });
        }
        (refreshed, self.gaps().collect())
    }

    /// Regions whose list is due: regions that lack a price first, then by the age of their prices,
    /// oldest first.
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
                let refreshed_at = catalogue.refreshed_at(&region);
                let is_old = refreshed_at.is_none_or(|at| is_older(at, now, age));
                let is_due = is_old && !rests(&self.prices, &region, now);
                is_due.then_some((!lacks, refreshed_at, region))
            });
        let mut due: Vec<_> = due.collect();
        due.sort();
        due.truncate(renew.regions);
        due.into_iter().map(|(_, _, region)| region).collect()
    }

    fn gaps(&self) -> impl Iterator<Item = Gap> {
        let gaps_of = |tried: &BTreeMap<Region, Tried>, what: &str| -> Vec<Gap> {
            let refused = tried.iter().filter_map(|(region, tried)| {
                Some(tried.refused.clone()?.gap(format!("{region}: {what}")))
            });
            refused.collect()
        };
        let prices = gaps_of(&self.prices, "list prices");
        prices
            .into_iter()
            .chain(gaps_of(&self.types, "machine types"))
    }
}

fn rests(tried: &BTreeMap<Region, Tried>, region: &Region, now: Timestamp) -> bool {
    let tried = tried.get(region);
    tried.is_some_and(|tried| !is_older(tried.at, now, AGAIN))
}

async fn in_time<T>(
    within: Duration,
    request: impl Future<Output = CloudResult<T>>,
) -> CloudResult<T> {
    let late = |_| CloudError::Failed {
        operation: "asking".to_owned(),
        message: format!("timed out after {} s", within.as_secs()),
    };
    tokio::time::timeout(within, request).await.map_err(late)?
}

type OnDemand = CloudResult<BTreeMap<InstanceType, UsdPerHour>>;

fn take_prices(
    refreshed: &mut Refreshed,
    (region, now): (&Region, Timestamp),
    answer: CloudResult<(
        OnDemand,
        CloudResult<FargatePrices>,
        CloudResult<StoragePrices>,
    )>,
) -> Result<(), Refused> {
    let (on_demand, fargate, storage) = answer?;
    let on_demand = on_demand?;
    if on_demand.is_empty() {
        return Err(Refused::because("the Price List has no price"));
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
    let refused = refused.reduce(|first, next| {
        let denied = first.denied.clone().or(next.denied);
        Refused {
            denied,
            ..first.and("; ").and(&next.reason)
        }
    });
    let prices = RegionPrices {
        at: now,
        on_demand,
        // Spot prices are requested every hour and stored separately.
        spot: BTreeMap::new(),
        fargate: fargate.unwrap_or_default(),
        storage: storage.unwrap_or_default(),
    };
    refreshed.regions.insert(region.clone(), prices);
    match refused {
        None => Ok(()),
        Some(refused) => Err(refused),
    }
}

fn take_types(
    refreshed: &mut Refreshed,
    (names, now): (&BTreeSet<String>, Timestamp),
    answer: CloudResult<Vec<TypeSpec>>,
) -> Result<(), Refused> {
    let types = answer?;
    let is_described = |name: &&String| {
        let family = name.strip_suffix('*');
        types.iter().any(|spec| match family {
            Some(begin) => spec.name.as_str().starts_with(begin),
            None => spec.name.as_str() == *name,
        })
    };
    let missing: Vec<&str> = names
        .iter()
        .filter(|name| !is_described(name))
        .map(String::as_str)
        .collect();
    let missing = missing.join(", ");
    refreshed.describe(types, now);
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Refused::because(format!(
            "EC2 does not describe {missing} in this region, so the type is neither evaluated nor recommended"
        ))),
    }
}

/// The machine types, by region, that the catalogue does not know and that run or that Batch may
/// start. A family that the catalogue does not know is requested as `m8g.*`, at most [`NAMES`]
/// names in a region.
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

/// True for `m8g`; false for `optimal` and `default_x86_64`, which let Batch choose.
fn is_family(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.chars().all(plain) && name.contains(|c: char| c.is_ascii_digit())
}
