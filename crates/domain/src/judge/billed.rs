//! What the bill says of every machine, by day: the rows of which a day of the ledger is the
//! sum.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Facts, ResourceCost, labelled};
use crate::finding::{PriceBasis, Resource};
use crate::fleet::{Instance, Market};
use crate::heartbeat::Origin;
use crate::identity::{AccountId, InstanceType, NodeId, Region};
use crate::units::{Usd, UsdPerHour};

/// Machines of the bill that a report tells of one by one: 8 MB of it.
pub const MAX_BILLED: usize = 10_000;

/// The bill by resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Billed {
    /// The dearest first, then by id, at most [`MAX_BILLED`].
    pub resources: Vec<BilledResource>,
    /// Resources beyond those.
    pub left_out: usize,
}

/// One resource of the bill, which is there no more where only its id is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BilledResource {
    /// As the bill names it.
    pub id: String,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// In whose account; `None` where that is not told.
    pub account: Option<AccountId>,
    /// Where it is.
    pub region: Option<Region>,
    /// What it is.
    pub instance_type: Option<InstanceType>,
    /// How it is bought.
    pub market: Option<Market>,
    /// Whom to ask.
    pub owner: Option<String>,
    /// Its tags, at most [`Resource::MAX_TAGS`].
    pub tags: BTreeMap<String, String>,
    /// Whether it was measured or made by a generator.
    pub origin: Origin,
    /// What an hour of it costs by the bill; `None` where no day of it is whole.
    #[serde(rename = "per_hour_usd")]
    pub per_hour: Option<UsdPerHour>,
    /// What it is at the list price.
    #[serde(rename = "list_per_hour_usd")]
    pub list_per_hour: Option<UsdPerHour>,
    /// Net and amortized, by day (`YYYY-MM-DD`, UTC).
    #[serde(rename = "by_day_usd")]
    pub by_day: BTreeMap<String, Usd>,
}

impl BilledResource {
    /// What an amount of its bill is at the list price, which relates to it as the two prices
    /// do; `None` where either is not known.
    pub fn at_list_price(&self, billed: Usd) -> Option<Usd> {
        let list = i128::from(self.list_per_hour?.0.micros());
        let paid = i128::from(self.per_hour?.0.micros());
        let at_list = (i128::from(billed.micros()) * list).checked_div(paid)?;
        i64::try_from(at_list).ok().map(Usd::from_micros)
    }
}

/// Under this comes what belongs to no resource.
const NO_RESOURCE: &str = "NoResourceId";

/// The bill by resource, the dearest first.
pub(super) fn of(facts: &Facts<'_>) -> Billed {
    let bill = facts.bill.iter();
    let bill = bill.filter(|(id, _)| id.as_str() != NO_RESOURCE);
    let mut ids: Vec<(Usd, &NodeId, &ResourceCost)> = bill
        .map(|(id, cost)| (cost.by_day.values().copied().sum(), id, cost))
        .collect();
    ids.sort_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
    let left_out = ids.len().saturating_sub(MAX_BILLED);
    let ids = ids.into_iter().take(MAX_BILLED);
    Billed {
        resources: ids.map(|(_, id, cost)| resource(facts, id, cost)).collect(),
        left_out,
    }
}

fn resource(facts: &Facts<'_>, id: &NodeId, cost: &ResourceCost) -> BilledResource {
    let instance = facts.instance(id);
    let price = instance.and_then(|instance| facts.price_of(instance));
    let price = price.filter(|price| price.basis == PriceBasis::Bill);
    let tags = instance.into_iter().flat_map(|instance| &instance.tags);
    let tags = tags.take(Resource::MAX_TAGS);
    BilledResource {
        id: id.to_string(),
        name: instance.and_then(Instance::name).map(str::to_owned),
        account: instance.and_then(|instance| instance.account.clone()),
        region: instance.map(|instance| instance.region.clone()),
        instance_type: instance.map(|instance| instance.instance_type.clone()),
        market: instance.map(|instance| instance.market),
        owner: instance.and_then(Instance::owner).map(str::to_owned),
        tags: tags.map(|(k, v)| (k.clone(), v.clone())).collect(),
        origin: instance.map_or(Origin::Measured, |instance| labelled(&instance.tags)),
        per_hour: price.map(|price| price.per_hour),
        list_per_hour: price.and_then(|price| price.list),
        by_day: cost.by_day.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{World, instance};
    use crate::state::testing::node as id;

    fn cost(days: &[(&str, i64)]) -> ResourceCost {
        let days = days.iter();
        let days = days.map(|(day, usd)| ((*day).to_owned(), Usd::from_micros(usd * 1_000_000)));
        ResourceCost {
            by_day: days.collect(),
        }
    }

    #[test]
    fn the_bill_is_told_by_resource_whether_it_is_still_there_or_not() {
        let mut world = World::with([instance(1)]);
        let of_none = NodeId::new(NO_RESOURCE).expect("an id");
        let days = [("2026-02-20", 24), ("2026-02-21", 12)];
        world.bill.insert(id(1), cost(&days));
        world.bill.insert(id(7), cost(&[("2026-02-20", 50)]));
        world.bill.insert(of_none, cost(&[("2026-02-20", 90)]));
        let billed = world.judge().billed;
        let told: Vec<&str> = billed.resources.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(told, [id(7).as_str(), id(1).as_str()]);
        assert_eq!(billed.left_out, 0);
        let [gone, there] = &billed.resources[..] else {
            panic!("two resources")
        };
        assert!(gone.name.is_none() && gone.region.is_none());
        assert_eq!(gone.at_list_price(Usd::from_micros(1)), None);
        assert_eq!(there.owner.as_deref(), Some("ada"));
        assert_eq!(there.by_day.len(), 2);
    }

    #[test]
    fn the_list_price_relates_to_the_bill_as_the_two_prices_do() {
        let mut world = World::with([instance(1)]);
        world.bill.insert(id(1), cost(&[("2026-02-20", 24)]));
        let mut one = world.judge().billed.resources.remove(0);
        one.per_hour = Some(UsdPerHour::from_micros(500_000));
        one.list_per_hour = Some(UsdPerHour::from_micros(750_000));
        let at_list = one.at_list_price(Usd::from_micros(10_000_000));
        assert_eq!(at_list, Some(Usd::from_micros(15_000_000)));
        one.per_hour = Some(UsdPerHour::from_micros(0));
        assert_eq!(one.at_list_price(Usd::from_micros(1)), None);
    }
}
