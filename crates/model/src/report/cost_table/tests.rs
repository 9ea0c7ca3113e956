//! Tests of tables of costs.

use super::*;
use crate::report::cost_shares::CentreRest;

fn usd(dollars: i64) -> Usd {
    Usd::from_micros(dollars * 1_000_000)
}

fn share(run: &str, pipeline: Option<&str>, user: &str, costs: &[(&str, i64)]) -> CostShare {
    let name = |name: &str| CostName::Name(name.to_owned());
    let others = run == "others";
    let day = |(day, used): &(&str, i64)| {
        let share = DayShare {
            tasks: 1,
            used: usd(*used),
            unused: usd(1),
            ..DayShare::default()
        };
        ((*day).to_owned(), share)
    };
    CostShare {
        names: BTreeMap::from([
            (
                CostDimension::Run,
                if others { CostName::Others } else { name(run) },
            ),
            (
                CostDimension::Pipeline,
                pipeline.map_or(CostName::Unknown, name),
            ),
            (CostDimension::User, name(user)),
        ]),
        by_day: costs.iter().map(day).collect(),
    }
}

fn shares() -> CostShares {
    let day = |day: &str, source, total, idle| CostDay {
        day: day.to_owned(),
        source,
        estimated: source == CostSource::Prices,
        total: usd(total),
        rest: BTreeMap::from([(RestKind::Idle, usd(idle)), (RestKind::Rounding, usd(0))]),
        upper_bound: usd(0),
        rest_by_centre: Vec::new(),
        machines_without_price: 1,
    };
    CostShares {
        days: vec![
            day("2026-09-30", CostSource::Bill, 30, 9),
            day("2026-10-01", CostSource::Prices, 12, 4),
        ],
        by_run: vec![
            share(
                "a",
                Some("rna"),
                "ada",
                &[("2026-09-30", 10), ("2026-10-01", 8)],
            ),
            share("b", Some("rna"), "ben", &[("2026-09-30", 5)]),
            share("others", Some("dna"), "ben", &[("2026-09-30", 4)]),
            share("c", None, "ada", &[("2026-09-30", 2)]),
        ],
        ..CostShares::default()
    }
}

fn rows(shares: &CostShares, by: &str, month: Option<&str>) -> (Vec<String>, Usd) {
    let month = month.map(|month| month.parse().expect("a month"));
    let by = by.parse().expect("dimensions");
    let table = shares.table(&by, month.as_ref()).expect("a table");
    let tasks: Usd = table.rows.iter().filter_map(|row| row.cost).sum();
    let rest: Usd = table.rest.iter().map(|row| row.cost).sum();
    assert_eq!(tasks + rest, table.total);
    let rows = table.rows.iter().map(|row| {
        let names = row.names.iter().map(|name| match name {
            CostName::Name(name) => name.as_str(),
            CostName::Unknown => "?",
            CostName::Others => "others",
        });
        format!(
            "{} {}",
            names.collect::<Vec<_>>().join("/"),
            row.cost.unwrap_or_default()
        )
    });
    (rows.collect(), table.total)
}

#[test]
fn a_table_has_the_chosen_dimensions_and_adds_up() {
    let check = |by: &str, month: Option<&str>, expect: &[&str], total: i64| {
        let (rows, sum) = rows(&shares(), by, month);
        assert_eq!(
            (rows.as_slice(), sum),
            (
                expect
                    .iter()
                    .map(|row| (*row).to_owned())
                    .collect::<Vec<_>>()
                    .as_slice(),
                usd(total)
            )
        );
    };
    check(
        "pipeline",
        None,
        &["rna $23.00", "dna $4.00", "? $2.00"],
        42,
    );
    check(
        "user,pipeline",
        None,
        &[
            "ada/rna $18.00",
            "ben/rna $5.00",
            "ben/dna $4.00",
            "ada/? $2.00",
        ],
        42,
    );
    check(
        "run",
        None,
        &["a $18.00", "b $5.00", "c $2.00", "others $4.00"],
        42,
    );
    check("pipeline", Some("2026-10"), &["rna $8.00"], 12);
    check("pipeline", Some("2025-10"), &[], 0);
}

#[test]
fn the_part_of_prices_and_unknown_prices_are_visible() {
    let table = shares()
        .table(&CostDimensions::default(), None)
        .expect("a table");
    assert_eq!((table.billed, table.total), (usd(30), usd(42)));
    assert_eq!(table.not_billed_from.as_deref(), Some("2026-10-01"));
    assert_eq!(table.machine_days_without_price, 2);
    assert_eq!(table.rest.len(), 1);
}

#[test]
fn a_query_that_a_report_cannot_answer_is_refused() {
    let check = |by: &str, expect: &str| {
        let error = by.parse::<CostDimensions>().expect_err(expect);
        assert!(error.to_string().contains(expect), "{error}");
    };
    check("team", "costs have no 'team'");
    check("", "costs have no ''");
    check("step,run", "run and step");
    for month in ["2026", "2026-13", "2026-1", "2026-10-01", "october"] {
        assert!(month.parse::<CostMonth>().is_err(), "{month}");
    }
    let by: CostDimensions = "cost_centre, user,user".parse().expect("dimensions");
    assert_eq!(by.as_slice().len(), 2);
    assert_eq!(
        shares().table(&by, None),
        Err(CostQueryError::NoCostCentres)
    );
}

#[test]
fn costs_without_a_task_have_the_cost_centre_of_their_machine() {
    let mut shares = shares();
    shares.cost_centre_tag = Some("team".to_owned());
    shares.days[0].rest_by_centre = vec![CentreRest {
        name: CostName::Name("genomics".to_owned()),
        rest: BTreeMap::from([(RestKind::Idle, usd(7))]),
    }];
    let table = |by: &str| shares.table(&by.parse().expect("dimensions"), None);
    let rest = |by: &str| {
        let table = table(by).expect("a table");
        let tasks: Usd = table.rows.iter().filter_map(|row| row.cost).sum();
        let rest: Usd = table.rest.iter().map(|row| row.cost).sum();
        assert_eq!(tasks + rest, table.total);
        let rows = table.rest.into_iter();
        rows.map(|row| (row.cost_centre, row.cost))
            .collect::<Vec<_>>()
    };
    let genomics = CostName::Name("genomics".to_owned());
    let expect = vec![(None, usd(6)), (Some(genomics), usd(7))];
    assert_eq!(rest("pipeline,cost_centre"), expect);
    assert_eq!(rest("pipeline"), [(None, usd(13))]);
}
