//! Processes that are alive or have just ended, with their counters.

use std::collections::HashMap;

use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::step::{MemorySource, PeakMemory};
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::kernel::{
    CgroupId, Comm, DiskBytes, Process, ProcessKey, TaskCounters, ToolName, Totals,
};
use crate::label_rules::Children;

pub(crate) const fn side(owner: ProcessOwner) -> Side {
    match owner {
        ProcessOwner::Step(_) => Side::Workload,
        ProcessOwner::Background(_) => Side::Background,
    }
}

/// Limit of known processes, about 15 MB of the unit's 64 MB: any user can start more.
const MAX_PROCESSES: usize = 32_768;

/// Number of consecutive scans without a process after which the process counts as gone. At the
/// first one, its end event can still be in the ring buffer.
const MISSED_SCANS: u8 = 2;

/// The same number for a process that has ended and was reaped. Its last totals usually arrive
/// within a second, when no CPU references the task any more, unless the ring buffer was full.
const MISSED_AFTER_END: u8 = 10;

/// The class of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessOwner {
    Background(Children),
    Step(StepNumber),
}

/// The stage in the life of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Forked; it still runs the program of its parent.
    Forked,
    /// Runs a program of its own.
    Executed,
    /// Ended; its last totals have not arrived yet.
    Ended,
}

/// The part of a process in a workflow of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineRole {
    /// None.
    Other,
    /// It runs a workflow of Snakemake, whose shells are tasks.
    Workflow,
    /// It runs a job of a workflow of Snakemake; what it starts belongs to the task of the job.
    Job,
    /// It runs one task of another engine, which its arguments name.
    Task,
}

/// One process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) key: ProcessKey,
    pub(crate) program: Comm,
    /// The tool name in reports.
    pub(crate) tool: ToolName,
    pub(crate) engine_role: EngineRole,
    pub(crate) cgroup: Option<CgroupId>,
    pub(crate) user: Option<u32>,
    pub(crate) owner: ProcessOwner,
    pub(crate) stage: Stage,
    /// The kernel marked it as a victim of an out-of-memory condition. It also marks a process that
    /// already exits, and such a process keeps its own exit status.
    ///
    /// Source: `oom_kill_process` and `task_will_free_mem` in `mm/oom_kill.c`.
    pub(crate) is_oom_victim: bool,
    /// The totals that are already accounted.
    pub(crate) counted: Totals,
    pub(crate) counters: TaskCounters,
    /// `maxrss` at the start of its program, which is the memory of the previous program.
    pub(crate) maxrss_before: Bytes,
    /// The greatest high-water mark at a scan.
    pub(crate) sampled_peak: Option<Bytes>,
    /// Its anonymous and shared memory at the last sample.
    pub(crate) memory: Option<(Bytes, Bytes)>,
    /// Its threads at the last sample.
    pub(crate) threads: u32,
    /// Its state at the last sample.
    pub(crate) state: Option<TaskState>,
    /// The current scan contains it.
    in_scan: bool,
    missed_scans: u8,
}

impl Entry {
    pub(crate) fn new(
        process: &Process,
        owner: ProcessOwner,
        stage: Stage,
        tool: ToolName,
    ) -> Self {
        Self {
            key: process.key,
            program: process.comm,
            tool,
            engine_role: EngineRole::Other,
            cgroup: process.cgroup,
            user: None,
            owner,
            stage,
            is_oom_victim: false,
            counted: Totals {
                cpu: CpuTime::default(),
                disk: Some(DiskBytes::default()),
            },
            counters: TaskCounters::default(),
            maxrss_before: Bytes::default(),
            sampled_peak: None,
            memory: None,
            threads: 0,
            state: None,
            in_scan: false,
            missed_scans: 0,
        }
    }

    /// The increase since the last count. A counter that decreased is unknown: nothing is counted
    /// until it exceeds its old value.
    pub(crate) fn count(&mut self, totals: &Totals) -> Totals {
        let since = |now: u64, before: &mut u64| {
            let used = now.saturating_sub(*before);
            *before = now.max(*before);
            used
        };
        let disk = totals.disk.map(|now| {
            let before = self.counted.disk.get_or_insert_default();
            DiskBytes {
                read: Bytes(since(now.read.0, &mut before.read.0)),
                written: Bytes(since(now.written.0, &mut before.written.0)),
            }
        });
        let cpu = CpuTime(since(totals.cpu.0, &mut self.counted.cpu.0));
        Totals { cpu, disk }
    }

    /// Its peak memory from the best available source, in this order: its address space, `maxrss`
    /// if this program raised it, the last scan, otherwise an upper bound.
    pub(crate) fn peak(&self, at_exit: Option<Bytes>, maxrss: Bytes) -> PeakMemory {
        let (bytes, source) = match (at_exit, self.sampled_peak) {
            // After an OOM kill, the kernel can free the memory before it updates the mark.
            (Some(bytes), sampled) => (
                bytes.max(sampled.unwrap_or_default()),
                MemorySource::HighWaterAtExit,
            ),
            (None, _) if maxrss > self.maxrss_before => (maxrss, MemorySource::HighWaterAtExit),
            (None, Some(bytes)) => (bytes, MemorySource::ProcessesSampled),
            (None, None) => (maxrss, MemorySource::MaxRssUpperBound),
        };
        PeakMemory { bytes, source }
    }
}

/// Processes by process id.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// A scan looks up every process, so the hash is fast. The kernel assigns the keys, so no
    /// stronger hash is needed.
    by_pid: HashMap<u32, Entry, foldhash::fast::RandomState>,
    /// The classes of processes that ended since the last scan; `None` if nothing needs them.
    ended: Option<HashMap<u32, ProcessOwner, foldhash::fast::RandomState>>,
}

impl Processes {
    /// The class of a process that is alive or has ended since the last scan.
    pub(crate) fn owner_since_scan(&self, pid: u32) -> Option<ProcessOwner> {
        let alive = self.get(pid).map(|entry| entry.owner);
        alive.or_else(|| self.ended.as_ref()?.get(&pid).copied())
    }

    /// Forgets the processes that ended, and remembers those that end from now on.
    pub(crate) fn remember_ended_from_now(&mut self) {
        self.ended = Some(HashMap::default());
    }

    pub(crate) fn get(&self, pid: u32) -> Option<&Entry> {
        self.by_pid.get(&pid)
    }

    pub(crate) fn get_mut(&mut self, pid: u32) -> Option<&mut Entry> {
        self.by_pid.get_mut(&pid)
    }

    /// The entry of exactly this process, not of a later one with the same id.
    pub(crate) fn exact(&mut self, key: ProcessKey) -> Option<&mut Entry> {
        self.by_pid
            .get_mut(&key.pid)
            .filter(|entry| entry.key == key)
    }

    /// Whether there is room for a process with this PID.
    pub(crate) fn has_room_for(&self, pid: u32) -> bool {
        self.by_pid.len() < MAX_PROCESSES || self.by_pid.contains_key(&pid)
    }

    /// Ends an incomplete scan: processes that it did not contain may still run. Returns their
    /// number.
    pub(crate) fn end_partial_scan(&mut self) -> u64 {
        let mut missing = 0;
        for entry in self.by_pid.values_mut() {
            missing += u64::from(!std::mem::take(&mut entry.in_scan));
        }
        missing
    }

    /// Inserts a process and returns a previous one with the same id whose end was not reported.
    pub(crate) fn put(&mut self, entry: Entry) -> Option<Entry> {
        self.by_pid.insert(entry.key.pid, entry)
    }

    pub(crate) fn remove(&mut self, key: ProcessKey) -> Option<Entry> {
        let owner = self.exact(key)?.owner;
        if let Some(ended) = &mut self.ended
            && ended.len() < MAX_PROCESSES
        {
            ended.insert(key.pid, owner);
        }
        self.by_pid.remove(&key.pid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.by_pid.values()
    }

    /// The entry of a process that the current scan contains.
    pub(crate) fn mark_scanned(&mut self, pid: u32) -> Option<&Entry> {
        let entry = self.by_pid.get_mut(&pid)?;
        entry.in_scan = true;
        Some(entry)
    }

    /// Records that the current scan contains an ended process that its parent has not reaped. It
    /// has no effect on a process without an end event.
    pub(crate) fn still_zombie(&mut self, pid: u32) {
        if let Some(entry) = self.by_pid.get_mut(&pid) {
            entry.in_scan |= entry.stage == Stage::Ended;
        }
    }

    /// Ends a scan, and removes processes that the last scans did not contain.
    pub(crate) fn take_vanished(&mut self) -> Vec<Entry> {
        let mut gone = Vec::new();
        for entry in self.by_pid.values_mut() {
            if std::mem::take(&mut entry.in_scan) {
                entry.missed_scans = 0;
                continue;
            }
            entry.missed_scans = entry.missed_scans.saturating_add(1);
            let most = match entry.stage {
                Stage::Ended => MISSED_AFTER_END,
                Stage::Forked | Stage::Executed => MISSED_SCANS,
            };
            if entry.missed_scans >= most {
                gone.push(*entry);
            }
        }
        for entry in &gone {
            self.by_pid.remove(&entry.key.pid);
        }
        // Frees the memory of a burst of short processes, which most nodes do not need again.
        if self.by_pid.capacity() > 4 * self.by_pid.len() {
            self.by_pid.shrink_to(2 * self.by_pid.len());
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::time::BootClock;

    use super::*;

    fn entry(pid: u32, stage: Stage) -> Entry {
        let process = Process {
            key: ProcessKey {
                pid,
                start: BootClock::from_nanos(1),
            },
            parent: 1,
            cgroup: None,
            comm: Comm::new("sh"),
        };
        let owner = ProcessOwner::Background(Children::Classified);
        Entry::new(&process, owner, stage, ToolName::new(process.comm, None))
    }

    #[test]
    fn an_ended_process_waits_for_its_parent_and_not_for_last_totals_that_were_lost() {
        let check = |stage, zombie_for: u8, expect: u8| {
            let mut processes = Processes::default();
            processes.put(entry(7, stage));
            let gone = (1..=u8::MAX).find(|pass| {
                if *pass <= zombie_for {
                    processes.still_zombie(7);
                }
                !processes.take_vanished().is_empty()
            });
            assert_eq!(gone, Some(expect), "{stage:?} {zombie_for}");
        };
        check(Stage::Ended, 0, MISSED_AFTER_END);
        check(Stage::Ended, 100, 100 + MISSED_AFTER_END);
        check(Stage::Executed, 100, MISSED_SCANS);
    }

    #[test]
    fn a_peak_at_exit_is_at_least_the_sampled_peak() {
        let check = |sampled: Option<u64>, expect: u64| {
            let mut entry = entry(7, Stage::Executed);
            entry.sampled_peak = sampled.map(Bytes::mib);
            let peak = entry.peak(Some(Bytes::mib(2)), Bytes::mib(2));
            assert_eq!(peak.bytes, Bytes::mib(expect), "{sampled:?}");
            assert_eq!(peak.source, MemorySource::HighWaterAtExit);
        };
        check(None, 2);
        check(Some(1), 2);
        check(Some(60), 60);
    }

    #[test]
    fn the_room_that_a_burst_took_is_given_back_by_the_next_pass() {
        let mut processes = Processes::default();
        for pid in 0..10_000 {
            processes.put(entry(pid, Stage::Forked));
        }
        for pid in 100..10_000 {
            let key = entry(pid, Stage::Forked).key;
            processes.remove(key).expect("it was put in");
        }
        assert!(processes.take_vanished().is_empty());
        assert_eq!(processes.iter().count(), 100);
        assert!(processes.by_pid.capacity() < 1_000);
    }
}

/// The number of a task in the table; it is not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StepNumber(pub(crate) u64);

/// The owner of resource use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Workload,
    Background,
}
