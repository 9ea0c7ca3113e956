//! The bill by resource, from Cost Explorer. One call is 0.01 USD.

use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_sdk_costexplorer::Client;
use aws_sdk_costexplorer::types::{
    DateInterval, Dimension, DimensionValues, Expression, Granularity, GroupDefinition,
    GroupDefinitionType, ResultByTime,
};
use ebb_domain::identity::NodeId;
use ebb_domain::judge::ResourceCost;
use ebb_domain::units::Usd;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::AwsConfig;
use super::error::cloud_error;
use crate::permissions::GET_COST_WITH_RESOURCES;
use crate::ports::{BillSource, CloudError, CloudResult};

/// How far back Cost Explorer tells cost by resource.
const DAYS: i32 = 14;

const SERVICE: &str = "Amazon Elastic Compute Cloud - Compute";
const METRIC: &str = "NetAmortizedCost";

/// More pages than this are a fault: each costs money.
const MAX_PAGES: usize = 100;

/// Cost Explorer of the account.
#[derive(Debug, Clone)]
pub struct AwsBill {
    client: Client,
}

impl AwsBill {
    /// Of the account behind `config`.
    pub fn new(config: &AwsConfig) -> Self {
        Self {
            client: Client::new(&config.sdk),
        }
    }
}

#[async_trait]
impl BillSource for AwsBill {
    async fn by_resource(&self, to: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>> {
        let (first, end) = window(to).ok_or_else(|| failed("the time is out of range"))?;
        let days = DateInterval::builder()
            .start(first.to_string())
            .end(end.to_string())
            .build()
            .expect("start and end are set");
        let call = self
            .client
            .get_cost_and_usage_with_resources()
            .time_period(days)
            .granularity(Granularity::Daily)
            .metrics(METRIC)
            .filter(of_compute())
            .group_by(
                GroupDefinition::builder()
                    .r#type(GroupDefinitionType::Dimension)
                    .key(Dimension::ResourceId.as_str())
                    .build(),
            );
        let mut costs = BTreeMap::new();
        let mut next = None;
        for _ in 0..MAX_PAGES {
            let page = call.clone().set_next_page_token(next).send().await;
            let page = page.map_err(|e| cloud_error(GET_COST_WITH_RESOURCES, "the bill", &e))?;
            for day in page.results_by_time() {
                read(day, &mut costs)?;
            }
            next = page.next_page_token;
            if next.is_none() {
                return Ok(costs);
            }
        }
        Err(failed("the bill has too many pages"))
    }
}

fn of_compute() -> Expression {
    let service = DimensionValues::builder()
        .key(Dimension::Service)
        .values(SERVICE)
        .build();
    Expression::builder().dimensions(service).build()
}

/// Closed days alone: today's cost is not known yet. The end is exclusive.
fn window(to: Timestamp) -> Option<(Date, Date)> {
    let today = to.to_zoned(TimeZone::UTC).date();
    let first = today.checked_sub(DAYS.days()).ok()?;
    Some((first, today))
}

fn read(day: &ResultByTime, costs: &mut BTreeMap<NodeId, ResourceCost>) -> CloudResult<()> {
    let Some(date) = day.time_period().map(DateInterval::start) else {
        return Ok(());
    };
    for group in day.groups() {
        // Cost that belongs to no resource comes under the key `NoResourceId`.
        let key = group.keys().first().filter(|key| *key != "NoResourceId");
        let Some(node) = key.and_then(|key| NodeId::new(key.as_str()).ok()) else {
            continue;
        };
        let Some(told) = group.metrics().and_then(|metrics| metrics.get(METRIC)) else {
            continue;
        };
        if told.unit().is_some_and(|unit| unit != "USD") {
            return Err(failed("the bill is not in USD"));
        }
        let amount = told.amount().and_then(dollars);
        let amount = amount.ok_or_else(|| failed("an amount is not a number"))?;
        if amount == Usd::ZERO {
            continue;
        }
        let by_day = &mut costs.entry(node).or_default().by_day;
        let sum = by_day.entry(date.to_owned()).or_insert(Usd::ZERO);
        *sum = *sum + amount;
    }
    Ok(())
}

/// Cost Explorer writes small amounts as `1.2E-7`, which are less than is kept.
fn dollars(text: &str) -> Option<Usd> {
    Usd::parse(text).or_else(|| {
        let micros = text.parse::<f64>().ok()? * 1e6;
        let kept = micros.is_finite() && micros.abs() < 1e15;
        kept.then(|| Usd::from_micros(micros.round() as i64))
    })
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
    fn cost_is_told_by_resource_and_day() {
        let check = |rows: &[(&str, &str, &str)], expect: Option<&[(&str, i64)]>| {
            let mut costs = BTreeMap::new();
            let told = read(&day(rows), &mut costs).is_ok().then(|| {
                let each = costs.iter().map(|(node, cost)| {
                    let micros = cost.by_day.get("2026-03-01").map_or(0, |usd| usd.micros());
                    (node.as_str(), micros)
                });
                each.collect::<Vec<_>>()
            });
            assert_eq!(told.as_deref(), expect, "{rows:?}");
        };
        check(&[("i-1", "1.5", "USD")], Some(&[("i-1", 1_500_000)]));
        check(
            &[("i-1", "1.5", "USD"), ("i-1", "0.25", "USD")],
            Some(&[("i-1", 1_750_000)]),
        );
        check(
            &[("NoResourceId", "9", "USD"), ("i-2", "0", "USD")],
            Some(&[]),
        );
        check(&[("i-1", "2.5E-3", "USD")], Some(&[("i-1", 2_500)]));
        check(&[("i-1", "much", "USD")], None);
        check(&[("i-1", "1", "CNY")], None);
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
