//! Accounts the resource use of processes since their last count, for their task and for workload
//! or background.

use ebb_telemetry::step::Namespaces;

use crate::interval::aggregator::IntervalAggregator;
use crate::interval::processes::side;
use crate::interval::processes::{ProcessOwner, Stage};
use crate::interval::resource_usage;
use crate::kernel::{Process, ProcessKey, Start, TaskCounters, TaskKind, TaskSample, Totals};

/// The time to which resource use belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsagePeriod {
    /// At least partly before the start of this probe.
    BeforeProbe,
    /// Since the last count.
    SinceLastCount,
}

impl IntervalAggregator {
    /// Adds the sample of a process.
    pub(super) fn add_sample(&mut self, sample: &TaskSample) {
        let process = &sample.process;
        let start = Start {
            user: sample.user,
            ..Start::default()
        };
        let used = self.ensure_known(process, sample.kind, &start);
        if self.processes.exact(process.key).map(|entry| entry.cgroup) != Some(process.cgroup) {
            self.reclassify(process, &start);
        }
        self.account(process.key, &sample.totals, used);
        self.account_counters(process.key, sample.counters.as_ref());
        let Some(entry) = self.processes.exact(process.key) else {
            return;
        };
        entry.sampled_peak = entry.sampled_peak.max(sample.resident.map(|r| r.peak()));
        entry.memory = sample.resident.map(|r| (r.anon, r.shmem));
        entry.state = sample.state;
        entry.threads = sample.threads;
        entry.user = sample.user.or(entry.user);
        self.set_user(process.key, sample.user);
        self.add_namespaces(process.key, sample.namespaces);
        self.unchanged(process.key.pid);
    }

    /// A process is unchanged since its last sample.
    pub(super) fn unchanged(&mut self, pid: u32) {
        let Some(entry) = self.processes.mark_scanned(pid) else {
            return;
        };
        if let ProcessOwner::Step(number) = entry.owner
            && let Some(step) = self.steps.get_mut(number)
        {
            entry
                .state
                .inspect(|state| step.detail.observe_state(*state, entry.tool));
            step.detail.observe_threads(entry.threads);
            entry
                .memory
                .inspect(|(own, shared)| step.add_memory(*own, *shared));
        }
    }

    /// The user of a task is the user of its first process.
    pub(super) fn set_user(&mut self, key: ProcessKey, user: Option<u32>) {
        let entry = self.processes.exact(key).copied();
        if let Some(step) = entry.and_then(|entry| self.step_of(&entry))
            && step.root == key
        {
            step.detail.user = user.or(step.detail.user);
        }
    }

    /// A task differs in a namespace if any of its processes does.
    pub(super) fn add_namespaces(&mut self, key: ProcessKey, namespaces: Option<Namespaces>) {
        let entry = self.processes.exact(key).copied();
        if let Some(namespaces) = namespaces
            && let Some(step) = entry.and_then(|entry| self.step_of(&entry))
        {
            let known = step.detail.namespaces.unwrap_or_default();
            step.detail.namespaces = Some(known.or(namespaces));
        }
    }

    /// Adds a process if it is new. Returns whether its totals include resource use before the
    /// start of this probe.
    pub(super) fn ensure_known(
        &mut self,
        process: &Process,
        kind: TaskKind,
        start: &Start,
    ) -> UsagePeriod {
        if self.processes.exact(process.key).is_some() {
            return UsagePeriod::SinceLastCount;
        }
        self.add_process(process, kind, Stage::Executed, start);
        if process.key.start < self.began {
            UsagePeriod::BeforeProbe
        } else {
            UsagePeriod::SinceLastCount
        }
    }

    /// Counts the resource use of a process since its last count. Use before the start of this
    /// probe counts for the task, but not for the interval.
    pub(super) fn account(&mut self, key: ProcessKey, totals: &Totals, period: UsagePeriod) {
        let Some(entry) = self.processes.exact(key) else {
            return;
        };
        let used = entry.count(totals);
        let entry = *entry;
        if period == UsagePeriod::SinceLastCount {
            self.interval_totals.add(side(entry.owner), &used);
        }
        if let Some(step) = self.step_of(&entry) {
            step.add(entry.tool, &used);
        }
    }

    pub(super) fn account_counters(&mut self, key: ProcessKey, counters: Option<&TaskCounters>) {
        let (Some(entry), Some(counters)) = (self.processes.exact(key), counters) else {
            return;
        };
        let more = resource_usage::since(counters, &mut entry.counters);
        let entry = *entry;
        if let Some(step) = self.step_of(&entry) {
            step.detail.add(&more);
        }
    }
}
