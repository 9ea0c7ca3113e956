//! Billed cost of each machine by day. The cost allocation of a day is the sum of these rows.

use ebb_model::bill::ResourceCost;
use ebb_model::cost::PriceBasis;
use ebb_model::finding::Resource;
use ebb_model::inventory::instance::Instance;
use ebb_model::report::billed_resources::{Billed, BilledResource, MAX_BILLED};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::{Origin, labelled};

use crate::facts::Facts;

/// Resource ID of costs that belong to no resource.
const NO_RESOURCE: &str = "NoResourceId";

/// Returns the bill by resource, the most expensive first.
pub(crate) fn billed_resources(facts: &Facts<'_>) -> Billed {
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
    use crate::testing::{World, instance};
    use ebb_telemetry::money::UsdPerHour;
    use ebb_telemetry::testing::node as id;

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
        let billed = world.evaluate().billed;
        let ids: Vec<&str> = billed.resources.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(ids, [id(7).as_str(), id(1).as_str()]);
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
        let mut one = world.evaluate().billed.resources.remove(0);
        one.per_hour = Some(UsdPerHour::from_micros(500_000));
        one.list_per_hour = Some(UsdPerHour::from_micros(750_000));
        let at_list = one.at_list_price(Usd::from_micros(10_000_000));
        assert_eq!(at_list, Some(Usd::from_micros(15_000_000)));
        one.per_hour = Some(UsdPerHour::from_micros(0));
        assert_eq!(one.at_list_price(Usd::from_micros(1)), None);
    }
}
