//! Tests of the bill by the values of a tag.

use super::*;

fn usd(dollars: i64) -> Usd {
    Usd::from_micros(dollars * 1_000_000)
}

fn day(day: &str, billed: i64, values: &[(&str, i64)]) -> BilledDayShares {
    let values = values.iter();
    let values = values.map(|(value, cost)| ((*value).to_owned(), usd(*cost)));
    BilledDayShares {
        day: day.to_owned(),
        billed: usd(billed),
        by_tag: BTreeMap::from([("team".to_owned(), values.collect())]),
        ..BilledDayShares::default()
    }
}

#[test]
fn the_rows_of_a_tag_add_up_to_the_bill() {
    let ledger = [
        day("2026-10-31", 10, &[("genomics", 6), ("", 4)]),
        day("2026-11-01", 9, &[("ml", 7), ("genomics", 1)]),
        BilledDayShares {
            by_tag: BTreeMap::new(),
            ..day("2026-11-02", 2, &[])
        },
    ];
    let rows = |month: Option<&str>| {
        let month = month.map(|month| month.parse().expect("a month"));
        let table = tag_table(&ledger, "team", month.as_ref()).expect("a table");
        let sum: Usd = table.rows.iter().map(|row| row.cost).sum();
        assert_eq!(sum, table.total);
        let rows = table.rows.into_iter();
        rows.map(|row| format!("{} {}", row.value.unwrap_or_default(), row.cost))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(None), ["genomics $7.00", "ml $7.00", " $7.00"]);
    assert_eq!(
        rows(Some("2026-11")),
        ["ml $7.00", "genomics $1.00", " $3.00"]
    );
    assert!(rows(Some("2026-12")).is_empty());
    let unknown = tag_table(&ledger, "owner", None).expect_err("unknown");
    assert!(unknown.to_string().contains("by the tag 'owner'"));
    assert!(unknown.to_string().contains("it has team"));
}

#[test]
fn a_division_is_a_tag_or_names() {
    let tag = "tag:Cost Centre".parse();
    assert_eq!(tag, Ok(CostDivision::Tag("Cost Centre".to_owned())));
    let names = "pipeline,user".parse().expect("dimensions");
    assert_eq!("pipeline,user".parse(), Ok(CostDivision::Names(names)));
    assert!("tag:".parse::<CostDivision>().is_err());
}
