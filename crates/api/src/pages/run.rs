//! One run: the timeline of its tasks, one selected task, a written account and its steps.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use ebb_catalog::catalog::Catalogue;
use ebb_cloud::documents::run_tasks::RunTasks;
use ebb_model::report::run_costs::RunCosts;
use ebb_model::report::run_opening::{NodeUse, RunOpening};
use ebb_model::report::task_brief::{BriefList, TaskBrief};
use ebb_model::report::task_detail::{TaskDetail, ToolDetail};
use ebb_model::report::workflow_runs::WorkflowRun;
use ebb_report::step_advice;
use ebb_telemetry::safe_text::one_line;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::{Moment, Name, Query, Shared};
use crate::pages::csv_table;
use crate::pages::findings::FindingRow;
use crate::pages::pager::Link;
use crate::pages::run_cost::RunCost;
use crate::pages::run_log::{LogPart, RunLog};
use crate::pages::runs::RunRow;
use crate::pages::steps::StepRow;
use crate::pages::tasks;
use crate::pages::tasks::{TaskRow, TaskTable};
use crate::pages::value_text::{bytes, name, seconds};
use crate::pages::view::{Sheet, View, segment};
use crate::problem::Problem;
use crate::store::Store;

/// Most steps of a run with advice.
const MAX_STEPS: usize = 50;

/// Most tasks as CSV: a task takes about 250 bytes.
const MAX_CSV_TASKS: usize = 15_000;

/// Most executables of a task.
const MAX_TOOLS: usize = 30;

/// The name of a run.
#[derive(Deserialize)]
pub(crate) struct RunPath(pub(crate) String);

/// The selected task, and the parts of the lists.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunPart {
    /// The id of a task, or its number in the list.
    task: Option<String>,
    page: Option<usize>,
    log: Option<usize>,
    /// `problems` leaves out starts and successful ends.
    show: Option<String>,
    format: Option<String>,
}

#[derive(Serialize)]
struct RunPage {
    run: String,
    name: String,
    summary: Option<RunRow>,
    /// `None` without a list of tasks.
    cost: Option<RunCost>,
    /// Whether there is a timeline.
    has_timeline: bool,
    timeline: String,
    task: Option<TaskPage>,
    is_task_unknown: bool,
    log: Option<RunLog>,
    show: LogPart,
    steps: Vec<StepRow>,
    tasks: TaskTable,
}

/// The selected task.
#[derive(Serialize)]
struct TaskPage {
    /// Its number in the list of the run, as in the timeline.
    number: usize,
    row: TaskRow,
    usage: String,
    has_points: bool,
    facts: Vec<(&'static str, String)>,
    states: Vec<(String, String)>,
    tools: Vec<ToolRow>,
    findings: Vec<FindingRow>,
}

/// One executable.
#[derive(Serialize)]
struct ToolRow {
    name: String,
    processes: u64,
    cpu: String,
    memory: Option<String>,
    disk: Option<String>,
    began: Option<String>,
    ended: Option<String>,
    /// `None` if ends of processes are unknown.
    failed: Option<u64>,
    oom_kills: Option<u64>,
}

/// The parts of the page that come from the tasks of the run.
struct RunParts {
    /// Number of tasks.
    count: usize,
    cost: Option<RunCost>,
    log: Option<RunLog>,
    steps: Vec<StepRow>,
    tasks: TaskTable,
}

/// The input of the parts next to the tasks.
struct RunContext<'a> {
    run: &'a str,
    part: &'a RunPart,
    show: LogPart,
    /// The address of the page with its task and `show`.
    link: Link,
    view: &'a View,
    catalogue: Arc<Catalogue>,
}

impl RunPart {
    /// Whether it is the page without a selected task and a later part of a list.
    fn is_first_view(&self) -> bool {
        let Self {
            task,
            page,
            log,
            show,
            format,
        } = self;
        (page, log) == (&None, &None) && [task, show, format].into_iter().all(Option::is_none)
    }
}

impl RunParts {
    /// The parts of the first view.
    fn of_opening(opening: &RunOpening, of: &RunContext<'_>) -> Self {
        let report = &of.view.report;
        let node_use = || Cow::Borrowed(&*opening.node_use);
        let steps = opening.steps.iter();
        Self {
            count: opening.tasks,
            cost: Some(RunCost::new((of.run, node_use), report, &of.catalogue)),
            log: Some(RunLog::of_opening(opening, report, &of.link)),
            steps: steps_by_count(
                steps.map(|(step, tasks)| (step.as_str(), *tasks)).collect(),
                of.view,
            ),
            tasks: TaskTable::of_opening(opening, report.at, &of.link),
        }
    }

    /// The parts of any view; without a list, all of them are unknown.
    fn of_list(list: Option<&BriefList>, of: &RunContext<'_>) -> Self {
        let report = &of.view.report;
        let tasks = list.map_or(&[][..], |list| &list.tasks);
        let node_use = || Cow::Owned(NodeUse::from_tasks(tasks));
        let cost = list.map(|_| RunCost::new((of.run, node_use), report, &of.catalogue));
        let mut steps: HashMap<&str, usize> = HashMap::new();
        for task in tasks {
            *steps.entry(&task.step).or_default() += 1;
        }
        Self {
            count: tasks.len(),
            cost,
            log: list
                .map(|list| RunLog::from_list(list, (of.show, report), (of.part.log, &of.link))),
            steps: steps_by_count(steps, of.view),
            tasks: TaskTable::from_list(list, report.at, (of.part.page, &of.link)),
        }
    }
}

/// The sums over a run; `None` if the report does not list it.
fn summary_of(view: &View, run: &str) -> Option<WorkflowRun> {
    let mut runs = view.report.runs.runs.iter();
    runs.find(|one| one.run == run).cloned()
}

/// The tasks of a run that the report or a list knows.
pub(crate) async fn known(
    (store, view): (&Store, &View),
    run: &str,
    moment: Moment,
) -> Result<(Option<WorkflowRun>, Option<Arc<RunTasks>>), Problem> {
    let summary = summary_of(view, run);
    let list = tasks::of_run(store, run, moment).await?;
    if summary.is_none() && list.is_none() {
        return Err(Problem::Target {
            what: "run",
            detail: format!("The newest report has no run '{run}'. /runs lists all runs."),
        });
    }
    Ok((summary, list))
}

/// One run.
pub(crate) async fn run(
    Name(RunPath(run)): Name<RunPath>,
    Query(part): Query<RunPart>,
    State(store): Shared,
    moment: Moment,
    view: View,
) -> Result<Response, Problem> {
    let show = LogPart::parse(part.show.as_deref())?;
    let is_csv = csv_table::is_wanted(part.format.as_ref())?;
    let link = Link::new(format!("/runs/{}", segment(&run)));
    let link = (link.with("task", part.task.as_deref())).with("show", part.show.as_deref());
    let of = RunContext {
        run: &run,
        part: &part,
        show,
        link,
        view: &view,
        catalogue: store.catalogue(moment.now).await,
    };
    if part.is_first_view()
        && let Some(opening) = store.run_opening(&run, moment.now).await?
    {
        let parts = RunParts::of_opening(&opening, &of);
        return Ok(page(&of, summary_of(&view, &run).as_ref(), (parts, None)));
    }
    let (summary, list) = known((&store, &view), &run, moment).await?;
    let list = list.as_deref();
    let briefs = list.map(|run| &run.list);
    if is_csv {
        return csv(briefs, view.report.at);
    }
    let tasks = briefs.map_or(&[][..], |list| &list.tasks);
    let task = part.task.as_deref();
    let selected = task.and_then(|task| position(tasks, task));
    let task = match (list, selected) {
        (Some(list), Some(at)) => {
            let whole = store.whole_tasks(list, &[at], moment.now).await?;
            let whole = whole.first();
            whole.map(|whole| TaskPage::new(&run, (at, whole), &view))
        }
        _ => None,
    };
    let parts = RunParts::of_list(briefs, &of);
    Ok(page(&of, summary.as_ref(), (parts, task)))
}

/// The page of a run with these parts and this selected task.
fn page(
    of: &RunContext<'_>,
    summary: Option<&WorkflowRun>,
    (parts, task): (RunParts, Option<TaskPage>),
) -> Response {
    let own = Link::new(format!("/runs/{}", segment(of.run)));
    let content = RunPage {
        run: of.run.to_owned(),
        name: name(of.run),
        cost: parts.cost,
        summary: summary.map(|run| RunRow::from_run(run, &RunCosts::new(&of.view.report.costs))),
        has_timeline: parts.count > 0,
        timeline: format!("{own}/timeline.json"),
        is_task_unknown: of.part.task.is_some() && task.is_none(),
        task,
        log: parts.log,
        show: of.show,
        steps: parts.steps,
        tasks: parts.tasks,
    };
    let has_csv = parts.count <= MAX_CSV_TASKS;
    of.view.render(Sheet {
        template: "run.html",
        title: format!("Run {}", content.name),
        section: "runs",
        json: Some(format!("/v1{own}")),
        csv: has_csv.then(|| own.with("format", Some("csv")).to_string()),
        content,
    })
}

/// The tasks as CSV.
fn csv(list: Option<&BriefList>, at: Timestamp) -> Result<Response, Problem> {
    match list {
        Some(list) if list.tasks.len() > MAX_CSV_TASKS => Err(Problem::Query(format!(
            "the run has more than {MAX_CSV_TASKS} tasks. `ebb runs RUN --format csv` writes all of \
             them."
        ))),
        _ => tasks::csv(list, at),
    }
}

/// The position of a task by its id, or by its number in the list.
pub(crate) fn position(tasks: &[TaskBrief], wanted: &str) -> Option<usize> {
    let by_id = tasks.iter().position(|task| task.id == wanted);
    by_id.or_else(|| wanted.parse().ok().filter(|number| *number < tasks.len()))
}

/// The steps with these numbers of tasks that have advice, the most frequent first.
fn steps_by_count(counts: HashMap<&str, usize>, view: &View) -> Vec<StepRow> {
    let advice = step_advice::steps(&view.report);
    let mut found: Vec<_> = advice
        .iter()
        .filter_map(|step| Some((*counts.get(step.step.as_str())?, step)))
        .collect();
    found.sort_by_key(|(count, _)| Reverse(*count));
    let found = found.into_iter().take(MAX_STEPS);
    found.map(|(_, step)| StepRow::from(step)).collect()
}

impl TaskPage {
    fn new(run: &str, (number, task): (usize, &TaskDetail), view: &View) -> Self {
        let by_id = view.findings_by_id();
        let findings = task.findings.iter();
        let findings = findings.filter_map(|id| by_id.get(id.as_str()));
        let tools = task.tools.iter().take(MAX_TOOLS);
        let usage = Link::new(format!("/runs/{}/usage.json", segment(run)));
        Self {
            number,
            row: TaskRow::from_task(&TaskBrief::from(task), view.report.at),
            usage: usage.with("task", Some(&task.id)).to_string(),
            has_points: task.points.len() > 1,
            facts: facts(task),
            states: (task.states.iter())
                .map(|(state, time)| (one_line(state), seconds(*time)))
                .collect(),
            tools: tools.map(ToolRow::from).collect(),
            findings: findings
                .map(|finding| FindingRow::from_finding(finding, &view.report))
                .collect(),
        }
    }
}

/// The known facts about a task.
fn facts(task: &TaskDetail) -> Vec<(&'static str, String)> {
    let sum = |words, amount: Option<u64>| Some((words, bytes(amount?)));
    let all = [
        task.job.as_deref().map(|job| ("Batch job", name(job))),
        Some(("Runtime", task.runtime.to_string())),
        task.user_id.map(|user| ("User id", user.to_string())),
        sum("Read from disks", task.disk_read_bytes),
        sum("Written to disks", task.disk_written_bytes),
        sum("Received", task.network_received_bytes),
        sum("Sent", task.network_sent_bytes),
        task.gpu_busy_seconds
            .map(|busy| ("GPU time", seconds(busy))),
    ];
    all.into_iter().flatten().collect()
}

impl From<&ToolDetail> for ToolRow {
    fn from(tool: &ToolDetail) -> Self {
        Self {
            name: name(&tool.name),
            processes: tool.processes,
            cpu: seconds(tool.cpu_seconds),
            memory: tool.peak_memory_bytes.map(bytes),
            disk: tool.disk_bytes.map(bytes),
            began: tool.started_after_seconds.map(seconds),
            ended: tool.ended_after_seconds.map(seconds),
            failed: tool.failed,
            oom_kills: tool.oom_kills,
        }
    }
}
