//! Tests of scans that are skipped because the node is idle.

use ebb_telemetry::step::{Busy, Sampled, TaskState};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn waits(process: Process, cpu_ms: u64) -> TaskSample {
    TaskSample {
        state: Some(TaskState::Network),
        ..sample(process, cpu_ms, 1)
    }
}

/// A task that waits at a scan at 11 s and at 21 s.
fn waiting() -> (IntervalAggregator, Process) {
    let mut aggregator = aggregator();
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    scan(
        &mut aggregator,
        11_000,
        &[sample(daemon(), 500, 1), waits(bwa, 100)],
    );
    scan(
        &mut aggregator,
        21_000,
        &[sample(daemon(), 500, 1), waits(bwa, 100)],
    );
    (aggregator, bwa)
}

#[test]
fn the_time_of_passes_left_out_is_covered_and_waited_for_what_the_last_one_saw() {
    let (mut aggregator, bwa) = waiting();
    let before = aggregator.close(at(21_000), 0, None);
    for second in [31, 41, 51] {
        aggregator.skip_scan(at(second * 1_000));
    }
    // Busy again: the task used eight of the last ten seconds.
    let working = TaskSample {
        state: Some(TaskState::Running),
        ..sample(bwa, 8_150, 1)
    };
    let samples = Samples::living(vec![sample(daemon(), 500, 1), working], Vec::new());
    let busy = Some(CpuTime::from_millis(8_010));
    aggregator.scan(at(61_000), busy, &samples, |_, _| Reading::default());
    let interval = aggregator.close(at(61_000), 0, None);
    assert_eq!(interval.coverage.cpu, Some(Share::ALL));
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(8_050)));
    let step = &interval.running[0];
    let sampled = |samples, seconds: u32| Sampled {
        samples,
        time: SECOND * seconds,
    };
    let earlier = before.running[0].detail.states[&TaskState::Network];
    let expect = [
        (TaskState::Running, sampled(1, 10)),
        // Three skipped scans add time, but no samples.
        (
            TaskState::Network,
            sampled(
                earlier.samples,
                30 + u32::try_from(earlier.time.as_secs()).expect("few"),
            ),
        ),
    ];
    assert_eq!(step.detail.states, expect.into());
    let busy = |seconds: u32, ms| Busy {
        wall: SECOND * seconds,
        cpu: CpuTime::from_millis(ms),
    };
    // At most 8.01 s are in the last ten, so 40 ms are before.
    assert_eq!(
        step.detail.parallelism.classes(),
        [busy(40, 40), busy(10, 8_010)]
    );
    assert_eq!(step.peak_cores.map(|cores| cores.0), Some(801));
}

#[test]
fn next_to_nothing_over_passes_left_out_is_no_progress() {
    let (mut aggregator, bwa) = waiting();
    let check = |aggregator: &mut IntervalAggregator, from_s: u64, cpu_ms: u64, expect_s: u64| {
        for tick in 1..=5 {
            aggregator.skip_scan(at((from_s + tick * 10) * 1_000));
        }
        let end = at((from_s + 60) * 1_000);
        let samples = Samples::living(vec![sample(daemon(), 500, 1), waits(bwa, cpu_ms)], vec![]);
        let busy = Some(CpuTime::from_millis(900));
        aggregator.scan(end, busy, &samples, |_, _| Reading::default());
        let step = &aggregator.close(end, 0, None).running[0];
        assert_eq!(step.last_progress, at(expect_s * 1_000), "{from_s}");
    };
    let start = aggregator.close(at(21_000), 0, None).running[0].last_progress;
    // 0.59 s in a minute is less than a hundredth of a core, 0.61 s is more.
    check(&mut aggregator, 21, 690, start.as_nanos() / 1_000_000_000);
    check(&mut aggregator, 81, 1_300, 141);
}

#[test]
fn a_step_that_begins_or_ends_wants_a_pass() {
    let (mut aggregator, bwa) = waiting();
    assert!(!aggregator.needs_scan());
    // Events report the children of a task, and the next scan contains them.
    let child = process(61, 22_000, 60, TASK_CGROUP, "bwa");
    aggregator.event(ProcessEvent::Forked(child));
    assert!(!aggregator.needs_scan());
    for process in [child, bwa] {
        let end = ended(process, 31_500, ExitStatus::Code(0), totals(100, 0));
        aggregator.event(end);
    }
    assert!(aggregator.needs_scan());
    // Its last totals have not arrived yet.
    scan(&mut aggregator, 32_000, &[sample(daemon(), 500, 1)]);
    assert!(aggregator.take_ended().is_empty() && aggregator.needs_scan());
    scan(&mut aggregator, 42_000, &[sample(daemon(), 500, 1)]);
    assert!(!aggregator.take_ended().is_empty() && !aggregator.needs_scan());
    run_in_task(&mut aggregator, 62, 43_000);
    assert!(aggregator.needs_scan());
}
