//! The bill by resource, service and tag, from Cost Explorer. One request costs 0.01 USD.

mod plans;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use aws_sdk_costexplorer::Client;
use aws_sdk_costexplorer::types::{
    DateInterval, Dimension, DimensionValues, Expression, Granularity, GroupDefinition,
    GroupDefinitionType, ResultByTime,
};
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::commitments::Commitment;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::Usd;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::config::AwsConfig;
use super::error::cloud_error;
use crate::permissions::{GET_COST, GET_COST_WITH_RESOURCES};
use crate::ports::{BillSource, CloudError, CloudResult};
use crate::turns::in_turns_of;

/// Days for which Cost Explorer provides cost by resource.
const DAYS: i32 = 14;

const SERVICE: &str = "Amazon Elastic Compute Cloud - Compute";
const METRIC: &str = "NetAmortizedCost";

/// Charge types that are not the use of a resource.
///
/// Source: Cost Explorer, "Filtering the data", charge type.
const OTHER_CHARGES: [&str; 3] = ["Credit", "Refund", "Tax"];

/// Maximum number of pages, because each costs money. A hundred thousand machines over 14 days need
/// some hundreds.
const MAX_PAGES: usize = 500;

/// Number of days read in parallel if each has many pages. Cost Explorer limits requests by
/// account, and throttled ones are retried.
const DAYS_AT_ONCE: usize = 4;

/// Cost Explorer of the account.
#[derive(Debug, Clone)]
pub struct AwsBill {
    client: Client,
    requests: Arc<AtomicU64>,
}

impl AwsBill {
    /// For the account of `config`.
    pub fn new(config: &AwsConfig) -> Self {
        Self {
            client: Client::new(&config.sdk),
            requests: Arc::default(),
        }
    }

    fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// The cost of each machine on each of these days.
    async fn resources(self, first: Date, end: Date, walk: Walk) -> CloudResult<Walked> {
        let call = self.client.get_cost_and_usage_with_resources();
        let call = call
            .time_period(between(first, end)?)
            .granularity(Granularity::Daily)
            .metrics(METRIC)
            .filter(of_compute())
            .group_by(by_dimension(Dimension::ResourceId.as_str()));
        let mut costs = BTreeMap::new();
        let mut next = None;
        for n in 0..MAX_PAGES {
            self.count();
            let page = call.clone().set_next_page_token(next).send().await;
            let page = page.map_err(|e| cloud_error(GET_COST_WITH_RESOURCES, "the bill", &e))?;
            let is_first = n == 0 && walk == Walk::UntilLarge;
            if is_first && is_large(page.results_by_time(), page.next_page_token.is_some()) {
                return Ok(Walked::Large);
            }
            for day in page.results_by_time() {
                read(day, &mut costs)?;
            }
            next = page.next_page_token;
            if next.is_none() {
                return Ok(Walked::All(costs));
            }
        }
        Err(failed("too many pages"))
    }

    /// Every group of every day, in the order of the answer.
    async fn grouped(
        &self,
        days: DateInterval,
        by: GroupDefinition,
        mut read: impl FnMut(&ResultByTime) -> CloudResult<()> + Send,
    ) -> CloudResult<()> {
        let call = self.client.get_cost_and_usage().time_period(days);
        let call = call.granularity(Granularity::Daily).metrics(METRIC);
        let call = call.group_by(by);
        let mut next = None;
        for _ in 0..MAX_PAGES {
            self.count();
            let page = call.clone().set_next_page_token(next).send().await;
            let page = page.map_err(|e| cloud_error(GET_COST, "the bill", &e))?;
            page.results_by_time().iter().try_for_each(&mut read)?;
            next = page.next_page_token;
            if next.is_none() {
                return Ok(());
            }
        }
        Err(failed("too many pages"))
    }
}

#[async_trait]
impl BillSource for AwsBill {
    async fn by_resource(&self, to: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>> {
        let (first, end) = window(to).ok_or_else(|| failed("the time is out of range"))?;
        let whole = self.clone().resources(first, end, Walk::UntilLarge).await?;
        if let Walked::All(costs) = whole {
            return Ok(costs);
        }
        let days = first.series(1.days()).take_while(|day| *day < end);
        let calls = days.map(|day| {
            let bill = self.clone();
            async move {
                let next = day.tomorrow().map_err(|e| failed(&e.to_string()))?;
                bill.resources(day, next, Walk::Whole).await
            }
        });
        let mut costs: BTreeMap<NodeId, ResourceCost> = BTreeMap::new();
        for answer in in_turns_of(DAYS_AT_ONCE, calls.collect::<Vec<_>>()).await {
            if let Walked::All(day) = answer? {
                for (node, cost) in day {
                    costs.entry(node).or_default().by_day.extend(cost.by_day);
                }
            }
        }
        Ok(costs)
    }

    async fn by_day(&self, to: Timestamp, tags: &[String]) -> CloudResult<Vec<BilledDay>> {
        let mut days: BTreeMap<String, BilledDay> = BTreeMap::new();
        let by_service = by_dimension(Dimension::Service.as_str());
        self.grouped(interval(to)?, by_service, |result| {
            of_services(result, &mut days)
        })
        .await?;
        for tag in tags {
            let by_tag = GroupDefinition::builder().r#type(GroupDefinitionType::Tag);
            let by_tag = by_tag.key(tag).build();
            self.grouped(interval(to)?, by_tag, |result| {
                of_tag(tag, result, &mut days)
            })
            .await?;
        }
        Ok(days.into_values().collect())
    }

    async fn plans(&self, to: Timestamp) -> CloudResult<Vec<Commitment>> {
        plans::read(&self.client, to, || self.count()).await
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn least_plan_requests(&self) -> u64 {
        1
    }

    fn take_gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    fn is_charged_for(&self) -> bool {
        true
    }

    fn gaps(&self, _to: Timestamp) -> Vec<Gap> {
        Vec::new()
    }
}

/// How far pages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// To the last page.
    Whole,
    /// Until the first page shows that one day alone has more than a page. Reading each day
    /// separately then takes hardly more pages, and the days are read in parallel.
    UntilLarge,
}

enum Walked {
    All(BTreeMap<NodeId, ResourceCost>),
    Large,
}

/// True for a page that is not the last one and contains only one day.
fn is_large(days: &[ResultByTime], has_more: bool) -> bool {
    let filled = days.iter().filter(|day| !day.groups().is_empty());
    has_more && filled.count() == 1
}

fn interval(to: Timestamp) -> CloudResult<DateInterval> {
    let (first, end) = window(to).ok_or_else(|| failed("the time is out of range"))?;
    between(first, end)
}

fn between(first: Date, end: Date) -> CloudResult<DateInterval> {
    let days = DateInterval::builder().start(first.to_string());
    let days = days.end(end.to_string()).build();
    Ok(days.expect("start and end are set"))
}

fn by_dimension(key: &str) -> GroupDefinition {
    let by = GroupDefinition::builder().r#type(GroupDefinitionType::Dimension);
    by.key(key).build()
}

fn of_services(result: &ResultByTime, days: &mut BTreeMap<String, BilledDay>) -> CloudResult<()> {
    let Some(date) = result.time_period().map(DateInterval::start) else {
        return Ok(());
    };
    let day = days.entry(date.to_owned()).or_default();
    date.clone_into(&mut day.day);
    day.estimated |= result.estimated();
    for (service, amount) in amounts(result)? {
        if service == SERVICE {
            day.of_machines = Some(day.of_machines.unwrap_or_default() + amount);
        }
        day.total = day.total + amount;
        let sum = day.by_service.entry(service).or_default();
        *sum = *sum + amount;
    }
    Ok(())
}

/// The key of a group is `Tag$value`, or `Tag$` for resources without the tag.
///
/// Source: Cost Explorer API reference, `GetCostAndUsage`, "GroupBy".
fn of_tag(
    tag: &str,
    result: &ResultByTime,
    days: &mut BTreeMap<String, BilledDay>,
) -> CloudResult<()> {
    let date = result.time_period().map(DateInterval::start);
    let Some(day) = date.and_then(|date| days.get_mut(date)) else {
        return Ok(());
    };
    for (key, amount) in amounts(result)? {
        let value = key.split_once('$').map_or(key.as_str(), |(_, value)| value);
        let by_value = day.by_tag.entry(tag.to_owned()).or_default();
        let sum = by_value.entry(value.to_owned()).or_default();
        *sum = *sum + amount;
    }
    Ok(())
}

/// The key and amount of each group; zero amounts are left out.
fn amounts(result: &ResultByTime) -> CloudResult<Vec<(String, Usd)>> {
    let mut all = Vec::new();
    for group in result.groups() {
        let Some(key) = group.keys().first() else {
            continue;
        };
        let Some(value) = group.metrics().and_then(|metrics| metrics.get(METRIC)) else {
            continue;
        };
        if value.unit().is_some_and(|unit| unit != "USD") {
            return Err(failed("the bill is not in USD"));
        }
        let amount = value.amount().and_then(dollars);
        let amount = amount.ok_or_else(|| failed("an amount is not a number"))?;
        if amount != Usd::ZERO {
            all.push((key.clone(), amount));
        }
    }
    Ok(all)
}

/// Charges for the use of machines. A credit or a refund is no price of an hour: an account with
/// credits would have machines without cost, and nothing to save.
fn of_compute() -> Expression {
    let of = |key, values: &[&str]| {
        let dimension = values
            .iter()
            .fold(DimensionValues::builder().key(key), |dimension, value| {
                dimension.values(*value)
            });
        Expression::builder().dimensions(dimension.build()).build()
    };
    let other = of(Dimension::RecordType, &OTHER_CHARGES);
    Expression::builder()
        .and(of(Dimension::Service, &[SERVICE]))
        .and(Expression::builder().not(other).build())
        .build()
}

/// Only complete days: today's cost is not known yet. The end is exclusive.
fn window(to: Timestamp) -> Option<(Date, Date)> {
    let today = to.to_zoned(TimeZone::UTC).date();
    let first = today.checked_sub(DAYS.days()).ok()?;
    Some((first, today))
}

fn read(day: &ResultByTime, costs: &mut BTreeMap<NodeId, ResourceCost>) -> CloudResult<()> {
    let Some(date) = day.time_period().map(DateInterval::start) else {
        return Ok(());
    };
    for (key, amount) in amounts(day)? {
        let Ok(node) = NodeId::new(key) else { continue };
        let by_day = &mut costs.entry(node).or_default().by_day;
        let sum = by_day.entry(date.to_owned()).or_default();
        *sum = *sum + amount;
    }
    Ok(())
}

/// Cost Explorer writes small amounts as `1.2E-7`, which is below the stored precision.
fn dollars(text: &str) -> Option<Usd> {
    Usd::parse(text).or_else(|| Usd::from_f64(text.parse().ok()?))
}

fn failed(message: &str) -> CloudError {
    CloudError::Failed {
        operation: GET_COST_WITH_RESOURCES.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_costexplorer::types::{Group, MetricValue};

    use super::*;
    use crate::ports::NO_RESOURCE;

    fn day(rows: &[(&str, &str, &str)]) -> ResultByTime {
        let period = DateInterval::builder()
            .start("2026-03-01")
            .end("2026-03-02")
            .build()
            .expect("both ends");
        let groups = rows.iter().map(|(key, amount, unit)| {
            let value = MetricValue::builder().amount(*amount).unit(*unit).build();
            Group::builder().keys(*key).metrics(METRIC, value).build()
        });
        ResultByTime::builder()
            .time_period(period)
            .set_groups(Some(groups.collect()))
            .build()
    }

    #[test]
    fn cost_is_read_by_resource_and_day() {
        let check = |rows: &[(&str, &str, &str)], expect: Option<&[(&str, i64)]>| {
            let mut costs = BTreeMap::new();
            let by_node = read(&day(rows), &mut costs).is_ok().then(|| {
                let each = costs.iter().map(|(node, cost)| {
                    let micros = cost.by_day.get("2026-03-01").map_or(0, |usd| usd.micros());
                    (node.as_str(), micros)
                });
                each.collect::<Vec<_>>()
            });
            assert_eq!(by_node.as_deref(), expect, "{rows:?}");
        };
        check(&[("i-1", "1.5", "USD")], Some(&[("i-1", 1_500_000)]));
        check(
            &[("i-1", "1.5", "USD"), ("i-1", "0.25", "USD")],
            Some(&[("i-1", 1_750_000)]),
        );
        check(
            &[(NO_RESOURCE, "9", "USD"), ("i-2", "0", "USD")],
            Some(&[(NO_RESOURCE, 9_000_000)]),
        );
        check(&[("i-1", "2.5E-3", "USD")], Some(&[("i-1", 2_500)]));
        check(&[("i-1", "much", "USD")], None);
        check(&[("i-1", "1", "CNY")], None);
    }

    #[test]
    fn a_day_is_divided_by_service_and_by_tag() {
        let mut days = BTreeMap::new();
        let services = [
            (SERVICE, "2.5", "USD"),
            ("Amazon Simple Queue Service", "0.5", "USD"),
        ];
        of_services(&day(&services), &mut days).expect("it is read");
        let tags = [("Project$tides", "1", "USD"), ("Project$", "2", "USD")];
        of_tag("Project", &day(&tags), &mut days).expect("it is read");
        let billed_day = &days["2026-03-01"];
        assert_eq!(billed_day.total, Usd::from_micros(3_000_000));
        assert_eq!(billed_day.of_machines, Some(Usd::from_micros(2_500_000)));
        let by_project = &billed_day.by_tag["Project"];
        assert_eq!(by_project["tides"], Usd::from_micros(1_000_000));
        assert_eq!(by_project[""], Usd::from_micros(2_000_000));
    }

    #[test]
    fn a_first_page_of_one_day_alone_is_large_where_more_follow() {
        let row = [("i-1", "1", "USD")];
        let check = |days: &[ResultByTime], has_more, expect| {
            assert_eq!(is_large(days, has_more), expect);
        };
        check(&[day(&row)], true, true);
        check(&[day(&row), day(&[])], true, true);
        check(&[day(&row), day(&row)], true, false);
        check(&[day(&row)], false, false);
        check(&[], true, false);
    }

    #[test]
    fn the_window_is_of_closed_days() {
        let to: Timestamp = "2026-03-15T00:10:00Z".parse().expect("a time");
        let (first, end) = window(to).expect("in range");
        assert_eq!(
            (first.to_string(), end.to_string()),
            ("2026-03-01".into(), "2026-03-15".into())
        );
    }
}
