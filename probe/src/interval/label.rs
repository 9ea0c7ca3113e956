//! Labels of a task: those that a scheduler sends, those that the arguments of an engine contain, and
//! those from a script of Nextflow.

use ebb_telemetry::step::SchedulerLabels;

use crate::attribute::tree_key;
use crate::interval::aggregator::IntervalAggregator;
use crate::interval::classification::engine_role;
use crate::interval::processes::{EngineRole, ProcessOwner, Stage, StepNumber};
use crate::kernel::engine_task::{EngineTask, TITLES};
use crate::kernel::snakemake::Snakemake;
use crate::kernel::{Comm, Process, ProcessKey, Start, TaskSample};
use crate::label::{Refusal, Requester, TaskLabels, bytes_of, merge};

/// The name of a task from the arguments of an engine.
#[derive(Debug)]
pub(crate) struct EngineName {
    /// The first process of an engine in the task.
    first: ProcessKey,
    /// `None` if the task runs several jobs, so that none names it.
    pub(crate) labels: Option<SchedulerLabels>,
    /// Whether further processes of engines change nothing.
    is_final: bool,
}

/// The name of a task from a script of Nextflow.
#[derive(Debug, Default)]
pub(crate) enum HeaderName {
    /// No script was read.
    #[default]
    Unread,
    /// All scripts of the task have this name.
    Named(Box<SchedulerLabels>),
    /// The task runs several tasks of Nextflow, or there was no room for the name.
    Unnamed,
}

impl HeaderName {
    /// The labels; `None` if no name is known.
    pub(crate) fn labels(&self) -> Option<&SchedulerLabels> {
        match self {
            Self::Named(labels) => Some(labels),
            Self::Unread | Self::Unnamed => None,
        }
    }
}

impl IntervalAggregator {
    /// Adds the labels that a process sent for its task, or for a task that it started.
    ///
    /// # Errors
    /// Refused if there is no such task, or a limit is reached; `Unknown` if a later scan may still
    /// find the process.
    pub fn label(&mut self, requester: Requester, request: &TaskLabels) -> Result<(), Refusal> {
        let entry = self.processes.get(requester.pid());
        let entry = entry.filter(|entry| entry.stage != Stage::Ended && requester.is(entry.key));
        let entry = entry.ok_or(Refusal::Unknown)?;
        let number = match (request.pid, entry.owner) {
            (Some(pid), _) => self.started_by(entry.key, pid)?,
            (None, ProcessOwner::Step(number)) => number,
            (None, ProcessOwner::Background(_)) => return Err(Refusal::NoStep),
        };
        let room = self.steps.label_room(number);
        let step = self.steps.get_mut(number).ok_or(Refusal::NoStep)?;
        if let Some(owner) = step.owner_against(requester.user()) {
            return Err(Refusal::OtherUser(owner));
        }
        let held = step.scheduler_labels.take().unwrap_or_default();
        let both = merge(&held, &request.labels).and_then(|both| match bytes_of(&both) > room {
            true => Err(Refusal::NoRoom),
            false => Ok(both),
        });
        let (kept, result) = match both {
            Ok(both) => (both, Ok(())),
            Err(refusal) => (*held, Err(refusal)),
        };
        step.scheduler_labels = (kept != SchedulerLabels::default()).then(|| Box::new(kept));
        result
    }

    /// The task that began with process `pid` and whose launcher is `launcher`. The process may have
    /// ended since the last scan.
    fn started_by(&self, launcher: ProcessKey, pid: u32) -> Result<StepNumber, Refusal> {
        let number = self.steps.newest_from(pid, &tree_key(launcher));
        number.ok_or_else(|| match self.processes.get(pid) {
            // Its program is not in the ring buffer yet.
            Some(entry) if entry.stage == Stage::Forked => Refusal::Unknown,
            // Only a scan finds processes.
            None if self.interval_totals.sampled => Refusal::Unknown,
            Some(_) | None => Refusal::NotStarter(pid),
        })
    }

    /// Makes processes that have set a title since their start tasks of their own, if the title names
    /// a task. `read` returns the task of a live process.
    pub fn add_titles(
        &mut self,
        samples: &[TaskSample],
        read: impl Fn(&Process) -> Option<Box<EngineTask>>,
    ) {
        let titles = TITLES.map(Comm::new);
        let has_title = |sample: &&TaskSample| titles.contains(&sample.process.comm);
        for TaskSample { process, .. } in samples.iter().filter(has_title) {
            let entry = self.processes.exact(process.key);
            if entry.is_none_or(|entry| entry.program == process.comm) {
                continue;
            }
            let start = Start {
                engine_task: read(process),
                ..Start::default()
            };
            self.reclassify(process, &start);
            if let Some(entry) = self.processes.exact(process.key) {
                entry.program = process.comm;
                entry.engine_role = engine_role(process, &start);
            }
            self.name_engine_task(process, &start);
        }
    }

    /// Names the task of a process after the job or task of an engine that the process runs.
    pub(super) fn name_engine_task(&mut self, process: &Process, start: &Start) {
        if engine_role(process, start) == EngineRole::Other {
            return;
        }
        let owner = self.processes.exact(process.key).map(|entry| entry.owner);
        let Some(ProcessOwner::Step(number)) = owner else {
            return;
        };
        let shown = |name: &str| self.rules.shown(name).to_owned();
        let labels = match (&start.snakemake, &start.engine_task) {
            (Some(Snakemake::Job(job)), _) => Some(job.labels(shown)),
            (Some(Snakemake::Delegation), _) => return,
            (None, Some(task)) => Some(task.labels(shown)),
            _ => None,
        };
        let labels = labels.and_then(|labels| self.fit_labels(number, labels));
        let Some(step) = self.steps.get_mut(number) else {
            return;
        };
        let before = step.engine_name.take();
        let name = match before {
            None => EngineName {
                first: process.key,
                is_final: labels.is_none(),
                labels,
            },
            Some(before) => {
                let first = self.processes.exact(before.first);
                let runs = first.is_some_and(|entry| entry.stage != Stage::Ended);
                before.followed_by(labels, runs)
            }
        };
        if let Some(step) = self.steps.get_mut(number) {
            step.engine_name = Some(Box::new(name));
        }
    }

    /// Names the task of a process after the script of Nextflow that the process runs. A Slurm job can
    /// run a whole workflow. Then none of its scripts names the job.
    pub(super) fn name_nextflow_task(&mut self, process: &Process, start: &Start) {
        let Some(header) = &start.task_header else {
            return;
        };
        let owner = self.processes.exact(process.key).map(|entry| entry.owner);
        let Some(ProcessOwner::Step(number)) = owner else {
            return;
        };
        let labels = header.labels(|name| self.rules.shown(name).to_owned());
        let before = self.steps.get(number).map(|step| &step.header);
        let name = match before {
            Some(HeaderName::Unread) => match self.fit_labels(number, labels) {
                Some(labels) => HeaderName::Named(Box::new(labels)),
                None => HeaderName::Unnamed,
            },
            Some(HeaderName::Named(known)) if is_same_task(known, &labels) => return,
            Some(HeaderName::Named(_) | HeaderName::Unnamed) | None => HeaderName::Unnamed,
        };
        if let Some(step) = self.steps.get_mut(number) {
            step.header = name;
        }
    }
}

/// Whether labels are those of a known task, of which only some may be kept for lack of room.
fn is_same_task(known: &SchedulerLabels, labels: &SchedulerLabels) -> bool {
    let mut kept = known.labels.iter();
    kept.all(|(key, value)| labels.labels.get(key) == Some(value))
}

impl EngineName {
    /// The name after a further process of an engine in the same task; `runs` is whether the first
    /// one still runs.
    ///
    /// A job can start another process of Snakemake for the same job; the inner one has the right
    /// arguments if the job is part of an array. A job can also run a workflow of its own, which does
    /// not change its name. Several jobs, one after the other, have no single name.
    fn followed_by(self, labels: Option<SchedulerLabels>, runs: bool) -> Self {
        match labels {
            _ if self.is_final => self,
            None if runs => Self {
                is_final: true,
                ..self
            },
            Some(labels) if runs || self.labels.as_ref() == Some(&labels) => Self {
                labels: Some(labels),
                ..self
            },
            _ => Self {
                labels: None,
                is_final: true,
                ..self
            },
        }
    }
}
