//! Accounts the resource use of processes since their last count, for their task and for workload
//! or background.

use ebb_telemetry::step::Namespaces;

use crate::interval::aggregator::Fold;
use crate::interval::processes::side;
use crate::interval::processes::{ProcessOwner, Stage};
use crate::interval::resource_usage;
use crate::kernel::{Finer, Process, ProcessKey, Start, TaskKind, TaskSample, Totals};

/// The time to which resource use belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Used {
    /// At least partly before the start of this probe.
    Before,
    /// Since the last count.
    Since,
}

impl Fold {
    /// Adds the sample of a process.
    pub(super) fn sampled(&mut self, sample: &TaskSample) {
        let process = &sample.process;
        let used = self.known(process, sample.kind);
        if self.processes.exact(process.key).map(|entry| entry.cgroup) != Some(process.cgroup) {
            self.replace(process, &Start::default());
        }
        self.account(process.key, &sample.totals, used);
        self.account_finer(process.key, sample.finer.as_ref());
        let Some(entry) = self.processes.exact(process.key) else {
            return;
        };
        entry.sampled_peak = entry.sampled_peak.max(sample.resident.map(|r| r.peak()));
        entry.held = sample.resident.map(|r| (r.anon, r.shmem));
        entry.state = sample.state;
        entry.threads = sample.threads;
        self.is_of_user(process.key, sample.user);
        self.is_apart(process.key, sample.namespaces);
        self.rested(process.key.pid);
    }

    /// A process is unchanged since its last sample.
    pub(super) fn rested(&mut self, pid: u32) {
        let Some(entry) = self.processes.seen(pid) else {
            return;
        };
        if let ProcessOwner::Step(number) = entry.place
            && let Some(step) = self.steps.get_mut(number)
        {
            entry.state.inspect(|state| step.detail.sees(*state));
            step.detail.lives(entry.threads);
            entry
                .held
                .inspect(|(own, shared)| step.holds(*own, *shared));
        }
    }

    /// The user of a task is the user of its first process.
    pub(super) fn is_of_user(&mut self, key: ProcessKey, user: Option<u32>) {
        let entry = self.processes.exact(key).copied();
        if let Some(step) = entry.and_then(|entry| self.step_of(&entry))
            && step.root == key
        {
            step.detail.user = user.or(step.detail.user);
        }
    }

    /// A task differs in a namespace if any of its processes does.
    pub(super) fn is_apart(&mut self, key: ProcessKey, seen: Option<Namespaces>) {
        let entry = self.processes.exact(key).copied();
        if let Some(seen) = seen
            && let Some(step) = entry.and_then(|entry| self.step_of(&entry))
        {
            let known = step.detail.namespaces.unwrap_or_default();
            step.detail.namespaces = Some(known.or(seen));
        }
    }

    /// Adds a process if it is new. Returns whether its totals include resource use before the
    /// start of this probe.
    pub(super) fn known(&mut self, process: &Process, kind: TaskKind) -> Used {
        if self.processes.exact(process.key).is_some() {
            return Used::Since;
        }
        self.first_seen(process, kind, Stage::Executed, &Start::default());
        if process.key.start < self.began {
            Used::Before
        } else {
            Used::Since
        }
    }

    /// Counts the resource use of a process since its last count. Use before the start of this
    /// probe counts for the task, but not for the interval.
    pub(super) fn account(&mut self, key: ProcessKey, totals: &Totals, when: Used) {
        let Some(entry) = self.processes.exact(key) else {
            return;
        };
        let used = entry.count(totals);
        let entry = *entry;
        if when == Used::Since {
            self.tally.add(side(entry.place), &used);
        }
        if let Some(step) = self.step_of(&entry) {
            step.add(entry.tool, &used);
        }
    }

    pub(super) fn account_finer(&mut self, key: ProcessKey, finer: Option<&Finer>) {
        let (Some(entry), Some(finer)) = (self.processes.exact(key), finer) else {
            return;
        };
        let more = resource_usage::since(finer, &mut entry.finer);
        let entry = *entry;
        if let Some(step) = self.step_of(&entry) {
            step.detail.add(&more);
        }
    }
}
