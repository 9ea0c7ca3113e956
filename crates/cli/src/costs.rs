//! `ebb costs`: the cost of machines by run, pipeline, step, user and cost centre.

use anyhow::Result;
use ebb_model::report::Report;
use ebb_report::cost_text::{self, CostReport};
use ebb_report::zone::Zone;
use serde_json::json;

use crate::args::{CostFormat, CostsArgs};
use crate::deployment;
use crate::output::{self, Outcome};
use crate::tune;

pub(crate) fn run(args: &CostsArgs, zone: &Zone) -> Result<Outcome> {
    let source = deployment::source(&args.of)?;
    let Some(report) = tune::report(&source)? else {
        return Ok(tune::needs_a_report("costs"));
    };
    output::write(&text(args, &report, zone)?, None)?;
    // The other formats contain them.
    if matches!(args.format, CostFormat::Csv | CostFormat::Focus) {
        for line in cost_text::gap_lines(&report.bill_gaps()) {
            eprintln!("ebb: {line}");
        }
    }
    Ok(Outcome::Done)
}

fn text(args: &CostsArgs, report: &Report, zone: &Zone) -> Result<String> {
    let by = args.by.clone().unwrap_or_default();
    let table = report.costs.table(&by, args.month.as_ref())?;
    let bill_gaps = report.bill_gaps();
    let costs = CostReport {
        table: &table,
        at: report.at,
        origin: report.origin,
        bill_gaps: &bill_gaps,
    };
    Ok(match args.format {
        CostFormat::Focus => ebb_report::focus::focus_of_costs(report, args.month.as_ref()),
        CostFormat::Table => cost_text::table(costs, zone, output::look().columns),
        CostFormat::Csv => cost_text::csv(&table, report.origin),
        CostFormat::Json => {
            let value = json!({
                "schema": "ebb.costs/1",
                "at": report.at,
                "origin": report.origin,
                "costs": table,
                "bill_gaps": bill_gaps,
            });
            output::json(&value)
        }
    })
}
