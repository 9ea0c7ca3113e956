//! The written account of a run: starts, ends, failures and retries in order of time.

use std::collections::HashMap;

use ebb_model::report::Report;
use ebb_model::report::node_summary::NodeSummary;
use ebb_model::report::run_opening::RunOpening;
use ebb_model::report::task_brief::{BriefList, TaskBrief, WorkKey};
use ebb_telemetry::step::StepEnd;
use jiff::Timestamp;
use serde::Serialize;

use crate::pages::pager::{Link, Pager};
use crate::pages::tasks::{Progress, queued_seconds, wildcards};
use crate::pages::value_text::{bytes, clock, name, seconds};
use crate::problem::Problem;

/// Which lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogPart {
    All,
    /// Failures, tasks without progress, and tasks without news.
    Problems,
}

impl LogPart {
    /// # Errors
    /// If there is no such part.
    pub(crate) fn parse(show: Option<&str>) -> Result<Self, Problem> {
        match show {
            None | Some("") => Ok(Self::All),
            Some("problems") => Ok(Self::Problems),
            Some(_) => Err(Problem::Query("show is problems.".to_owned())),
        }
    }
}

/// A page of the account.
#[derive(Debug, Serialize)]
pub(crate) struct RunLog {
    lines: Vec<LogLine>,
    pager: Pager,
}

/// One line.
#[derive(Debug, PartialEq, Serialize)]
struct LogLine {
    at: String,
    class: &'static str,
    text: String,
    task: String,
}

/// One event of one task, before it is text.
#[derive(Debug, Clone, Copy)]
struct Event<'a> {
    at: Timestamp,
    task: &'a TaskBrief,
    progress: Progress,
    is_start: bool,
}

/// Tasks by work and attempt.
type Attempts<'a> = HashMap<(WorkKey<'a>, u32), &'a TaskBrief>;

fn attempts(tasks: &[TaskBrief]) -> Attempts<'_> {
    let tasks = tasks.iter();
    tasks
        .filter_map(|task| Some(((task.work(), task.attempt?), task)))
        .collect()
}

/// The events of these tasks in order of time.
fn events(tasks: &[TaskBrief], at: Timestamp) -> Vec<Event<'_>> {
    let mut events: Vec<Event<'_>> = tasks.iter().flat_map(|task| of_task(task, at)).collect();
    events.sort_by_key(|event| event.at);
    events
}

impl RunLog {
    /// The page `number` of the account of these tasks.
    pub(crate) fn from_list(
        list: &BriefList,
        (part, report): (LogPart, &Report),
        (number, link): (Option<usize>, &Link),
    ) -> Self {
        let mut events = events(&list.tasks, report.at);
        if part == LogPart::Problems {
            events.retain(|event| !event.is_start && event.is_problem());
        }
        let first = list.tasks.first().map_or(list.at, |task| task.started_at);
        let (events, pager) = Pager::cut(events, ("log", number), link);
        let nodes = &report.nodes;
        Self::written(events, (&attempts(&list.tasks), nodes, first), pager)
    }

    /// The first page of the whole account. Each of its events is of one of the first tasks.
    pub(crate) fn of_opening(opening: &RunOpening, report: &Report, link: &Link) -> Self {
        let ended = opening.tasks.saturating_sub(opening.unfinished.len());
        let has_event =
            |task: &&TaskBrief| Progress::from_task(task, report.at) != Progress::Running;
        let ended = ended + opening.unfinished.iter().filter(has_event).count();
        let total = opening.tasks.saturating_add(ended);
        let (range, pager) = Pager::range(total, ("log", None), link);
        let mut events = events(&opening.first, report.at);
        events.truncate(range.len());
        let first = opening.first.first();
        let first = first.map_or(opening.at, |task| task.started_at);
        let context = (&attempts(&opening.retries), &*report.nodes, first);
        Self::written(events, context, pager)
    }

    fn written(
        events: Vec<Event<'_>>,
        (attempts, nodes, first): (&Attempts<'_>, &[NodeSummary], Timestamp),
        pager: Pager,
    ) -> Self {
        let line = |event: Event<'_>| LogLine {
            at: clock(event.at, first),
            class: event.class(),
            text: event.text((attempts, nodes), first),
            task: event.task.id.to_string(),
        };
        Self {
            lines: events.into_iter().map(line).collect(),
            pager,
        }
    }
}

fn of_task(task: &TaskBrief, at: Timestamp) -> impl Iterator<Item = Event<'_>> {
    let progress = Progress::from_task(task, at);
    let start = Event {
        at: task.started_at,
        task,
        progress,
        is_start: true,
    };
    let end = match progress {
        Progress::Running => None,
        Progress::Stalled => Some(task.last_progress_at),
        Progress::Done | Progress::Ended | Progress::Lost | Progress::Failed => {
            Some(task.observed_at)
        }
    };
    let end = end.map(|at| Event {
        at,
        is_start: false,
        ..start
    });
    [Some(start), end].into_iter().flatten()
}

impl Event<'_> {
    fn is_problem(&self) -> bool {
        matches!(
            self.progress,
            Progress::Failed | Progress::Stalled | Progress::Lost
        )
    }

    fn class(&self) -> &'static str {
        match self.is_start {
            true => "started",
            false => self.progress.word(),
        }
    }

    fn text(&self, (attempts, nodes): (&Attempts<'_>, &[NodeSummary]), first: Timestamp) -> String {
        let task = self.task;
        let mut who = name(&task.step);
        if let Some(sample) = &task.sample {
            who.push_str(&format!(" of sample {}", name(sample)));
        } else if let Some(wildcards) = wildcards(task) {
            who.push_str(&format!(" ({})", name(wildcards)));
        }
        if let Some(attempt) = task.attempt.filter(|attempt| *attempt > 1) {
            who.push_str(&format!(", attempt {attempt},"));
        }
        if self.is_start {
            let queued = queued_seconds(task).filter(|queued| *queued >= 1.0);
            let queued = queued.map(|queued| format!(" after {} in the queue", seconds(queued)));
            let node = name(task.node.as_str());
            return format!("{who} started on node {node}{}", queued.unwrap_or_default());
        }
        let took = seconds(task.took_seconds());
        let mut text = match self.progress {
            Progress::Lost => return format!("{who} was last observed; {}", why_lost(task, nodes)),
            Progress::Stalled => return format!("{who} makes no progress since this time"),
            Progress::Failed => format!("{who} failed after {took}: {}", cause(task)),
            Progress::Ended => format!("{who} ended after {took}; its exit status is unknown"),
            Progress::Done | Progress::Running => format!("{who} finished after {took}"),
        };
        if let Some(typical) = task.typical_seconds.filter(|_| !self.is_problem()) {
            text.push_str(&format!(" (typical: {})", seconds(typical)));
        }
        let next = task.attempt.and_then(|attempt| attempt.checked_add(1));
        let next = next.and_then(|next| Some((next, attempts.get(&(task.work(), next))?)));
        if let Some((attempt, next)) = next {
            let at = clock(next.started_at, first);
            text.push_str(&format!("; attempt {attempt} started {at}"));
        }
        text
    }
}

/// The known state of the node of a task without news.
fn why_lost(task: &TaskBrief, nodes: &[NodeSummary]) -> String {
    let id = task.node.as_str();
    let node = nodes.iter().find(|node| node.id == id);
    let shown = name(id);
    match node.and_then(|node| Some((node.market, node.state?))) {
        Some((Some(market), state)) => format!("node {shown} ({market}) is {state}"),
        Some((None, state)) => format!("node {shown} is {state}"),
        None => format!("the state of node {shown} is not known"),
    }
}

/// Why a task failed.
fn cause(task: &TaskBrief) -> String {
    match task.end {
        StepEnd::OutOfMemory => {
            let peak = task.peak_memory_bytes.map(bytes);
            let request = task.requested_memory_bytes.map(bytes);
            match (peak, request) {
                (Some(peak), Some(request)) => format!("OOM-killed at {peak} of {request}"),
                (Some(peak), None) => format!("OOM-killed at {peak}"),
                (None, _) => "OOM-killed".to_owned(),
            }
        }
        StepEnd::Exited(status) => format!("exit status {status}"),
        StepEnd::Signalled(signal) => format!("ended by signal {signal}"),
        StepEnd::Running | StepEnd::Unknown => "cause unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::inventory::instance::{InstanceState, Market};
    use ebb_report::testing;
    use jiff::SignedDuration;

    use super::*;
    use crate::pages::tasks::NO_NEWS;
    use crate::pages::tests::{node_summary, task_list};

    fn lines(list: &BriefList, part: LogPart) -> Vec<String> {
        let report = Report {
            at: list.at,
            ..testing::empty()
        };
        let log = RunLog::from_list(list, (part, &report), (None, &Link::new("/runs/r")));
        let lines = log.lines.iter();
        lines
            .map(|line| format!("{} {}", line.at, line.text))
            .collect()
    }

    #[test]
    fn a_run_reads_like_a_log() {
        let list = BriefList::from(&task_list());
        let killed = "08:40:00 align of sample S1 failed after 39 min: OOM-killed at 15.9 GiB of \
             16.0 GiB; attempt 2 started 08:41:00";
        let stalled = "09:10:00 sort makes no progress since this time";
        let all = [
            "08:01:00 align of sample S1 started on node i-0aaa after 60 s in the queue",
            killed,
            "08:41:00 align of sample S1, attempt 2, started on node i-0aaa",
            "09:00:00 sort started on node i-0bbb",
            stalled,
            "09:20:00 align of sample S1, attempt 2, finished after 39 min (typical: 30 min)",
        ];
        assert_eq!(lines(&list, LogPart::All), all);
        assert_eq!(lines(&list, LogPart::Problems), [killed, stalled]);
    }

    #[test]
    fn a_task_without_news_is_reported_with_the_state_of_its_node() {
        let list = BriefList::from(&task_list());
        let mut report = testing::empty();
        report.at = list.at + NO_NEWS + SignedDuration::from_secs(1);
        let last = |report: &Report| {
            let log =
                RunLog::from_list(&list, (LogPart::Problems, report), (None, &Link::new("/")));
            let line = log.lines.last().expect("a line");
            (line.class, format!("{} {}", line.at, line.text))
        };
        let text = "09:30:00 sort was last observed; the state of node i-0bbb is not known";
        assert_eq!(last(&report), ("lost", text.to_owned()));
        report.nodes = vec![NodeSummary {
            market: Some(Market::Spot),
            state: Some(InstanceState::Terminated),
            ..node_summary("i-0bbb")
        }];
        let text = "09:30:00 sort was last observed; node i-0bbb (spot) is terminated";
        assert_eq!(last(&report), ("lost", text.to_owned()));
    }
}
