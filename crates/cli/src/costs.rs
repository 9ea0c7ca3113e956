//! `ebb costs`: the cost of machines by run, pipeline, step, user and cost centre, and the bill by a
//! tag.

mod month;

use anyhow::Result;
use ebb_model::report::Report;
use ebb_model::report::cost_table::CostDimensions;
use ebb_model::report::tag_table::{CostDivision, tag_table};
use ebb_report::cost_text::{self, CostReport};
use ebb_report::tag_text;
use ebb_report::zone::Zone;
use serde::Serialize;
use serde_json::json;

use self::month::{MonthDays, MonthPart};
use crate::args::{CostFormat, CostsArgs};
use crate::deployment;
use crate::output::{self, Outcome};
use crate::tune;

pub(crate) fn run(args: &CostsArgs, zone: &Zone) -> Result<Outcome> {
    let source = deployment::source(&args.of)?;
    let Some(mut report) = tune::report(&source)? else {
        return Ok(tune::needs_a_report("costs"));
    };
    let by = args.by.clone().unwrap_or_default();
    let part = args.month.as_ref().map(|month| MonthPart {
        month,
        through: args.through,
    });
    let of_tag = matches!(by, CostDivision::Tag(_)) && args.format != CostFormat::Focus;
    let days = match part {
        None => MonthDays::default(),
        Some(part) if of_tag => month::of_report(&mut report, part),
        Some(part) => month::with_lake(&mut report, part, &source),
    };
    let text = match (&by, args.format) {
        (_, CostFormat::Focus) => ebb_report::focus::focus_of_costs(&report, args.month.as_ref()),
        (CostDivision::Names(by), _) => by_names(args, (&report, &days), by, zone)?,
        (CostDivision::Tag(tag), _) => by_tag(args, (&report, &days), tag)?,
    };
    output::write(&text, None)?;
    // The table contains them, and JSON the gaps.
    let has_gaps = matches!(args.format, CostFormat::Csv | CostFormat::Focus);
    let gaps = cost_text::gap_lines(&report.bill_gaps());
    for line in gaps.iter().filter(|_| has_gaps) {
        eprintln!("ebb: {line}");
    }
    for line in days
        .notes
        .iter()
        .filter(|_| args.format != CostFormat::Table)
    {
        eprintln!("ebb: {line}");
    }
    Ok(Outcome::Done)
}

fn by_names(
    args: &CostsArgs,
    (report, days): (&Report, &MonthDays),
    by: &CostDimensions,
    zone: &Zone,
) -> Result<String> {
    let mut table = report.costs.table(by, args.month.as_ref())?;
    table.days_of_lake.clone_from(&days.of_lake);
    let bill_gaps = report.bill_gaps();
    let costs = CostReport {
        table: &table,
        at: report.at,
        origin: report.origin,
        bill_gaps: &bill_gaps,
        notes: &days.notes,
    };
    Ok(match args.format {
        CostFormat::Csv => cost_text::csv(&table, report.origin),
        CostFormat::Json => json_of("ebb.costs/1", report, &table),
        CostFormat::Table | CostFormat::Focus => {
            cost_text::table(costs, zone, output::terminal_style().columns)
        }
    })
}

fn json_of(schema: &str, report: &Report, table: &impl Serialize) -> String {
    output::json(&json!({
        "schema": schema,
        "at": report.at,
        "origin": report.origin,
        "costs": table,
        "bill_gaps": report.bill_gaps(),
    }))
}

fn by_tag(args: &CostsArgs, (report, days): (&Report, &MonthDays), tag: &str) -> Result<String> {
    let table = tag_table(&report.ledger, tag, args.month.as_ref())?;
    let bill_gaps = report.bill_gaps();
    Ok(match args.format {
        CostFormat::Csv => tag_text::csv(&table, report.origin),
        CostFormat::Json => json_of("ebb.costs_by_tag/1", report, &table),
        CostFormat::Table | CostFormat::Focus => {
            let about = (report.origin, bill_gaps.as_slice(), days.notes.as_slice());
            tag_text::table(&table, about, output::terminal_style().columns)
        }
    })
}
