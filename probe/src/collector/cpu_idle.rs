//! Measures how busy the node was since the previous sample, from the idle time of its CPUs. It
//! reads one number, whereas a scan visits every task.

use std::time::Duration;

use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{CpuTime, MilliCores};

use crate::kernel_file::KernelLine;
use crate::node;

/// Below this number of busy cores, the node counts as idle. It is a fifth of the upper bound of
/// the lowest parallelism class, so that no task's time falls into another class.
const BUSY: MilliCores = MilliCores(100);

/// The CPU use of the node since the previous sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuUse {
    /// The CPU time of all tasks, including interrupts.
    pub(super) cpu: CpuTime,
    /// The CPU use was below the threshold.
    pub(super) is_idle: bool,
}

/// The idle time of the CPUs since boot.
#[derive(Debug, Clone, Copy)]
struct IdleTime {
    /// Number of CPUs online.
    processors: u32,
    /// The sum over all CPUs.
    time: Duration,
}

/// Consecutive samples.
#[derive(Debug)]
pub(super) struct CpuIdleTracker {
    /// `None` if the kernel does not provide the files.
    files: Option<[KernelLine; 2]>,
    last: Option<(BootClock, IdleTime)>,
}

impl CpuIdleTracker {
    /// Source: `proc_uptime(5)`, which is exact on kernels that stop the tick of an idle CPU
    /// (`CONFIG_NO_HZ_IDLE`).
    pub(super) fn begin() -> Self {
        let open = |path| KernelLine::open(path).ok();
        let files = open("/proc/uptime").zip(open(node::PROCESSORS));
        Self {
            files: files.map(|(uptime, processors)| [uptime, processors]),
            last: None,
        }
    }

    /// The CPU use since the last call; `None` if the kernel does not report it, and if the number
    /// of CPUs changed meanwhile.
    pub(super) fn since_last(&mut self) -> Option<CpuUse> {
        let now = self.sample();
        let before = std::mem::replace(&mut self.last, now);
        between(before?, now?)
    }

    fn sample(&self) -> Option<(BootClock, IdleTime)> {
        let [uptime, processors] = self.files.as_ref()?;
        let text = uptime.now().ok()?;
        let seconds = text.split_whitespace().nth(1)?.parse().ok()?;
        let idle = IdleTime {
            processors: node::processors(&processors.now().ok()?)?,
            time: Duration::try_from_secs_f64(seconds).ok()?,
        };
        Some((node::clock(), idle))
    }
}

fn between(before: (BootClock, IdleTime), now: (BootClock, IdleTime)) -> Option<CpuUse> {
    let ((began, before), (ended, now)) = (before, now);
    let wall = ended.since(began)?;
    let idle = now.time.checked_sub(before.time)?;
    if before.processors != now.processors {
        return None;
    }
    // Time in suspend does not count as idle, so such a sample counts as busy.
    let all = wall.checked_mul(now.processors)?;
    let busy = u64::try_from(all.saturating_sub(idle).as_nanos()).ok()?;
    let cpu = CpuTime(busy);
    let is_idle = cpu.cores_over(wall).is_some_and(|cores| cores < BUSY);
    Some(CpuUse { cpu, is_idle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_quiet_when_its_processors_had_next_to_nothing_to_do() {
        let check = |processors: [u32; 2], idle_ms: [u64; 2], expect: Option<(u64, bool)>| {
            let at = |n: usize| {
                let time = Duration::from_millis(idle_ms[n]);
                let clock = BootClock::from_nanos(10_000_000_000 * n as u64);
                let processors = processors[n];
                (clock, IdleTime { processors, time })
            };
            let done = between(at(0), at(1)).map(|done| (done.cpu, done.is_idle));
            let expect = expect.map(|(ms, idle)| (CpuTime::from_millis(ms), idle));
            assert_eq!(done, expect, "{processors:?} {idle_ms:?}");
        };
        check([2, 2], [5_000, 25_000], Some((0, true)));
        check([2, 2], [5_000, 24_010], Some((990, true)));
        check([2, 2], [5_000, 24_000], Some((1_000, false)));
        check([2, 2], [5_000, 5_000], Some((20_000, false)));
        // The idle time was read a moment after the clock.
        check([2, 2], [5_000, 25_010], Some((0, true)));
        check([2, 2], [5_000, 4_000], None);
        check([2, 4], [5_000, 45_000], None);
        check([4, 2], [5_000, 35_000], None);
    }
}
