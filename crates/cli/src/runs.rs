//! `ebb runs`: the pipeline runs of the newest report.

use anyhow::Result;
use ebb_model::report::workflow_runs::Runs;
use ebb_report::run_table;
use ebb_report::zone::Zone;
use ebb_telemetry::safe_text;
use serde_json::json;

use crate::args::{RunsArgs, TableFormat};
use crate::output::{self, Outcome};
use crate::{deployment, tune};

pub(crate) fn run(args: &RunsArgs, zone: &Zone) -> Result<Outcome> {
    let Some(report) = tune::report(&deployment::source(&args.of)?)? else {
        return Ok(tune::needs_a_report("runs"));
    };
    let mut runs = report.runs;
    if let Some(pipeline) = &args.pipeline {
        let is_wanted = |name: Option<&str>| name == Some(pipeline.as_str());
        runs.runs.retain(|run| is_wanted(run.pipeline.as_deref()));
    }
    output::write(&written(&runs, args.format, zone)?, None)?;
    Ok(Outcome::Done)
}

fn written(runs: &Runs, format: TableFormat, zone: &Zone) -> Result<String> {
    Ok(match format {
        TableFormat::Table => run_table::runs(runs, zone),
        TableFormat::Csv => run_table::runs_csv(runs),
        TableFormat::Json => {
            let value = json!({
                "schema": "ebb.run_list/1",
                "runs": runs.runs,
                "left_out": runs.left_out,
            });
            safe_text::json(&format!("{value:#}\n")).into_owned()
        }
    })
}
