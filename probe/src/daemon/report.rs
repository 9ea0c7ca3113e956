//! Converts collected data to heartbeats and batches of finished tasks, each with its sequence
//! number.

use std::time::Duration;

use ebb_telemetry::activity;
use ebb_telemetry::activity::Activity;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{StepBatch, StepUsage};
use ebb_telemetry::time::BootClock;
use ebb_wire::MAX_STEPS_A_HEARTBEAT;

use crate::interval::Interval;
use crate::node::Machine;
use crate::probe_run::ProbeRun;
use crate::push::Urgency;
use crate::push::fit::keep_most_relevant;

/// Maximum number of finished tasks in one batch; a full batch is sent at once.
const MAX_FINISHED: usize = 1_000;
/// Maximum memory of the finished tasks in one batch. The spool record is two to three times as
/// large and the object is smaller, so both fit their limits.
const MAX_FINISHED_BYTES: usize = 1 << 20;

/// Counts the records of this run.
#[derive(Debug)]
pub struct Report {
    run: ProbeRun,
    heartbeats: u64,
    batches: u64,
    last: Option<Activity>,
    finished: Vec<StepUsage>,
    finished_bytes: usize,
    finished_since: Option<BootClock>,
    steps_wait: Duration,
    /// Running tasks beyond the limit of a heartbeat, since the start.
    left_out: u64,
}

impl Report {
    /// A report without records. A finished task waits at most `steps_wait` for others.
    pub const fn new(run: ProbeRun, steps_wait: Duration) -> Self {
        Self {
            run,
            heartbeats: 0,
            batches: 0,
            last: None,
            finished: Vec::new(),
            finished_bytes: 0,
            finished_since: None,
            steps_wait,
            left_out: 0,
        }
    }

    /// The node of this run.
    pub const fn node(&self) -> &NodeId {
        &self.run.node
    }

    /// Converts an interval to a heartbeat. The first heartbeat of a run is urgent, and so is the
    /// first heartbeat after the node became idle or active.
    pub fn heartbeat(&mut self, interval: Interval, machine: Machine) -> (Heartbeat, Urgency) {
        let sequence = self.heartbeats;
        self.heartbeats += 1;
        let mut steps = interval.running;
        let running = steps.len();
        keep_most_relevant(&mut steps, MAX_STEPS_A_HEARTBEAT);
        self.left_out = self.left_out.saturating_add((running - steps.len()) as u64);
        let mut probe = machine.probe;
        if let Some((cpu, resident)) = interval.gpu_program {
            probe.cpu = probe.cpu.saturating_add(cpu);
            probe.resident = probe.resident.map(|own| own.saturating_add(resident));
        }
        // `None` if nothing is sent, as with `ebb-probe snapshot`.
        let in_messages = probe.steps_left_out.unwrap_or(0);
        probe.steps_left_out = Some(in_messages.saturating_add(self.left_out));
        let heartbeat = Heartbeat {
            node: self.run.node.clone(),
            boot: self.run.boot.clone(),
            probe_start: self.run.probe_start.clone(),
            sequence,
            start: interval.start,
            end: interval.end,
            wall_at_end: machine.wall,
            origin: Origin::Measured,
            coverage: interval.coverage,
            hardware: machine.hardware,
            workload: interval.workload,
            background: interval.background,
            typed_ago: machine.typed_ago,
            detail: interval.detail,
            steps,
            probe,
        };
        let activity = activity::classify(&heartbeat, &ActivityPolicy::default());
        let was_quiet = self
            .last
            .replace(activity)
            .map(|last| last == Activity::Quiet);
        let changed = was_quiet != Some(activity == Activity::Quiet);
        let urgency = if changed {
            Urgency::Now
        } else {
            Urgency::CanWait
        };
        (heartbeat, urgency)
    }

    /// Adds tasks that ended.
    pub fn finish(&mut self, steps: Vec<StepUsage>, now: BootClock) {
        if !steps.is_empty() {
            self.finished_since.get_or_insert(now);
            let bytes = steps.iter().map(StepUsage::memory_bytes);
            self.finished_bytes = self.finished_bytes.saturating_add(bytes.sum());
            self.finished.extend(steps);
        }
    }

    /// The tasks that wait for their batch, without the first `written`, as a part of that batch.
    pub(super) fn waiting(&self, written: usize) -> StepBatch {
        let steps = self.finished.get(written..).unwrap_or_default();
        self.batch_of(steps.to_vec())
    }

    /// The next batch, if one is due: a task in it failed, it waited long enough, or the batch is
    /// full.
    pub fn due_batch(&mut self, now: BootClock) -> Option<StepBatch> {
        let waited = now.since(self.finished_since?)? >= self.steps_wait;
        let bad = self.finished.iter().any(|step| step.end.is_bad());
        let many = self.finished.len() >= MAX_FINISHED || self.finished_bytes >= MAX_FINISHED_BYTES;
        if waited || bad || many {
            self.batch()
        } else {
            None
        }
    }

    /// The waiting finished tasks, up to the limits of a batch.
    pub fn batch(&mut self) -> Option<StepBatch> {
        let (mut count, mut bytes) = (0, 0);
        for step in self.finished.iter().take(MAX_FINISHED) {
            let more = step.memory_bytes();
            // A batch has at least one task of any size.
            if count > 0 && bytes + more > MAX_FINISHED_BYTES {
                break;
            }
            (count, bytes) = (count + 1, bytes + more);
        }
        let rest = self.finished.split_off(count);
        let steps = std::mem::replace(&mut self.finished, rest);
        self.finished_bytes = self.finished_bytes.saturating_sub(bytes);
        if self.finished.is_empty() {
            self.finished_since = None;
        }
        if steps.is_empty() {
            return None;
        }
        let batch = self.batch_of(steps);
        self.batches += 1;
        Some(batch)
    }

    fn batch_of(&self, steps: Vec<StepUsage>) -> StepBatch {
        StepBatch {
            node: self.run.node.clone(),
            boot: self.run.boot.clone(),
            probe_start: self.run.probe_start.clone(),
            sequence: self.batches,
            origin: Origin::Measured,
            steps,
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use ebb_telemetry::identity::{BootId, ProbeStart};
    use ebb_telemetry::step::{Requested, StepDetail, StepEnd, StepId, StepKind};
    use ebb_telemetry::units::CpuTime;

    use super::*;

    pub(crate) fn at(s: u64) -> BootClock {
        BootClock::from_nanos(s * 1_000_000_000)
    }

    pub(crate) fn run() -> ProbeRun {
        ProbeRun {
            node: NodeId::new("i-1").expect("valid"),
            boot: BootId::new("boot").expect("valid"),
            probe_start: ProbeStart::new("run").expect("valid"),
        }
    }

    pub(crate) fn report() -> Report {
        Report::new(run(), Duration::from_secs(900))
    }

    /// Tasks that ended well, with these keys.
    pub(crate) fn finished(keys: &[&str]) -> Vec<StepUsage> {
        let ended = |key: &&str| step(StepKind::Tree, key, 1, StepEnd::Exited(0));
        keys.iter().map(ended).collect()
    }

    pub(crate) fn step(kind: StepKind, key: &str, cpu_ms: u64, end: StepEnd) -> StepUsage {
        StepUsage {
            id: StepId {
                kind,
                key: key.into(),
            },
            name: key.into(),
            started: at(0),
            observed: at(1),
            end,
            processes: 1,
            cpu: CpuTime::from_millis(cpu_ms),
            peak_memory: None,
            disk_read: None,
            disk_written: None,
            requested: Requested::default(),
            peak_cores: None,
            last_progress: at(1),
            tools: Vec::new(),
            detail: StepDetail::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::heartbeat::{Coverage, Hardware, ProbeCost, Usage};
    use ebb_telemetry::step::{StepEnd, StepKind};
    use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
    use jiff::Timestamp;

    use super::testing::{at, report, step};
    use super::*;

    fn interval(n: u64, workload_cpu_ms: u64) -> Interval {
        let usage = |ms| Usage {
            cpu: Some(CpuTime::from_millis(ms)),
            ..Usage::default()
        };
        Interval {
            start: at(n * 60),
            end: at(n * 60 + 60),
            workload: usage(workload_cpu_ms),
            background: usage(9_000),
            coverage: Coverage {
                cpu: None,
                memory: None,
                disk: None,
                network: None,
                gpu: None,
                short_processes: None,
            },
            running: Vec::new(),
            detail: Default::default(),
            gpu_program: None,
        }
    }

    #[test]
    fn the_gpu_program_counts_as_cost_of_the_probe() {
        let with_gpus = Interval {
            gpu_program: Some((CpuTime::from_millis(30), Bytes::mib(22))),
            ..interval(0, 0)
        };
        let mut machine = machine();
        machine.probe.cpu = CpuTime::from_millis(10);
        machine.probe.resident = Some(Bytes::mib(14));
        let (heartbeat, _) = report().heartbeat(with_gpus, machine);
        assert_eq!(heartbeat.probe.cpu, CpuTime::from_millis(40));
        assert_eq!(heartbeat.probe.resident, Some(Bytes::mib(36)));
    }

    fn machine() -> Machine {
        Machine {
            hardware: Hardware {
                cores: MilliCores::cores(2),
                memory: Bytes::gib(1),
                gpus: Some(0),
            },
            typed_ago: None,
            probe: ProbeCost::default(),
            wall: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn only_the_first_heartbeat_and_a_change_between_idle_and_busy_are_urgent() {
        use Urgency::{CanWait, Now};
        let mut report = report();
        let urgencies = [0, 0, 5_000, 60_000, 5_000, 0, 0]
            .into_iter()
            .enumerate()
            .map(|(n, ms)| {
                let (heartbeat, urgency) = report.heartbeat(interval(n as u64, ms), machine());
                assert_eq!(heartbeat.sequence, n as u64);
                urgency
            });
        let expect = [Now, CanWait, Now, CanWait, CanWait, Now, CanWait];
        assert_eq!(urgencies.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn finished_steps_wait_for_others_unless_one_ended_badly() {
        let check = |ends: &[(u64, StepEnd)], now: u64, expect: Option<usize>| {
            let mut report = report();
            for (ended, end) in ends {
                let steps = vec![step(StepKind::EcsTask, "a", 1, *end)];
                report.finish(steps, at(*ended));
            }
            let batch = report.due_batch(at(now));
            assert_eq!(
                batch.as_ref().map(|b| b.steps.len()),
                expect,
                "{ends:?} at {now}"
            );
            // Sent tasks are not sent again, and the others are sent at the end.
            let rest = report.batch().map_or(0, |b| b.steps.len());
            assert_eq!(rest + expect.unwrap_or(0), ends.len());
        };
        let fine = StepEnd::Exited(0);
        check(&[], 9_999, None);
        check(&[(10, fine)], 20, None);
        check(&[(10, fine), (800, fine)], 909, None);
        check(&[(10, fine), (800, fine)], 910, Some(2));
        check(&[(10, fine), (11, StepEnd::Exited(3))], 12, Some(2));
        check(&[(10, StepEnd::OutOfMemory)], 12, Some(1));
    }

    #[test]
    fn many_finished_steps_go_in_batches_of_their_own_number() {
        let mut report = report();
        let steps = (0..2_500).map(|n| step(StepKind::Tree, &n.to_string(), 1, StepEnd::Unknown));
        report.finish(steps.collect(), at(1));
        let batches: Vec<_> = std::iter::from_fn(|| report.batch())
            .map(|b| (b.sequence, b.steps.len()))
            .collect();
        assert_eq!(batches, [(0, 1_000), (1, 1_000), (2, 500)]);
    }

    #[test]
    fn when_too_many_steps_run_jobs_and_busy_ones_are_told() {
        let mut running: Vec<_> = (0..MAX_STEPS_A_HEARTBEAT as u64)
            .map(|n| step(StepKind::Tree, &n.to_string(), 1_000 + n, StepEnd::Running))
            .collect();
        running.push(step(StepKind::EcsTask, "stuck", 0, StepEnd::Running));
        let mut report = report();
        for expect in [1, 2] {
            let busy = Interval {
                running: running.clone(),
                ..interval(0, 0)
            };
            let (heartbeat, _) = report.heartbeat(busy, machine());
            assert_eq!(heartbeat.steps.len(), MAX_STEPS_A_HEARTBEAT);
            assert_eq!(heartbeat.steps[0].id.key, "stuck");
            assert!(!heartbeat.steps.iter().any(|step| step.id.key == "0"));
            assert_eq!(heartbeat.probe.steps_left_out, Some(expect));
        }
    }

    #[test]
    fn large_finished_steps_are_sent_in_several_batches() {
        let mut report = report();
        let large = |n: u64| StepUsage {
            name: "n".repeat(10_000),
            ..step(StepKind::Tree, &n.to_string(), 1, StepEnd::Unknown)
        };
        report.finish((0..300).map(large).collect(), at(1));
        let mut sizes = Vec::new();
        while let Some(batch) = report.due_batch(at(1)) {
            sizes.push(
                batch
                    .steps
                    .iter()
                    .map(StepUsage::memory_bytes)
                    .sum::<usize>(),
            );
        }
        assert!(sizes.len() >= 2, "{sizes:?}");
        assert!(
            sizes.iter().all(|bytes| *bytes <= MAX_FINISHED_BYTES),
            "{sizes:?}"
        );
        // A batch that is not full waits as usual.
        report.batch().expect("the rest");
        assert_eq!((report.batch(), report.finished_bytes), (None, 0));
        // A task that is larger than the limit is sent alone.
        let vast = StepUsage {
            name: "n".repeat(2 * MAX_FINISHED_BYTES),
            ..step(StepKind::Tree, "vast", 1, StepEnd::Unknown)
        };
        report.finish(vec![vast, large(1)], at(1));
        assert_eq!(report.batch().map(|batch| batch.steps.len()), Some(1));
        assert_eq!(report.batch().map(|batch| batch.steps.len()), Some(1));
    }
}
