//! All single tasks of a sweep, grouped by run, node and step.

use std::collections::{BTreeMap, BTreeSet};

use ebb_telemetry::origin::Origin;
use jiff::Timestamp;

use crate::report::Report;
use crate::report::task_detail::{TaskDetail, TaskList};

/// The tasks of a sweep. A task is in one run, one node and one step.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskGroups {
    /// The sweep.
    pub at: Timestamp,
    /// The tasks by start, then by id.
    pub tasks: Vec<TaskDetail>,
    /// By the name of the run.
    pub runs: BTreeMap<String, TaskGroup>,
    /// By the id of the node.
    pub nodes: BTreeMap<String, TaskGroup>,
    /// By the name of the step.
    pub steps: BTreeMap<String, TaskGroup>,
}

/// The tasks of one run, node or step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskGroup {
    /// Simulated if at least one task is simulated.
    pub origin: Origin,
    /// The positions of its tasks in [`TaskGroups::tasks`], ascending.
    pub tasks: Vec<usize>,
    /// Number of older tasks that a limit left out.
    pub left_out: usize,
}

impl TaskGroups {
    /// The tasks of a group.
    pub fn tasks_of<'a>(&'a self, group: &'a TaskGroup) -> impl Iterator<Item = &'a TaskDetail> {
        group.tasks.iter().filter_map(|at| self.tasks.get(*at))
    }

    /// The list of a group.
    pub fn list(&self, group: &TaskGroup) -> TaskList {
        TaskList {
            schema: TaskList::SCHEMA.to_owned(),
            at: self.at,
            origin: group.origin,
            tasks: self.tasks_of(group).cloned().collect(),
            left_out: group.left_out,
        }
    }

    /// Removes the ids of findings that are not in the report, such as those that a decision sets
    /// aside.
    pub fn retain_findings(&mut self, report: &Report) {
        let findings = report.findings.iter();
        let reported: BTreeSet<&str> = findings.map(|finding| finding.id.as_str()).collect();
        for task in &mut self.tasks {
            task.findings.retain(|id| reported.contains(id.as_str()));
        }
    }
}
