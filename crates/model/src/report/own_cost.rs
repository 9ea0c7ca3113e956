//! The cost of Ebb itself in the account of the cloud provider.

use std::collections::BTreeMap;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// The tag of Ebb's own resources, which the Terraform module sets.
pub const OWN_TAG: &str = "application";

/// The value of [`OWN_TAG`].
pub const OWN_VALUE: &str = "ebb";

/// Days in a month, in hundredths: a twelfth of 365.25 days, rounded.
const MONTH_CENTIDAYS: i128 = 3_044;

/// The cost of Ebb in a month, by the last days.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OwnCost {
    /// The first day of the bill with Ebb's resources (`YYYY-MM-DD`, UTC); `None` without such a day.
    pub from: Option<String>,
    /// The last day of the bill.
    pub to: Option<String>,
    /// The billed cost of the resources with the tag `application` and the value `ebb`. `None` if the
    /// bill has none: the tag is not active as a cost allocation tag, or the resources do not have it.
    #[serde(rename = "resources_a_month_usd")]
    pub resources_a_month: Option<Usd>,
    /// The price of requests that sweeps are charged for, about the bill and metrics. They belong to
    /// no resource, so no tag contains them. `None` if no sweep could make any.
    #[serde(rename = "requests_a_month_usd")]
    pub requests_a_month: Option<Usd>,
    /// The sum of both; `None` if one of them is unknown.
    #[serde(rename = "a_month_usd")]
    pub a_month: Option<Usd>,
}

impl OwnCost {
    /// The cost by the billed cost of Ebb's resources by day, all days of the bill, and the price of
    /// requests by day.
    pub fn from_days(
        (billed, to): (&BTreeMap<String, Usd>, Option<&str>),
        requests: &BTreeMap<String, Usd>,
    ) -> Self {
        let from = billed.keys().next();
        let days = from.zip(to).and_then(|(from, to)| days_between(from, to));
        let sum: Usd = billed.values().copied().sum();
        let resources = days.and_then(|days| a_month(sum, days));
        let sum: Usd = requests.values().copied().sum();
        let requests = a_month(sum, requests.len());
        Self {
            from: from.filter(|_| resources.is_some()).cloned(),
            to: to.filter(|_| resources.is_some()).map(str::to_owned),
            resources_a_month: resources,
            requests_a_month: requests,
            a_month: resources.zip(requests).map(|(a, b)| a + b),
        }
    }
}

/// The number of days from one day to another, both included; `None` if one is not a day, or the
/// second one is before the first.
fn days_between(from: &str, to: &str) -> Option<usize> {
    let day = |text: &str| text.parse::<jiff::civil::Date>().ok();
    let days = (day(to)? - day(from)?).get_days();
    usize::try_from(days).ok()?.checked_add(1)
}

/// The part of a month of a sum over some days; `None` without days.
fn a_month(sum: Usd, days: usize) -> Option<Usd> {
    let month = i128::from(sum.micros()) * MONTH_CENTIDAYS;
    let micros = month.checked_div(i128::try_from(days).ok()? * 100)?;
    i64::try_from(micros).ok().map(Usd::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(of: &[(&str, i64)]) -> BTreeMap<String, Usd> {
        let of = of.iter();
        of.map(|(day, micros)| ((*day).to_owned(), Usd::from_micros(*micros)))
            .collect()
    }

    #[test]
    fn a_month_is_the_mean_of_the_known_days() {
        let check = |billed: &[(&str, i64)], to: Option<&str>, requests: &[(&str, i64)], expect| {
            let cost = OwnCost::from_days((&days(billed), to), &days(requests));
            let micros = |usd: Option<Usd>| usd.map(Usd::micros);
            let found = (
                micros(cost.resources_a_month),
                micros(cost.requests_a_month),
                micros(cost.a_month),
            );
            assert_eq!(found, expect, "{billed:?} {to:?}");
        };
        let requests = [("2026-03-05", 40_000), ("2026-03-06", 60_000)];
        let of_requests = Some(1_522_000);
        check(&[], None, &[], (None, None, None));
        check(
            &[],
            Some("2026-03-05"),
            &requests,
            (None, of_requests, None),
        );
        // A day without a charge between two others counts.
        check(
            &[("2026-03-01", 100_000), ("2026-03-03", 200_000)],
            Some("2026-03-04"),
            &requests,
            (Some(2_283_000), of_requests, Some(3_805_000)),
        );
        check(
            &[("2026-03-01", 100_000)],
            Some("2026-03-01"),
            &[],
            (Some(3_044_000), None, None),
        );
        for (from, to) in [("no day", "2026-03-01"), ("2026-03-02", "2026-03-01")] {
            check(&[(from, 1)], Some(to), &[], (None, None, None));
        }
    }
}
