//! What the node's processes used in one interval, and how much of it was seen.

use std::time::Duration;

use ebb_telemetry::heartbeat::{Coverage, Usage};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, Share};

use crate::interval::processes::Side;
use crate::interval::sockets::Traffic;
use crate::kernel::Totals;

/// What lies between two passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    /// The time in which passes were left out, because next to nothing ran; it is first.
    pub(crate) quiet: Duration,
    /// The rest of it.
    pub(crate) gap: Duration,
    /// The CPU time of all that ran in the rest, where that is known.
    busy: Option<CpuTime>,
}

impl Since {
    /// All of the time.
    pub(crate) fn whole(&self) -> Duration {
        self.quiet.saturating_add(self.gap)
    }

    /// Divides a step's CPU time between the quiet time and the rest, which gets what it can
    /// have had at most: next to nothing ran in the quiet time.
    pub(crate) fn divided(&self, cpu: CpuTime) -> [(Duration, CpuTime); 2] {
        let lately = match self.busy {
            Some(busy) if !self.quiet.is_zero() => cpu.min(busy),
            _ => cpu,
        };
        let before = CpuTime(cpu.0.saturating_sub(lately.0));
        [(self.quiet, before), (self.gap, lately)]
    }
}

/// Counters since the interval began.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) start: BootClock,
    last_pass: BootClock,
    quiet: Duration,
    covered: Duration,
    workload: Used,
    background: Used,
    events: u64,
    disk_unseen: bool,
    pub(crate) traffic: Traffic,
    /// The kernel does not tell of births and ends.
    pub(crate) sampled: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Used {
    cpu: CpuTime,
    disk: Bytes,
    started: u64,
}

impl Tally {
    pub(crate) fn new(start: BootClock) -> Self {
        Self {
            start,
            last_pass: start,
            quiet: Duration::ZERO,
            covered: Duration::ZERO,
            workload: Used::default(),
            background: Used::default(),
            events: 0,
            disk_unseen: false,
            traffic: Traffic::default(),
            sampled: false,
        }
    }

    /// The one that follows it.
    pub(crate) fn next(&self, start: BootClock) -> Self {
        let mut next = Self::new(start);
        next.traffic.watched = self.traffic.watched;
        next.sampled = self.sampled;
        next
    }

    fn side(&mut self, side: Side) -> &mut Used {
        match side {
            Side::Workload => &mut self.workload,
            Side::Background => &mut self.background,
        }
    }

    pub(crate) fn add(&mut self, side: Side, used: &Totals) {
        let sum = self.side(side);
        sum.cpu = sum.cpu.saturating_add(used.cpu);
        match used.disk {
            Some(disk) => {
                sum.disk = sum
                    .disk
                    .saturating_add(disk.read)
                    .saturating_add(disk.written);
            }
            None => self.disk_unseen = true,
        }
    }

    pub(crate) fn started(&mut self, side: Side) {
        self.side(side).started += 1;
    }

    /// A process counted on one side turned out to be of the other.
    pub(crate) fn changed_side(&mut self, from: Side, to: Side) {
        let old = self.side(from);
        old.started = old.started.saturating_sub(1);
        self.side(to).started += 1;
    }

    pub(crate) const fn event(&mut self) {
        self.events += 1;
    }

    /// Notes a pass of the iterator and tells what lies between it and the one before.
    /// A longer time than `expected` is seen only that far: the machine slept,
    /// or the probe did.
    pub(crate) fn pass(
        &mut self,
        at: BootClock,
        busy: Option<CpuTime>,
        expected: Duration,
    ) -> Since {
        let gap = self.moment(at, expected);
        let quiet = std::mem::take(&mut self.quiet);
        Since { quiet, gap, busy }
    }

    /// Notes a pass that was left out.
    pub(crate) fn leave_out(&mut self, at: BootClock, expected: Duration) {
        let gap = self.moment(at, expected);
        self.quiet += gap;
    }

    fn moment(&mut self, at: BootClock, expected: Duration) -> Duration {
        let gap = at.since(self.last_pass).unwrap_or_default();
        self.last_pass = at;
        self.covered += gap.min(expected);
        gap
    }

    /// What each side used; `network` is the node's sum.
    pub(crate) fn usage(&self, network: Option<Bytes>) -> (Usage, Usage) {
        let usage = |used: &Used, network| Usage {
            cpu: Some(used.cpu),
            disk: (!self.disk_unseen).then_some(used.disk),
            network,
            gpu: None,
            processes_started: used.started,
        };
        let (workload, background) = self.traffic.divided(network);
        (
            usage(&self.workload, workload),
            usage(&self.background, background),
        )
    }

    /// GPUs are asked elsewhere.
    pub(crate) fn coverage(&self, end: BootClock, lost: u64, network: Option<Bytes>) -> Coverage {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let whole = end.since(self.start).unwrap_or_default();
        let seen = Share::of(nanos(self.covered), nanos(whole)).unwrap_or(Share::NONE);
        let events = Share::of(self.events, self.events.saturating_add(lost));
        Coverage {
            cpu: Some(seen),
            memory: Some(seen),
            disk: (!self.disk_unseen).then_some(seen),
            network: network.map(|_| seen),
            gpu: None,
            short_processes: (!self.sampled).then(|| events.unwrap_or(Share::ALL)),
        }
    }
}
