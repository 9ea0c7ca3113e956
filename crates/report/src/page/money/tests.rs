use ebb_model::finding::Finding;
use ebb_telemetry::money::UsdPerHour;

use crate::testing;
use crate::zone::Zone;

use super::*;

fn now() -> Timestamp {
    "2026-03-04T12:00:00Z".parse().expect("a time")
}

#[test]
fn a_price_has_its_basis_and_age_and_the_list_price_stands_next_to_it() {
    let check = |basis: PriceBasis, days: Option<i64>, price: &str, list: Option<&str>| {
        let ago = |days: i64| now() - jiff::SignedDuration::from_hours(24 * days);
        let cost = Cost {
            per_hour: UsdPerHour::from_micros(500_000),
            basis,
            list_per_hour: Some(UsdPerHour::from_micros(800_000)),
            spent: Usd::from_micros(1_000_000),
            saving_a_month: Usd::from_micros(365_000_000),
            counted: None,
            price_as_of: days.map(ago),
            list_as_of: Some(ago(100)),
        };
        let words = CostWords::from_cost(&cost, now(), &Zone::utc());
        assert_eq!((words.price.as_str(), words.list.as_deref()), (price, list));
        let at_most = words.saving.starts_with("at most $365.00");
        assert_eq!(at_most, basis.is_bound());
    };
    let list = Some("$0.8000/h of 2025-11-24 (100 days old)");
    check(
        PriceBasis::Bill,
        Some(2),
        "$0.5000/h from the bill of 2026-03-02",
        list,
    );
    check(
        PriceBasis::Stated,
        None,
        "$0.5000/h at the price stated in the policy",
        list,
    );
    check(
        PriceBasis::ListPrice,
        Some(89),
        "$0.5000/h at the list price of 2025-12-05",
        None,
    );
    check(
        PriceBasis::ListPrice,
        None,
        "$0.5000/h at the list price of unknown date",
        None,
    );
    check(
        PriceBasis::SpotPrice,
        Some(0),
        "$0.5000/h at the spot price of 2026-03-04 12:00 UTC in the cheapest zone",
        list,
    );
    check(
        PriceBasis::ListPriceAsUpperBound,
        Some(90),
        "at most $0.5000/h at the on-demand price of 2025-12-04 (90 days old); spot \
         costs less",
        None,
    );
}

#[test]
fn the_total_cost_is_one_statement_a_sentence() {
    let check = |known: i64, at_most: i64, without: usize, expect: Option<&str>| {
        let totals = Totals {
            cost_a_month: Some(Usd::from_micros(known * 1_000_000)),
            cost_at_most_a_month: Some(Usd::from_micros(at_most * 1_000_000)),
            machines_without_price: without,
            ..testing::small().totals
        };
        assert_eq!(evaluated(&totals).as_deref(), expect);
    };
    check(0, 0, 1, None);
    check(
        5,
        0,
        0,
        Some(
            "All running machines and volumes, and other resources with a finding, cost $5.00 a month",
        ),
    );
    check(
        5,
        2,
        1,
        Some(
            "All running machines and volumes, and other resources with a finding, cost $5.00 a \
             month. Spot machines without a known price add at most $2.00. The price of 1 machine \
             is unknown",
        ),
    );
}

#[test]
fn what_another_finding_counts_is_said() {
    let report = testing::overlapping();
    let counted_text = |finding: &Finding| {
        let cost = finding.cost.as_ref().expect("a price");
        CostWords::from_cost(cost, report.at, &Zone::utc()).counted
    };
    assert_eq!(counted_text(&report.findings[0]), None);
    assert_eq!(
        counted_text(&report.findings[3]).as_deref(),
        Some(
            "the totals contain $0.00 of it; the finding idle_node/eu-central-1/i-0aaa contains the rest"
        )
    );
}
