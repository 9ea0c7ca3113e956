//! Running tasks: the totals of each since its start, and how it ends.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ebb_telemetry::step::resource_usage::{SchedulerLabels, StepDetail, StepGpu};
use ebb_telemetry::step::{
    MemorySource, PeakMemory, Requested, StepEnd, StepId, StepKind, StepUsage, ToolEvents,
    ToolUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use ebb_wire::MAX_TOOLS_A_STEP;

use crate::attribute::Step;
use crate::cgroup::reading::{Reading, Wanted};
use crate::container_names::NamedContainer;
use crate::interval::interval_totals::ScanGap;
use crate::interval::label::{EngineName, HeaderName};
use crate::interval::opt_in_detail::OptInAccumulator;
use crate::interval::processes::StepNumber;
use crate::interval::resource_usage::StepObservations;
use crate::interval::sockets::TaskSockets;
use crate::kernel::{Comm, DiskBytes, ExitStatus, Process, ProcessKey, ToolName, Totals};
use crate::label;

/// How long a task without processes waits for the last totals of processes that were not reaped
/// yet.
const LAST_TOTALS_WAIT: Duration = Duration::from_secs(2);

/// How long a task without processes waits for the GPU sample after its end; two periods of samples.
const LAST_GPU_WAIT: Duration = Duration::from_secs(4);

/// Maximum number of separate executables of a task; the rest is summed under one name.
const MAX_TOOLS_KEPT: usize = 200;

/// Executables that the running tasks share, each about 400 bytes. The more tasks run when a task begins,
/// the fewer it has. With all [`MAX_STEPS`] tasks there are at most five times as many.
const TOOLS_TO_SHARE: usize = 8_000;

/// The fewest separate executables of a task.
const LEAST_TOOLS: usize = 8;

const OTHER_TOOLS: &str = "(others)";

/// Limit of separate tasks, about 6 MB without their executables; the rest is summed as one task. The largest nodes run 250
/// pods.
const MAX_STEPS: usize = 2_048;

const OTHER_STEPS: &str = "(others)";

/// The program of Slurm that starts the programs of a task.
const SLURM_LAUNCHER: &str = "slurmstepd";

/// Number of processes of runc that end before the program of a container runs.
const STAGES_OF_RUNC: u8 = 2;

/// Less CPU than this share of a core is the activity of a waiting process, such as timers of a
/// virtual machine; it does not count as progress.
const PROGRESS_CPU_SHARE: f64 = 0.01;

/// Tasks by number and by identity.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    by_number: BTreeMap<StepNumber, RunningStep>,
    by_id: HashMap<StepId, StepNumber>,
    next: u64,
}

impl Steps {
    /// The running task with this identity, or a new one of `user` with the first process `root`.
    pub(crate) fn enter(&mut self, step: Step, root: &Process, user: Option<u32>) -> StepNumber {
        if let Some(number) = self.by_id.get(&step.id) {
            return *number;
        }
        if !self.has_room(user) && step.id != others().id {
            return self.enter(others(), root, None);
        }
        let share = TOOLS_TO_SHARE / (self.by_number.len() + 1);
        let number = StepNumber(self.next);
        self.next += 1;
        self.by_id.insert(step.id.clone(), number);
        let mut new = RunningStep::new(step, root);
        new.max_tools = share.clamp(LEAST_TOOLS, MAX_TOOLS_KEPT);
        new.detail.user = user;
        self.by_number.insert(number, new);
        number
    }

    /// Whether a user may have another task of its own. The last quarter of all tasks is for users with
    /// few tasks, so that nobody takes the places of the others.
    fn has_room(&self, user: Option<u32>) -> bool {
        const SHARE: usize = MAX_STEPS / 4;
        let all = self.by_number.len();
        let is_own = |step: &&RunningStep| step.detail.user == user;
        all < MAX_STEPS - SHARE
            || all < MAX_STEPS && self.by_number.values().filter(is_own).count() < SHARE
    }

    pub(crate) fn number(&self, id: &StepId) -> Option<StepNumber> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn get(&self, number: StepNumber) -> Option<&RunningStep> {
        self.by_number.get(&number)
    }

    /// `None` after the task was returned as ended.
    pub(crate) fn get_mut(&mut self, number: StepNumber) -> Option<&mut RunningStep> {
        self.by_number.get_mut(&number)
    }

    /// Bytes that the labels of a task can have in addition to those of the other running tasks. A
    /// quarter of all bytes is left for users with few labels, so that nobody fills the room of the
    /// others.
    pub(crate) fn label_room(&self, of: StepNumber) -> usize {
        let user = |step: &RunningStep| step.detail.user;
        let own = self.by_number.get(&of).and_then(user);
        let (mut used, mut used_by_user) = (0, 0);
        for (_, step) in self.by_number.iter().filter(|(number, _)| **number != of) {
            let bytes = step.label_bytes();
            used += bytes;
            used_by_user += if user(step) == own { bytes } else { 0 };
        }
        let share = label::MAX_BYTES_IN_ALL / 4;
        let left = label::MAX_BYTES_IN_ALL.saturating_sub(used);
        left.saturating_sub(share)
            .max(left.min(share.saturating_sub(used_by_user)))
    }

    /// The newest task that began with process `pid` and that the launcher with this key started.
    pub(crate) fn newest_from(&self, pid: u32, launcher: &str) -> Option<StepNumber> {
        let is_it = |step: &RunningStep| {
            let run = step.step.run.as_ref();
            step.root.pid == pid && run.is_some_and(|run| run.key == launcher)
        };
        let mut newest_first = self.by_number.iter().rev();
        newest_first.find_map(|(number, step)| is_it(step).then_some(*number))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut RunningStep> {
        self.by_number.values_mut()
    }

    pub(crate) fn running(&self, at: BootClock, tools: usize) -> Vec<StepUsage> {
        self.running_of(at, tools, |_| true)
    }

    /// The running tasks of users for which `is_shown` is true.
    pub(crate) fn running_of(
        &self,
        at: BootClock,
        tools: usize,
        is_shown: impl Fn(Option<u32>) -> bool,
    ) -> Vec<StepUsage> {
        let all = self.by_number.values();
        let shown = all.filter(|step| step.living > 0 && is_shown(step.detail.user));
        shown
            .map(|step| step.usage(at, StepEnd::Running, tools))
            .collect()
    }

    /// Removes and returns the tasks that have ended.
    pub(crate) fn take_ended(&mut self, now: BootClock) -> Vec<StepUsage> {
        self.take(|step| step.is_over(now))
    }

    /// Removes and returns every task without processes, even if totals are missing.
    pub(crate) fn take_all_ended(&mut self) -> Vec<StepUsage> {
        self.take(|step| step.living == 0)
    }

    /// Whether any task is new or without processes.
    pub(crate) fn need_scan(&self) -> bool {
        let mut all = self.by_number.values();
        all.any(|step| step.windows == 0 || step.living == 0)
    }

    fn take(&mut self, is_over: impl Fn(&RunningStep) -> bool) -> Vec<StepUsage> {
        let over = self.by_number.extract_if(.., |_, step| is_over(step));
        let mut ended = Vec::new();
        for (_, step) in over {
            self.by_id.remove(&step.step.id);
            ended.push(step.usage(step.last_end, step.end(), MAX_TOOLS_A_STEP));
        }
        ended
    }
}

/// The task that sums all tasks beyond the limit.
fn others() -> Step {
    Step {
        id: StepId {
            kind: StepKind::Tree,
            key: OTHER_STEPS.to_owned(),
        },
        name: OTHER_STEPS.to_owned(),
        cgroup: None,
        run: None,
    }
}

fn is_launcher(process: &Process) -> bool {
    process.comm == Comm::new(SLURM_LAUNCHER)
}

/// One running task.
#[derive(Debug)]
pub(crate) struct RunningStep {
    pub(crate) step: Step,
    /// The process whose exit status is that of the task.
    pub(crate) root: ProcessKey,
    started: BootClock,
    root_status: Option<ExitStatus>,
    is_root_launcher: bool,
    /// Number of processes of runc whose end gave the task another first process.
    ended_stages: u8,
    out_of_memory: bool,
    oom_kills_before: Option<u64>,
    /// Number of live processes.
    living: u64,
    /// Number of ended processes with missing last totals.
    unreaped: u64,
    processes: u64,
    totals: Totals,
    disk_unknown: bool,
    window: Totals,
    pub(crate) windows: u32,
    peak_cores: Option<MilliCores>,
    last_progress: BootClock,
    last_end: BootClock,
    requested: Requested,
    cgroup_memory: Option<Bytes>,
    processes_memory: Option<Bytes>,
    process_peak: Option<PeakMemory>,
    now_anon: Bytes,
    now_shared: Bytes,
    /// Separate executables that it may have.
    max_tools: usize,
    tools: BTreeMap<String, ToolUsage>,
    pub(crate) detail: StepObservations,
    pub(crate) network: TaskSockets,
    pub(crate) gpu: Option<StepGpu>,
    /// One of its processes used a GPU at the newest GPU sample.
    pub(crate) is_on_gpu: bool,
    pub(crate) scheduler_labels: Option<Box<SchedulerLabels>>,
    pub(crate) engine_name: Option<Box<EngineName>>,
    pub(crate) header: HeaderName,
    pub(crate) container: Option<Box<NamedContainer>>,
    pub(crate) opt_in: OptInAccumulator,
}

impl RunningStep {
    fn new(step: Step, root: &Process) -> Self {
        let is_root_launcher = is_launcher(root);
        let root = root.key;
        Self {
            step,
            root,
            started: root.start,
            root_status: None,
            is_root_launcher,
            ended_stages: 0,
            out_of_memory: false,
            oom_kills_before: None,
            living: 0,
            unreaped: 0,
            processes: 0,
            totals: Totals {
                disk: Some(DiskBytes::default()),
                ..Totals::default()
            },
            disk_unknown: false,
            window: Totals::default(),
            windows: 0,
            peak_cores: None,
            last_progress: root.start,
            last_end: root.start,
            requested: Requested::default(),
            cgroup_memory: None,
            processes_memory: None,
            process_peak: None,
            now_anon: Bytes::default(),
            now_shared: Bytes::default(),
            tools: BTreeMap::new(),
            max_tools: MAX_TOOLS_KEPT,
            detail: StepObservations::default(),
            network: TaskSockets::default(),
            gpu: None,
            is_on_gpu: false,
            scheduler_labels: None,
            engine_name: None,
            header: HeaderName::default(),
            container: None,
            opt_in: OptInAccumulator::default(),
        }
    }

    /// Whether the end of `process`, one of runc, gives the task another first process. It counts
    /// the process if so.
    pub(crate) fn takes_root_from(&mut self, process: ProcessKey) -> bool {
        let is_container = matches!(
            self.step.id.kind,
            StepKind::EcsTask | StepKind::Pod | StepKind::Container
        );
        let takes = is_container && self.root == process && self.ended_stages < STAGES_OF_RUNC;
        self.ended_stages += u8::from(takes);
        takes
    }

    /// A process of this task runs a program. A task of Slurm has the exit status of its oldest
    /// process that is not Slurm's own: with cgroup v1, the launcher is in the cgroup of its task, and
    /// a prolog runs there before the task does.
    pub(crate) fn program_runs(&mut self, process: &Process) {
        let is_of_slurm = self.step.id.kind == StepKind::SlurmJob;
        let is_first = self.is_root_launcher || process.key.start < self.root.start;
        if is_of_slurm && is_first && !is_launcher(process) {
            self.root = process.key;
            self.root_status = None;
            self.is_root_launcher = false;
        }
    }

    /// The user of the task, if it is another one. Root may do everything, and the users within a container
    /// or a Slurm job are those of one person.
    pub(crate) fn owner_against(&self, user: u32) -> Option<u32> {
        let is_shared = matches!(
            self.step.id.kind,
            StepKind::Session
                | StepKind::Service
                | StepKind::Tree
                | StepKind::NextflowTask
                | StepKind::SnakemakeJob
        );
        let owner = self.detail.user.filter(|owner| *owner != user)?;
        (is_shared && user != 0).then_some(owner)
    }

    pub(crate) fn process_joined(&mut self, at: BootClock) {
        self.living += 1;
        self.processes += 1;
        self.detail.mark_progress();
        self.last_progress = self.last_progress.max(at);
    }

    /// A process moved to another task and no longer counts here.
    pub(crate) fn process_left(&mut self, at: BootClock) {
        self.living = self.living.saturating_sub(1);
        self.processes = self.processes.saturating_sub(1);
        self.last_end = self.last_end.max(at);
    }

    pub(crate) fn process_ended(
        &mut self,
        key: ProcessKey,
        at: BootClock,
        status: Option<ExitStatus>,
    ) {
        self.living = self.living.saturating_sub(1);
        self.unreaped += 1;
        self.detail.mark_progress();
        self.last_end = self.last_end.max(at);
        if key == self.root {
            self.root_status = status;
        }
    }

    pub(crate) const fn process_reaped(&mut self) {
        self.unreaped = self.unreaped.saturating_sub(1);
    }

    /// The kernel killed a process of `program` that was created at `created` because of an
    /// out-of-memory condition.
    pub(crate) fn mark_out_of_memory(&mut self, program: ToolName, created: BootClock) {
        self.out_of_memory = true;
        self.tool_events(program, created).oom_kills += 1;
    }

    pub(crate) fn add(&mut self, program: ToolName, used: &Totals) {
        self.totals.add(used);
        self.window.add(used);
        self.disk_unknown |= used.disk.is_none();
        let tool = self.tool(program);
        tool.cpu = tool.cpu.saturating_add(used.cpu);
        tool.disk = match (tool.disk, used.disk) {
            (Some(sum), Some(more)) => {
                Some(sum.saturating_add(more.read).saturating_add(more.written))
            }
            _ => None,
        };
    }

    /// A process that was created at `created` runs `program`.
    pub(crate) fn tool_started(&mut self, program: ToolName, created: BootClock) {
        self.tool(program).processes += 1;
        let after = created.since(self.started).unwrap_or_default();
        let events = self.tool_events(program, created);
        events.started_after = events.started_after.min(after);
    }

    /// A process of `program` that was created at `created` ended at `at`.
    pub(crate) fn tool_ended(
        &mut self,
        program: ToolName,
        created: BootClock,
        at: BootClock,
        status: Option<ExitStatus>,
    ) {
        let after = at.since(self.started).unwrap_or_default();
        let events = self.tool_events(program, created);
        events.ended_after = events.ended_after.max(Some(after));
        if status.is_some_and(|status| status != ExitStatus::Code(0)) {
            events.failed += 1;
        }
    }

    /// The events of `program`, whose first process was created at `created` if it has none yet.
    fn tool_events(&mut self, program: ToolName, created: BootClock) -> &mut ToolEvents {
        let started_after = created.since(self.started).unwrap_or_default();
        self.tool(program).events.get_or_insert(ToolEvents {
            started_after,
            ..ToolEvents::default()
        })
    }

    pub(crate) fn process_peak(&mut self, program: ToolName, peak: PeakMemory) {
        let tool = self.tool(program);
        tool.peak_memory = tool.peak_memory.max(Some(peak.bytes));
        // An upper bound is used only if there is no better source.
        let bound = |peak: &PeakMemory| peak.source == MemorySource::MaxRssUpperBound;
        self.process_peak = match self.process_peak {
            Some(old) if bound(&peak) && !bound(&old) => Some(old),
            Some(old) if bound(&old) == bound(&peak) && old.bytes >= peak.bytes => Some(old),
            _ => Some(peak),
        };
    }

    fn tool(&mut self, program: ToolName) -> &mut ToolUsage {
        let mut name = program.to_string();
        if self.tools.len() >= self.max_tools && !self.tools.contains_key(&name) {
            name = OTHER_TOOLS.into();
        }
        self.tools.entry(name).or_insert_with_key(|name| ToolUsage {
            name: name.clone(),
            processes: 0,
            cpu: CpuTime::default(),
            peak_memory: None,
            disk: Some(Bytes::default()),
            events: None,
        })
    }

    /// Adds the memory of a live process to this scan.
    pub(crate) fn add_memory(&mut self, own: Bytes, shared: Bytes) {
        self.now_anon = self.now_anon.saturating_add(own);
        // Processes of one task usually share the same segments, so these count once.
        self.now_shared = self.now_shared.max(shared);
    }

    /// Ends a scan. The cgroup of the task is read only if it can have changed.
    pub(crate) fn scan(
        &mut self,
        at: BootClock,
        since: &ScanGap,
        read: impl Fn(&str, Wanted) -> Reading,
    ) {
        let held =
            std::mem::take(&mut self.now_anon).saturating_add(std::mem::take(&mut self.now_shared));
        if self.living > 0 {
            self.processes_memory = self.processes_memory.max(Some(held));
            self.detail.processes_memory = Some(held);
        }
        let window = std::mem::take(&mut self.window);
        self.windows += 1;
        // The first window began before the task.
        if self.windows > 1 {
            for (wall, cpu) in since.divided(window.cpu) {
                self.peak_cores = self.peak_cores.max(cpu.cores_over(wall));
                self.detail.add_parallelism(wall, cpu);
            }
        }
        let age = at.since(self.started).unwrap_or_default();
        self.detail.scan(since.idle, since.gap.min(age));
        let moved = window.disk.is_some_and(|d| d.read.0.max(d.written.0) > 0);
        let moved = self.network.has_moved() || moved;
        let wall = since.whole();
        let computed = window.cpu.as_secs_f64() > PROGRESS_CPU_SHARE * wall.as_secs_f64();
        if moved || computed {
            self.last_progress = self.last_progress.max(at);
        }
        // A process that waits for a GPU often spins while the device works.
        let moved = moved || self.gpu.is_some();
        self.detail.update_progress(wall, computed, moved);
        let wanted = Wanted::for_scan(self.windows, window.cpu > CpuTime(0));
        if let (Some(path), Some(wanted)) = (&self.step.cgroup, wanted) {
            let reading = read(path, wanted);
            self.read(&reading);
        }
    }

    fn read(&mut self, reading: &Reading) {
        self.cgroup_memory = self.cgroup_memory.max(reading.memory_used);
        self.detail.cgroup_memory = reading.memory_used.or(self.detail.cgroup_memory);
        self.detail.reclaim = reading.reclaim.or(self.detail.reclaim);
        self.requested.cores = reading.limits.cores.or(self.requested.cores);
        self.requested.memory = reading.limits.memory.or(self.requested.memory);
        match (self.oom_kills_before, reading.oom_kills) {
            (Some(before), Some(now)) => self.out_of_memory |= now > before,
            (None, now) => self.oom_kills_before = now,
            (Some(_), None) => {}
        }
    }

    fn is_over(&self, now: BootClock) -> bool {
        let since_end = now.since(self.last_end);
        let waited = |limit| since_end.is_some_and(|time| time >= limit);
        self.living == 0
            && (self.unreaped == 0 || waited(LAST_TOTALS_WAIT))
            && (!self.is_on_gpu || waited(LAST_GPU_WAIT))
    }

    fn end(&self) -> StepEnd {
        match self.root_status {
            _ if self.out_of_memory => StepEnd::OutOfMemory,
            Some(ExitStatus::Code(status)) => StepEnd::Exited(status),
            Some(ExitStatus::Signal(signal)) => StepEnd::Signalled(signal),
            None => StepEnd::Unknown,
        }
    }

    /// The peak and its source, as the greatest value of the sources. A sample can miss a peak; the
    /// high-water mark of a single process cannot.
    fn peak_memory(&self) -> Option<PeakMemory> {
        let sampled = match (self.cgroup_memory, self.processes_memory) {
            (Some(bytes), _) => Some(PeakMemory {
                bytes,
                source: MemorySource::CgroupSampled,
            }),
            (None, Some(bytes)) => Some(PeakMemory {
                bytes,
                source: MemorySource::ProcessesSampled,
            }),
            (None, None) => None,
        };
        match (sampled, self.process_peak) {
            (Some(sampled), Some(process)) => {
                let exact = process.source != MemorySource::MaxRssUpperBound;
                let missed = exact && process.bytes > sampled.bytes;
                Some(if missed { process } else { sampled })
            }
            (sampled, process) => sampled.or(process),
        }
    }

    fn label_bytes(&self) -> usize {
        let sent = self.scheduler_labels.as_deref();
        let found = self.found_labels();
        sent.into_iter().chain(found).map(label::bytes_of).sum()
    }

    /// The labels that the probe itself found, the more reliable first: of a task of an engine, of a
    /// script of Nextflow, and of the container.
    fn found_labels(&self) -> impl Iterator<Item = &SchedulerLabels> {
        let task = (self.engine_name.as_ref()).and_then(|name| name.labels.as_ref());
        let container = (self.container.as_ref()).and_then(|one| one.labels.as_ref());
        task.into_iter()
            .chain(self.header.labels())
            .chain(container)
    }

    /// The labels that a scheduler sent, and those that the probe found and that do not contradict
    /// them.
    fn labels(&self) -> Option<Box<SchedulerLabels>> {
        let mut all = self.scheduler_labels.clone();
        for found in self.found_labels() {
            let all = all.get_or_insert_default();
            for (key, value) in &found.labels {
                if all.labels.len() < SchedulerLabels::MAX_LABELS {
                    all.labels.entry(key.clone()).or_insert(value.clone());
                }
            }
        }
        all.filter(|all| **all != SchedulerLabels::default())
    }

    fn usage(&self, observed: BootClock, end: StepEnd, max_tools: usize) -> StepUsage {
        let mut tools: Vec<ToolUsage> = self.tools.values().cloned().collect();
        tools.sort_by(|a, b| b.cpu.cmp(&a.cpu).then_with(|| a.name.cmp(&b.name)));
        tools.truncate(max_tools);
        let disk = self.totals.disk.filter(|_| !self.disk_unknown);
        let observed = observed.max(self.started);
        let (over, step_detail) = (
            end != StepEnd::Running,
            self.detail.step_detail(self.totals.cpu),
        );
        StepUsage {
            id: self.step.id.clone(),
            name: self.step.name.clone(),
            started: self.started,
            observed,
            end,
            processes: self.processes,
            cpu: self.totals.cpu,
            peak_memory: self.peak_memory(),
            disk_read: disk.map(|d| d.read),
            disk_written: disk.map(|d| d.written),
            requested: self.requested,
            peak_cores: self.peak_cores,
            // The scan that counts its last activity comes after its end.
            last_progress: self.last_progress.min(observed),
            tools,
            detail: StepDetail {
                network: self.network.step_network(),
                network_peers: self.network.network_peers(),
                gpu: self.gpu,
                run: self.step.run.clone().map(Box::new),
                scheduler_labels: self.labels(),
                opt_in_detail: over.then(|| self.opt_in.report()).flatten(),
                cpu_without_progress: (step_detail.cpu_without_progress).filter(|_| disk.is_some()),
                ..step_detail
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(pid: u32) -> Process {
        Process {
            key: ProcessKey {
                pid,
                start: BootClock::from_nanos(1),
            },
            parent: 1,
            cgroup: None,
            comm: Comm::new("bwa"),
        }
    }

    fn named(key: &str) -> Step {
        let mut step = others();
        step.id.key = key.to_owned();
        step
    }

    #[test]
    fn a_user_with_many_tasks_leaves_room_for_those_of_others() {
        let mut steps = Steps::default();
        let mut enter = |pid: u32, user: u32| {
            let number = steps.enter(named(&pid.to_string()), &root(pid), Some(user));
            let step = steps.get(number).expect("it entered");
            (step.step.id.key != OTHER_STEPS, step.max_tools)
        };
        assert_eq!(enter(1, 7), (true, MAX_TOOLS_KEPT));
        for pid in 2..2_500 {
            enter(pid, 7);
        }
        assert!(!enter(3_000, 7).0);
        for pid in 4_000..4_400 {
            assert_eq!(enter(pid, 8), (true, LEAST_TOOLS), "{pid}");
        }
        assert_eq!(enter(1, 7), (true, MAX_TOOLS_KEPT));
    }

    #[test]
    fn only_root_and_its_user_label_a_task_on_the_host() {
        let check = |kind, owner, user, expect| {
            let mut step = RunningStep::new(named("1"), &root(1));
            step.step.id.kind = kind;
            step.detail.user = owner;
            assert_eq!(
                step.owner_against(user),
                expect,
                "{kind:?} {owner:?} {user}"
            );
        };
        check(StepKind::Session, Some(0), 1000, Some(0));
        check(StepKind::Service, Some(1000), 1001, Some(1000));
        check(StepKind::Tree, Some(1000), 1000, None);
        check(StepKind::Tree, Some(1000), 0, None);
        check(StepKind::Tree, None, 1000, None);
        check(StepKind::Container, Some(0), 1000, None);
        check(StepKind::SlurmJob, Some(0), 1000, None);
    }

    #[test]
    fn executables_beyond_the_limit_of_a_task_are_one() {
        let mut step = RunningStep::new(named("1"), &root(1));
        step.max_tools = 8;
        for n in 0..100 {
            let program = Comm::new(&format!("tool{n}"));
            step.tool(ToolName::new(program, None)).processes += 1;
        }
        assert_eq!(step.tools.len(), 9);
        assert_eq!(step.tools[OTHER_TOOLS].processes, 92);
    }

    #[test]
    fn a_user_with_many_labels_leaves_room_for_those_of_others() {
        const KIB: usize = 1 << 10;
        let mut steps = Steps::default();
        let mut enter = |pid: u32, user: u32, bytes: usize| {
            let number = steps.enter(named(&pid.to_string()), &root(pid), Some(user));
            let value = "x".repeat(bytes - 1);
            let labels = [("k".to_owned(), value)].into();
            if let Some(step) = steps.get_mut(number) {
                step.scheduler_labels = Some(Box::new(SchedulerLabels {
                    labels,
                    ..SchedulerLabels::default()
                }));
            }
            steps.label_room(number) / KIB
        };
        // The room of a task includes its own labels.
        assert_eq!(enter(1, 7, 10 * KIB), 18);
        assert_eq!(enter(2, 7, 8 * KIB), 8);
        assert_eq!(enter(3, 7, 1), 0);
        assert_eq!(enter(4, 8, KIB), 5);
    }
}
