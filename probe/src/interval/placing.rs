//! Assigns processes to their class and task.

use crate::attribute::{self, Facts, Parent, Placement};
use crate::interval::aggregator::Fold;
use crate::interval::processes::side;
use crate::interval::processes::{Entry, ProcessOwner, Stage};
use crate::kernel::{Comm, Process, Start, TaskKind, ToolName};
use crate::rules::MASKED;

impl Fold {
    /// Classifies a new process.
    pub(super) fn first_seen(
        &mut self,
        process: &Process,
        kind: TaskKind,
        stage: Stage,
        start: &Start,
    ) {
        if !self.processes.has_room_for(process.key.pid) {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let parent = self.processes.get(process.parent).copied();
        let place = match parent {
            // Most forks take this branch, which needs no decision.
            Some(parent) if stage == Stage::Forked && parent.cgroup == process.cgroup => {
                parent.place
            }
            _ => self.place(process, kind, parent.map(|p| p.place), start),
        };
        // Before its exec, a process has the program of its parent.
        let same = parent.filter(|parent| parent.program == process.comm && stage == Stage::Forked);
        let tool = same.map_or_else(|| self.tool(process, start), |parent| parent.tool);
        if let Some(old) = self.processes.put(Entry::new(process, place, stage, tool)) {
            self.vanished(&old, process.key.start);
        }
        if process.key.start >= self.began {
            self.tally.started(side(place));
        }
        if let ProcessOwner::Step(number) = place
            && let Some(step) = self.steps.get_mut(number)
        {
            step.joined(process.key.start);
        }
    }

    /// The name of a process among the tools of its task.
    pub(super) fn tool(&self, process: &Process, start: &Start) -> ToolName {
        let script = start.script.as_ref();
        let shown = script.filter(|script| self.rules.show(script.as_str()));
        match shown.is_some() || self.rules.show_program(&process.comm.to_string()) {
            true => ToolName::new(process.comm, shown),
            false => ToolName::new(Comm::new(MASKED), None),
        }
    }

    /// Classifies a known process again after an exec or a move to another cgroup.
    pub(super) fn replace(&mut self, process: &Process, start: &Start) {
        let Some(old) = self.processes.exact(process.key).map(|entry| entry.place) else {
            return;
        };
        let new = self.place(process, TaskKind::User, Some(old), start);
        if let Some(entry) = self.processes.exact(process.key) {
            entry.place = new;
            entry.cgroup = process.cgroup;
        }
        if new == old {
            return;
        }
        if side(old) != side(new) && process.key.start >= self.tally.start {
            self.tally.changed_side(side(old), side(new));
        }
        if let ProcessOwner::Step(number) = old
            && let Some(step) = self.steps.get_mut(number)
        {
            step.left(process.key.start);
        }
        if let ProcessOwner::Step(number) = new
            && let Some(step) = self.steps.get_mut(number)
        {
            step.joined(process.key.start);
        }
    }

    fn place(
        &mut self,
        process: &Process,
        kind: TaskKind,
        inherited: Option<ProcessOwner>,
        start: &Start,
    ) -> ProcessOwner {
        let inherited = inherited.and_then(|place| match place {
            ProcessOwner::Background(children) => Some(Placement::Background(children)),
            ProcessOwner::Step(number) => {
                let step = self.steps.get(number)?;
                Some(Placement::Step(step.step.clone()))
            }
        });
        let parent = self.processes.get(process.parent);
        let parent = parent.map(|parent| (parent.key, parent.program.to_string()));
        let facts = Facts {
            key: process.key,
            kind,
            program: &process.comm.to_string(),
            cgroup: process.cgroup.and_then(|id| self.paths.get(id)),
            script: start.script.as_ref(),
            work_folder: start.work_folder.as_ref(),
            parent: parent
                .as_ref()
                .map(|(key, program)| Parent { key: *key, program }),
            inherited: inherited.as_ref(),
        };
        match attribute::place(&facts, &self.rules) {
            Placement::Background(children) => ProcessOwner::Background(children),
            Placement::Step(step) => ProcessOwner::Step(self.steps.enter(step, process.key)),
        }
    }
}
