//! The content of the first view of a large run: sums over its tasks, and its first and newest tasks.
//! A sweep stores it before the list of all tasks, which takes longer to read.

use std::collections::{BTreeMap, HashMap, HashSet};

use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepEnd;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::report::task_brief::{BriefList, TaskBrief};

/// Number of entries on the first page of a list.
pub const FIRST_ENTRIES: usize = 100;

/// The opening of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOpening {
    /// The sweep that wrote it.
    pub at: Timestamp,
    /// Simulated if at least one task is simulated.
    pub origin: Origin,
    /// Number of tasks that a limit left out.
    pub left_out: usize,
    /// Number of tasks.
    pub tasks: usize,
    /// Number of tasks by step.
    pub steps: BTreeMap<String, usize>,
    /// The time of all tasks by node and request.
    pub node_use: Vec<NodeUse>,
    /// The first [`FIRST_ENTRIES`] tasks by start.
    pub first: Vec<TaskBrief>,
    /// The next attempts of those tasks.
    pub retries: Vec<TaskBrief>,
    /// The last [`FIRST_ENTRIES`] tasks by start.
    pub newest: Vec<TaskBrief>,
    /// All tasks that ran when they were last observed.
    pub unfinished: Vec<TaskBrief>,
}

impl RunOpening {
    /// The opening of a run; `None` if its tasks are not in order of time, as the first entries of its
    /// log would not be those of its first tasks.
    pub fn from_list(list: &BriefList) -> Option<Self> {
        let tasks = &list.tasks;
        // A stalled task has an entry at the time of its last progress.
        let ends_after_start = |task: &TaskBrief| {
            let is_running = task.end == StepEnd::Running;
            task.observed_at >= task.started_at
                && (!is_running || task.last_progress_at >= task.started_at)
        };
        if !tasks.is_sorted_by_key(|task| task.started_at) || !tasks.iter().all(ends_after_start) {
            return None;
        }
        let first: Vec<TaskBrief> = tasks.iter().take(FIRST_ENTRIES).cloned().collect();
        let unfinished = tasks.iter().filter(|task| task.end == StepEnd::Running);
        let mut steps: HashMap<&str, usize> = HashMap::new();
        for task in tasks {
            *steps.entry(&task.step).or_default() += 1;
        }
        let steps = steps.into_iter();
        Some(Self {
            at: list.at,
            origin: list.origin,
            left_out: list.left_out,
            tasks: tasks.len(),
            steps: steps
                .map(|(step, tasks)| (step.to_owned(), tasks))
                .collect(),
            node_use: NodeUse::from_tasks(tasks),
            retries: retries(&first, tasks),
            newest: tasks[tasks.len().saturating_sub(FIRST_ENTRIES)..].to_vec(),
            unfinished: unfinished.cloned().collect(),
            first,
        })
    }
}

/// The next attempts of the first tasks. Of several with the same number, the last one counts.
fn retries(first: &[TaskBrief], tasks: &[TaskBrief]) -> Vec<TaskBrief> {
    let next = |task: &TaskBrief| task.attempt?.checked_add(1);
    let wanted: HashSet<_> = first
        .iter()
        .filter_map(|task| Some((task.work(), next(task)?)))
        .collect();
    let mut found = BTreeMap::new();
    for task in tasks {
        if let Some(attempt) = task.attempt
            && wanted.contains(&(task.work(), attempt))
        {
            found.insert((task.work(), attempt), task);
        }
    }
    found.into_values().cloned().collect()
}

/// The time of tasks with the same request on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "NodeUseRow", into = "NodeUseRow")]
pub struct NodeUse {
    /// The id of the node.
    pub node: SmolStr,
    /// The requested cores of each task.
    pub requested_cores: Option<f64>,
    /// The requested memory of each task.
    pub requested_memory_bytes: Option<u64>,
    /// The sum of [`TaskBrief::took_seconds`].
    pub seconds: f64,
    /// Number of tasks.
    pub tasks: usize,
}

/// The stored form, in the order of the fields.
type NodeUseRow = (SmolStr, Option<f64>, Option<u64>, f64, usize);

impl From<NodeUseRow> for NodeUse {
    fn from((node, requested_cores, requested_memory_bytes, seconds, tasks): NodeUseRow) -> Self {
        Self {
            node,
            requested_cores,
            requested_memory_bytes,
            seconds,
            tasks,
        }
    }
}

impl From<NodeUse> for NodeUseRow {
    fn from(one: NodeUse) -> Self {
        let NodeUse {
            node,
            requested_cores,
            requested_memory_bytes,
            seconds,
            tasks,
        } = one;
        (
            node,
            requested_cores,
            requested_memory_bytes,
            seconds,
            tasks,
        )
    }
}

impl NodeUse {
    /// The use of all nodes by these tasks, in the order of the first task of each.
    pub fn from_tasks(tasks: &[TaskBrief]) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut positions = HashMap::new();
        for task in tasks {
            let cores = task.requested_cores.map(f64::to_bits);
            let key = (task.node.as_str(), cores, task.requested_memory_bytes);
            let next = found.len();
            let at = *positions.entry(key).or_insert(next);
            if at == next {
                found.push(Self {
                    node: task.node.as_str().into(),
                    requested_cores: task.requested_cores,
                    requested_memory_bytes: task.requested_memory_bytes,
                    seconds: 0.0,
                    tasks: 0,
                });
            }
            let one = &mut found[at];
            one.seconds += task.took_seconds();
            one.tasks += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::identity::NodeId;

    use super::*;

    fn at(second: usize) -> Timestamp {
        let second = i64::try_from(second).expect("a small number");
        Timestamp::from_second(second).expect("a time")
    }

    /// The task `n` of a run: it takes ten seconds, and every task is tried twice.
    fn task(n: usize) -> TaskBrief {
        TaskBrief {
            id: format!("i-1/b/{n}").into(),
            step: format!("step-{}", n % 2).into(),
            name: "bwa".into(),
            run: Some("r".into()),
            sample: Some(format!("S{}", n / 2).into()),
            node: NodeId::new(format!("i-{}", n % 3)).expect("a node"),
            job: Some(format!("job-{}", n / 2).into()),
            attempt: Some(1 + u32::from(n % 2 == 1)),
            queued_at: None,
            started_at: at(n),
            observed_at: at(n + 10),
            last_progress_at: at(n + 10),
            end: StepEnd::Exited(0),
            typical_seconds: None,
            requested_cores: n.is_multiple_of(3).then_some(2.0),
            requested_memory_bytes: None,
            peak_cores: None,
            peak_memory_bytes: None,
            cpu_seconds: 1.0,
            has_stalled_step: false,
            has_stuck_job: false,
        }
    }

    fn list(tasks: usize) -> BriefList {
        BriefList {
            at: at(tasks),
            origin: Origin::Measured,
            tasks: (0..tasks).map(task).collect(),
            left_out: 3,
        }
    }

    #[test]
    fn an_opening_has_the_sums_and_the_ends_of_the_list() {
        let mut list = list(301);
        list.tasks[200].end = StepEnd::Running;
        let opening = RunOpening::from_list(&list).expect("an opening");
        assert_eq!((opening.tasks, opening.left_out), (301, 3));
        assert_eq!(opening.first, list.tasks[..100]);
        assert_eq!(opening.newest, list.tasks[201..]);
        assert_eq!(opening.unfinished, list.tasks[200..201]);
        let steps: Vec<(&str, usize)> = (opening.steps.iter())
            .map(|(step, tasks)| (step.as_str(), *tasks))
            .collect();
        assert_eq!(steps, [("step-0", 151), ("step-1", 150)]);
        // The second attempts of the first 100 tasks are among them.
        assert_eq!(opening.retries.len(), 50);
        let uses: Vec<_> = (opening.node_use.iter())
            .map(|one| {
                (
                    one.node.as_str(),
                    one.requested_cores,
                    one.seconds,
                    one.tasks,
                )
            })
            .collect();
        let expect = [
            ("i-0", Some(2.0), 1_010.0, 101),
            ("i-1", None, 1_000.0, 100),
            ("i-2", None, 1_000.0, 100),
        ];
        assert_eq!(uses, expect);
    }

    #[test]
    fn a_short_run_has_all_of_its_tasks_at_both_ends() {
        let three = list(3);
        let opening = RunOpening::from_list(&three).expect("an opening");
        assert_eq!(
            (&opening.first, &opening.newest),
            (&three.tasks, &three.tasks)
        );
        let none = RunOpening::from_list(&list(0)).expect("an opening");
        assert_eq!((none.tasks, none.first.len(), none.newest.len()), (0, 0, 0));
    }

    #[test]
    fn a_run_whose_tasks_are_not_in_order_of_time_has_no_opening() {
        let mut unsorted = list(3);
        unsorted.tasks.swap(0, 1);
        assert_eq!(RunOpening::from_list(&unsorted), None);
        let mut backwards = list(3);
        backwards.tasks[2].observed_at = at(1);
        assert_eq!(RunOpening::from_list(&backwards), None);
        let mut stalled = list(3);
        stalled.tasks[2].last_progress_at = at(1);
        assert!(RunOpening::from_list(&stalled).is_some());
        stalled.tasks[2].end = StepEnd::Running;
        assert_eq!(RunOpening::from_list(&stalled), None);
    }

    #[test]
    fn the_use_of_a_node_is_read_back_from_its_row() {
        let all = NodeUse::from_tasks(&list(5).tasks);
        let text = serde_json::to_string(&all).expect("JSON");
        assert!(text.starts_with("[[\"i-0\",2.0,null,20.0,2],"), "{text}");
        let read: Vec<NodeUse> = serde_json::from_str(&text).expect("rows");
        assert_eq!(read, all);
    }
}
