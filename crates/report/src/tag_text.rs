//! The bill by the values of a tag, as a table for a terminal and as CSV.

use ebb_model::report::tag_table::{TagRow, TagTable};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{counted, one_line};

use crate::cost_text::{self, share};
use crate::csv::text;
use crate::fitted_table::{self, Column};

/// Limit on the values in a table; CSV and JSON contain all.
const MAX_ROWS: usize = 30;

/// The bill as a table whose rows add up to the last one. `terminal` is the number of columns of the
/// terminal.
pub fn table(
    costs: &TagTable,
    (origin, bill_gaps, notes): (Origin, &[&Gap], &[String]),
    terminal: Option<usize>,
) -> String {
    let tag = one_line(&costs.tag);
    let mut out = cost_text::simulated(origin).to_owned();
    let Some((from, to)) = costs.from.as_ref().zip(costs.to.as_ref()) else {
        let of_month = costs.month.as_ref().map(|month| format!(" of {month}"));
        let of_month = of_month.unwrap_or_default();
        out.push_str(&format!("The report has no billed day{of_month}.\n"));
        return out + &cost_text::lines_of(notes) + &cost_text::gap_notes(bill_gaps, terminal);
    };
    out.push_str(&format!(
        "Bill by the tag {tag}, {} to {} (UTC): {}\n\n",
        one_line(from),
        one_line(to),
        costs.total
    ));
    let columns = [
        Column::name("VALUE", 16),
        Column::new("COST").right(),
        Column::new("SHARE").right(),
    ];
    let cells = |name: String, cost| [name, format!("{cost}"), share(cost, costs.total)];
    let shown = costs.rows.iter().take(MAX_ROWS);
    let mut rows: Vec<[String; 3]> = shown.map(|row| cells(value(row), row.cost)).collect();
    let more = costs.rows.get(MAX_ROWS..).unwrap_or_default();
    if !more.is_empty() {
        let name = counted(more.len(), "more value", "more values");
        rows.push(cells(name, more.iter().map(|row| row.cost).sum()));
    }
    rows.push(cells("total".to_owned(), costs.total));
    out.push_str(&fitted_table::table(&columns, &rows, terminal).lines);
    let note = "The tags are those of the bill. Days without a bill are left out.";
    let notes = [note].into_iter().chain(notes.iter().map(String::as_str));
    let notes: Vec<&str> = notes.collect();
    out.push_str(&fitted_table::notes(&notes, terminal));
    out.push_str(&cost_text::gap_notes(bill_gaps, terminal));
    out
}

fn value(row: &TagRow) -> String {
    let value = row.value.as_deref().map(one_line);
    value.unwrap_or_else(|| "(no tag)".to_owned())
}

/// One line for each value and day, each with CR LF at the end. The value of costs without the tag is
/// empty.
pub fn csv(costs: &TagTable, origin: Origin) -> String {
    let origin = crate::csv::slug(&origin);
    let tag = text(&costs.tag);
    let mut out = "day,origin,tag,value,cost_usd\r\n".to_owned();
    for row in &costs.rows {
        let value = row.value.as_deref().map_or_else(String::new, text);
        for (day, usd) in &row.by_day {
            let (day, usd) = (text(day), usd.to_decimal());
            out.push_str(&format!("{day},{origin},{tag},{value},{usd}\r\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebb_telemetry::money::Usd;

    use super::*;

    fn row(value: Option<&str>, dollars: i64) -> TagRow {
        let cost = Usd::from_micros(dollars * 1_000_000);
        TagRow {
            value: value.map(str::to_owned),
            cost,
            by_day: BTreeMap::from([("2026-11-01".to_owned(), cost)]),
        }
    }

    #[test]
    fn the_bill_by_tag_is_a_table_that_adds_up() {
        let mut costs = TagTable {
            tag: "team".to_owned(),
            month: None,
            from: Some("2026-11-01".to_owned()),
            to: Some("2026-11-01".to_owned()),
            total: Usd::from_micros(10_000_000),
            rows: vec![row(Some("=gen,omics"), 7), row(None, 3)],
        };
        let shown = table(&costs, (Origin::Simulated, &[], &[]), None);
        insta::assert_snapshot!(shown, @r"
        SIMULATED: at least a part of this input was generated, not measured.

        Bill by the tag team, 2026-11-01 to 2026-11-01 (UTC): $10.00

        VALUE         COST    SHARE
        =gen,omics   $7.00   70.0 %
        (no tag)     $3.00   30.0 %
        total       $10.00  100.0 %

        The tags are those of the bill. Days without a bill are left out.
        ");
        insta::assert_snapshot!(csv(&costs, Origin::Measured), @r#"
        day,origin,tag,value,cost_usd
        2026-11-01,measured,team,"'=gen,omics",7.00
        2026-11-01,measured,team,,3.00
        "#);
        costs.rows = (0..40).map(|n| row(Some(&format!("t{n}")), 1)).collect();
        let shown = table(&costs, (Origin::Measured, &[], &[]), None);
        assert!(shown.contains("10 more values  $10.00"), "{shown}");
    }
}
