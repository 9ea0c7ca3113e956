//! Hourly price of a resource from the best available source.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::cost::{Cost, PriceBasis};
use ebb_model::inventory::instance::{Instance, Market};
use ebb_model::policy::stated_price::{StatedIn, StatedPrice};
use ebb_model::report::price_age::GET_PRICES;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::time::Window;
use jiff::Timestamp;

use crate::coverage;
use crate::facts::Facts;

/// A price with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Price {
    pub(crate) per_hour: UsdPerHour,
    pub(crate) basis: PriceBasis,
    pub(crate) list: Option<UsdPerHour>,
    /// Date of the price; `None` if unknown.
    pub(crate) as_of: Option<Timestamp>,
    /// Date of the list price; `None` if unknown.
    pub(crate) list_as_of: Option<Timestamp>,
}

impl Price {
    /// Scales the price by `part / whole`, such as the share of a step in its machine.
    pub(crate) fn scaled(self, part: UsdPerHour, whole: UsdPerHour) -> Self {
        let (numerator, denominator) = (micros(part), micros(whole));
        Self {
            per_hour: self.per_hour.part(numerator, denominator),
            list: self.list.map(|list| list.part(numerator, denominator)),
            ..self
        }
    }

    /// Cost of the whole resource during `window` and in a month.
    pub(crate) fn wasted_over(self, window: Window) -> Cost {
        Cost {
            per_hour: self.per_hour,
            basis: self.basis,
            list_per_hour: self.list,
            spent: self.per_hour.over(window.length()),
            saving_a_month: self.per_hour.a_month(),
            counted: None,
            price_as_of: self.as_of,
            list_as_of: self.list_as_of,
        }
    }
}

/// Types of running machines without a price; their waste has no amount in dollars. A machine
/// outside the clouds has only the price that its user states, or none.
pub(crate) fn unpriced(facts: &Facts<'_>) -> Option<Gap> {
    const NAMED: usize = 5;
    let running = facts.inventory.running_on_aws();
    let unpriced = running.filter(|one| facts.price_of(one).is_none());
    let mut types: BTreeMap<&InstanceType, u64> = BTreeMap::new();
    for machine in unpriced {
        *types.entry(&machine.instance_type).or_default() += 1;
    }
    let named = types.iter().take(NAMED);
    let mut named: Vec<_> = named.map(|(kind, n)| format!("{kind} ({n})")).collect();
    let more = types.len().saturating_sub(NAMED);
    named.extend((more > 0).then(|| format!("{more} more")));
    (!types.is_empty()).then(|| {
        Gap::new(
            "prices of machine types",
            format!(
                "{}: no price found in the bill or the catalogue; cost not shown. State prices \
                 under [[prices]] in the policy. To read prices from AWS, {GET_PRICES}",
                named.join(", ")
            ),
        )
    })
}

fn micros(price: UsdPerHour) -> u64 {
    u64::try_from(price.0.micros()).unwrap_or(0)
}

const DAY: Duration = Duration::from_secs(86_400);

impl Facts<'_> {
    /// Hourly price of an instance. The first source is the last complete day of the bill in which
    /// the instance ran all day. The next sources are the price that its user states and the price
    /// of its market. `None` if no price is known.
    pub(crate) fn price_of(&self, instance: &Instance) -> Option<Price> {
        let list = self
            .catalogue
            .on_demand(&instance.region, &instance.instance_type);
        let list_as_of = self
            .catalogue
            .price_as_of(&instance.region, &instance.instance_type);
        if let Some((day, cost)) = self.billed_full_day(instance) {
            return Some(Price {
                per_hour: UsdPerHour(cost).part(1, 24),
                basis: PriceBasis::Bill,
                list,
                as_of: coverage::of_day(day).map(|day| day.from),
                list_as_of,
            });
        }
        let covers = |stated: &&StatedPrice| stated.covers(instance.id.as_str(), instance.name());
        if let Some(stated) = self.policy.prices.iter().find(covers) {
            return Some(Price {
                per_hour: stated.per_hour(),
                basis: match stated.source {
                    StatedIn::Policy => PriceBasis::Stated,
                    StatedIn::CommandLine => PriceBasis::CommandLine,
                },
                list,
                as_of: None,
                list_as_of,
            });
        }
        let spot = || {
            let types = self.inventory.markets.spot.get(&instance.region)?;
            types.get(&instance.instance_type)
        };
        let of_list = |basis| {
            Some(Price {
                per_hour: list?,
                basis,
                list,
                as_of: list_as_of,
                list_as_of,
            })
        };
        match instance.market {
            Market::OnDemand | Market::Reserved => of_list(PriceBasis::ListPrice),
            Market::Spot => match spot() {
                Some(now) => Some(Price {
                    per_hour: now.per_hour,
                    basis: PriceBasis::SpotPrice,
                    list,
                    as_of: now.as_of,
                    list_as_of,
                }),
                None => of_list(PriceBasis::ListPriceAsUpperBound),
            },
        }
    }

    /// Hourly price of another type in the market of an instance; `None` without a spot price.
    pub(crate) fn price_as(
        &self,
        instance: &Instance,
        other: &InstanceType,
        list: UsdPerHour,
    ) -> Option<UsdPerHour> {
        match instance.market {
            Market::OnDemand | Market::Reserved => Some(list),
            Market::Spot => {
                let spot = self.inventory.markets.spot.get(&instance.region)?;
                spot.get(other).map(|terms| terms.per_hour)
            }
        }
    }

    fn billed_full_day(&self, instance: &Instance) -> Option<(&str, Usd)> {
        let full = |day: &str| {
            let day = coverage::of_day(day)?;
            // AWS completes a day of the bill about one day after its end.
            let closed = day.to.checked_add(DAY).ok()? <= self.now;
            (closed && self.ran_during(instance, day)).then_some(())
        };
        let days = self.bill.get(&instance.id)?.by_day.iter().rev();
        days.filter(|(day, _)| full(day).is_some())
            .map(|(day, cost)| (day.as_str(), *cost))
            .next()
    }

    /// Whether the instance ran for the whole window. The launch time decides; without a launch
    /// time, the coverage of its probe or of its metrics.
    fn ran_during(&self, instance: &Instance, window: Window) -> bool {
        match instance.launched_at {
            Some(launched) => window.from >= launched,
            None => coverage::is_covered(self, &instance.id, window),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{World, instance};
    use ebb_catalog::spot_terms::SpotTerms;
    use ebb_model::cost::PriceBasis;
    use ebb_model::inventory::instance::{Instance, Market, Provider};
    use ebb_model::metric_series::MetricPoint;
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::money::{Usd, UsdPerHour};
    use ebb_telemetry::testing::node;

    #[test]
    fn the_bill_comes_before_the_market_and_a_spot_list_price_is_a_bound() {
        let check = |day: Option<&str>, market: Market, micros: i64, basis: PriceBasis| {
            let mut machine = instance(1);
            machine.market = market;
            let mut world = World::default();
            if let Some(day) = day {
                let costs = &mut world.bill.entry(machine.id.clone()).or_default().by_day;
                costs.insert(day.to_owned(), Usd::from_micros(2_400_000));
            }
            if basis == PriceBasis::SpotPrice {
                let terms = SpotTerms {
                    per_hour: UsdPerHour::from_micros(micros),
                    as_of: None,
                    taken_back_ppm: None,
                    taken_back_above_ppm: None,
                    own: None,
                };
                let spot = &mut world.inventory.markets.spot;
                let types = spot.entry(machine.region.clone()).or_default();
                types.insert(machine.instance_type.clone(), terms);
            }
            let price = world
                .facts()
                .price_of(&machine)
                .expect("m5.xlarge has a list price");
            assert_eq!(
                (price.per_hour, price.basis),
                (UsdPerHour::from_micros(micros), basis)
            );
        };
        check(None, Market::OnDemand, 192_000, PriceBasis::ListPrice);
        check(
            None,
            Market::Spot,
            192_000,
            PriceBasis::ListPriceAsUpperBound,
        );
        check(None, Market::Spot, 70_000, PriceBasis::SpotPrice);
        check(Some("2026-09-18"), Market::Spot, 100_000, PriceBasis::Bill);
        // A day before its launch, and an incomplete day.
        check(
            Some("2026-09-01"),
            Market::OnDemand,
            192_000,
            PriceBasis::ListPrice,
        );
        check(
            Some("2026-09-21"),
            Market::OnDemand,
            192_000,
            PriceBasis::ListPrice,
        );
    }

    #[test]
    fn a_host_whose_launch_nobody_tells_costs_what_a_day_was_billed_that_its_probe_saw() {
        let check = |hours: std::ops::Range<u64>, expect: Option<i64>| {
            let mut world = World::default();
            world.watch(1, hours.start * 60, hours.end * 60, |_, _| ());
            let host = Instance::host(node(1));
            let begin = ebb_telemetry::testing::at(0);
            let days = [0, 24].map(|hour| begin + jiff::Span::new().hours(hour));
            let costs = &mut world.bill.entry(host.id.clone()).or_default().by_day;
            for day in days {
                let day = day.strftime("%Y-%m-%d").to_string();
                costs.insert(day, Usd::from_micros(2_400_000));
            }
            world.now = begin + jiff::Span::new().hours(96);
            let price = world.facts().price_of(&host);
            assert_eq!(
                price.map(|price| price.per_hour.0.micros()),
                expect,
                "{hours:?}"
            );
        };
        check(0..48, Some(100_000));
        check(30..40, None);
    }

    #[test]
    fn a_host_with_metrics_costs_what_a_day_was_billed_that_they_cover() {
        let check = |hours: std::ops::Range<i64>, expect: Option<i64>| {
            let mut world = World::default();
            let host = Instance::host(node(1));
            let begin = ebb_telemetry::testing::at(0);
            // Each hour is there twice, as from two sources.
            let points = hours.clone().flat_map(|hour| [hour, hour]).map(|hour| {
                let end = begin + jiff::Span::new().hours(hour + 1);
                MetricPoint::new(end, 3_600)
            });
            world.metrics.insert(host.id.clone(), points.collect());
            let day = begin.strftime("%Y-%m-%d").to_string();
            let costs = &mut world.bill.entry(host.id.clone()).or_default().by_day;
            costs.insert(day, Usd::from_micros(2_400_000));
            world.now = begin + jiff::Span::new().hours(96);
            let price = world.facts().price_of(&host);
            let price = price.map(|price| price.per_hour.0.micros());
            assert_eq!(price, expect, "{hours:?}");
        };
        check(-24..48, Some(100_000));
        check(0..4, None);
    }

    #[test]
    fn a_type_without_a_price_is_named_with_what_to_do() {
        let check = |change: fn(&mut Instance), expect: Option<&str>| {
            let mut machine = instance(1);
            change(&mut machine);
            let gaps = World::with([machine]).evaluate().gaps;
            let gap = gaps.iter().find(|gap| gap.scope.starts_with("prices of"));
            assert_eq!(gap.map(|gap| gap.scope.as_str()), expect);
            assert!(gap.is_none_or(|gap| gap.reason.starts_with("x99.large (1): ")));
        };
        let other = |machine: &mut Instance| {
            machine.instance_type = InstanceType::new("x99.large").expect("a type");
        };
        check(other, Some("prices of machine types"));
        check(|_| (), None);
        check(
            |machine| {
                machine.instance_type = InstanceType::new("x99.large").expect("a type");
                machine.provider = Provider::Own;
            },
            None,
        );
    }
}
