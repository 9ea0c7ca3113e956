//! Single tasks as rows.

use std::sync::Arc;

use axum::response::Response;
use ebb_cloud::documents::run_tasks::RunTasks;
use ebb_model::report::run_opening::RunOpening;
use ebb_model::report::task_brief::{BriefList, TaskBrief};
use ebb_model::report::task_detail::TaskList;
use ebb_model::report::workflow_runs::UNASSIGNED;
use ebb_telemetry::step::StepEnd;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::extract::Moment;
use crate::pages::csv_table;
use crate::pages::pager::{Link, Pager};
use crate::pages::value_text::{bytes, cores, name, seconds, seconds_between};
use crate::problem::Problem;
use crate::store::Store;

/// A probe sends each minute, so a running task of a working node is never this long without news.
pub(crate) const NO_NEWS: SignedDuration = SignedDuration::from_hours(1);

/// A task of a stuck job that was without progress for this long is stalled.
const NO_PROGRESS: SignedDuration = SignedDuration::from_mins(10);

/// The tasks of a run; `None` if the sweep wrote no list.
pub(crate) async fn of_run(
    store: &Store,
    run: &str,
    moment: Moment,
) -> Result<Option<Arc<RunTasks>>, Problem> {
    store.run_tasks(run, moment.now).await
}

type Briefs = Result<Option<BriefList>, Problem>;

/// The tasks on a node; `None` if the sweep wrote no list.
pub(crate) async fn of_node(store: &Store, node: &str, moment: Moment) -> Briefs {
    Ok(brief(store.node_tasks(node, moment.now).await?))
}

/// The tasks of a step; `None` if the sweep wrote no list.
pub(crate) async fn of_step(store: &Store, step: &str, moment: Moment) -> Briefs {
    Ok(brief(store.step_tasks(step, moment.now).await?))
}

fn brief(list: Option<Arc<TaskList>>) -> Option<BriefList> {
    list.map(|list| BriefList::from(&*list))
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// It ended without an error.
    Done,
    /// It ended; the exit status was not observed.
    Ended,
    /// It runs.
    Running,
    /// It ran when it was last observed, and there was no news for an hour: its node or probe is gone.
    Lost,
    /// It runs, and a finding reports that it makes no progress.
    Stalled,
    /// It failed.
    Failed,
}

impl Progress {
    /// All of them, in the order of their numbers in a timeline.
    pub(crate) const ALL: [Self; 6] = [
        Self::Done,
        Self::Ended,
        Self::Running,
        Self::Lost,
        Self::Stalled,
        Self::Failed,
    ];

    /// The state of a task at the time of a report.
    pub(crate) fn from_task(task: &TaskBrief, at: Timestamp) -> Self {
        match task.end {
            StepEnd::Running if at.duration_since(task.observed_at) > NO_NEWS => Self::Lost,
            StepEnd::Running if is_stalled(task) => Self::Stalled,
            StepEnd::Running => Self::Running,
            StepEnd::Unknown => Self::Ended,
            end if end.is_bad() => Self::Failed,
            _ => Self::Done,
        }
    }

    /// The word on pages, which is also a class of the styles.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Ended => "ended",
            Self::Running => "running",
            Self::Lost => "lost",
            Self::Stalled => "stalled",
            Self::Failed => "failed",
        }
    }
}

/// Whether a finding reports that a running task makes no progress. A stuck job may also be one that
/// lost its agent, while its task makes progress.
fn is_stalled(task: &TaskBrief) -> bool {
    let quiet = task.observed_at.duration_since(task.last_progress_at);
    task.has_stalled_step || (task.has_stuck_job && quiet >= NO_PROGRESS)
}

/// One task as a row.
#[derive(Debug, Serialize)]
pub(crate) struct TaskRow {
    id: String,
    pub(crate) step: String,
    name: String,
    sample: Option<String>,
    attempt: Option<u32>,
    run: String,
    pub(crate) node: String,
    state: &'static str,
    end: String,
    started: String,
    queued: Option<String>,
    took: String,
    typical: Option<String>,
    cores: String,
    memory: String,
    cpu: String,
}

impl TaskRow {
    /// A task at the time of a report.
    pub(crate) fn from_task(task: &TaskBrief, at: Timestamp) -> Self {
        let of_request = |used: Option<String>, request: Option<String>| {
            let used = used.unwrap_or_else(|| "–".to_owned());
            match request {
                Some(request) => format!("{used} of {request}"),
                None => used,
            }
        };
        let memory = of_request(
            task.peak_memory_bytes.map(bytes),
            task.requested_memory_bytes.map(bytes),
        );
        let end = task.end.to_string();
        Self {
            id: task.id.to_string(),
            step: name(&task.step),
            name: name(&task.name),
            sample: task.sample.as_deref().or(wildcards(task)).map(name),
            attempt: task.attempt,
            run: task.run.as_deref().unwrap_or(UNASSIGNED).to_owned(),
            node: task.node.to_string(),
            state: Progress::from_task(task, at).word(),
            end,
            started: task.started_at.strftime("%-d %b %H:%M:%S").to_string(),
            queued: queued_seconds(task).map(seconds),
            took: seconds(task.took_seconds()),
            typical: task.typical_seconds.map(seconds),
            cores: of_request(task.peak_cores.map(cores), task.requested_cores.map(cores)),
            memory,
            cpu: seconds(task.cpu_seconds),
        }
    }
}

/// The text that distinguishes a task without a sample from the others of its step: the wildcards of a
/// rule, or the tag of a process in `STEP (TAG)`.
pub(crate) fn wildcards(task: &TaskBrief) -> Option<&str> {
    let tag = task.name.strip_prefix(task.step.as_str());
    let tag = tag.and_then(|rest| rest.strip_prefix(" (")?.strip_suffix(')'));
    tag.or_else(|| task.name.contains('=').then_some(task.name.as_str()))
}

/// The time in the queue; `None` for a task without a known submission.
pub(crate) fn queued_seconds(task: &TaskBrief) -> Option<f64> {
    let queued_at = task.queued_at?;
    Some(seconds_between(queued_at, task.started_at))
}

/// A page of tasks.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TaskTable {
    rows: Vec<TaskRow>,
    pager: Option<Pager>,
    /// Number of tasks that the list does not contain.
    left_out: usize,
    /// Whether the sweep wrote a list.
    is_known: bool,
}

impl TaskTable {
    /// The newest tasks first.
    pub(crate) fn from_list(
        list: Option<&BriefList>,
        at: Timestamp,
        (page, link): (Option<usize>, &Link),
    ) -> Self {
        let Some(list) = list else {
            return Self::default();
        };
        let (range, pager) = Pager::range(list.tasks.len(), ("page", page), link);
        let rows = list.tasks.iter().rev().skip(range.start).take(range.len());
        Self {
            rows: rows.map(|task| TaskRow::from_task(task, at)).collect(),
            pager: Some(pager),
            left_out: list.left_out,
            is_known: true,
        }
    }

    /// The first page of the tasks of a run.
    pub(crate) fn of_opening(opening: &RunOpening, at: Timestamp, link: &Link) -> Self {
        let (range, pager) = Pager::range(opening.tasks, ("page", None), link);
        let rows = opening.newest.iter().rev().take(range.len());
        Self {
            rows: rows.map(|task| TaskRow::from_task(task, at)).collect(),
            pager: Some(pager),
            left_out: opening.left_out,
            is_known: true,
        }
    }
}

/// The tasks at the time of a report as CSV, the newest first.
pub(crate) fn csv(list: Option<&BriefList>, at: Timestamp) -> Result<Response, Problem> {
    let columns = [
        "task",
        "step",
        "name",
        "sample",
        "attempt",
        "run",
        "node",
        "job",
        "state",
        "end",
        "queued_at",
        "started_at",
        "observed_at",
        "typical_seconds",
        "requested_cores",
        "peak_cores",
        "requested_memory_bytes",
        "peak_memory_bytes",
        "cpu_seconds",
    ];
    let tasks = list.map_or(&[][..], |list| &list.tasks);
    let rows = tasks.iter().rev().map(|task| {
        [
            Some(task.id.to_string()),
            Some(task.step.to_string()),
            Some(task.name.to_string()),
            task.sample.as_deref().map(str::to_owned),
            task.attempt.map(|attempt| attempt.to_string()),
            task.run.as_deref().map(str::to_owned),
            Some(task.node.to_string()),
            task.job.as_deref().map(str::to_owned),
            Some(Progress::from_task(task, at).word().to_owned()),
            Some(task.end.to_string()),
            task.queued_at.map(|at| at.to_string()),
            Some(task.started_at.to_string()),
            Some(task.observed_at.to_string()),
            task.typical_seconds.map(|seconds| seconds.to_string()),
            task.requested_cores.map(|cores| cores.to_string()),
            task.peak_cores.map(|cores| cores.to_string()),
            task.requested_memory_bytes.map(|bytes| bytes.to_string()),
            task.peak_memory_bytes.map(|bytes| bytes.to_string()),
            Some(task.cpu_seconds.to_string()),
        ]
    });
    csv_table::table(columns, rows)
}

/// The time of a task that is drawn: from its submission, or from its start without one.
pub(crate) fn begin(task: &TaskBrief) -> Timestamp {
    let queued_at = task.queued_at.unwrap_or(task.started_at);
    queued_at.min(task.started_at)
}
