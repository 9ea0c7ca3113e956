//! The timeline of a run in columns, for the script that draws it. An answer has a limited number
//! of bars: above it, tasks of one lane that begin in the same interval become one bar.

use std::collections::HashMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use ebb_model::report::task_brief::{BriefList, TaskBrief};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::extract::{Moment, Name, Query, Shared};
use crate::pages::run::{RunPath, known};
use crate::pages::tasks::{Progress, begin};
use crate::pages::value_text::name;
use crate::pages::view::View;
use crate::problem::Problem;

/// Most bars of an answer.
const MAX_BARS: usize = 20_000;

/// Most lanes of all steps together, so that the picture has a bounded height.
const MAX_LANES: usize = 1_000;

/// Most lanes of one step.
const MAX_STEP_LANES: usize = 60;

/// Most intervals into which the time is divided when tasks are merged: two for each pixel.
const MAX_INTERVALS: u32 = 4_096;

/// The part of the time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimelinePart {
    /// Seconds after the begin of the run.
    from: Option<u32>,
    to: Option<u32>,
}

/// The bars of a run in columns. Times are seconds after `begin`.
#[derive(Debug, Serialize)]
pub(crate) struct Gantt {
    schema: &'static str,
    begin: Timestamp,
    /// The length of the run.
    seconds: u32,
    states: [&'static str; 6],
    steps: Vec<String>,
    /// Number of lanes of each step.
    lanes: Vec<u32>,
    /// The nodes of bars that stand for one task.
    nodes: Vec<String>,
    /// Number of tasks in the requested time.
    tasks: usize,
    /// Number of tasks that the list of the run does not contain.
    left_out: usize,
    /// Whether a bar may stand for several tasks.
    merged: bool,
    bars: Bars,
}

/// One value for each bar.
#[derive(Debug, Default, Serialize)]
struct Bars {
    queued: Vec<Option<u32>>,
    start: Vec<u32>,
    end: Vec<u32>,
    /// When the task is expected to end, by the typical duration of its step.
    expected: Vec<Option<u32>>,
    state: Vec<u8>,
    step: Vec<u32>,
    lane: Vec<u32>,
    node: Vec<u32>,
    /// The number of the task in the list, or of the first task of several.
    task: Vec<u32>,
    /// Number of tasks.
    count: Vec<u32>,
}

/// One task as a bar.
#[derive(Debug, Clone, Copy)]
struct Bar {
    queued: Option<u32>,
    start: u32,
    end: u32,
    expected: Option<u32>,
    state: u8,
    step: u32,
    lane: u32,
    node: u32,
    task: u32,
    count: u32,
}

/// The timeline of a run.
pub(crate) async fn timeline(
    Name(RunPath(run)): Name<RunPath>,
    Query(part): Query<TimelinePart>,
    State(store): Shared,
    moment: Moment,
    view: View,
) -> Result<Response, Problem> {
    let (_, list) = known((&store, &view), &run, moment).await?;
    let list = list.as_deref().map(|run| &run.list);
    let gantt = Gantt::from_list(list, view.report.at, (part.from, part.to));
    let version = format!(
        "{}-{:?}-{:?}",
        view.version.trim_matches('"'),
        part.from,
        part.to
    );
    let version: String = version
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    Ok(Answer::json(&gantt, &version)?.into_response())
}

impl Gantt {
    /// Without a list, there is no bar.
    fn from_list(
        list: Option<&BriefList>,
        at: Timestamp,
        (from, to): (Option<u32>, Option<u32>),
    ) -> Self {
        let tasks = list.map_or(&[][..], |list| &list.tasks);
        let start = tasks.iter().map(begin).min().unwrap_or_default();
        let all = Self::bars(tasks, (start, at));
        let seconds = all.bars.iter().map(|bar| bar.end).max().unwrap_or_default();
        let (from, to) = (from.unwrap_or(0), to.unwrap_or(seconds));
        let is_visible = |bar: &Bar| bar.end >= from && bar.queued.unwrap_or(bar.start) <= to;
        let visible: Vec<Bar> = all.bars.into_iter().filter(is_visible).collect();
        let tasks = visible.len();
        let merged = tasks > MAX_BARS;
        let mut bars = match merged {
            true => merge(visible, &all.lanes, (from, to.max(from))),
            false => visible,
        };
        let nodes = nodes_of(&mut bars, all.nodes);
        Self {
            schema: "ebb.timeline/1",
            begin: start,
            seconds,
            states: Progress::ALL.map(Progress::word),
            steps: all.steps,
            lanes: all.lanes,
            nodes,
            tasks,
            left_out: list.map_or(0, |list| list.left_out),
            merged,
            bars: bars.into_iter().collect(),
        }
    }

    /// A bar for each task. Tasks of a step that overlap have different lanes while there are some.
    fn bars(tasks: &[TaskBrief], (start, at): (Timestamp, Timestamp)) -> Layout {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut layout = Layout::default();
        let mut nodes: HashMap<&str, u32> = HashMap::new();
        for task in tasks {
            let next = number(layout.steps.len());
            numbers.entry(&task.step).or_insert_with(|| {
                layout.steps.push(name(&task.step));
                next
            });
            nodes.entry(task.node.as_str()).or_default();
        }
        let mut names: Vec<&str> = nodes.keys().copied().collect();
        names.sort_unstable();
        for (n, node) in names.into_iter().enumerate() {
            nodes.insert(node, number(n));
            layout.nodes.push(name(node));
        }
        let most = (MAX_LANES / layout.steps.len().max(1)).clamp(1, MAX_STEP_LANES);
        let mut free: Vec<Vec<u32>> = vec![Vec::new(); layout.steps.len()];
        let since = |at: Timestamp| {
            let seconds = at.duration_since(start).as_secs().max(0);
            u32::try_from(seconds).unwrap_or(u32::MAX)
        };
        for (n, task) in tasks.iter().enumerate() {
            let step = numbers.get(task.step.as_str()).copied().unwrap_or_default();
            let (begins, ends) = (since(begin(task)), since(task.observed_at));
            let lanes = &mut free[step as usize];
            let lane = lane_for(lanes, (begins, ends), most);
            let expected = task.typical_seconds.filter(|typical| *typical >= 0.0);
            let progress = Progress::from_task(task, at);
            let state = Progress::ALL.iter().position(|one| *one == progress);
            layout.bars.push(Bar {
                queued: task.queued_at.map(|_| begins),
                start: since(task.started_at),
                end: ends,
                // `as` saturates.
                expected: expected
                    .map(|typical| since(task.started_at).saturating_add(typical as u32)),
                state: state.unwrap_or_default() as u8,
                step,
                lane: number(lane),
                node: nodes.get(task.node.as_str()).copied().unwrap_or_default(),
                task: number(n),
                count: 1,
            });
        }
        layout.lanes = free.iter().map(|lanes| number(lanes.len())).collect();
        layout
    }
}

/// The bars with the names that they refer to.
#[derive(Default)]
struct Layout {
    steps: Vec<String>,
    lanes: Vec<u32>,
    nodes: Vec<String>,
    bars: Vec<Bar>,
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The first lane that is free at the begin, a new lane, or the lane that is free next. `lanes`
/// holds the end of the last task of each lane.
fn lane_for(lanes: &mut Vec<u32>, (begins, ends): (u32, u32), most: usize) -> usize {
    let free = lanes.iter().position(|end| *end <= begins);
    let lane = free.unwrap_or_else(|| {
        if lanes.len() < most {
            lanes.push(0);
            return lanes.len() - 1;
        }
        let next = lanes.iter().enumerate().min_by_key(|(_, end)| **end);
        next.map_or(0, |(lane, _)| lane)
    });
    lanes[lane] = lanes[lane].max(ends);
    lane
}

/// Merges the bars of a lane that begin in the same interval. The number of intervals is halved
/// until there are few enough bars; the lanes are fewer than the bars of an answer.
fn merge(mut bars: Vec<Bar>, lanes: &[u32], (from, to): (u32, u32)) -> Vec<Bar> {
    // A list of tasks is in this order already.
    bars.sort_by_key(|bar| bar.start);
    let rows = Rows::from_lanes(lanes);
    let mut intervals = MAX_INTERVALS;
    loop {
        let length = ((to - from) / intervals).max(1);
        let interval = |bar: &Bar| bar.start.saturating_sub(from) / length;
        let mut last = vec![None; rows.count];
        let mut count = 0;
        for bar in &bars {
            let before = last[rows.row(bar)].replace(interval(bar));
            count += usize::from(before != Some(interval(bar)));
        }
        if count <= MAX_BARS || intervals == 1 {
            return merge_by(&bars, &rows, interval);
        }
        intervals /= 2;
    }
}

/// Bars in order of their start.
fn merge_by(bars: &[Bar], rows: &Rows, interval: impl Fn(&Bar) -> u32) -> Vec<Bar> {
    let mut merged: Vec<Bar> = Vec::new();
    // The interval and the position of the last bar of each row.
    let mut last: Vec<Option<(u32, usize)>> = vec![None; rows.count];
    for bar in bars {
        let (row, interval) = (rows.row(bar), interval(bar));
        match last[row] {
            Some((before, at)) if before == interval => merged[at].add(bar),
            _ => {
                last[row] = Some((interval, merged.len()));
                merged.push(*bar);
            }
        }
    }
    merged
}

/// The rows of a picture: the lanes of all steps.
struct Rows {
    /// The first row of each step.
    first: Vec<usize>,
    count: usize,
}

impl Rows {
    fn from_lanes(lanes: &[u32]) -> Self {
        let mut count = 0;
        let first = lanes.iter().map(|lanes| {
            let first = count;
            count += *lanes as usize;
            first
        });
        Self {
            first: first.collect(),
            count,
        }
    }

    fn row(&self, bar: &Bar) -> usize {
        self.first[bar.step as usize] + bar.lane as usize
    }
}

impl Bar {
    /// Extends the bar to one that begins later.
    fn add(&mut self, other: &Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        // A failure must stay visible.
        self.state = self.state.max(other.state);
        self.count += 1;
        (self.queued, self.expected) = (None, None);
    }
}

/// The nodes of bars that stand for one task, and their new numbers. The node of several tasks is not
/// shown.
fn nodes_of(bars: &mut [Bar], all: Vec<String>) -> Vec<String> {
    let mut numbers: Vec<Option<u32>> = vec![None; all.len()];
    for bar in bars.iter().filter(|bar| bar.count == 1) {
        if let Some(number) = numbers.get_mut(bar.node as usize) {
            *number = Some(0);
        }
    }
    let mut nodes = Vec::new();
    for (number, node) in numbers.iter_mut().zip(all) {
        if let Some(number) = number {
            *number = self::number(nodes.len());
            nodes.push(node);
        }
    }
    for bar in bars {
        let number = numbers.get(bar.node as usize).copied().flatten();
        bar.node = number.unwrap_or_default();
    }
    nodes
}

impl FromIterator<Bar> for Bars {
    fn from_iter<T: IntoIterator<Item = Bar>>(bars: T) -> Self {
        let mut all = Self::default();
        for bar in bars {
            all.queued.push(bar.queued);
            all.start.push(bar.start);
            all.end.push(bar.end);
            all.expected.push(bar.expected);
            all.state.push(bar.state);
            all.step.push(bar.step);
            all.lane.push(bar.lane);
            all.node.push(bar.node);
            all.task.push(bar.task);
            all.count.push(bar.count);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::tests::{many_tasks, task_list};

    #[test]
    fn each_task_is_a_bar_and_overlapping_tasks_have_lanes() {
        let list = BriefList::from(&task_list());
        let gantt = Gantt::from_list(Some(&list), list.at, (None, None));
        assert_eq!((gantt.tasks, gantt.merged), (list.tasks.len(), false));
        assert_eq!(gantt.steps, ["align", "sort"]);
        assert_eq!(gantt.nodes, ["i-0aaa", "i-0bbb"]);
        assert_eq!(gantt.bars.node, [0, 0, 1]);
        // Only the last task is in this part.
        let part = Gantt::from_list(Some(&list), list.at, (Some(5_000), None));
        assert_eq!(
            (part.nodes, part.bars.node),
            (vec!["i-0bbb".to_owned()], vec![0])
        );
        assert_eq!(gantt.bars.queued[0], Some(0));
        assert_eq!(gantt.bars.start[0], 60);
        let failed = gantt.states[usize::from(gantt.bars.state[0])];
        assert_eq!(failed, "failed");
        let two = BriefList::from(&many_tasks(2));
        let gantt = Gantt::from_list(Some(&two), two.at, (None, None));
        assert_eq!(gantt.bars.lane, [0, 1]);
    }

    #[test]
    fn many_tasks_are_few_bars_and_none_is_lost() {
        let list = BriefList::from(&many_tasks(100_000));
        let gantt = Gantt::from_list(Some(&list), list.at, (None, None));
        let count: u32 = gantt.bars.count.iter().sum();
        assert!(gantt.merged && gantt.bars.start.len() <= MAX_BARS);
        assert_eq!((gantt.tasks, count), (100_000, 100_000));
        let failed = u8::try_from(Progress::ALL.len() - 1).expect("few states");
        assert!(gantt.bars.state.contains(&failed));
        let is_single = |(count, node): (&u32, &u32)| {
            *count > 1
                || gantt
                    .nodes
                    .get(*node as usize)
                    .is_some_and(|node| node == "i-0aaa")
        };
        assert!(gantt.bars.count.iter().zip(&gantt.bars.node).all(is_single));
        let size = serde_json::to_string(&gantt).expect("JSON").len();
        assert!(size < 1_500_000, "{size} bytes");
        let part = Gantt::from_list(Some(&list), list.at, (Some(0), Some(30)));
        assert!(part.tasks < 100_000 && !part.bars.start.is_empty());
        let none = Gantt::from_list(None, list.at, (None, None));
        assert_eq!((none.tasks, none.left_out), (0, 0));
    }
}
