//! The list of runs.

use axum::response::Response;
use ebb_model::report::run_costs::RunCosts;
use ebb_model::report::workflow_runs::{UNASSIGNED, WorkflowRun};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::{Query, passes};
use crate::pages::csv_table;
use crate::pages::findings::{Choice, choices, is_in_any};
use crate::pages::pager::{Link, Pager, given};
use crate::pages::value_text::{When, name, seconds, seconds_between};
use crate::pages::view::{Sheet, View};
use crate::problem::Problem;

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunFilter {
    pipeline: Option<String>,
    q: Option<String>,
    page: Option<usize>,
    format: Option<String>,
}

/// One run as a row.
#[derive(Serialize)]
pub(crate) struct RunRow {
    pub(crate) run: String,
    pub(crate) name: String,
    is_unassigned: bool,
    pipeline: Option<String>,
    by: Option<String>,
    tasks: usize,
    running: usize,
    failed: usize,
    ended: usize,
    cpu: String,
    /// The cost as by run on the page of costs; `None` if the report allocates none.
    cost: Option<String>,
    from: When,
    to: When,
    took: String,
    samples: Vec<String>,
    samples_left_out: usize,
    simulated: bool,
}

impl RunRow {
    pub(crate) fn from_run(run: &WorkflowRun, costs: &RunCosts<'_>) -> Self {
        let cost = costs.cost_of(run).and_then(|one| one.cost_words(run));
        Self {
            run: run.run.clone(),
            name: name(&run.run),
            is_unassigned: run.run == UNASSIGNED,
            pipeline: run.pipeline.as_deref().map(name),
            by: run.by.map(|by| by.to_string()),
            tasks: run.steps,
            running: run.running,
            failed: run.failed,
            ended: run.steps.saturating_sub(run.running + run.failed),
            cpu: run.cpu.to_string(),
            cost,
            from: run.from.into(),
            to: run.to.into(),
            took: seconds(seconds_between(run.from, run.to)),
            samples: run.samples.iter().map(|sample| name(sample)).collect(),
            samples_left_out: run.samples_left_out,
            simulated: run.origin == Origin::Simulated,
        }
    }
}

#[derive(Serialize)]
struct RunList {
    headline: String,
    assigned: Option<String>,
    rows: Vec<RunRow>,
    pager: Pager,
    pipelines: Vec<Choice>,
    q: String,
    is_filtered: bool,
    left_out: usize,
}

/// Whether a text is in the names of a run.
pub(crate) fn contains(run: &WorkflowRun, text: &str) -> bool {
    let names = [Some(&run.run), run.pipeline.as_ref()];
    let names = names.into_iter().flatten().chain(&run.samples);
    is_in_any(text, names.map(String::as_str))
}

/// The list of runs.
pub(crate) async fn runs(Query(filter): Query<RunFilter>, view: View) -> Result<Response, Problem> {
    let runs = &view.report.runs;
    let is_wanted = |run: &&WorkflowRun| {
        passes(given(filter.pipeline.as_ref()), run.pipeline.as_deref())
            && given(filter.q.as_ref()).is_none_or(|text| contains(run, text))
    };
    let costs = RunCosts::new(&view.report.costs);
    let wanted: Vec<&WorkflowRun> = runs.runs.iter().filter(is_wanted).collect();
    if csv_table::is_wanted(filter.format.as_ref())? {
        return csv(&wanted, &costs);
    }
    let own = Link::new("/runs").with("pipeline", filter.pipeline.as_deref());
    let link = own.with("q", filter.q.as_deref());
    let headline = counted(wanted.len(), "run", "runs");
    let (rows, pager) = Pager::cut(wanted, ("page", filter.page), &link);
    let pipelines = runs.runs.iter().filter_map(|run| run.pipeline.as_deref());
    let content = RunList {
        headline,
        assigned: runs.joined_ppm().map(|ppm| format!("{} %", ppm / 10_000)),
        rows: rows
            .into_iter()
            .map(|run| RunRow::from_run(run, &costs))
            .collect(),
        pager,
        pipelines: choices(pipelines, given(filter.pipeline.as_ref())),
        is_filtered: link.to_string() != "/runs",
        q: filter.q.clone().unwrap_or_default(),
        left_out: runs.left_out,
    };
    let json = Link::new("/v1/runs").with("pipeline", filter.pipeline.as_deref());
    Ok(view.render(Sheet {
        template: "runs.html",
        title: "Runs".to_owned(),
        section: "runs",
        json: Some(json.to_string()),
        csv: Some(link.with("format", Some("csv")).to_string()),
        content,
    }))
}

fn csv(runs: &[&WorkflowRun], costs: &RunCosts<'_>) -> Result<Response, Problem> {
    let columns = [
        "run",
        "pipeline",
        "assigned_by",
        "tasks",
        "running",
        "failed",
        "cpu_seconds",
        "cost_usd",
        "from",
        "to",
    ];
    let cost = |run: &WorkflowRun| costs.cost_of(run)?.cost;
    let rows = runs.iter().map(|run| {
        [
            Some(run.run.clone()),
            run.pipeline.clone(),
            run.by.map(|by| by.to_string()),
            Some(run.steps.to_string()),
            Some(run.running.to_string()),
            Some(run.failed.to_string()),
            Some(format!("{:.3}", run.cpu.as_secs_f64())),
            cost(run).map(|usd| usd.to_rounded(6)),
            Some(run.from.to_string()),
            Some(run.to.to_string()),
        ]
    });
    csv_table::table(columns, rows)
}
