//! Age of the prices, one line for each source, with a warning for stale prices.

use std::time::Duration;

use ebb_model::report::Report;
use ebb_model::report::price_age::{GET_PRICES, PriceAge, PricedBy};
use ebb_telemetry::safe_text::counted;
use ebb_telemetry::units::HumanDuration;

use crate::zone::Zone;

/// Number of regions that a line names.
const NAMED: usize = 3;

/// Units to which an age is rounded: an age of minutes needs no seconds, and one of days no hours.
const MINUTE: u64 = 60;

const DAY: u64 = 24 * 3600;

/// A line for each source of prices.
pub fn lines(report: &Report, zone: &Zone) -> Vec<String> {
    let each = report.price_ages.iter();
    each.map(|age| line(age, report, zone)).collect()
}

fn line(age: &PriceAge, report: &Report, zone: &Zone) -> String {
    let mut regions = age.regions.iter();
    let named: Vec<&str> = regions.by_ref().take(NAMED).map(|r| r.as_str()).collect();
    let mut line = format!("{} for {}", age.by, named.join(", "));
    let more = regions.count();
    if more > 0 {
        line.push_str(&format!(
            " and {}",
            counted(more, "more region", "more regions")
        ));
    }
    match age.at {
        None => line.push_str(": date not known"),
        Some(at) => {
            let since = report.at.duration_since(at);
            let ago = Duration::try_from(since).unwrap_or_default().as_secs();
            let ago = match ago {
                0..DAY => HumanDuration(Duration::from_secs(ago / MINUTE * MINUTE)).to_string(),
                _ => counted((ago / DAY) as usize, "day", "days"),
            };
            let at = zone.minute(at);
            line.push_str(&format!(": {at} ({ago} ago)"));
        }
    }
    if age.is_stale {
        line.push_str("; STALE");
        match age.by {
            PricedBy::BuiltIn | PricedBy::PriceList => {
                line.push_str(&format!(". To get current prices, {GET_PRICES}."));
            }
            PricedBy::SpotPrices | PricedBy::SpotAdvisor => {
                line.push_str(", no newer response since then");
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ebb_telemetry::identity::Region;

    use super::*;
    use crate::testing;

    #[test]
    fn each_source_says_of_when_it_is_and_plainly_where_that_is_long_ago() {
        let mut report = testing::small();
        assert!(lines(&report, &Zone::utc()).is_empty());
        let now = report.at;
        let of = |by, hours: i64, regions: &[&str]| {
            let regions = regions
                .iter()
                .map(|name| Region::new(*name).expect("a region"));
            let regions: BTreeSet<Region> = regions.collect();
            let at = (hours > 0).then(|| now - jiff::SignedDuration::from_hours(hours));
            PriceAge::new(by, regions, at, now)
        };
        let four = ["a-1", "b-1", "c-1", "d-1"];
        report.price_ages = vec![
            of(PricedBy::BuiltIn, 24 * 630, &four),
            of(PricedBy::BuiltIn, 0, &four[..1]),
            of(PricedBy::PriceList, 24, &four[..2]),
            of(PricedBy::SpotPrices, 1, &four[..2]),
            of(PricedBy::SpotAdvisor, 49, &four[..2]),
        ];
        insta::assert_snapshot!(lines(&report, &Zone::utc()).join("\n"), @r"
        built-in list prices for a-1, b-1, c-1 and 1 more region: 2024-06-12 12:00 UTC (630 days ago); STALE. To get current prices, run `ebb catalog refresh --file prices.json`, then `ebb scan --catalog prices.json`; in a deployment, run `ebb catalog refresh --bucket NAME`.
        built-in list prices for a-1: date not known; STALE. To get current prices, run `ebb catalog refresh --file prices.json`, then `ebb scan --catalog prices.json`; in a deployment, run `ebb catalog refresh --bucket NAME`.
        list prices from the AWS Price List for a-1, b-1: 2026-03-03 12:00 UTC (1 day ago)
        spot prices for a-1, b-1: 2026-03-04 11:00 UTC (60 min ago)
        interruption bands of the Spot Instance Advisor for a-1, b-1: 2026-03-02 11:00 UTC (2 days ago); STALE, no newer response since then
        ");
    }
}
