//! The work of a task, as far as it matters for the choice of a machine.

use std::time::Duration;

use ebb_telemetry::step::parallelism::Parallelism;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};

use crate::core_speed::Cores;

/// A period with a number of busy cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Busy cores; less than one means that the task also waited.
    pub cores: MilliCores,
    /// The duration.
    pub wall: Duration,
}

/// One task, as observed on one machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Its time by busy cores, in no order.
    pub phases: Vec<Phase>,
    /// Bytes read from and written to disks; `None` when unknown.
    pub disk: Option<Bytes>,
    /// Bytes received and sent over the network; `None` when unknown.
    pub network: Option<Bytes>,
    /// The time in which the task only waited for a disk; `None` when unknown.
    pub disk_wait: Option<Duration>,
}

impl Work {
    /// The work from totals, without a history of parallelism. The time at the peak and the time on
    /// one core together give the CPU time; in the remaining time the task waits. `None` for a task
    /// without run time.
    pub fn from_totals(wall: Duration, cpu: CpuTime, peak: Option<MilliCores>) -> Option<Self> {
        if wall.is_zero() {
            return None;
        }
        let (seconds, used) = (wall.as_secs_f64(), cpu.as_secs_f64());
        let peak = peak
            .map_or(0.0, |p| p.0 as f64 / 1000.0)
            .max(used / seconds);
        // With p cores for a part x and one for the rest: x p + (1 - x) = used.
        let at_peak = match peak > 1.0 && used > seconds {
            true => (used - seconds) / (peak - 1.0),
            false => 0.0,
        };
        let rest = seconds - at_peak;
        let busy = ((used - at_peak * peak) / rest.max(1e-9)).clamp(0.0, 1.0);
        let phase = |cores: f64, seconds: f64| Phase {
            cores: MilliCores((cores * 1000.0).round() as u64),
            wall: Duration::from_secs_f64(seconds.max(0.0)),
        };
        let phases = [phase(peak, at_peak), phase(busy, rest)];
        Some(Self {
            phases: phases.into_iter().filter(|p| !p.wall.is_zero()).collect(),
            ..Self::default()
        })
    }

    /// The work from samples of busy cores. The totals give the work before the first and after the
    /// last sample. `None` for a task without run time.
    pub fn from_samples(wall: Duration, cpu: CpuTime, samples: &Parallelism) -> Option<Self> {
        let remaining_cpu = CpuTime(cpu.0.saturating_sub(samples.cpu().0));
        let remaining_wall = wall.saturating_sub(samples.wall());
        let mut phases: Vec<Phase> = samples
            .classes()
            .iter()
            .filter_map(|busy| {
                let (wall, cores) = (busy.wall, busy.cpu.cores_over(busy.wall)?);
                Some(Phase { cores, wall })
            })
            .collect();
        if let Some(rest) = Self::from_totals(remaining_wall, remaining_cpu, None) {
            phases.extend(rest.phases);
        }
        (!phases.is_empty()).then(|| Self {
            phases,
            ..Self::default()
        })
    }

    /// The run time.
    pub fn wall(&self) -> Duration {
        self.phases.iter().map(|phase| phase.wall).sum()
    }

    /// Mean number of busy cores; zero for a task without run time.
    pub fn mean_cores(&self) -> MilliCores {
        let cpu = |phase: &Phase| phase.cores.0 as f64 * phase.wall.as_secs_f64();
        let cpu: f64 = self.phases.iter().map(cpu).sum();
        let wall = self.wall().as_secs_f64();
        MilliCores(match wall > 0.0 {
            true => (cpu / wall).round() as u64,
            false => 0,
        })
    }

    /// Seconds on other cores: each phase is replayed at the throughput of these cores. Waiting
    /// time stays the same, because its cause is unknown here.
    pub(crate) fn replayed(&self, from: &Cores, rate: impl Fn(f64) -> f64) -> f64 {
        let seconds = self.phases.iter().map(|phase| {
            let cores = phase.cores.0 as f64 / 1000.0;
            let wall = phase.wall.as_secs_f64();
            let busy = wall * cores.min(1.0);
            let threads = cores.max(1.0);
            (wall - busy) + busy * from.rate(threads) / rate(threads).max(1e-9)
        });
        seconds.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_split_so_that_the_cpu_time_comes_out() {
        let check = |wall: u64, cpu: u64, peak: u64, expect: &[(u64, u64)]| {
            let work = Work::from_totals(
                Duration::from_secs(wall),
                CpuTime::from_millis(cpu * 1000),
                Some(MilliCores(peak)),
            );
            let phases = work.expect("it has a length").phases;
            let cores_and_seconds: Vec<(u64, u64)> = phases
                .iter()
                .map(|p| (p.cores.0, p.wall.as_secs()))
                .collect();
            assert_eq!(cores_and_seconds, expect);
        };
        check(100, 50, 1_000, &[(500, 100)]);
        check(100, 400, 4_000, &[(4_000, 100)]);
        check(100, 250, 4_000, &[(4_000, 50), (1_000, 50)]);
        check(100, 0, 4_000, &[(0, 100)]);
        check(100, 300, 2_000, &[(3_000, 100)]);
        assert_eq!(Work::from_totals(Duration::ZERO, CpuTime(5), None), None);
    }

    #[test]
    fn samples_are_replayed_as_seen_and_the_rest_by_its_totals() {
        let seconds = Duration::from_secs;
        let check = |wall: u64, cpu: u64, samples: &[(u64, u64)], expect: &[(u64, u64)]| {
            let mut parallelism = Parallelism::default();
            for (wall, cpu) in samples {
                parallelism.add(seconds(*wall), CpuTime::from_millis(cpu * 1000));
            }
            let cpu = CpuTime::from_millis(cpu * 1000);
            let work = Work::from_samples(seconds(wall), cpu, &parallelism);
            let phases: Vec<(u64, u64)> = work
                .iter()
                .flat_map(|work| &work.phases)
                .map(|phase| (phase.cores.0, phase.wall.as_secs()))
                .collect();
            assert_eq!(phases, expect, "{samples:?}");
        };
        // Samples of one class become one phase with all their CPU time.
        check(
            100,
            430,
            &[(10, 5), (40, 300), (20, 120), (30, 5)],
            &[(250, 40), (7_000, 60)],
        );
        check(20, 30, &[(10, 20)], &[(2_000, 10), (1_000, 10)]);
        check(10, 5, &[], &[(500, 10)]);
        check(0, 0, &[], &[]);
    }
}
