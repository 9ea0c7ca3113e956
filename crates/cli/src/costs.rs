//! `ebb costs`: the cost of machines by run, pipeline, step, user and cost centre.

use anyhow::Result;
use ebb_model::report::Report;
use ebb_model::visibility_gap::{BY_RESOURCE, Gap};
use ebb_report::cost_text::{self, CostReport};
use ebb_report::zone::Zone;
use ebb_telemetry::safe_text::one_line;
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
    for gap in bill_gaps(&report).take(MAX_GAPS) {
        eprintln!(
            "ebb: the bill is incomplete: {}: {}",
            one_line(&gap.scope),
            one_line(&gap.reason)
        );
    }
    Ok(Outcome::Done)
}

/// The most gaps of the bill that are printed.
const MAX_GAPS: usize = 5;

/// The missing data of the bill: of Cost Explorer or of an export.
fn bill_gaps(report: &Report) -> impl Iterator<Item = &Gap> {
    let is_of_bill = |scope: &str| {
        ["cost export", "ce:", BY_RESOURCE]
            .iter()
            .any(|part| scope.contains(part))
    };
    report.gaps.iter().filter(move |gap| is_of_bill(&gap.scope))
}

fn text(args: &CostsArgs, report: &Report, zone: &Zone) -> Result<String> {
    let by = args.by.clone().unwrap_or_default();
    let table = report.costs.table(&by, args.month.as_ref())?;
    let costs = CostReport {
        table: &table,
        at: report.at,
        origin: report.origin,
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
            });
            output::json(&value)
        }
    })
}
