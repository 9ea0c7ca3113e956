//! Runs with the labels of their steps.

use ebb_model::report::run_costs::{PricedRun, RunCosts};
use ebb_model::report::workflow_runs::{JoinedBy, TaskLabels, WorkflowRun};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Head, OfReport, PageOfReport, Paged};
use crate::extract::{Newest, Page, Query, passes};
use crate::problem::Problem;

/// Filters of runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunQuery {
    #[serde(flatten)]
    page: Page,
    /// Only runs of this pipeline
    pipeline: Option<String>,
    /// Only runs whose tasks were assigned by this source
    by: Option<JoinedBy>,
}

/// One run with those of its steps that have tasks of a scheduler.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct OneRun<'a> {
    #[serde(flatten)]
    run: PricedRun<'a>,
    task_labels: Vec<&'a TaskLabels>,
}

impl<'a> OneRun<'a> {
    fn new(run: &'a WorkflowRun, costs: &RunCosts<'a>, task_labels: &'a [TaskLabels]) -> Self {
        let its = task_labels.iter().filter(|step| step.run == run.run);
        Self {
            task_labels: its.collect(),
            run: costs.priced(run),
        }
    }
}

/// Lists runs.
pub(crate) async fn runs(
    Query(query): Query<RunQuery>,
    newest: Newest,
) -> Result<Answer<PageOfReport<'static, OneRun<'static>>>, Problem> {
    let runs = &newest.report.runs;
    let wanted = runs.runs.iter().filter(|run| {
        passes(query.pipeline.as_ref(), run.pipeline.as_deref())
            && query.by.is_none_or(|by| run.by == Some(by))
    });
    let part = Paged::cut(&query.page, wanted.collect(), |run| run.run.clone())?;
    let costs = RunCosts::new(&newest.report.costs);
    let part = part.map(|run| OneRun::new(run, &costs, &runs.task_labels));
    let head = Head::new("ebb.runs/2", &newest.report);
    Answer::json(&OfReport { head, part }, &newest.version)
}
