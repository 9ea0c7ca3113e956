//! Sums the counters of a task's processes, and counts the state of the task at each scan.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use ebb_telemetry::step::{
    CpuWithoutProgress, Namespaces, Parallelism, Reclaim, Sampled, StepDetail, TaskState,
    WaitingTool,
};
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::kernel::{TaskCounters, ToolName};

/// With more new pages a second than this, a task allocates memory or uses it again. Fewer pages
/// also occur in an idle process, for example through NUMA balancing.
const NEW_PAGES_A_SECOND: u64 = 1;

/// The increase since `before`; both count from the start of the process. A counter can decrease,
/// as that of waits does when a thread ends. It then adds nothing until it exceeds its old value.
pub(super) fn since(now: &TaskCounters, before: &mut TaskCounters) -> TaskCounters {
    let count = |now: u64, before: &mut u64| {
        let more = now.saturating_sub(*before);
        *before = now.max(*before);
        more
    };
    let cpu = |now: CpuTime, before: &mut CpuTime| CpuTime(count(now.0, &mut before.0));
    let delay = |now: Option<Duration>, before: &mut Option<Duration>| {
        let now = now?;
        let more = now.saturating_sub(before.unwrap_or_default());
        *before = (*before).max(Some(now));
        Some(more)
    };
    TaskCounters {
        user_ticks: cpu(now.user_ticks, &mut before.user_ticks),
        system_ticks: cpu(now.system_ticks, &mut before.system_ticks),
        voluntary: count(now.voluntary, &mut before.voluntary),
        involuntary: count(now.involuntary, &mut before.involuntary),
        minor_faults: count(now.minor_faults, &mut before.minor_faults),
        major_faults: count(now.major_faults, &mut before.major_faults),
        run_queue: delay(now.run_queue, &mut before.run_queue),
        disk_delay: delay(now.disk_delay, &mut before.disk_delay),
        syscall_io: now.syscall_io.map(|now| {
            let more = now.since(before.syscall_io.unwrap_or_default());
            before.syscall_io = Some(before.syscall_io.unwrap_or_default().plus(more));
            more
        }),
    }
}

/// Number of samples by state and executable.
#[derive(Debug, Default)]
struct WaitsByTool(BTreeMap<(TaskState, ToolName), u64>);

impl WaitsByTool {
    /// Maximum number of entries for a task; further executables are not counted.
    const MAX: usize = 64;

    /// Adds one sample. CPU time shows which executable runs, so that state is not counted.
    fn add(&mut self, state: TaskState, tools: &[ToolName]) {
        if state == TaskState::Running {
            return;
        }
        for tool in tools {
            let is_full = self.0.len() >= Self::MAX;
            match self.0.entry((state, *tool)) {
                Entry::Occupied(mut samples) => *samples.get_mut() += 1,
                Entry::Vacant(entry) if !is_full => {
                    entry.insert(1);
                }
                Entry::Vacant(_) => {}
            }
        }
    }

    /// The executable with the most samples of each state, for the states with the most.
    fn most(&self) -> Vec<WaitingTool> {
        let mut of_states = BTreeMap::<TaskState, (u64, ToolName)>::new();
        for ((state, tool), samples) in &self.0 {
            let most = of_states.entry(*state).or_insert((*samples, *tool));
            *most = (*most).max((*samples, *tool));
        }
        let mut all: Vec<_> = of_states.into_iter().collect();
        all.sort_by_key(|(state, (samples, _))| (Reverse(*samples), *state));
        let most = all.into_iter().take(StepDetail::MAX_WAITING_TOOLS);
        most.map(|(state, (samples, tool))| WaitingTool {
            state,
            tool: tool.to_string(),
            samples,
        })
        .collect()
    }
}

/// Counters and states of one task.
#[derive(Debug, Default)]
pub(crate) struct StepObservations {
    /// `None` until a process reported them.
    counters: Option<TaskCounters>,
    /// State at this scan, and the executables that are in it.
    now: Option<(TaskState, Vec<ToolName>)>,
    /// State at the last scan.
    before: Option<TaskState>,
    states: BTreeMap<TaskState, Sampled>,
    waits: WaitsByTool,
    parallelism: Parallelism,
    cpu_without_progress: CpuWithoutProgress,
    pub(super) user: Option<u32>,
    pub(super) namespaces: Option<Namespaces>,
    /// Memory at the last sample.
    pub(super) processes_memory: Option<Bytes>,
    pub(super) cgroup_memory: Option<Bytes>,
    pub(super) reclaim: Option<Reclaim>,
    threads_now: u32,
    most_threads: Option<u32>,
    /// Number since the last scan.
    new_pages: u64,
    moved: bool,
}

impl StepObservations {
    /// Adds the increase of one process. If the process has no value for a delay, the delay of the
    /// task becomes unknown.
    pub(super) fn add(&mut self, more: &TaskCounters) {
        self.new_pages = self.new_pages.saturating_add(more.minor_faults);
        self.new_pages = self.new_pages.saturating_add(more.major_faults);
        self.moved |= (more.syscall_io)
            .is_some_and(|syscall_io| syscall_io.read.0 > 0 || syscall_io.written.0 > 0);
        let Some(sum) = &mut self.counters else {
            self.counters = Some(*more);
            return;
        };
        sum.user_ticks = sum.user_ticks.saturating_add(more.user_ticks);
        sum.system_ticks = sum.system_ticks.saturating_add(more.system_ticks);
        sum.voluntary = sum.voluntary.saturating_add(more.voluntary);
        sum.involuntary = sum.involuntary.saturating_add(more.involuntary);
        sum.minor_faults = sum.minor_faults.saturating_add(more.minor_faults);
        sum.major_faults = sum.major_faults.saturating_add(more.major_faults);
        let both = |a: Option<Duration>, b: Option<Duration>| Some(a?.saturating_add(b?));
        sum.run_queue = both(sum.run_queue, more.run_queue);
        sum.disk_delay = both(sum.disk_delay, more.disk_delay);
        sum.syscall_io = (sum.syscall_io.zip(more.syscall_io)).map(|(sum, more)| sum.plus(more));
    }

    /// Records that a process started or ended.
    pub(super) const fn mark_progress(&mut self) {
        self.moved = true;
    }

    /// Records the state of one of its processes at this scan. The least state is the state of the
    /// task.
    pub(super) fn observe_state(&mut self, state: TaskState, tool: ToolName) {
        match &mut self.now {
            Some((now, _)) if *now < state => {}
            Some((now, tools)) if *now == state => {
                if !tools.contains(&tool) {
                    tools.push(tool);
                }
            }
            now => *now = Some((state, vec![tool])),
        }
    }

    /// Adds the number of threads of one of its processes at this scan.
    pub(super) fn observe_threads(&mut self, threads: u32) {
        self.threads_now = self.threads_now.saturating_add(threads);
    }

    /// Ends a scan that represents `stands_for`. Before it, scans were skipped for the time
    /// `idle`, in which the state of the last scan continued.
    pub(super) fn scan(&mut self, idle: Duration, stands_for: Duration) {
        let threads = std::mem::take(&mut self.threads_now);
        self.most_threads = self.most_threads.max((threads > 0).then_some(threads));
        if let Some(sampled) = self.before.and_then(|state| self.states.get_mut(&state)) {
            sampled.time = sampled.time.saturating_add(idle);
        }
        let now = self.now.take();
        self.before = now.as_ref().map(|(state, _)| *state);
        let Some((state, tools)) = now else {
            return;
        };
        self.waits.add(state, &tools);
        let sampled = self.states.entry(state).or_default();
        sampled.samples += 1;
        sampled.time = sampled.time.saturating_add(stands_for);
    }

    /// Adds the CPU time between two scans.
    pub(super) fn add_parallelism(&mut self, wall: Duration, cpu: CpuTime) {
        self.parallelism.add(wall, cpu);
    }

    /// Ends a scan after the time `wall`, with flags for whether the task used CPU and whether it
    /// transferred bytes.
    pub(super) fn update_progress(&mut self, wall: Duration, computed: bool, moved: bool) {
        let moved = std::mem::take(&mut self.moved) || moved;
        let new_pages = std::mem::take(&mut self.new_pages);
        if moved || new_pages > NEW_PAGES_A_SECOND.saturating_mul(wall.as_secs().max(1)) {
            self.cpu_without_progress.now = Duration::ZERO;
        } else if computed {
            self.cpu_without_progress.now = self.cpu_without_progress.now.saturating_add(wall);
            self.cpu_without_progress.longest = self
                .cpu_without_progress
                .longest
                .max(self.cpu_without_progress.now);
        }
    }

    /// The sampled states. A scan displaces a task from its core, so too many samples wait for
    /// one. The kernel's counters of running and waiting divide these samples.
    fn states(&self, cpu: CpuTime) -> BTreeMap<TaskState, Sampled> {
        let mut states = self.states.clone();
        let waited = self.counters.and_then(|counters| counters.run_queue);
        let Some(waited) = waited.map(|time| time.as_secs_f64()) else {
            return states;
        };
        let share = waited / (waited + cpu.as_secs_f64());
        let both = [TaskState::Running, TaskState::Runnable].map(|state| states.remove(&state));
        let both = both.into_iter().flatten().reduce(|a, b| Sampled {
            samples: a.samples.saturating_add(b.samples),
            time: a.time.saturating_add(b.time),
        });
        let Some(both) = both.filter(|_| share.is_finite()) else {
            return self.states.clone();
        };
        let waits = (both.samples as f64 * share).round() as u64;
        let parts = [
            (TaskState::Running, both.samples - waits),
            (TaskState::Runnable, waits),
        ];
        for (state, samples) in parts.into_iter().filter(|(_, samples)| *samples > 0) {
            let part = samples as f64 / both.samples as f64;
            let time = both.time.mul_f64(part);
            states.insert(state, Sampled { samples, time });
        }
        states
    }

    /// The report of these counters, for a task with the CPU time `cpu`.
    pub(super) fn step_detail(&self, cpu: CpuTime) -> StepDetail {
        let counters = self.counters;
        let divided = counters.and_then(|f| divided(cpu, f.user_ticks, f.system_ticks));
        StepDetail {
            user_cpu: divided.map(|(user, _)| user),
            system_cpu: divided.map(|(_, system)| system),
            run_queue: counters.and_then(|f| f.run_queue),
            voluntary_switches: counters.map(|f| f.voluntary),
            involuntary_switches: counters.map(|f| f.involuntary),
            minor_faults: counters.map(|f| f.minor_faults),
            major_faults: counters.map(|f| f.major_faults),
            disk_delay: counters.and_then(|f| f.disk_delay),
            syscall_io: counters.and_then(|f| f.syscall_io),
            threads: self.most_threads,
            user: self.user,
            namespaces: self.namespaces,
            memory_now: self.cgroup_memory.or(self.processes_memory),
            reclaim: self.reclaim,
            cpu_without_progress: counters
                .and_then(|f| f.syscall_io)
                .map(|_| self.cpu_without_progress),
            parallelism: self.parallelism.clone(),
            states: self.states(cpu),
            waiting_tools: self.waits.most(),
            ..StepDetail::default()
        }
    }
}

/// Divides CPU time in the ratio of the ticks; `None` without a tick.
fn divided(cpu: CpuTime, user: CpuTime, system: CpuTime) -> Option<(CpuTime, CpuTime)> {
    let ticks = u128::from(user.0) + u128::from(system.0);
    let share = (u128::from(cpu.0) * u128::from(user.0)).checked_div(ticks)?;
    let user = CpuTime(u64::try_from(share).unwrap_or(u64::MAX));
    Some((user, CpuTime(cpu.0.saturating_sub(user.0))))
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::step::SyscallIo;

    use crate::kernel::Comm;

    use super::*;

    fn counters(voluntary: u64, run_queue_ms: Option<u64>) -> TaskCounters {
        TaskCounters {
            voluntary,
            run_queue: run_queue_ms.map(Duration::from_millis),
            ..TaskCounters::default()
        }
    }

    #[test]
    fn counts_of_a_process_add_once_and_never_go_back() {
        let mut before = TaskCounters::default();
        let mut check = |now: TaskCounters, expect: TaskCounters| {
            assert_eq!(since(&now, &mut before), expect, "{now:?}");
        };
        check(counters(5, Some(30)), counters(5, Some(30)));
        check(counters(7, Some(30)), counters(2, Some(0)));
        check(counters(7, Some(10)), counters(0, Some(0)));
        check(counters(8, Some(31)), counters(1, Some(1)));
        check(counters(8, None), counters(0, None));
    }

    #[test]
    fn a_delay_that_one_process_does_not_know_is_unknown_for_the_step() {
        let check = |delays: &[Option<u64>], expect: Option<u64>| {
            let mut detail = StepObservations::default();
            for ms in delays {
                detail.add(&counters(1, *ms));
            }
            let step_detail = detail.step_detail(CpuTime(0));
            assert_eq!(step_detail.run_queue, expect.map(Duration::from_millis));
            let switches = (!delays.is_empty()).then_some(delays.len() as u64);
            assert_eq!(step_detail.voluntary_switches, switches);
        };
        check(&[], None);
        check(&[Some(2), Some(3)], Some(5));
        check(&[Some(2), None], None);
        check(&[None, Some(2)], None);
    }

    #[test]
    fn cpu_time_is_divided_as_the_ticks_were() {
        let check = |user: u64, system: u64, expect: Option<(u64, u64)>| {
            let got = divided(CpuTime(1_000), CpuTime(user), CpuTime(system));
            assert_eq!(got, expect.map(|(u, s)| (CpuTime(u), CpuTime(s))));
        };
        check(0, 0, None);
        check(3, 1, Some((750, 250)));
        check(8, 0, Some((1_000, 0)));
        check(u64::MAX, u64::MAX, Some((500, 500)));
    }

    #[test]
    fn time_in_which_it_computed_and_nothing_came_of_it_is_kept_with_the_longest() {
        let syscall_io = |read| TaskCounters {
            syscall_io: Some(SyscallIo {
                read: Bytes(read),
                read_calls: 1,
                ..SyscallIo::default()
            }),
            ..TaskCounters::default()
        };
        let faults = |minor_faults| TaskCounters {
            minor_faults,
            ..syscall_io(0)
        };
        let mut detail = StepObservations::default();
        let mut check = |more: &TaskCounters, moves: bool, computed: bool, expect: (u64, u64)| {
            detail.add(more);
            if moves {
                detail.mark_progress();
            }
            detail.update_progress(Duration::from_secs(10), computed, false);
            let progress = detail
                .step_detail(CpuTime(0))
                .cpu_without_progress
                .expect("it can be seen");
            let seconds = (progress.now.as_secs(), progress.longest.as_secs());
            assert_eq!(seconds, expect, "{more:?} {moves} {computed}");
        };
        check(&syscall_io(7), false, true, (0, 0));
        // Calls that return no bytes are polling.
        check(&syscall_io(0), false, true, (10, 10));
        check(&faults(10), false, true, (20, 20));
        // The task waits.
        check(&syscall_io(0), false, false, (20, 20));
        check(&faults(11), false, true, (0, 20));
        check(&syscall_io(0), false, true, (10, 20));
        check(&syscall_io(0), true, true, (0, 20));
        let mut without_counters = StepObservations::default();
        without_counters.add(&TaskCounters::default());
        without_counters.update_progress(Duration::from_secs(10), true, false);
        assert_eq!(
            without_counters
                .step_detail(CpuTime(0))
                .cpu_without_progress,
            None
        );
    }

    #[test]
    fn the_least_state_of_the_processes_counts_with_the_executables_in_it() {
        let tool = |name: &str| ToolName::new(Comm::new(name), None);
        let mut detail = StepObservations::default();
        let mut scan = |processes: &[(TaskState, &str)]| {
            processes
                .iter()
                .for_each(|(state, name)| detail.observe_state(*state, tool(name)));
            detail.scan(Duration::ZERO, Duration::from_secs(10));
        };
        use TaskState::{Child, Network, Pipe, Running};
        scan(&[(Child, "bash"), (Network, "aws"), (Network, "aws")]);
        scan(&[(Network, "curl"), (Pipe, "gzip")]);
        scan(&[(Network, "curl"), (Network, "aws")]);
        scan(&[(Network, "curl")]);
        scan(&[(Pipe, "gzip")]);
        scan(&[(Running, "bwa"), (Child, "bash")]);
        scan(&[]);
        let seconds = |samples, secs| Sampled {
            samples,
            time: Duration::from_secs(secs),
        };
        let expect = [
            (Running, seconds(1, 10)),
            (Network, seconds(4, 40)),
            (Pipe, seconds(1, 10)),
        ];
        let step_detail = detail.step_detail(CpuTime(0));
        assert_eq!(step_detail.states, expect.into());
        let waiting = |state, name: &str, samples| WaitingTool {
            state,
            tool: name.to_owned(),
            samples,
        };
        let expect = [waiting(Network, "curl", 3), waiting(Pipe, "gzip", 1)];
        assert_eq!(step_detail.waiting_tools, expect);
    }

    #[test]
    fn the_executables_of_a_task_have_a_limit() {
        let mut detail = StepObservations::default();
        for n in 0..200 {
            detail.observe_state(
                TaskState::Disk,
                ToolName::new(Comm::new(&format!("tool-{n}")), None),
            );
            detail.scan(Duration::ZERO, Duration::from_secs(10));
        }
        assert_eq!(detail.waits.0.len(), WaitsByTool::MAX);
        assert_eq!(detail.step_detail(CpuTime(0)).waiting_tools.len(), 1);
    }

    #[test]
    fn waiting_for_a_core_is_as_long_as_the_kernel_says_and_not_as_sampled() {
        let tool = |name: &str| ToolName::new(Comm::new(name), None);
        let check = |run_queue: Option<u64>, cpu: u64, expect: &[(TaskState, u64)]| {
            let mut detail = StepObservations::default();
            for _ in 0..10 {
                detail.observe_state(TaskState::Runnable, tool("bwa"));
                detail.scan(Duration::ZERO, Duration::from_secs(10));
            }
            detail.observe_state(TaskState::Disk, tool("bwa"));
            detail.scan(Duration::ZERO, Duration::from_secs(10));
            detail.scan(Duration::ZERO, Duration::from_secs(10));
            detail.add(&TaskCounters {
                run_queue: run_queue.map(Duration::from_secs),
                ..TaskCounters::default()
            });
            let states = detail.step_detail(CpuTime::from_millis(cpu * 1_000)).states;
            let mut sampled: Vec<_> = states
                .iter()
                .map(|(s, sampling)| (*s, sampling.samples))
                .collect();
            sampled.retain(|(state, _)| *state != TaskState::Disk);
            sampled.sort_unstable();
            let mut expect = expect.to_vec();
            expect.sort_unstable();
            assert_eq!(sampled, expect);
            let all: Duration = states.values().map(|sampling| sampling.time).sum();
            assert_eq!(all.as_secs(), 110);
        };
        let (runs, waits) = (TaskState::Running, TaskState::Runnable);
        check(Some(20), 80, &[(runs, 8), (waits, 2)]);
        check(Some(0), 80, &[(runs, 10)]);
        check(Some(0), 0, &[(waits, 10)]);
        check(None, 80, &[(waits, 10)]);
    }
}
