//! Resource use of the node's processes in one interval, and its coverage.

use std::time::Duration;

use ebb_telemetry::heartbeat::{Coverage, Usage};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, Share};

use crate::interval::processes::Side;
use crate::interval::sockets::Traffic;
use crate::kernel::Totals;

/// The time between two scans.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanGap {
    /// The time of skipped scans, in which the node was idle; it comes first.
    pub(crate) idle: Duration,
    /// The remaining time.
    pub(crate) gap: Duration,
    /// The CPU time of all processes in the remaining time; `None` if unknown.
    busy: Option<CpuTime>,
}

impl ScanGap {
    /// The whole time.
    pub(crate) fn whole(&self) -> Duration {
        self.idle.saturating_add(self.gap)
    }

    /// Divides a task's CPU time between the idle time and the remaining time. The latter gets as
    /// much as the total CPU time allows, because the node was idle before.
    pub(crate) fn divided(&self, cpu: CpuTime) -> [(Duration, CpuTime); 2] {
        let lately = match self.busy {
            Some(busy) if !self.idle.is_zero() => cpu.min(busy),
            _ => cpu,
        };
        let before = CpuTime(cpu.0.saturating_sub(lately.0));
        [(self.idle, before), (self.gap, lately)]
    }
}

/// Counters since the start of the interval.
#[derive(Debug)]
pub(crate) struct IntervalTotals {
    pub(crate) start: BootClock,
    last_scan: BootClock,
    idle: Duration,
    covered: Duration,
    workload: SideTotals,
    background: SideTotals,
    events: u64,
    disk_unknown: bool,
    pub(crate) traffic: Traffic,
    /// The kernel does not report process starts and ends.
    pub(crate) sampled: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct SideTotals {
    cpu: CpuTime,
    disk: Bytes,
    started: u64,
}

impl IntervalTotals {
    pub(crate) fn new(start: BootClock) -> Self {
        Self {
            start,
            last_scan: start,
            idle: Duration::ZERO,
            covered: Duration::ZERO,
            workload: SideTotals::default(),
            background: SideTotals::default(),
            events: 0,
            disk_unknown: false,
            traffic: Traffic::default(),
            sampled: false,
        }
    }

    /// The totals of the next interval.
    pub(crate) fn next(&self, start: BootClock) -> Self {
        let mut next = Self::new(start);
        next.traffic.watched = self.traffic.watched;
        next.sampled = self.sampled;
        next
    }

    fn side(&mut self, side: Side) -> &mut SideTotals {
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
            None => self.disk_unknown = true,
        }
    }

    pub(crate) fn started(&mut self, side: Side) {
        self.side(side).started += 1;
    }

    /// A process was counted on the wrong side.
    pub(crate) fn changed_side(&mut self, from: Side, to: Side) {
        let old = self.side(from);
        old.started = old.started.saturating_sub(1);
        self.side(to).started += 1;
    }

    pub(crate) const fn event(&mut self) {
        self.events += 1;
    }

    /// Records a scan and returns the time since the previous one. If this time is longer than
    /// `expected`, only `expected` counts as covered: the machine or the probe was suspended, or the
    /// scan is incomplete.
    pub(crate) fn scan(
        &mut self,
        at: BootClock,
        busy: Option<CpuTime>,
        expected: Duration,
    ) -> ScanGap {
        let gap = self.moment(at, expected);
        let idle = std::mem::take(&mut self.idle);
        ScanGap { idle, gap, busy }
    }

    /// Records a skipped scan.
    pub(crate) fn skip_scan(&mut self, at: BootClock, expected: Duration) {
        let gap = self.moment(at, expected);
        self.idle += gap;
    }

    fn moment(&mut self, at: BootClock, expected: Duration) -> Duration {
        let gap = at.since(self.last_scan).unwrap_or_default();
        self.last_scan = at;
        self.covered += gap.min(expected);
        gap
    }

    /// The resource use of each side; `network` is the total of the node.
    pub(crate) fn usage(&self, network: Option<Bytes>) -> (Usage, Usage) {
        let usage = |used: &SideTotals, network| Usage {
            cpu: Some(used.cpu),
            disk: (!self.disk_unknown).then_some(used.disk),
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

    /// The coverage without GPUs, which another module determines.
    pub(crate) fn coverage(&self, end: BootClock, lost: u64, network: Option<Bytes>) -> Coverage {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let whole = end.since(self.start).unwrap_or_default();
        let scanned_share =
            Share::from_parts(nanos(self.covered), nanos(whole)).unwrap_or(Share::NONE);
        let events = Share::from_parts(self.events, self.events.saturating_add(lost));
        Coverage {
            cpu: Some(scanned_share),
            memory: Some(scanned_share),
            disk: (!self.disk_unknown).then_some(scanned_share),
            network: network.map(|_| scanned_share),
            gpu: None,
            short_processes: (!self.sampled).then(|| events.unwrap_or(Share::ALL)),
        }
    }
}
