//! State that persists across intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_telemetry::heartbeat::node_signals::NodeDetail;
use ebb_telemetry::step::{PeakMemory, StepUsage};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::cgroup::Paths;
use crate::cgroup::reading::{Reading, Wanted};
use crate::interval::accounting::UsagePeriod;
use crate::interval::classification::engine_role;
use crate::interval::interval_totals::IntervalTotals;
use crate::interval::processes::{Entry, ProcessOwner, Processes, Stage, StepNumber};
use crate::interval::sockets::Sockets;
use crate::interval::steps::Steps;
use crate::interval::{Interval, SCAN_TOLERANCE, TOOLS_WHILE_RUNNING, steps};
use crate::kernel::{
    CgroupId, ExitStatus, Extent, Process, ProcessEvent, ProcessKey, Samples, Start, TaskKind,
    TaskSample,
};
use crate::label_rules::Rules;

/// State that persists across intervals.
#[derive(Debug)]
pub struct IntervalAggregator {
    pub(crate) rules: Rules,
    pub(crate) paths: Paths,
    pub(crate) processes: Processes,
    /// The tasks of the processes that used a GPU at the newest sample, by process id.
    pub(crate) gpu_processes: BTreeMap<u32, StepNumber>,
    pub(crate) steps: Steps,
    pub(crate) sockets: Sockets,
    pub(crate) interval_totals: IntervalTotals,
    pub(crate) began: BootClock,
    /// The time of the newest scan or end of a process.
    pub(crate) latest: BootClock,
    sample_period: Duration,
    lost_before: u64,
    ended: Vec<StepUsage>,
    /// Processes and samples that were left out because a limit was reached.
    pub(crate) left_out: u64,
    /// Names of jobs that were left out because the labels of all tasks reached a limit.
    pub(crate) names_left_out: u64,
}

/// The exit status of a process that the kernel kills, also because of an out-of-memory condition.
const KILLED: ExitStatus = ExitStatus::Signal(9);

impl IntervalAggregator {
    /// Starts at `now` with the running processes; `start_of` returns the data that the start event
    /// of a process would contain, except for what its sample contains.
    pub fn begin(
        rules: Rules,
        paths: Paths,
        sample_period: Duration,
        now: BootClock,
        running: &[TaskSample],
        start_of: impl Fn(&Process) -> Start,
    ) -> Self {
        let mut aggregator = Self {
            rules,
            paths,
            processes: Processes::default(),
            gpu_processes: BTreeMap::new(),
            steps: Steps::default(),
            sockets: Sockets::default(),
            interval_totals: IntervalTotals::new(now),
            began: now,
            latest: now,
            sample_period,
            lost_before: 0,
            ended: Vec::new(),
            left_out: 0,
            names_left_out: 0,
        };
        // Parents come first, so that each process is classified before its children.
        let mut oldest_first: Vec<&TaskSample> = running.iter().collect();
        oldest_first.sort_by_key(|sample| sample.process.key.start);
        for sample in oldest_first {
            let start = match sample.kind {
                TaskKind::User => Start {
                    user: sample.user,
                    namespaces: sample.namespaces,
                    ..start_of(&sample.process)
                },
                TaskKind::Kernel => Start::default(),
            };
            aggregator.add_process(&sample.process, sample.kind, Stage::Executed, &start);
            aggregator.name_engine_task(&sample.process, &start);
            aggregator.name_nextflow_task(&sample.process, &start);
            aggregator.add_namespaces(sample.process.key, start.namespaces);
            aggregator.account(sample.process.key, &sample.totals, UsagePeriod::BeforeProbe);
            aggregator.account_counters(sample.process.key, sample.counters.as_ref());
        }
        aggregator
    }

    /// Replaces the rules; they apply to processes that start from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Declares that the kernel reports no process starts and ends; only scans find processes.
    pub fn only_sampled(&mut self) {
        self.interval_totals.sampled = true;
    }

    /// The cgroups with live processes.
    pub fn cgroup_ids(&self) -> BTreeSet<CgroupId> {
        self.processes
            .iter()
            .filter_map(|entry| entry.cgroup)
            .collect()
    }

    /// The paths of cgroups. The caller trims them, because that reads the disk.
    pub const fn paths_mut(&mut self) -> &mut Paths {
        &mut self.paths
    }

    /// Adds one event.
    pub fn event(&mut self, event: ProcessEvent) {
        self.interval_totals.event();
        match event {
            ProcessEvent::SocketEnded(socket) => self.socket_ended(&socket),
            ProcessEvent::CgroupMade { id, path } => self.paths.learn(id, path),
            ProcessEvent::Forked(process) => self.forked(&process),
            ProcessEvent::Executed {
                process,
                maxrss_before,
                start,
            } => {
                self.executed(&process, maxrss_before, &start);
                self.name_engine_task(&process, &start);
                self.name_nextflow_task(&process, &start);
                self.set_user(process.key, start.user);
                self.add_namespaces(process.key, start.namespaces);
            }
            ProcessEvent::Ended {
                process,
                at,
                status,
                totals,
                peak,
                maxrss,
            } => {
                self.latest = self.latest.max(at);
                let used = self.ensure_known(&process, TaskKind::User, &Start::default());
                self.account(process.key, &totals, used);
                self.pass_on_root(&process);
                self.process_ended(process.key, at, Some(status), |entry| {
                    entry.peak(peak, maxrss)
                });
            }
            ProcessEvent::Reaped {
                key,
                totals,
                maxrss,
                counters,
            } => {
                self.account(key, &totals, UsagePeriod::SinceLastCount);
                self.account_counters(key, Some(&counters));
                // Has no effect unless the end event was lost.
                let at = self.latest.max(key.start);
                self.process_ended(key, at, None, |entry| entry.peak(None, maxrss));
                if let Some(entry) = self.processes.remove(key) {
                    self.sockets.process_gone(key, entry.owner);
                    if let Some(step) = self.step_of(&entry) {
                        step.process_reaped();
                    }
                }
            }
            ProcessEvent::OutOfMemory { pid } => {
                if let Some(entry) = self.processes.get_mut(pid) {
                    entry.is_oom_victim = true;
                }
            }
        }
    }

    /// Whether there is a task that no scan has contained yet, or whose end the next scan reports.
    pub fn needs_scan(&self) -> bool {
        self.steps.need_scan()
    }

    /// Records a skipped scan: the node was idle since the previous one.
    pub fn skip_scan(&mut self, at: BootClock) {
        self.latest = at;
        self.interval_totals
            .skip_scan(at, self.sample_period * SCAN_TOLERANCE);
    }

    /// Adds one scan, after the events before it. `busy` is the total CPU time since the previous
    /// scan, run or skipped; `None` if unknown. `read` reads the cgroup at a path, and is called
    /// only for tasks with activity.
    pub fn scan(
        &mut self,
        at: BootClock,
        busy: Option<CpuTime>,
        samples: &Samples,
        read: impl Fn(&str, Wanted) -> Reading,
    ) {
        self.latest = at;
        let expected = match samples.extent {
            Extent::Complete => self.sample_period * SCAN_TOLERANCE,
            // The missing processes may have worked.
            Extent::Truncated => Duration::ZERO,
        };
        let since = self.interval_totals.scan(at, busy, expected);
        for sample in &samples.changed {
            self.add_sample(sample);
        }
        for pid in &samples.unchanged {
            self.unchanged(*pid);
        }
        for pid in &samples.zombies {
            self.processes.still_zombie(*pid);
        }
        match samples.extent {
            Extent::Complete => {
                for entry in self.processes.take_vanished() {
                    self.process_vanished(&entry, at);
                }
            }
            Extent::Truncated => {
                let missing = self.processes.end_partial_scan();
                self.left_out = self.left_out.saturating_add(missing.max(1));
            }
        }
        for step in self.steps.iter_mut() {
            step.scan(at, &since, &read);
        }
        self.ended.extend(self.steps.take_ended(at));
    }

    /// Processes, samples and cgroups that were left out because a limit was reached, since the
    /// start. They count as lost events.
    pub const fn left_out(&self) -> u64 {
        self.left_out.saturating_add(self.paths.left_out())
    }

    /// Names of jobs that were left out because a limit was reached, since the start.
    pub const fn names_left_out(&self) -> u64 {
        self.names_left_out
    }

    /// The tasks that ended since the last call.
    pub fn take_ended(&mut self) -> Vec<StepUsage> {
        std::mem::take(&mut self.ended)
    }

    /// Returns every task without processes, even if its last totals are missing, because the
    /// program ends.
    pub fn take_all_ended(&mut self) -> Vec<StepUsage> {
        let mut ended = self.take_ended();
        ended.extend(self.steps.take_all_ended());
        ended
    }

    /// The running tasks of users for which `is_shown` is true, with their busiest tools.
    pub fn running_of(
        &self,
        at: BootClock,
        is_shown: impl Fn(Option<u32>) -> bool,
    ) -> Vec<StepUsage> {
        self.steps.running_of(at, TOOLS_WHILE_RUNNING, is_shown)
    }

    /// Closes the interval after a scan, and starts the next one. `lost` is the number of kernel
    /// events lost since the start; `network` is the number of bytes over the node's network in
    /// this interval.
    pub fn close(&mut self, end: BootClock, lost: u64, network: Option<Bytes>) -> Interval {
        let next = self.interval_totals.next(end);
        let totals = std::mem::replace(&mut self.interval_totals, next);
        let (workload, background) = totals.usage(network);
        let coverage = totals.coverage(end, lost.saturating_sub(self.lost_before), network);
        self.lost_before = lost;
        Interval {
            start: totals.start,
            end,
            workload,
            background,
            coverage,
            running: self.steps.running(end, TOOLS_WHILE_RUNNING),
            detail: NodeDetail {
                network: totals.traffic.network_detail(),
                ..NodeDetail::default()
            },
            gpu_program: None,
        }
    }

    fn forked(&mut self, process: &Process) {
        // A scan can contain a process before its event is read from the ring buffer.
        if self.processes.exact(process.key).is_none() {
            self.add_process(process, TaskKind::User, Stage::Forked, &Start::default());
        }
    }

    fn executed(&mut self, process: &Process, maxrss_before: Bytes, start: &Start) {
        if self.processes.exact(process.key).is_none() {
            self.add_process(process, TaskKind::User, Stage::Executed, start);
        } else {
            self.reclassify(process, start);
        }
        let tool = self.tool(process, start);
        let Some(entry) = self.processes.exact(process.key) else {
            return;
        };
        entry.program = process.comm;
        entry.tool = tool;
        entry.engine_role = engine_role(process, start);
        entry.stage = Stage::Executed;
        entry.maxrss_before = maxrss_before;
        entry.sampled_peak = None;
        let entry = *entry;
        if let Some(step) = self.step_of(&entry) {
            step.tool_started(entry.tool, entry.key.start);
            step.program_runs(process);
        }
    }

    fn process_ended(
        &mut self,
        key: ProcessKey,
        at: BootClock,
        status: Option<ExitStatus>,
        peak: impl FnOnce(&Entry) -> PeakMemory,
    ) {
        let Some(entry) = self.processes.exact(key) else {
            return;
        };
        if entry.stage == Stage::Ended {
            return;
        }
        let before = *entry;
        entry.stage = Stage::Ended;
        if let Some(step) = self.step_of(&before) {
            if before.stage == Stage::Forked {
                step.tool_started(before.tool, key.start);
            }
            step.tool_ended(before.tool, key.start, at, status);
            step.process_peak(before.tool, peak(&before));
            step.process_ended(key, at, status);
            if before.is_oom_victim && matches!(status, None | Some(KILLED)) {
                step.mark_out_of_memory(before.tool, key.start);
            }
        }
    }

    /// If the first process of a container is one of runc and ends, the oldest other process of the
    /// container is its first process. runc starts a container by processes that fork one another
    /// and end; the last one runs the program.
    ///
    /// Any user can give this name to processes, so a container needs few of the iterations over all
    /// processes.
    ///
    /// Source: runc, `libcontainer/nsenter/nsexec.c`, which names them `runc:[0:PARENT]`,
    /// `runc:[1:CHILD]` and `runc:[2:INIT]`.
    fn pass_on_root(&mut self, ended: &Process) {
        if !ended.comm.starts_with("runc:[") {
            return;
        }
        let Some(entry) = self.processes.exact(ended.key).copied() else {
            return;
        };
        let step = self.step_of(&entry);
        let takes = step.is_some_and(|step| step.takes_root_from(ended.key));
        if !takes {
            return;
        }
        let others = self.processes.iter().filter(|other| {
            other.owner == entry.owner && other.stage != Stage::Ended && other.key != entry.key
        });
        let oldest = others
            .map(|other| other.key)
            .min_by_key(|key| (key.start, key.pid));
        if let (Some(oldest), Some(step)) = (oldest, self.step_of(&entry)) {
            step.root = oldest;
        }
    }

    /// A process is gone and its end was not reported.
    pub(crate) fn process_vanished(&mut self, entry: &Entry, at: BootClock) {
        if let Some(step) = self.step_of(entry) {
            if entry.stage != Stage::Ended {
                step.process_ended(entry.key, at, None);
                if entry.is_oom_victim {
                    step.mark_out_of_memory(entry.tool, entry.key.start);
                }
            }
            step.process_reaped();
        }
    }

    pub(crate) fn step_of(&mut self, entry: &Entry) -> Option<&mut steps::RunningStep> {
        match entry.owner {
            ProcessOwner::Step(number) => self.steps.get_mut(number),
            ProcessOwner::Background(_) => None,
        }
    }
}
