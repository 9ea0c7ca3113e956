//! Savings Plans and their utilization, from Cost Explorer.

use std::collections::HashMap;

use aws_sdk_costexplorer::Client;
use aws_sdk_costexplorer::types::{
    DateInterval, SavingsPlansDataType, SavingsPlansUtilizationDetail,
};
use ebb_model::inventory::commitments::{Commitment, CommitmentUse};
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::{Usd, UsdPerHour};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::dollars;
use crate::aws::error::cloud_error;
use crate::permissions::GET_PLANS;
use crate::ports::{CloudError, CloudResult};

/// One week: it contains each weekday once and is recent.
const DAYS: i32 = 7;

/// A page has 20 plans, and each page costs money.
const MAX_PAGES: usize = 50;

/// The plan types that cover machines; other types cover other services.
const COMPUTE: &str = "ComputeSavingsPlans";
const OF_A_FAMILY: &str = "EC2InstanceSavingsPlans";

/// All plans in the days before `to`; `count` is called for each request.
pub(super) async fn read(
    client: &Client,
    to: Timestamp,
    count: impl Fn(),
) -> CloudResult<Vec<Commitment>> {
    let days = window(to).ok_or_else(|| failed("the time is out of range"))?;
    let period = DateInterval::builder().start(days.0.to_string());
    let period = period.end(days.1.to_string()).build();
    let call = client.get_savings_plans_utilization_details();
    let call = call
        .time_period(period.expect("start and end are set"))
        .data_type(SavingsPlansDataType::Attributes)
        .data_type(SavingsPlansDataType::Utilization);
    let (mut plans, mut next) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        count();
        let page = match call.clone().set_next_token(next).send().await {
            Ok(page) => page,
            // Cost Explorer returns this error if there is no plan.
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(|error| error.is_data_unavailable_exception()) =>
            {
                return Ok(plans);
            }
            Err(error) => return Err(cloud_error(GET_PLANS, "plans", &error)),
        };
        let details = page.savings_plans_utilization_details().iter();
        plans.extend(details.filter_map(|plan| commitment(plan, days)));
        next = page.next_token;
        if next.is_none() {
            return Ok(plans);
        }
    }
    Err(failed("too many pages"))
}

fn failed(message: &str) -> CloudError {
    CloudError::Failed {
        operation: GET_PLANS.to_owned(),
        message: message.to_owned(),
    }
}

/// The first day and the exclusive end.
fn window(to: Timestamp) -> Option<(Date, Date)> {
    let today = to.to_zoned(TimeZone::UTC).date();
    Some((today.checked_sub(DAYS.days()).ok()?, today))
}

/// The API reference names the map of attributes but not its keys. The keys here are the columns
/// that Cost Explorer shows. A missing value is unknown: without a type it is not known that the
/// plan covers machines, and a plan without its figures is not evaluated.
fn commitment(detail: &SavingsPlansUtilizationDetail, days: (Date, Date)) -> Option<Commitment> {
    let none = HashMap::new();
    let attributes = detail.attributes().unwrap_or(&none);
    let attribute = |name: &str| {
        let value = attributes.get(name).map(|value| value.trim());
        value.filter(|value| !value.is_empty())
    };
    let kind =
        attribute("SavingsPlansType").filter(|kind| [COMPUTE, OF_A_FAMILY].contains(kind))?;
    let is_of_family = kind == OF_A_FAMILY;
    let per_hour = attribute("HourlyCommitment").and_then(dollars)?;
    let is_region = |name: &&str| name.contains('-') && !name.contains(' ');
    let region = attribute("Region").filter(is_region);
    Some(Commitment {
        id: detail.savings_plan_arn()?.to_owned(),
        region: region
            .filter(|_| is_of_family)
            .and_then(|name| Region::new(name).ok()),
        family: attribute("InstanceFamily")
            .filter(|_| is_of_family)
            .map(str::to_owned),
        per_hour: UsdPerHour(per_hour),
        until: attribute("EndDateTime").and_then(|end| end.parse().ok()),
        used: used(detail, per_hour, days),
    })
}

/// The share of the commitment in these days that was used, from the hourly commitment. A plan that
/// began in these days had fewer hours.
fn used(
    detail: &SavingsPlansUtilizationDetail,
    per_hour: Usd,
    (first, end): (Date, Date),
) -> Option<CommitmentUse> {
    let utilization = detail.utilization()?;
    let total = utilization.total_commitment().and_then(dollars)?;
    let used = utilization.used_commitment().and_then(dollars)?;
    let total = u64::try_from(total.micros())
        .ok()
        .filter(|total| *total > 0)?;
    let used = u64::try_from(used.micros()).ok()?;
    let at = |day: Date| day.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp());
    Some(CommitmentUse {
        per_hour: UsdPerHour(per_hour).part(used.min(total), total),
        from: at(first)?,
        to: at(end)?,
    })
}

#[cfg(test)]
mod tests {
    use aws_sdk_costexplorer::types::SavingsPlansUtilization;

    use super::*;

    fn plan(
        attributes: &[(&str, &str)],
        used: Option<(&str, &str)>,
    ) -> Option<(String, i64, Option<i64>)> {
        let mut detail = SavingsPlansUtilizationDetail::builder()
            .savings_plan_arn("arn:aws:savingsplans::111122223333:savingsplan/a");
        for (name, value) in attributes {
            detail = detail.attributes(*name, *value);
        }
        let used = used.map(|(total, used)| {
            let utilization = SavingsPlansUtilization::builder().total_commitment(total);
            utilization.used_commitment(used).build()
        });
        let to = "2026-03-15T00:10:00Z".parse().expect("a time");
        let days = window(to).expect("in range");
        let plan = commitment(&detail.set_utilization(used).build(), days)?;
        let place = plan
            .region
            .map_or("anywhere".to_owned(), |region| region.to_string());
        let family = plan.family.unwrap_or_else(|| "any".to_owned());
        let used = plan.used.map(|used| {
            assert_eq!(used.to.duration_since(used.from).as_hours(), 168);
            used.per_hour.0.micros()
        });
        Some((format!("{place} {family}"), plan.per_hour.0.micros(), used))
    }

    #[test]
    fn a_plan_is_a_commitment_with_what_of_it_was_used() {
        let compute = ("SavingsPlansType", COMPUTE);
        let hourly = ("HourlyCommitment", "0.5");
        let check =
            |attributes: &[(&str, &str)], used, expect: Option<(&str, i64, Option<i64>)>| {
                let expect = expect.map(|(place, paid, used)| (place.to_owned(), paid, used));
                assert_eq!(plan(attributes, used), expect, "{attributes:?}");
            };
        let half = Some(("84", "42"));
        let anywhere = [compute, hourly, ("Region", "Any"), ("InstanceFamily", "")];
        check(
            &anywhere,
            half,
            Some(("anywhere any", 500_000, Some(250_000))),
        );
        check(&anywhere, None, Some(("anywhere any", 500_000, None)));
        check(
            &anywhere,
            Some(("0", "0")),
            Some(("anywhere any", 500_000, None)),
        );
        let family = [
            ("SavingsPlansType", OF_A_FAMILY),
            hourly,
            ("Region", "eu-central-1"),
            ("InstanceFamily", "m5"),
        ];
        check(
            &family,
            half,
            Some(("eu-central-1 m5", 500_000, Some(250_000))),
        );
        check(
            &[("SavingsPlansType", "SageMakerSavingsPlans"), hourly],
            half,
            None,
        );
        check(&[hourly], half, None);
        check(&[compute], half, None);
    }
}
