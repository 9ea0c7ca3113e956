//! Single tasks as rows.

use std::sync::Arc;

use ebb_model::finding_kind::FindingKind;
use ebb_model::report::task_detail::{TaskDetail, TaskList};
use ebb_model::report::workflow_runs::UNASSIGNED;
use ebb_telemetry::step::StepEnd;
use jiff::Timestamp;
use serde::Serialize;

use crate::extract::Moment;
use crate::pages::pager::{Link, Pager};
use crate::pages::words::{bytes, cores, name, seconds, seconds_between};
use crate::problem::Problem;
use crate::store::Store;

type Tasks = Result<Option<Arc<TaskList>>, Problem>;

/// The tasks of a run; `None` if the sweep wrote no list.
pub(crate) async fn of_run(store: &Store, run: &str, moment: Moment) -> Tasks {
    store.run_tasks(run, moment.now).await
}

/// The tasks on a node; `None` if the sweep wrote no list.
pub(crate) async fn of_node(store: &Store, node: &str, moment: Moment) -> Tasks {
    store.node_tasks(node, moment.now).await
}

/// The tasks of a step; `None` if the sweep wrote no list.
pub(crate) async fn of_step(store: &Store, step: &str, moment: Moment) -> Tasks {
    store.step_tasks(step, moment.now).await
}

/// What a task does, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// It ended without an error.
    Done,
    /// It ended; the exit status was not observed.
    Ended,
    /// It runs.
    Running,
    /// It runs, and a finding reports that it makes no progress.
    Stalled,
    /// It failed.
    Failed,
}

impl Progress {
    /// All of them, in the order of their numbers in a timeline.
    pub(crate) const ALL: [Self; 5] = [
        Self::Done,
        Self::Ended,
        Self::Running,
        Self::Stalled,
        Self::Failed,
    ];

    pub(crate) fn of(task: &TaskDetail) -> Self {
        let stalled = format!("{}/", FindingKind::StalledStep.slug());
        match task.end {
            StepEnd::Running if task.findings.iter().any(|id| id.starts_with(&stalled)) => {
                Self::Stalled
            }
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
            Self::Stalled => "stalled",
            Self::Failed => "failed",
        }
    }
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
    pub(crate) fn of(task: &TaskDetail) -> Self {
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
            id: task.id.clone(),
            step: task.step.clone(),
            name: name(&task.name),
            sample: task.sample.as_deref().map(name),
            attempt: task.attempt,
            run: task.run.clone().unwrap_or_else(|| UNASSIGNED.to_owned()),
            node: task.node.to_string(),
            state: Progress::of(task).word(),
            end,
            started: task.started_at.strftime("%-d %b %H:%M:%S").to_string(),
            queued: queued_seconds(task).map(seconds),
            took: seconds(took_seconds(task)),
            typical: task.typical_seconds.map(seconds),
            cores: of_request(task.peak_cores.map(cores), task.requested_cores.map(cores)),
            memory,
            cpu: seconds(task.cpu_seconds),
        }
    }
}

/// The time in the queue; `None` for a task without a known submission.
pub(crate) fn queued_seconds(task: &TaskDetail) -> Option<f64> {
    let queued_at = task.queued_at?;
    Some(seconds_between(queued_at, task.started_at))
}

/// The time from its start to its end, or to its last observation.
pub(crate) fn took_seconds(task: &TaskDetail) -> f64 {
    seconds_between(task.started_at, task.observed_at)
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
    pub(crate) fn of(list: Option<&TaskList>, page: Option<usize>, link: &Link) -> Self {
        let Some(list) = list else {
            return Self::default();
        };
        let newest = list.tasks.iter().rev().collect();
        let (rows, pager) = Pager::cut(newest, ("page", page), link);
        Self {
            rows: rows.into_iter().map(TaskRow::of).collect(),
            pager: Some(pager),
            left_out: list.left_out,
            is_known: true,
        }
    }
}

/// The time of a task that is drawn: from its submission, or from its start without one.
pub(crate) fn begin(task: &TaskDetail) -> Timestamp {
    let queued_at = task.queued_at.unwrap_or(task.started_at);
    queued_at.min(task.started_at)
}
