//! Tests of the days of a month.

use super::*;

#[test]
fn missing_days_are_named_with_the_remedy() {
    let check = |reached: &str, known: &[&str], expect: Option<&str>| {
        let month = "2026-11".parse().expect("a month");
        let reached = reached.parse().expect("a day");
        let known = known.iter().copied().collect();
        let notes = missing(&month, reached, known, "Look elsewhere.");
        assert_eq!(notes.first().map(String::as_str), expect);
    };
    check("2026-10-31", &[], None);
    check("2026-11-02", &["2026-11-01", "2026-11-02"], None);
    check(
        "2026-11-05",
        &["2026-11-02", "2026-11-05"],
        Some("Missing days of 2026-11: 2026-11-01, 2026-11-03 to 2026-11-04. Look elsewhere."),
    );
    check(
        "2026-12-09",
        &["2026-12-01"],
        Some("Missing days of 2026-11: 2026-11-01 to 2026-11-30. Look elsewhere."),
    );
    let odd = [
        "2026-11-02",
        "2026-11-04",
        "2026-11-06",
        "2026-11-08",
        "2026-11-10",
    ];
    check(
        "2026-11-11",
        &odd,
        Some(
            "Missing days of 2026-11: 2026-11-01, 2026-11-03, 2026-11-05, 2026-11-07, 2026-11-09, \
             and others. Look elsewhere.",
        ),
    );
}

#[test]
fn days_with_too_many_rows_are_named() {
    assert_eq!(too_many_rows(&[]), None);
    let days = ["2026-11-03", "2026-11-07"].map(str::to_owned);
    assert_eq!(
        too_many_rows(&days).as_deref(),
        Some("These days have too many rows in the lake: 2026-11-03, 2026-11-07.")
    );
}

#[test]
fn a_part_of_a_month_ends_with_its_last_day() {
    let (mut report, _) = crate::tune::of_demo(0).expect("the demo");
    let last = report.costs.days.last().expect("days").day.clone();
    let through: Date = last.parse().expect("a day");
    let through = through.yesterday().expect("a day");
    let month: CostMonth = last[..7].parse().expect("a month");
    let part = MonthPart {
        month: &month,
        through: Some(through),
    };
    let days = with_lake(&mut report, part, &Source::Demo);
    assert_eq!(
        report.costs.days.last().expect("days").day,
        through.to_string()
    );
    assert!(
        report
            .ledger
            .iter()
            .all(|day| day.day <= through.to_string())
    );
    let by = ebb_model::report::cost_table::CostDimensions::default();
    let table = report.costs.table(&by, None).expect("a table");
    let tasks = table.rows.iter().filter_map(|row| row.cost);
    let rest = table.rest.iter().map(|row| row.cost);
    let sum: ebb_telemetry::money::Usd = tasks.chain(rest).sum();
    assert_eq!(sum, table.total);
    assert!(days.of_lake.is_empty());
}
