//! `ebb runs`: the pipeline runs of the newest report, or the tasks of one run.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};
use ebb_model::report::Report;
use ebb_model::report::run_costs::RunCosts;
use ebb_model::report::task_detail::TaskList;
use ebb_report::run_table;
use ebb_report::zone::Zone;
use ebb_telemetry::safe_text::{counted, one_line};
use serde_json::json;

use crate::args::{RunsArgs, TableFormat};
use crate::deployment::{self, Source, StoredDetails, full_name, missing_run};
use crate::output::{self, Outcome};
use crate::tune;

pub(crate) fn run(args: &RunsArgs, zone: &Zone) -> Result<Outcome> {
    let source = deployment::source(&args.of)?;
    let columns = output::terminal_style().columns;
    let text = match &args.run {
        Some(run) => match tasks_of(&source, run)? {
            Some(list) => tasks_text(run, &list, (args.format, zone, columns)),
            None => return Ok(tune::needs_a_report("runs")),
        },
        None => match tune::report(&source)? {
            Some(report) => {
                let pipeline = args.pipeline.as_deref();
                runs_text(report, pipeline, (args.format, zone, columns))?
            }
            None => return Ok(tune::needs_a_report("runs")),
        },
    };
    output::write(&text, None)?;
    Ok(Outcome::Done)
}

/// The format, the time zone, and the columns of the terminal.
type RunForm<'a> = (TableFormat, &'a Zone, Option<usize>);

fn runs_text(
    report: Report,
    pipeline: Option<&str>,
    (format, zone, columns): RunForm<'_>,
) -> Result<String> {
    let (at, mut runs) = (report.at, report.runs);
    let costs = RunCosts::new(&report.costs);
    if let Some(pipeline) = pipeline {
        let known = runs.runs.iter().filter_map(|run| run.pipeline.clone());
        let known: BTreeSet<String> = known.collect();
        ensure!(
            known.contains(pipeline),
            unknown_pipeline(pipeline, &known, runs.left_out)
        );
        runs.runs
            .retain(|run| run.pipeline.as_deref() == Some(pipeline));
    }
    Ok(match format {
        TableFormat::Table => run_table::runs((&runs, &costs), (at, zone), columns),
        TableFormat::Csv => {
            note_left_out(runs.left_out, ("run", "runs"));
            run_table::runs_csv((&runs, &costs))
        }
        TableFormat::Json => output::json(&json!({
            "schema": "ebb.run_list/1",
            "runs": runs.runs.iter().map(|run| costs.priced(run)).collect::<Vec<_>>(),
            "left_out": runs.left_out,
        })),
    })
}

/// Number of named pipelines in an error.
const NAMED_PIPELINES: usize = 10;

fn unknown_pipeline(pipeline: &str, known: &BTreeSet<String>, left_out: usize) -> String {
    let named = known.iter().take(NAMED_PIPELINES);
    let named: Vec<String> = named.map(|name| one_line(name)).collect();
    let remedy = match named.is_empty() {
        true => "the report knows no pipeline".to_owned(),
        false => format!("pipelines with runs: {}", named.join(", ")),
    };
    let older = match left_out {
        0 => String::new(),
        more => format!(
            "; the report has no {}",
            counted(more, "older run", "older runs")
        ),
    };
    format!(
        "no run of pipeline '{}'\n  {remedy}{older}",
        one_line(pipeline)
    )
}

/// The tasks of a run; `None` without a source.
fn tasks_of(source: &Source<'_>, run: &str) -> Result<Option<TaskList>> {
    match source {
        Source::Missing => Ok(None),
        Source::File(_) => {
            let report = tune::report(source)?;
            let known = report.iter().flat_map(|report| &report.runs.runs);
            let known: Vec<&str> = known.map(|run| &*run.run).collect();
            let Some(run) = full_name(run, &known) else {
                return Err(missing_run(run, &known, StoredDetails::Unknown));
            };
            bail!(
                "a report contains no single tasks, so those of run '{}' are unknown\n  ask the \
                 deployment that wrote it: --bucket NAME, --lake URL or --api URL",
                one_line(run)
            );
        }
        Source::Demo => {
            let (report, details) = tune::of_demo(0)?;
            let known: Vec<&str> = report.runs.runs.iter().map(|run| &*run.run).collect();
            let group = full_name(run, &known).and_then(|run| details.tasks.runs.get(run));
            let list = group.map(|group| details.tasks.list(group));
            let missing = || missing_run(run, &known, StoredDetails::Unknown);
            list.ok_or_else(missing).map(Some)
        }
        Source::Deployment(target) => crate::runtime::runtime()?
            .block_on(async {
                let deployment = deployment::open(target).await?;
                deployment::run_tasks(&deployment, run).await
            })
            .map(Some),
    }
}

fn tasks_text(run: &str, list: &TaskList, (format, zone, columns): RunForm<'_>) -> String {
    match format {
        TableFormat::Table => run_table::tasks(list, zone, columns),
        TableFormat::Csv => {
            note_left_out(list.left_out, ("older task", "older tasks"));
            run_table::tasks_csv(list)
        }
        TableFormat::Json => output::json(&json!({
            "schema": "ebb.run_tasks/1",
            "run": run_table::run_of(list).unwrap_or(run),
            "at": list.at,
            "origin": list.origin,
            "tasks": list.tasks,
            "left_out": list.left_out,
        })),
    }
}

/// CSV has no place for a number of rows that a limit left out.
fn note_left_out(left_out: usize, (one, many): (&str, &str)) {
    if left_out > 0 {
        eprintln!("ebb: a limit left out {}", counted(left_out, one, many));
    }
}
