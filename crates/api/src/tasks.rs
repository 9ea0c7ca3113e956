//! Single tasks of a run, a step or a node.

use axum::extract::State;
use ebb_cloud::documents::run_tasks::RunTasks;
use ebb_model::report::run_costs::{AllocatedCost, RunCosts};
use ebb_model::report::task_brief::{BriefList, TaskBrief};
use ebb_model::report::task_detail::{TaskDetail, TaskList};
use ebb_model::report::workflow_runs::WorkflowRun;
use ebb_report::step_advice;
use ebb_telemetry::step::StepEnd;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Head, OfReport, Paged};
use crate::extract::{Moment, Name, Newest, Page, Query, Shared, passes};
use crate::problem::Problem;
use crate::store::Store;

/// Most parts of a run that one answer reads, so that a rare state does not read all of them.
const MAX_PARTS: usize = 10;

/// The progress of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskProgress {
    /// It runs.
    Running,
    /// It failed.
    Failed,
    /// It ended without a known failure.
    Done,
}

impl TaskProgress {
    fn from_end(end: StepEnd) -> Self {
        match end {
            StepEnd::Running => Self::Running,
            end if end.is_bad() => Self::Failed,
            _ => Self::Done,
        }
    }
}

/// Filters of tasks.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskQuery {
    #[serde(flatten)]
    page: Page,
    /// Only of this step
    step: Option<String>,
    /// Only tasks that run, failed, or ended without a known failure
    state: Option<TaskProgress>,
}

/// A page of single tasks, as the last sweep with news of them wrote them. A page of a large run may
/// have fewer entries than `limit` and a next page.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct TaskListPage {
    /// When they were written; `None` if no sweep wrote them, so that they are unknown.
    tasks_at: Option<Timestamp>,
    /// Number of older tasks that a limit left out.
    tasks_left_out: usize,
    #[serde(flatten)]
    page: Paged<TaskDetail>,
}

/// The position of a task in its list, and the task in brief.
type Position<'a> = (usize, &'a TaskBrief);

/// The tasks of a page by their positions.
fn cut<'a>(query: &TaskQuery, tasks: &'a [TaskBrief]) -> Result<Paged<Position<'a>>, Problem> {
    let wanted = tasks.iter().enumerate().filter(|(_, task)| {
        passes(query.step.as_ref(), Some(&task.step))
            && query
                .state
                .is_none_or(|state| state == TaskProgress::from_end(task.end))
    });
    Paged::cut(&query.page, wanted.collect(), cursor)
}

/// Slurm runs a requeued job again under its id.
fn cursor((_, task): &Position<'_>) -> String {
    format!("{} {}", task.id, task.started_at)
}

/// The number of the first entries that are in [`MAX_PARTS`] parts.
fn count_in_parts(run: &RunTasks, page: &[Position<'_>]) -> usize {
    let ends: Vec<usize> = run.parts().map(|part| part.positions.end).collect();
    let mut parts: Vec<usize> = Vec::new();
    let fits = |(at, _): &&Position<'_>| {
        let number = ends.partition_point(|end| end <= at);
        if parts.last() != Some(&number) {
            parts.push(number);
        }
        parts.len() <= MAX_PARTS
    };
    page.iter().take_while(fits).count()
}

impl TaskListPage {
    fn of_list(query: &TaskQuery, list: Option<&TaskList>) -> Result<Self, Problem> {
        let briefs = list.map(BriefList::from);
        let briefs = briefs.as_ref().map_or(&[][..], |list| &list.tasks);
        let page = cut(query, briefs)?;
        let whole = list.map_or(&[][..], |list| &list.tasks);
        let tasks = page.items().iter();
        let tasks = tasks.filter_map(|(at, _)| whole.get(*at).cloned());
        let tasks = tasks.collect();
        Ok(Self {
            tasks_at: list.map(|list| list.at),
            tasks_left_out: list.map_or(0, |list| list.left_out),
            page: page.with_items(tasks),
        })
    }

    async fn of_run(
        (query, store): (&TaskQuery, &Store),
        run: &RunTasks,
        moment: Moment,
    ) -> Result<Self, Problem> {
        let page = cut(query, &run.list.tasks)?;
        let count = count_in_parts(run, page.items());
        let page = page.shortened(count, cursor);
        let positions: Vec<usize> = page.items().iter().map(|(at, _)| *at).collect();
        let tasks = store.whole_tasks(run, &positions, moment.now).await?;
        Ok(Self {
            tasks_at: Some(run.list.at),
            tasks_left_out: run.list.left_out,
            page: page.with_items(tasks),
        })
    }
}

/// The version of an answer from the report and a list of tasks.
fn version(newest: &Newest, written_at: Option<Timestamp>) -> String {
    let of_report = newest.version.trim_matches('"');
    match written_at {
        Some(at) => format!("{of_report}-{}", at.as_second()),
        None => of_report.to_owned(),
    }
}

fn missing(what: &'static str, name: &str, plural: &str) -> Problem {
    Problem::Target {
        what,
        detail: format!(
            "The newest report and its tasks have no {what} '{name}'. /v1/{plural} lists all {plural}."
        ),
    }
}

/// The name of a run
#[derive(Deserialize, JsonSchema)]
pub(crate) struct RunParameter(#[schemars(length(min = 1))] String);

/// One run with its tasks.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct OneRunTasks<'a> {
    /// The name of the run.
    run: &'a str,
    /// Sums over its tasks; `None` if the report lists only newer runs.
    summary: Option<&'a WorkflowRun>,
    /// The same cost as in `/v1/costs?by=run`. A run that is not among the most expensive ones there has
    /// the sum of its parts. `None` if the report allocates no cost to the run.
    cost: Option<AllocatedCost>,
    #[serde(flatten)]
    tasks: TaskListPage,
}

/// One run with a page of its tasks, by start.
pub(crate) async fn run(
    Name(RunParameter(run)): Name<RunParameter>,
    Query(query): Query<TaskQuery>,
    State(store): Shared,
    moment: Moment,
    newest: Newest,
) -> Result<Answer<OfReport<'static, OneRunTasks<'static>>>, Problem> {
    let report = &newest.report;
    let mut runs = report.runs.runs.iter();
    let summary = runs.find(|one| one.run == run);
    let list = store.run_tasks(&run, moment.now).await?;
    if summary.is_none() && list.is_none() {
        return Err(missing("run", &run, "runs"));
    }
    let tasks = match &list {
        Some(list) => TaskListPage::of_run((&query, &store), list, moment).await?,
        None => TaskListPage::of_list(&query, None)?,
    };
    let costs = RunCosts::new(&report.costs);
    let part = OneRunTasks {
        run: &run,
        summary,
        cost: costs.of_name(&run, &report.runs),
        tasks,
    };
    answer("ebb.run/1", &newest, part, |part| part.tasks.tasks_at)
}

/// The name of a step
#[derive(Deserialize, JsonSchema)]
pub(crate) struct StepParameter(#[schemars(length(min = 1))] String);

/// The tasks of one step.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct StepTasks<'a> {
    /// The name of the step.
    step: &'a str,
    #[serde(flatten)]
    tasks: TaskListPage,
}

/// A page of the tasks of a step in all regions and accounts, by start.
pub(crate) async fn step(
    Name(StepParameter(step)): Name<StepParameter>,
    Query(query): Query<TaskQuery>,
    State(store): Shared,
    moment: Moment,
    newest: Newest,
) -> Result<Answer<OfReport<'static, StepTasks<'static>>>, Problem> {
    let list = store.step_tasks(&step, moment.now).await?;
    let is_listed = || {
        let steps = step_advice::steps(&newest.report);
        steps.iter().any(|one| one.step == step)
    };
    if list.is_none() && !is_listed() {
        return Err(missing("step", &step, "steps"));
    }
    let part = StepTasks {
        step: &step,
        tasks: TaskListPage::of_list(&query, list.as_deref())?,
    };
    answer("ebb.step_tasks/1", &newest, part, |part| {
        part.tasks.tasks_at
    })
}

/// The id of a node
#[derive(Deserialize, JsonSchema)]
pub(crate) struct NodeParameter(#[schemars(length(min = 1))] String);

/// The activity of one node.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct NodeActivity<'a> {
    /// The id of the node.
    node: &'a str,
    /// The begin of the first hour; `None` without hours.
    hours_from: Option<Timestamp>,
    /// The active share of each hour in percent, with `None` for an hour without observation. `None`
    /// if the report has no hours of the node.
    hours: Option<&'a [Option<u8>]>,
    #[serde(flatten)]
    tasks: TaskListPage,
}

/// The hours of a node with a page of its tasks, by start.
pub(crate) async fn node(
    Name(NodeParameter(node)): Name<NodeParameter>,
    Query(query): Query<TaskQuery>,
    State(store): Shared,
    moment: Moment,
    newest: Newest,
) -> Result<Answer<OfReport<'static, NodeActivity<'static>>>, Problem> {
    let report = &newest.report;
    let mut all_hours = report.timeline.nodes.iter();
    let hours = all_hours.find(|hours| hours.node.as_str() == node);
    let list = store.node_tasks(&node, moment.now).await?;
    let is_listed = || report.nodes.iter().any(|one| one.id == node);
    if list.is_none() && hours.is_none() && !is_listed() {
        return Err(missing("node", &node, "nodes"));
    }
    let part = NodeActivity {
        node: &node,
        hours_from: report.timeline.from.filter(|_| hours.is_some()),
        hours: hours.map(|hours| &*hours.hours),
        tasks: TaskListPage::of_list(&query, list.as_deref())?,
    };
    answer("ebb.node_activity/1", &newest, part, |part| {
        part.tasks.tasks_at
    })
}

fn answer<'a, T: Serialize>(
    schema: &'static str,
    newest: &'a Newest,
    part: T,
    written_at: impl Fn(&T) -> Option<Timestamp>,
) -> Result<Answer<OfReport<'a, T>>, Problem> {
    let head = Head::new(schema, &newest.report);
    let version = version(newest, written_at(&part));
    Answer::json(&OfReport { head, part }, &version)
}
