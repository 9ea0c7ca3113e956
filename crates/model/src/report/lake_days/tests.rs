//! Tests of days from the lake.

use ebb_telemetry::origin::Origin;
use jiff::Timestamp;

use super::*;
use crate::report::cost_table::CostDimensions;

fn usd(dollars: i64) -> Usd {
    Usd::from_micros(dollars * 1_000_000)
}

/// A row of a day with a bill of 10 dollars, by an evaluation at a second.
fn row(day: &str, second: i64, part: CostUse, dollars: i64) -> CostRecord {
    let is_task = matches!(part, CostUse::Task | CostUse::Unused);
    CostRecord {
        day: day.parse().expect("a day"),
        evaluated_at: Timestamp::from_second(second).expect("a time"),
        is_closed: true,
        origin: Origin::Measured,
        billed: usd(10),
        account: None,
        resource: Some("rack-1".to_owned()),
        pipeline: is_task.then(|| "rna".to_owned()),
        run: is_task.then(|| "run-1".to_owned()),
        step: is_task.then(|| "align".to_owned()),
        user: None,
        cost_centre: Some("genomics".to_owned()),
        part,
        combined_rows: 1,
        cost: usd(dollars),
    }
}

fn rows_of(day: &str, second: i64, task: i64) -> Vec<CostRecord> {
    vec![
        row(day, second, CostUse::Task, task),
        row(day, second, CostUse::Unused, 1),
        row(day, second, CostUse::Idle, 9 - task),
    ]
}

fn cost_day(day: &str, source: CostSource, total: i64) -> CostDay {
    CostDay {
        day: day.to_owned(),
        source,
        estimated: true,
        total: usd(total),
        upper_bound: usd(0),
        rest: BTreeMap::from([(RestKind::Idle, usd(total))]),
        rest_by_centre: Vec::new(),
        machines_without_price: 0,
    }
}

/// The days of a table by pipeline with their total, after its rows were added up.
fn total_of(costs: &CostShares) -> Usd {
    let table = costs.table(&CostDimensions::default(), None);
    let table = table.expect("a table");
    let tasks: Usd = table.rows.iter().filter_map(|row| row.cost).sum();
    let rest: Usd = table.rest.iter().map(|row| row.cost).sum();
    assert_eq!(tasks + rest, table.total);
    table.total
}

#[test]
fn each_day_comes_from_one_source_and_the_rows_add_up() {
    let mut costs = CostShares {
        days: vec![
            cost_day("2026-11-02", CostSource::Bill, 10),
            cost_day("2026-11-03", CostSource::Bill, 11),
            cost_day("2026-11-04", CostSource::Bill, 10),
            cost_day("2026-11-05", CostSource::Prices, 3),
        ],
        ..CostShares::default()
    };
    let mut ledger = Vec::new();
    let mut rows = rows_of("2026-11-01", 5, 4);
    // An earlier evaluation, a day with an earlier bill, an open day and a day with a missing row.
    rows.extend(rows_of("2026-11-01", 4, 3));
    rows.extend(rows_of("2026-11-02", 5, 6));
    rows.extend(rows_of("2026-11-03", 5, 6));
    let open = rows_of("2026-11-04", 5, 6).into_iter();
    rows.extend(open.map(|row| CostRecord {
        is_closed: false,
        ..row
    }));
    rows.push(row("2026-10-31", 5, CostUse::Idle, 9));
    for rest in [RestOfMachine::Apart, RestOfMachine::Spread] {
        let mut costs = CostShares {
            rest,
            ..costs.clone()
        };
        let taken = costs.add_lake_days(&mut ledger, &rows);
        let taken: Vec<&String> = taken.iter().collect();
        assert_eq!(taken, ["2026-11-01", "2026-11-02"]);
        assert_eq!(total_of(&costs), usd(10 + 10 + 11 + 10 + 3));
        let unused = i64::from(rest == RestOfMachine::Spread);
        let table = costs.table(&CostDimensions::default(), None);
        let rows = table.expect("a table").rows;
        assert_eq!(rows[0].cost, Some(usd(4 + 6 + 2 * unused)));
        assert_eq!(costs.by_step.len(), 1);
        let centre = &costs.days[0].rest_by_centre[0];
        assert_eq!(centre.rest[&RestKind::Idle], usd(6 - unused));
        assert_eq!((ledger.len(), ledger[0].billed), (2, usd(10)));
        assert_eq!(ledger[0].steps + ledger[0].idle, usd(10));
    }
    costs.add_lake_days(&mut ledger, &[]);
    assert_eq!(costs.days.len(), 4);
}

#[test]
fn combined_rows_are_those_of_other_names() {
    let combined = CostRecord {
        pipeline: None,
        combined_rows: 7,
        ..row("2026-11-01", 5, CostUse::Task, 10)
    };
    let mut costs = CostShares::default();
    costs.add_lake_days(&mut Vec::new(), &[combined]);
    let pipeline = &costs.by_run[0].names[&CostDimension::Pipeline];
    assert_eq!(*pipeline, CostName::Others);
}
