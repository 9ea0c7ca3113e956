//! The processes that live or have just ended, each with what was counted of it.

use std::collections::HashMap;

use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::step::{MemorySource, PeakMemory};
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::kernel::{CgroupId, Comm, DiskBytes, Finer, Process, ProcessKey, ToolName, Totals};
use crate::rules::Children;

pub(crate) const fn side(place: Place) -> Side {
    match place {
        Place::Step(_) => Side::Workload,
        Place::Background(_) => Side::Background,
    }
}

/// Limit of known processes, about 15 MB of the unit's 64 MB: any user can start more.
const MAX_PROCESSES: usize = 32_768;

/// Passes that a process may be missing from before it is taken to be gone: its
/// end can still wait in the ring at the first.
const MISSED_PASSES: u8 = 2;

/// Likewise once it has ended and was waited for: its last totals come when no processor
/// looks at it any more, mostly within a second, unless they found no room in the ring.
const MISSED_AFTER_END: u8 = 10;

/// Where a process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Background(Children),
    Step(StepNumber),
}

/// How far a process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Forked, still its parent's program.
    Forked,
    /// Runs a program of its own.
    Executed,
    /// Ended; its last totals are awaited.
    Ended,
}

/// One process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) key: ProcessKey,
    pub(crate) program: Comm,
    /// What it is told as.
    pub(crate) tool: ToolName,
    pub(crate) cgroup: Option<CgroupId>,
    pub(crate) place: Place,
    pub(crate) stage: Stage,
    /// What has been accounted for.
    pub(crate) counted: Totals,
    pub(crate) finer: Finer,
    /// `maxrss` when its program began: memory of the one before.
    pub(crate) maxrss_before: Bytes,
    /// The greatest high-water mark that a pass saw.
    pub(crate) sampled_peak: Option<Bytes>,
    /// Its own and its shared memory, when last told.
    pub(crate) held: Option<(Bytes, Bytes)>,
    /// Its threads then.
    pub(crate) threads: u32,
    /// What it did then.
    pub(crate) state: Option<TaskState>,
    /// The present pass has shown it.
    seen: bool,
    missed_passes: u8,
}

impl Entry {
    pub(crate) fn new(process: &Process, place: Place, stage: Stage, tool: ToolName) -> Self {
        Self {
            key: process.key,
            program: process.comm,
            tool,
            cgroup: process.cgroup,
            place,
            stage,
            counted: Totals {
                cpu: CpuTime::default(),
                disk: Some(DiskBytes::default()),
            },
            finer: Finer::default(),
            maxrss_before: Bytes::default(),
            sampled_peak: None,
            held: None,
            threads: 0,
            state: None,
            seen: false,
            missed_passes: 0,
        }
    }

    /// What was used since the last count. A counter that went backwards is
    /// unknown: nothing is counted until it passes its old mark.
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

    /// The most memory it held, by the best source there is: its address space;
    /// `maxrss` where this program raised it; the last pass; else a bound.
    pub(crate) fn peak(&self, at_exit: Option<Bytes>, maxrss: Bytes) -> PeakMemory {
        let (bytes, source) = match (at_exit, self.sampled_peak) {
            (Some(bytes), _) => (bytes, MemorySource::HighWaterAtExit),
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
    /// A pass asks for each: by a cheap hash, of which numbers that the kernel gives need
    /// no stronger.
    by_pid: HashMap<u32, Entry, foldhash::fast::RandomState>,
}

impl Processes {
    pub(crate) fn get(&self, pid: u32) -> Option<&Entry> {
        self.by_pid.get(&pid)
    }

    /// The entry of exactly this process; a later one of the same id is not it.
    pub(crate) fn exact(&mut self, key: ProcessKey) -> Option<&mut Entry> {
        self.by_pid
            .get_mut(&key.pid)
            .filter(|entry| entry.key == key)
    }

    /// Whether there is room for a process with this PID.
    pub(crate) fn has_room_for(&self, pid: u32) -> bool {
        self.by_pid.len() < MAX_PROCESSES || self.by_pid.contains_key(&pid)
    }

    /// Ends an incomplete pass: processes that it did not contain may still run. Returns their
    /// number.
    pub(crate) fn end_cut_pass(&mut self) -> u64 {
        let mut unseen = 0;
        for entry in self.by_pid.values_mut() {
            unseen += u64::from(!std::mem::take(&mut entry.seen));
        }
        unseen
    }

    /// Puts a process in and hands back the one of the same id whose end was
    /// never told.
    pub(crate) fn put(&mut self, entry: Entry) -> Option<Entry> {
        self.by_pid.insert(entry.key.pid, entry)
    }

    pub(crate) fn remove(&mut self, key: ProcessKey) -> Option<Entry> {
        self.exact(key)?;
        self.by_pid.remove(&key.pid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.by_pid.values()
    }

    /// The entry of a process that the present pass shows.
    pub(crate) fn seen(&mut self, pid: u32) -> Option<&Entry> {
        let entry = self.by_pid.get_mut(&pid)?;
        entry.seen = true;
        Some(entry)
    }

    /// The present pass shows that the parent of an ended process has not waited for it. One
    /// whose end was not told is not there for it.
    pub(crate) fn still_zombie(&mut self, pid: u32) {
        if let Some(entry) = self.by_pid.get_mut(&pid) {
            entry.seen |= entry.stage == Stage::Ended;
        }
    }

    /// Ends a pass: takes out what the last ones did not show.
    pub(crate) fn take_vanished(&mut self) -> Vec<Entry> {
        let mut gone = Vec::new();
        for entry in self.by_pid.values_mut() {
            if std::mem::take(&mut entry.seen) {
                entry.missed_passes = 0;
                continue;
            }
            entry.missed_passes = entry.missed_passes.saturating_add(1);
            let most = match entry.stage {
                Stage::Ended => MISSED_AFTER_END,
                Stage::Forked | Stage::Executed => MISSED_PASSES,
            };
            if entry.missed_passes >= most {
                gone.push(*entry);
            }
        }
        for entry in &gone {
            self.by_pid.remove(&entry.key.pid);
        }
        // What a burst of short processes took, most nodes never need again.
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
        let place = Place::Background(Children::Judged);
        Entry::new(&process, place, stage, ToolName::new(process.comm, None))
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
        check(Stage::Executed, 100, MISSED_PASSES);
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

/// A step's place in the table; never used again after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StepNumber(pub(crate) u64);

/// Whose use it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Workload,
    Background,
}
