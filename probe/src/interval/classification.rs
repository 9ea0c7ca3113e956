//! Assigns processes to their class and task.

use ebb_telemetry::stable_hash::stable_hash;
use ebb_telemetry::step::StepKind;

use crate::attribute::{self, Facts, Parent, Placement, Step};
use crate::interval::aggregator::IntervalAggregator;
use crate::interval::processes::side;
use crate::interval::processes::{EngineRole, Entry, ProcessOwner, Stage};
use crate::kernel::script::Script;
use crate::kernel::snakemake::{PROGRAM, Snakemake};
use crate::kernel::{Comm, Process, Start, TaskKind, ToolName};
use crate::label_rules::MASKED;

/// The part of a process that starts a program in a workflow of an engine.
///
/// In many conda environments, the path of Python is too long for the first line of a script. The
/// process then has the name of Python, and its script is that of Snakemake.
pub(super) fn engine_role(process: &Process, start: &Start) -> EngineRole {
    match &start.snakemake {
        Some(Snakemake::Workflow) => EngineRole::Workflow,
        Some(Snakemake::Job(_) | Snakemake::UnnamedJobs | Snakemake::Delegation) => EngineRole::Job,
        None if start.script.as_ref().map(Script::as_str) == Some(PROGRAM) => EngineRole::Workflow,
        None if process.comm == Comm::new(PROGRAM) => EngineRole::Workflow,
        None if start.engine_task.is_some() => EngineRole::Task,
        None => EngineRole::Other,
    }
}

impl IntervalAggregator {
    /// Classifies a new process.
    pub(super) fn add_process(
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
        // The event of a process that ended before a scan, which found the next one with its number.
        let known = self.processes.get(process.key.pid);
        if known.is_some_and(|known| known.key.start > process.key.start) {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let parent = self.processes.get(process.parent).copied();
        // The record of a fork has no user.
        let forked_by = parent.filter(|_| stage == Stage::Forked);
        let user = start.user.or(forked_by.and_then(|parent| parent.user));
        let owner = match parent {
            // Most forks take this branch, which needs no decision.
            Some(parent) if stage == Stage::Forked && parent.cgroup == process.cgroup => {
                parent.owner
            }
            _ => self.classify(process, kind, parent.map(|p| p.owner), user, start),
        };
        // Before its exec, a process has the program of its parent.
        let same = forked_by.filter(|parent| parent.program == process.comm);
        let tool = same.map_or_else(|| self.tool(process, start), |parent| parent.tool);
        let mut entry = Entry::new(process, owner, stage, tool);
        entry.user = user;
        entry.engine_role = match same.map(|parent| parent.engine_role) {
            Some(EngineRole::Task) => EngineRole::Task,
            _ => engine_role(process, start),
        };
        if let Some(old) = self.processes.put(entry) {
            self.process_vanished(&old, process.key.start);
        }
        if process.key.start >= self.began {
            self.interval_totals.started(side(owner));
        }
        if let ProcessOwner::Step(number) = owner
            && let Some(step) = self.steps.get_mut(number)
        {
            step.process_joined(process.key.start);
            step.program_runs(process);
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
    pub(super) fn reclassify(&mut self, process: &Process, start: &Start) {
        let Some(before) = self.processes.exact(process.key).copied() else {
            return;
        };
        let old = before.owner;
        let user = start.user.or(before.user);
        let new = self.classify(process, TaskKind::User, Some(old), user, start);
        if let Some(entry) = self.processes.exact(process.key) {
            entry.owner = new;
            entry.user = user;
            entry.cgroup = process.cgroup;
        }
        if new == old {
            return;
        }
        if side(old) != side(new) && process.key.start >= self.interval_totals.start {
            self.interval_totals.changed_side(side(old), side(new));
        }
        if let ProcessOwner::Step(number) = old
            && let Some(step) = self.steps.get_mut(number)
        {
            step.process_left(self.latest.max(process.key.start));
        }
        if let ProcessOwner::Step(number) = new
            && let Some(step) = self.steps.get_mut(number)
        {
            step.process_joined(process.key.start);
        }
    }

    fn classify(
        &mut self,
        process: &Process,
        kind: TaskKind,
        inherited: Option<ProcessOwner>,
        user: Option<u32>,
        start: &Start,
    ) -> ProcessOwner {
        let inherited = inherited.and_then(|owner| match owner {
            ProcessOwner::Background(children) => Some(Placement::Background(children)),
            ProcessOwner::Step(number) => {
                let step = self.steps.get(number)?;
                Some(Placement::Step(step.step.clone()))
            }
        });
        let parent = self.processes.get(process.parent);
        let parent = parent.and_then(|parent| match parent.engine_role {
            EngineRole::Workflow => Some((parent.key, PROGRAM.to_owned())),
            EngineRole::Job | EngineRole::Other => Some((parent.key, parent.program.to_string())),
            // A process that it starts is part of its task.
            EngineRole::Task => None,
        });
        let facts = Facts {
            key: process.key,
            kind,
            program: &process.comm.to_string(),
            cgroup: process.cgroup.and_then(|id| self.paths.get(id)),
            user,
            script: start.script.as_ref(),
            work_folder: start.work_folder.as_ref(),
            snakemake: start.snakemake.as_ref(),
            engine_task: start.engine_task.as_deref(),
            parent: parent
                .as_ref()
                .map(|(key, program)| Parent { key: *key, program }),
            inherited: inherited.as_ref(),
        };
        match attribute::classify(&facts, &self.rules) {
            Placement::Background(children) => ProcessOwner::Background(children),
            Placement::Step(step) => {
                let step = self.apart_from_others(step, inherited.as_ref(), start.user);
                ProcessOwner::Step(self.steps.enter(step, process, start.user))
            }
        }
    }

    /// The task with another identity, if a running one of somebody else has the same. Users can give
    /// any name to a folder, and to a cgroup below their own, so a name alone joins no task.
    fn apart_from_others(
        &self,
        mut step: Step,
        inherited: Option<&Placement>,
        user: Option<u32>,
    ) -> Step {
        let is_inherited = matches!(inherited, Some(Placement::Step(of)) if of.id == step.id);
        let known = self
            .steps
            .number(&step.id)
            .and_then(|number| self.steps.get(number));
        let Some(known) = known.filter(|_| !is_inherited) else {
            return step;
        };
        let apart = match (step.id.kind, user.zip(known.detail.user)) {
            (StepKind::NextflowTask, Some((user, other))) => {
                (user != other).then_some(u64::from(user))
            }
            (StepKind::Container, _) => {
                let is_other = known.step.cgroup != step.cgroup;
                let path = step.cgroup.as_deref().unwrap_or_default();
                is_other.then(|| stable_hash(path.bytes()))
            }
            _ => None,
        };
        if let Some(number) = apart {
            step.id.key = format!("{}@{number}", step.id.key);
        }
        step
    }
}
