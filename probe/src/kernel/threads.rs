//! Converts tasks to processes. The iterator returns threads; a process is the sum of its live
//! threads and the totals of its ended threads.

use std::collections::{BTreeSet, HashMap};

use super::bindings::{
    HAS_MM, HAS_STACK, IO_WAIT, KTHREAD, ON_CPU, RUNNABLE, RawTask, THREAD, ZOMBIE,
};
use super::record;
use super::wait_classifier::WaitClassifier;
use super::{Resident, TaskCounters, TaskKind, TaskSample, Totals};
use ebb_telemetry::step::TaskState;

/// Sums one scan by process. A process without its leader is left out, because the totals of its
/// ended threads are unknown. A zombie is left out too, because its end is a separate event.
///
/// The second value contains the processes with stack addresses whose names are missing.
pub(super) fn by_process(
    tasks: &[RawTask],
    classifier: &WaitClassifier,
) -> (Vec<TaskSample>, BTreeSet<u32>) {
    let is_thread = |task: &&RawTask| is_thread(task);
    let mut of_others: HashMap<u32, Group> = HashMap::new();
    for thread in tasks.iter().filter(is_thread) {
        of_others
            .entry(thread.head.tgid)
            .or_default()
            .add(thread, classifier);
    }
    let mut unnamed = BTreeSet::new();
    let mut samples = Vec::with_capacity(tasks.len() - of_others.len());
    for leader in tasks.iter().filter(|task| !is_thread(task)) {
        let mut group = of_others.remove(&leader.head.tgid).unwrap_or_default();
        group.add(leader, classifier);
        if group.lacks_names {
            unnamed.insert(leader.head.tgid);
        }
        samples.extend(group.finish(leader));
    }
    (samples, unnamed)
}

/// Tasks that the next scan may need again. A process of several threads is summed even if some
/// threads are unchanged. A process with missing names is reported again when they are known.
pub(super) fn to_keep(tasks: &[RawTask], unnamed: &BTreeSet<u32>) -> Vec<RawTask> {
    let kept = |task: &&RawTask| is_thread(task) || unnamed.contains(&task.head.tgid);
    let mut kept: Vec<RawTask> = tasks.iter().filter(kept).copied().collect();
    kept.sort_unstable_by_key(|task| task.tid);
    kept
}

/// The addresses whose names are needed to determine wait states, each once.
pub(super) fn unnamed_addresses(tasks: &[RawTask], classifier: &WaitClassifier) -> Vec<u64> {
    let has_stack = |task: &&RawTask| task.head.flags & HAS_STACK != 0;
    let stacks = tasks.iter().filter(has_stack).map(|task| &task.stack);
    let addresses: BTreeSet<u64> = stacks.flat_map(|stack| classifier.unnamed(stack)).collect();
    addresses.into_iter().collect()
}

/// Zombies: ended processes that their parent has not reaped. Some may still have a live thread.
pub(super) fn zombies(tasks: &[RawTask]) -> Vec<u32> {
    let ended = |task: &&RawTask| !is_thread(task) && task.head.flags & ZOMBIE != 0;
    tasks.iter().filter(ended).map(|task| task.tid).collect()
}

fn is_thread(task: &RawTask) -> bool {
    task.head.flags & THREAD != 0
}

/// The state of a thread; `None` if it cannot be determined.
fn state(task: &RawTask, classifier: &WaitClassifier) -> Option<TaskState> {
    let has = |flag| task.head.flags & flag != 0;
    if has(KTHREAD) || has(ZOMBIE) {
        None
    } else if has(ON_CPU) {
        Some(TaskState::Running)
    } else if has(RUNNABLE) {
        Some(TaskState::Runnable)
    } else {
        let reason = match has(HAS_STACK) {
            true => classifier.state(&task.stack),
            false => None,
        };
        // The scheduler's I/O wait flag, if the names are not conclusive.
        let unnamed = matches!(reason, None | Some(TaskState::Other));
        match has(IO_WAIT) && unnamed {
            true => Some(TaskState::Disk),
            false => reason,
        }
    }
}

#[derive(Default)]
struct Group {
    totals: Totals,
    resident: Option<Resident>,
    living_threads: u32,
    counters: TaskCounters,
    state: Option<TaskState>,
    lacks_names: bool,
}

impl Group {
    fn add(&mut self, task: &RawTask, classifier: &WaitClassifier) {
        let flags = task.head.flags;
        let state = state(task, classifier);
        self.lacks_names |= state.is_none() && flags & HAS_STACK != 0;
        self.state = self.state.into_iter().chain(state).min();
        self.add_counters(&record::counters(flags, &task.counters));
        if flags & ZOMBIE == 0 {
            self.living_threads += 1;
        }
        self.totals.add(&record::totals(
            flags,
            task.cpu_ns,
            task.read_bytes,
            task.write_bytes,
        ));
        if flags & HAS_MM != 0 {
            self.resident = Some(Resident {
                anon: record::pages(task.anon_pages),
                file: record::pages(task.file_pages),
                shmem: record::pages(task.shmem_pages),
                high_water: record::pages(task.hiwater_pages),
            });
        }
        if flags & THREAD == 0 {
            self.totals.add(&record::totals(
                flags,
                task.ended_cpu_ns,
                task.ended_read_bytes,
                task.ended_write_bytes,
            ));
        }
    }

    fn add_counters(&mut self, more: &TaskCounters) {
        let sum = &mut self.counters;
        sum.user_ticks = sum.user_ticks.saturating_add(more.user_ticks);
        sum.system_ticks = sum.system_ticks.saturating_add(more.system_ticks);
        sum.voluntary += more.voluntary;
        sum.involuntary += more.involuntary;
        sum.minor_faults += more.minor_faults;
        sum.major_faults += more.major_faults;
        for (sum, more) in [
            (&mut sum.run_queue, more.run_queue),
            (&mut sum.disk_delay, more.disk_delay),
        ] {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or_default().saturating_add(more));
            }
        }
        if let Some(more) = more.syscall_io {
            sum.syscall_io = Some(sum.syscall_io.unwrap_or_default().plus(more));
        }
    }

    fn finish(self, leader: &RawTask) -> Option<TaskSample> {
        if self.living_threads == 0 {
            return None;
        }
        let kernel = leader.head.flags & KTHREAD != 0;
        Some(TaskSample {
            process: leader.head.process(),
            kind: if kernel {
                TaskKind::Kernel
            } else {
                TaskKind::User
            },
            totals: self.totals,
            resident: self.resident,
            counters: Some(self.counters),
            state: self.state,
            threads: self.living_threads,
            user: Some(leader.uid),
            namespaces: leader.head.namespaces(),
        })
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;

    use super::*;

    fn task(tgid: u32, flags: u32, cpu_ns: u64, ended_cpu_ns: u64) -> RawTask {
        let mut task = RawTask::zeroed();
        task.head.tgid = tgid;
        task.head.flags = flags;
        task.cpu_ns = cpu_ns;
        task.ended_cpu_ns = ended_cpu_ns;
        task
    }

    #[test]
    fn a_process_is_its_live_threads_and_what_the_ended_ones_left() {
        let check = |tasks: &[RawTask], expect: &[(u32, u64)]| {
            let (samples, _) = by_process(tasks, &WaitClassifier::default());
            let got: Vec<_> = samples
                .iter()
                .map(|s| (s.process.key.pid, s.totals.cpu.0))
                .collect();
            assert_eq!(got, expect);
        };
        check(&[], &[]);
        check(&[task(7, 0, 5, 0)], &[(7, 5)]);
        check(&[task(7, 0, 5, 100), task(7, THREAD, 2, 0)], &[(7, 107)]);
        // The order of tasks does not matter, and processes are kept separate.
        check(
            &[task(9, THREAD, 1, 0), task(8, 0, 4, 0), task(9, 0, 2, 3)],
            &[(8, 4), (9, 6)],
        );
        // Threads without their leader are not sufficient.
        check(&[task(7, THREAD, 2, 0)], &[]);
        // An ended leader with live threads counts as alive; without them it does not.
        check(&[task(7, ZOMBIE, 5, 1)], &[]);
        check(&[task(7, ZOMBIE, 5, 1), task(7, THREAD, 2, 0)], &[(7, 8)]);
    }

    #[test]
    fn a_process_does_what_the_busiest_of_its_threads_does() {
        let check = |flags: &[u32], expect: Option<TaskState>| {
            let tasks: Vec<RawTask> = flags
                .iter()
                .enumerate()
                .map(|(n, flags)| task(7, flags | if n > 0 { THREAD } else { 0 }, 0, 0))
                .collect();
            let mut classifier = WaitClassifier::default();
            classifier.learn(b"5 do_wait+0x1/0x2");
            let (processes, _) = by_process(&tasks, &classifier);
            assert_eq!(processes[0].state, expect, "{flags:?}");
        };
        check(&[ON_CPU], Some(TaskState::Running));
        check(&[RUNNABLE, ON_CPU], Some(TaskState::Running));
        check(&[IO_WAIT, RUNNABLE], Some(TaskState::Runnable));
        check(&[IO_WAIT | HAS_STACK], Some(TaskState::Disk));
        // It classifier for an unknown reason.
        check(&[0], None);
        check(&[0, IO_WAIT], Some(TaskState::Disk));
        check(&[HAS_STACK], Some(TaskState::Other));
    }
}
