//! Costs by chosen dimensions, as a table for a terminal and as CSV.

use ebb_model::policy::costs::RestOfMachine;
use ebb_model::report::cost_shares::{CostDimension, CostName, RestKind};
use ebb_model::report::cost_table::{CostRow, CostTable, RestRow};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{counted, one_line};
use jiff::Timestamp;

use crate::csv::text;
use crate::fitted_table::{self, Column, UNKNOWN};
use crate::zone::Zone;

/// Limit on the rows of tasks in a table; CSV and JSON contain all.
const MAX_ROWS: usize = 30;

/// Limit on the missing parts of the bill that a text names.
const MAX_GAPS: usize = 5;

/// The table, the time of the report, and whether its input is simulated.
#[derive(Debug, Clone, Copy)]
pub struct CostReport<'a> {
    /// The costs.
    pub table: &'a CostTable,
    /// The time of the report.
    pub at: Timestamp,
    /// Simulated if any input is simulated.
    pub origin: Origin,
    /// The missing parts of the bill.
    pub bill_gaps: &'a [&'a Gap],
    /// Sentences about missing days.
    pub notes: &'a [String],
}

type Cells = [String; 8];

/// The costs as a table whose rows add up to the last one. `terminal` is the number of columns of
/// the terminal.
pub fn table(report: CostReport<'_>, zone: &Zone, terminal: Option<usize>) -> String {
    let costs = report.table;
    let Some((from, to)) = costs.from.as_ref().zip(costs.to.as_ref()) else {
        let days = without_days(costs) + &lines_of(report.notes);
        return days + &gap_notes(report.bill_gaps, terminal);
    };
    let by: Vec<String> = costs.by.iter().map(ToString::to_string).collect();
    let mut out = simulated(report.origin).to_owned();
    let (from, to) = (one_line(from), one_line(to));
    out.push_str(&format!(
        "Costs by {}, {from} to {to} (UTC): {}\n\n",
        by.join(" and "),
        total(costs)
    ));
    let head = |n: usize| costs.by.get(n).map_or("", |one| head(*one));
    let columns = [
        Column::name(head(0), 16),
        Column::name(head(1), 12).optional(1),
        Column::name(head(2), 12).optional(2),
        Column::name(head(3), 12).optional(3),
        Column::new("TASKS").right(),
        Column::new("COST").right(),
        Column::new("SHARE").right(),
        Column::new("UNUSED").right(),
    ];
    let rows = all_rows(costs);
    let table = fitted_table::table(&columns, &rows, terminal);
    out.push_str(&table.lines);
    let mut sentences = notes(costs, "UNUSED", "COST");
    sentences.extend(task_note(costs));
    sentences.extend(report.notes.iter().cloned());
    sentences.push(format!("As of {}.", zone.minute(report.at)));
    sentences.push(table.left_out);
    let sentences: Vec<&str> = sentences.iter().map(String::as_str).collect();
    out.push_str(&fitted_table::notes(&sentences, terminal));
    out.push_str(&gap_notes(report.bill_gaps, terminal));
    out
}

/// The first paragraph of simulated costs; empty if all input is measured.
pub(crate) fn simulated(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured => "",
        Origin::Simulated => {
            "SIMULATED: at least a part of this input was generated, not measured.\n\n"
        }
    }
}

/// The sentences about missing parts of the bill, as a paragraph of lines.
pub(crate) fn gap_notes(gaps: &[&Gap], terminal: Option<usize>) -> String {
    let mut out = String::new();
    for line in gap_lines(gaps) {
        let lines = fitted_table::notes(&[&line], terminal);
        out.push_str(if out.is_empty() {
            &lines
        } else {
            lines.trim_start()
        });
    }
    out
}

/// A sentence for each of the first missing parts of the bill, and the number of the others.
pub fn gap_lines(gaps: &[&Gap]) -> Vec<String> {
    let shown = gaps.iter().take(MAX_GAPS).map(|gap| {
        let (scope, reason) = (one_line(&gap.scope), one_line(&gap.reason));
        format!("The bill is incomplete: {scope}: {reason}")
    });
    let more = gaps.len().saturating_sub(MAX_GAPS);
    let more = (more > 0).then(|| format!("and {more} more"));
    shown.chain(more).collect()
}

/// Each sentence on a line.
pub(crate) fn lines_of(sentences: &[String]) -> String {
    sentences.iter().map(|line| format!("{line}\n")).collect()
}

/// A sentence about numbers of tasks, if the table has days of the lake.
fn task_note(costs: &CostTable) -> Option<String> {
    let last = costs.days_of_lake.last()?;
    let is_all = costs.to.as_ref() == Some(last);
    let last = one_line(last);
    Some(match is_all {
        true => "The days are those of the lake, which has no numbers of tasks.".to_owned(),
        false => format!(
            "The days to {last} are those of the lake, which has no numbers of tasks. TASKS counts the \
             days after it."
        ),
    })
}

/// The total, and the part of it that is billed.
pub fn total(costs: &CostTable) -> String {
    match costs.not_billed_from {
        None => costs.total.to_string(),
        Some(_) => format!("{}, of which {} is billed", costs.total, costs.billed),
    }
}

fn without_days(costs: &CostTable) -> String {
    match (&costs.month, &costs.report_from, &costs.report_to) {
        (Some(month), Some(from), Some(to)) => format!(
            "No day of {month} is in the report. It has the days {} to {}.\n",
            one_line(from),
            one_line(to)
        ),
        _ => "No cost is known. A report has costs if the sweep reads the bill or the prices of \
              machines are known.\n"
            .to_owned(),
    }
}

fn head(dimension: CostDimension) -> &'static str {
    match dimension {
        CostDimension::Run => "RUN",
        CostDimension::Pipeline => "PIPELINE",
        CostDimension::Step => "STEP",
        CostDimension::User => "USER",
        CostDimension::CostCentre => "COST CENTRE",
    }
}

fn all_rows(costs: &CostTable) -> Vec<Cells> {
    let shown = costs.rows.iter().take(MAX_ROWS);
    let mut rows: Vec<Cells> = shown.map(|row| task_row(row, costs)).collect();
    let more = costs.rows.get(MAX_ROWS..).unwrap_or_default();
    if !more.is_empty() {
        let names = counted(more.len(), "more row", "more rows");
        let sum = |usd: fn(&CostRow) -> Option<Usd>| more.iter().filter_map(usd).sum();
        let tasks = more.iter().map(|row| row.tasks).sum();
        let amounts = (sum(|row| row.cost), Some(sum(|row| row.unused)));
        rows.push(cells((vec![names], costs), Some(tasks), amounts));
    }
    let rest = costs.rest.iter();
    rows.extend(rest.map(|one| cells((vec![rest_name(one)], costs), None, (one.cost, None))));
    rows.push(cells(
        (vec!["total".to_owned()], costs),
        None,
        (costs.total, None),
    ));
    rows
}

/// The name of a row without tasks, with the cost centre of its machines.
pub fn rest_name(rest: &RestRow) -> String {
    let centre = rest.cost_centre.as_ref();
    let centre = centre.map(|centre| match centre {
        CostName::Name(name) => format!(" ({})", one_line(name)),
        other => format!(" {}", name(CostDimension::CostCentre, other)),
    });
    format!("no task: {}{}", rest.kind, centre.unwrap_or_default())
}

/// The text of a name of a row.
pub fn name(dimension: CostDimension, name: &CostName) -> String {
    match (name, dimension) {
        (CostName::Name(name), _) => one_line(name),
        (CostName::Unknown, CostDimension::Run) => "unassigned".to_owned(),
        (CostName::Unknown, _) => "(unknown)".to_owned(),
        (CostName::Others, _) => "(others)".to_owned(),
    }
}

fn task_row(row: &CostRow, costs: &CostTable) -> Cells {
    let names = costs.by.iter().zip(&row.names);
    let names = names
        .map(|(dimension, one)| name(*dimension, one))
        .collect();
    let Some((cost, unused)) = row.cost.zip(row.unused) else {
        let tasks = Some(row.tasks_without_price);
        let mut cells = cells((names, costs), tasks, (Usd::ZERO, None));
        cells[5..].fill(UNKNOWN.to_owned());
        return cells;
    };
    let tasks = Some(row.tasks).filter(|_| has_task_count(row, costs));
    cells((names, costs), tasks, (cost, Some(unused)))
}

/// Whether a day of the row has a number of tasks.
fn has_task_count(row: &CostRow, costs: &CostTable) -> bool {
    let mut days = row.by_day.keys();
    days.any(|day| !costs.days_of_lake.contains(day))
}

fn cells(
    (names, costs): (Vec<String>, &CostTable),
    tasks: Option<usize>,
    (cost, unused): (Usd, Option<Usd>),
) -> Cells {
    let mut names = names.into_iter();
    // A column that no dimension needs has only unknown cells, and is left out.
    let mut name = |n: usize| match costs.by.get(n) {
        Some(_) => names.next().unwrap_or_default(),
        None => UNKNOWN.to_owned(),
    };
    [
        name(0),
        name(1),
        name(2),
        name(3),
        tasks.map_or_else(String::new, |tasks| tasks.to_string()),
        cost.to_string(),
        share(cost, costs.total),
        unused.map_or_else(String::new, |usd| usd.to_string()),
    ]
}

/// A share in per cent with one decimal place; empty without a total.
pub fn share(part: Usd, total: Usd) -> String {
    if total.micros() <= 0 {
        return String::new();
    }
    let share = part.micros() as f64 / total.micros() as f64;
    format!("{:.1} %", 100.0 * share)
}

/// Sentences that a reader needs to understand the numbers, with the heads of two columns.
pub fn notes(costs: &CostTable, unused: &str, cost: &str) -> Vec<String> {
    let mut notes = vec![match costs.rest_of_machines {
        RestOfMachine::Apart => format!(
            "{unused} is the cost of the parts of machines that no task occupied while these tasks ran. {cost} does \
             not contain it. It is a part of the rows idle, without a probe, services and sessions, and waste in findings."
        ),
        RestOfMachine::Spread => format!(
            "{cost} contains {unused}: the cost of the parts of machines that no task occupied while these tasks ran."
        ),
    }];
    if costs.rest.iter().any(|row| row.kind == RestKind::OtherWork) {
        notes.push(format!(
            "The row {} is the cost of time in which a machine was active without a task or finding.",
            RestKind::OtherWork
        ));
    }
    if let Some(day) = &costs.not_billed_from {
        let priced = costs.total - costs.billed;
        notes.push(format!(
            "The days from {} on are not billed yet; their {priced} is computed from the prices of machines.",
            one_line(day)
        ));
    }
    if costs.upper_bound > Usd::ZERO {
        notes.push(format!(
            "{} of it is an upper bound: Spot machines without a known Spot price count with the on-demand price.",
            costs.upper_bound
        ));
    }
    if costs.machine_days_without_price > 0 {
        let days = counted(
            costs.machine_days_without_price,
            "machine day",
            "machine days",
        );
        notes.push(format!(
            "Not in the total: {days}, because the machines have neither a bill nor a price."
        ));
    }
    notes
}

/// One line for each name and day, each with CR LF at the end. The column `cost_usd` adds up to the
/// total. An empty field is unknown.
pub fn csv(costs: &CostTable, origin: Origin) -> String {
    let origin = crate::csv::slug(&origin);
    let by: Vec<&str> = costs.by.iter().map(|one| one.slug()).collect();
    let mut out = format!(
        "day,kind,origin,{},tasks,tasks_without_price,used_usd,unused_usd,cost_usd\r\n",
        by.join(",")
    );
    for row in &costs.rows {
        let names: Vec<String> = row.names.iter().map(csv_name).collect();
        for (day, share) in &row.by_day {
            let cost = share.cost(costs.rest_of_machines);
            let numbers = [share.used, share.unused, cost].map(|usd| match share.is_unknown() {
                true => String::new(),
                false => usd.to_decimal(),
            });
            let kind = match row.names.contains(&CostName::Others) {
                true => "others",
                false => "tasks",
            };
            let counts = match costs.days_of_lake.contains(day) {
                true => ",".to_owned(),
                false => format!("{},{}", share.tasks, share.tasks_without_price),
            };
            out.push_str(&format!(
                "{},{kind},{origin},{},{counts},{}\r\n",
                text(day),
                names.join(","),
                numbers.join(",")
            ));
        }
    }
    for rest in &costs.rest {
        let kind = crate::csv::slug(&rest.kind);
        for (day, usd) in &rest.by_day {
            let names = costs.by.iter().map(|one| match one {
                CostDimension::CostCentre => {
                    rest.cost_centre.as_ref().map_or_else(String::new, csv_name)
                }
                _ => String::new(),
            });
            let names: Vec<String> = names.collect();
            out.push_str(&format!(
                "{},{kind},{origin},{},,,,,{}\r\n",
                text(day),
                names.join(","),
                usd.to_decimal()
            ));
        }
    }
    out
}

fn csv_name(name: &CostName) -> String {
    name.name().map_or_else(String::new, text)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use ebb_model::report::cost_shares::DayShare;

    use super::*;

    fn usd(cents: i64) -> Usd {
        Usd::from_micros(cents * 10_000)
    }

    fn row(names: Vec<CostName>, cents: i64, share: DayShare) -> CostRow {
        CostRow {
            names,
            tasks: share.tasks,
            tasks_without_price: share.tasks_without_price,
            used: (!share.is_unknown()).then_some(usd(cents)),
            unused: (!share.is_unknown()).then_some(share.unused),
            cost: (!share.is_unknown()).then_some(usd(cents)),
            by_day: BTreeMap::from([("2026-10-02".to_owned(), share)]),
        }
    }

    fn costs(rest_of_machines: RestOfMachine) -> CostTable {
        let named = |name: &str| CostName::Name(name.to_owned());
        let share = |tasks, cents| DayShare {
            tasks,
            used: usd(cents),
            unused: usd(50),
            ..DayShare::default()
        };
        let unpriced = DayShare {
            tasks_without_price: 3,
            ..DayShare::default()
        };
        let rest = |kind, cents| RestRow {
            kind,
            cost_centre: None,
            cost: usd(cents),
            by_day: BTreeMap::from([("2026-10-02".to_owned(), usd(cents))]),
        };
        CostTable {
            by: vec![CostDimension::Pipeline, CostDimension::User],
            month: None,
            report_from: Some("2026-10-02".to_owned()),
            report_to: Some("2026-10-03".to_owned()),
            from: Some("2026-10-02".to_owned()),
            to: Some("2026-10-03".to_owned()),
            days_of_lake: BTreeSet::new(),
            rest_of_machines,
            total: usd(10_000),
            billed: usd(9_000),
            not_billed_from: Some("2026-10-03".to_owned()),
            rows: vec![
                row(
                    vec![named("=rna\u{1b}[31m"), named("ada")],
                    4_000,
                    share(12, 4_000),
                ),
                row(
                    vec![CostName::Unknown, CostName::Unknown],
                    1_000,
                    share(1, 1_000),
                ),
                row(vec![named("old"), named("ben")], 0, unpriced),
                row(vec![CostName::Others, named("ada")], 500, share(7, 500)),
            ],
            rest: vec![rest(RestKind::Idle, 4_000), rest(RestKind::Elsewhere, 500)],
            upper_bound: Usd::from_micros(2_500_000),
            machine_days_without_price: 1,
        }
    }

    fn shown(costs: &CostTable, terminal: Option<usize>) -> String {
        let report = CostReport {
            table: costs,
            at: Timestamp::from_second(1_790_000_000).expect("a time"),
            origin: Origin::Simulated,
            bill_gaps: &[],
            notes: &[],
        };
        table(report, &Zone::utc(), terminal)
    }

    #[test]
    fn an_incomplete_bill_is_named_with_and_without_costs() {
        let gaps: Vec<Gap> = (1..8)
            .map(|day| Gap::new(format!("cost export bills 2026-10-0{day}"), "only a part"))
            .collect();
        let gaps: Vec<&Gap> = gaps.iter().collect();
        let mut table_of = costs(RestOfMachine::Apart);
        for _ in 0..2 {
            let report = CostReport {
                table: &table_of,
                at: Timestamp::from_second(1_790_000_000).expect("a time"),
                origin: Origin::Measured,
                bill_gaps: &gaps,
                notes: &["Missing days.".to_owned()],
            };
            let text = table(report, &Zone::utc(), None);
            let line =
                "The bill is incomplete: cost export bills 2026-10-05: only a part\nand 2 more";
            assert!(text.contains(line) && !text.contains("10-06"), "{text}");
            assert!(text.contains("Missing days."), "{text}");
            table_of.from = None;
        }
    }

    #[test]
    fn costs_are_a_table_that_adds_up() {
        let apart = costs(RestOfMachine::Apart);
        insta::assert_snapshot!(shown(&apart, None));
        insta::assert_snapshot!(shown(&apart, Some(60)));
        insta::assert_snapshot!(csv(&apart, Origin::Simulated));
        let spread = shown(&costs(RestOfMachine::Spread), None);
        assert!(spread.contains("COST contains UNUSED"), "{spread}");
    }

    #[test]
    fn days_of_the_lake_have_no_numbers_of_tasks() {
        let mut of_lake = costs(RestOfMachine::Apart);
        of_lake.days_of_lake.insert("2026-10-02".to_owned());
        let text = shown(&of_lake, None);
        assert!(
            text.replace('\n', " ")
                .contains("TASKS counts the days after it"),
            "{text}"
        );
        assert!(!text.contains(" 12 "), "{text}");
        let text = csv(&of_lake, Origin::Measured);
        assert!(text.contains("ada,,,40.00,0.50,40.00\r\n"), "{text}");
    }

    #[test]
    fn more_rows_are_one_row_and_no_days_are_a_sentence() {
        let mut many = costs(RestOfMachine::Apart);
        many.rows = vec![many.rows[0].clone(); 40];
        let text = shown(&many, None);
        assert!(text.contains("10 more rows"), "{text}");
        assert!(text.contains("$400.00"), "{text}");
        many.from = None;
        many.month = Some("2026-11".parse().expect("a month"));
        let other_month =
            "No day of 2026-11 is in the report. It has the days 2026-10-02 to 2026-10-03.\n";
        assert_eq!(shown(&many, None), other_month);
        (many.month, many.report_from) = (None, None);
        assert!(shown(&many, None).starts_with("No cost is known"));
    }
}
