//! Tests of whole intervals with made-up events and scans.

mod quiet;

use ebb_telemetry::step::{Handed, MemorySource, StepEnd, StepKind, TaskState};
use ebb_telemetry::units::{CpuTime, MilliCores, Share};

use std::time::Duration;

use super::*;
use crate::cgroup::Paths;
use crate::cgroup::reading::Reading;
use crate::interval::aggregator::Fold;
use crate::kernel::{
    CgroupId, ExitStatus, Extent, Process, ProcessEvent, ProcessKey, Samples, Start, TaskKind,
    TaskSample,
};
use crate::kernel::{Comm, DiskBytes, Finer, Resident, Totals};
use crate::label::{self, Asker, Refusal};
use crate::rules::Rules;
use ebb_telemetry::units::Bytes;

const TASK: &str = "0123456789abcdef0123456789abcdef";
const TASK_CGROUP: CgroupId = CgroupId(9);
const ROOT_CGROUP: CgroupId = CgroupId(1);

fn at(ms: u64) -> BootClock {
    BootClock::from_nanos(ms * 1_000_000)
}

fn process(pid: u32, start_ms: u64, parent: u32, cgroup: CgroupId, program: &str) -> Process {
    Process {
        key: ProcessKey {
            pid,
            start: at(start_ms),
        },
        parent,
        cgroup: Some(cgroup),
        comm: Comm::new(program),
    }
}

fn totals(cpu_ms: u64, written: u64) -> Totals {
    let (read, written) = (Bytes(0), Bytes(written));
    Totals {
        cpu: CpuTime::from_millis(cpu_ms),
        disk: Some(DiskBytes { read, written }),
    }
}

fn sample(process: Process, cpu_ms: u64, anon_mib: u64) -> TaskSample {
    let resident = Resident {
        anon: Bytes::mib(anon_mib),
        ..Resident::default()
    };
    TaskSample {
        process,
        kind: TaskKind::User,
        totals: totals(cpu_ms, 0),
        resident: Some(resident),
        finer: Some(Finer::default()),
        state: Some(TaskState::Network),
        threads: 2,
        user: Some(1_000),
        namespaces: None,
    }
}

fn exec(process: Process) -> ProcessEvent {
    ProcessEvent::Executed {
        process,
        maxrss_before: Bytes(0),
        start: Start::default(),
    }
}

fn ended(process: Process, at_ms: u64, status: ExitStatus, totals: Totals) -> ProcessEvent {
    ProcessEvent::Ended {
        process,
        at: at(at_ms),
        status,
        totals,
        peak: Some(Bytes::mib(5)),
        maxrss: Bytes::mib(50),
    }
}

fn reaped(process: Process, at_ms: u64, totals: Totals) -> ProcessEvent {
    ProcessEvent::Reaped {
        key: process.key,
        at: at(at_ms),
        totals,
        maxrss: Bytes::mib(50),
        finer: Finer::default(),
    }
}

/// State that started at 1 s, with 10 s between scans and a running daemon.
fn fold() -> Fold {
    let mut paths = Paths::default();
    paths.learn(ROOT_CGROUP, "/".into());
    paths.learn(TASK_CGROUP, format!("/ecs/{TASK}/c"));
    let running = [sample(daemon(), 500, 1)];
    let period = Duration::from_secs(10);
    Fold::begin(
        Rules::built_in(),
        paths,
        period,
        at(1_000),
        &running,
        |_| Start::default(),
    )
}

fn daemon() -> Process {
    process(50, 100, 1, ROOT_CGROUP, "containerd")
}

fn pass(fold: &mut Fold, at_ms: u64, samples: &[TaskSample]) {
    let samples = Samples::living(samples.to_vec(), Vec::new());
    fold.pass(at(at_ms), None, &samples, |_, _| Reading::default());
}

fn run_in_task(fold: &mut Fold, pid: u32, start_ms: u64) -> Process {
    let born = process(pid, start_ms, 50, TASK_CGROUP, "runc:[2:INIT]");
    fold.event(ProcessEvent::Forked(born));
    let running = Process {
        comm: Comm::new("bwa"),
        ..born
    };
    fold.event(exec(running));
    running
}

#[test]
fn a_process_between_two_passes_is_counted_in_full_with_its_last_totals() {
    let mut fold = fold();
    let bwa = run_in_task(&mut fold, 60, 2_000);
    fold.event(ended(bwa, 2_500, ExitStatus::Code(0), totals(0, 4096)));
    fold.event(reaped(bwa, 2_600, totals(7, 4096)));
    pass(&mut fold, 11_000, &[sample(daemon(), 520, 1)]);
    let interval = fold.close(at(11_000), 0, None);
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(7)));
    assert_eq!(interval.workload.disk, Some(Bytes(4096)));
    assert_eq!(interval.workload.processes_started, 1);
    // Resource use of the daemon before the start of this probe is not in the interval.
    assert_eq!(interval.background.cpu, Some(CpuTime::from_millis(20)));
    assert_eq!(interval.coverage.cpu, Some(Share::ALL));
    assert!(interval.running.is_empty());

    let steps = fold.take_ended();
    let [step] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert_eq!(
        (step.id.kind, step.id.key.as_str()),
        (StepKind::EcsTask, TASK)
    );
    assert_eq!((step.started, step.observed), (at(2_000), at(2_500)));
    assert_eq!((step.end, step.processes), (StepEnd::Exited(0), 1));
    assert_eq!(
        (step.cpu, step.disk_written),
        (CpuTime::from_millis(7), Some(Bytes(4096)))
    );
    let peak = step.peak_memory.expect("seen at exit");
    assert_eq!(
        (peak.bytes, peak.source),
        (Bytes::mib(5), MemorySource::HighWaterAtExit)
    );
    let tools: Vec<_> = step
        .tools
        .iter()
        .map(|t| (t.name.as_str(), t.processes))
        .collect();
    assert_eq!(tools, [("bwa", 1)]);
}

#[test]
fn a_step_is_cumulative_and_its_peaks_are_the_greatest_of_all_passes() {
    let mut fold = fold();
    let bwa = run_in_task(&mut fold, 60, 2_000);
    pass(
        &mut fold,
        11_000,
        &[sample(daemon(), 500, 1), sample(bwa, 3_000, 30)],
    );
    pass(
        &mut fold,
        21_000,
        &[sample(daemon(), 500, 1), sample(bwa, 23_000, 80)],
    );
    pass(
        &mut fold,
        31_000,
        &[sample(daemon(), 500, 1), sample(bwa, 23_000, 10)],
    );
    let interval = fold.close(at(31_000), 0, None);
    let [step] = &interval.running[..] else {
        panic!("{interval:?}")
    };
    assert_eq!(step.end, StepEnd::Running);
    assert_eq!(step.cpu, CpuTime::from_millis(23_000));
    assert_eq!(step.peak_cores, Some(MilliCores(2_000)));
    let peak = step.peak_memory.expect("sampled");
    assert_eq!(
        (peak.bytes, peak.source),
        (Bytes::mib(80), MemorySource::ProcessesSampled)
    );
    assert_eq!(step.last_progress, at(21_000));
    // The next interval starts at zero, but the task continues.
    pass(
        &mut fold,
        41_000,
        &[sample(daemon(), 500, 1), sample(bwa, 24_000, 10)],
    );
    let interval = fold.close(at(41_000), 0, None);
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(1_000)));
    assert_eq!(interval.running[0].cpu, CpuTime::from_millis(24_000));
}

#[test]
fn what_rests_holds_and_does_what_it_did_when_it_was_told() {
    let mut fold = fold();
    let bwa = run_in_task(&mut fold, 60, 2_000);
    pass(&mut fold, 11_000, &[sample(bwa, 100, 30)]);
    let child = process(61, 12_000, 60, TASK_CGROUP, "bwa");
    for (ms, told) in [(21_000, vec![sample(child, 5, 20)]), (31_000, vec![])] {
        let samples = Samples::living(told, vec![60, 4_711]);
        fold.pass(at(ms), None, &samples, |_, _| Reading::default());
    }
    let step = fold.close(at(31_000), 0, None).running.remove(0);
    assert_eq!(step.detail.states[&TaskState::Network].samples, 3);
    let peak = step.peak_memory.map(|peak| peak.bytes);
    assert_eq!(peak, Some(Bytes::mib(50)));
}

#[test]
fn a_counter_that_goes_backwards_counts_nothing_until_it_is_ahead_again() {
    let mut fold = fold();
    let bwa = run_in_task(&mut fold, 60, 2_000);
    let mut used = Vec::new();
    for (ms, cpu) in [(11_000, 100), (21_000, 80), (31_000, 150)] {
        pass(
            &mut fold,
            ms,
            &[sample(daemon(), 500, 1), sample(bwa, cpu, 1)],
        );
        used.push(fold.close(at(ms), 0, None).workload.cpu);
    }
    let ms = |ms| Some(CpuTime::from_millis(ms));
    assert_eq!(used, [ms(100), ms(0), ms(50)]);
}

#[test]
fn how_a_step_ended_is_its_first_process_or_the_memory_killer() {
    let check = |status: ExitStatus, killed: Option<u32>, expect: StepEnd| {
        let mut fold = fold();
        let first = run_in_task(&mut fold, 60, 2_000);
        let child = process(61, 2_100, 60, TASK_CGROUP, "bwa");
        fold.event(ProcessEvent::Forked(child));
        if let Some(pid) = killed {
            fold.event(ProcessEvent::OutOfMemory { pid });
        }
        fold.event(ended(first, 3_000, status, totals(1, 0)));
        fold.event(ended(child, 3_001, ExitStatus::Code(77), totals(1, 0)));
        // Nobody reaps them: after two seconds the task ends anyway.
        pass(&mut fold, 4_000, &[sample(daemon(), 500, 1)]);
        assert!(fold.take_ended().is_empty());
        pass(&mut fold, 6_000, &[sample(daemon(), 500, 1)]);
        let ends: Vec<_> = fold
            .take_ended()
            .iter()
            .map(|s| (s.end, s.processes))
            .collect();
        assert_eq!(ends, [(expect, 2)]);
    };
    check(ExitStatus::Code(0), None, StepEnd::Exited(0));
    check(ExitStatus::Code(3), None, StepEnd::Exited(3));
    check(ExitStatus::Signal(11), None, StepEnd::Signalled(11));
    check(ExitStatus::Signal(9), Some(60), StepEnd::OutOfMemory);
    check(ExitStatus::Code(1), Some(61), StepEnd::OutOfMemory);
    check(ExitStatus::Code(0), Some(4_000), StepEnd::Exited(0));
}

#[test]
fn at_the_last_a_step_is_told_before_its_last_totals() {
    let mut fold = fold();
    let bwa = run_in_task(&mut fold, 60, 2_000);
    fold.event(ended(bwa, 10_500, ExitStatus::Code(3), totals(1, 0)));
    pass(&mut fold, 11_000, &[sample(daemon(), 500, 1)]);
    assert!(fold.take_ended().is_empty());
    let ends: Vec<_> = fold.take_all_ended().iter().map(|s| s.end).collect();
    assert_eq!(ends, [StepEnd::Exited(3)]);
    assert!(fold.take_all_ended().is_empty());
}

#[test]
fn a_process_whose_end_was_lost_is_missed_after_two_passes() {
    let mut fold = fold();
    run_in_task(&mut fold, 60, 2_000);
    pass(&mut fold, 11_000, &[sample(daemon(), 500, 1)]);
    assert!(fold.take_ended().is_empty());
    pass(&mut fold, 21_000, &[sample(daemon(), 500, 1)]);
    let ends: Vec<_> = fold.take_ended().iter().map(|s| s.end).collect();
    assert_eq!(ends, [StepEnd::Unknown]);
}

#[test]
fn a_process_id_that_comes_again_is_another_process() {
    let mut fold = fold();
    let first = run_in_task(&mut fold, 60, 2_000);
    pass(
        &mut fold,
        11_000,
        &[sample(daemon(), 500, 1), sample(first, 900, 1)],
    );
    let second = run_in_task(&mut fold, 60, 12_000);
    pass(
        &mut fold,
        21_000,
        &[sample(daemon(), 500, 1), sample(second, 40, 1)],
    );
    let interval = fold.close(at(21_000), 0, None);
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(940)));
    assert_eq!(interval.running[0].processes, 2);
}

#[test]
fn what_was_not_seen_is_missing_from_the_coverage() {
    let mut fold = fold();
    pass(&mut fold, 11_000, &[]);
    // Five minutes of suspend: only three periods count as covered.
    pass(&mut fold, 311_000, &[]);
    let interval = fold.close(at(311_000), 0, None);
    assert_eq!(interval.coverage.cpu, Share::of(40, 310));
    assert_eq!(interval.coverage.short_processes, Some(Share::ALL));
    // One event was received and three were lost; earlier losses do not count again.
    run_in_task(&mut fold, 60, 312_000);
    pass(&mut fold, 321_000, &[]);
    let interval = fold.close(at(321_000), 6, None);
    assert_eq!(interval.coverage.short_processes, Share::of(2, 8));
    pass(&mut fold, 331_000, &[]);
    assert_eq!(
        fold.close(at(331_000), 6, None).coverage.short_processes,
        Some(Share::ALL)
    );
}

#[test]
fn the_network_is_the_workloads_and_unknown_where_it_was_not_seen() {
    let mut fold = fold();
    pass(&mut fold, 11_000, &[]);
    let interval = fold.close(at(11_000), 0, Some(Bytes(77)));
    assert_eq!(interval.workload.network, Some(Bytes(77)));
    assert_eq!(interval.background.network, None);
    assert_eq!(interval.coverage.network, Some(Share::ALL));
    pass(&mut fold, 21_000, &[]);
    let interval = fold.close(at(21_000), 0, None);
    assert_eq!(interval.workload.network, None);
    assert_eq!(interval.coverage.network, None);
}

#[test]
fn a_pass_that_is_ahead_of_the_ring_counts_no_process_twice() {
    let mut fold = fold();
    let bwa = process(60, 2_000, 50, TASK_CGROUP, "bwa");
    pass(
        &mut fold,
        11_000,
        &[sample(daemon(), 500, 1), sample(bwa, 100, 1)],
    );
    fold.event(ProcessEvent::Forked(bwa));
    fold.event(exec(bwa));
    fold.event(ended(bwa, 12_000, ExitStatus::Code(0), totals(150, 0)));
    fold.event(reaped(bwa, 12_001, totals(160, 0)));
    pass(&mut fold, 21_000, &[sample(daemon(), 500, 1)]);
    let interval = fold.close(at(21_000), 0, None);
    assert_eq!(interval.workload.processes_started, 1);
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(160)));
    assert_eq!(
        fold.take_ended().iter().map(|s| s.processes).sum::<u64>(),
        1
    );
}

#[test]
fn processes_beyond_the_limit_count_as_lost_events() {
    let mut fold = fold();
    for pid in 100..40_100 {
        fold.event(ProcessEvent::Forked(process(
            pid,
            2_000,
            50,
            TASK_CGROUP,
            "x",
        )));
    }
    // One process existed before.
    assert_eq!(fold.left_out(), 40_000 - 32_768 + 1);
    let lost = fold.left_out();
    let interval = fold.close(at(3_000), lost, None);
    let seen = interval.coverage.short_processes;
    assert!(seen < Some(Share::from_ppm(950_000)), "{seen:?}");
}

#[test]
fn steps_beyond_the_limit_are_summed_as_one() {
    let mut fold = fold();
    for pid in 100..5_100 {
        let program = process(pid, 2_000, 1, ROOT_CGROUP, "x");
        fold.event(exec(program));
    }
    let running = fold.close(at(3_000), 0, None).running;
    assert_eq!(running.len(), 2_049);
    let others = running.iter().find(|step| step.id.key == "(others)");
    assert_eq!(others.map(|step| step.processes), Some(5_000 - 2_048));
}

/// A process that is missing from an incomplete scan still runs.
#[test]
fn an_incomplete_pass_ends_no_process_and_is_counted() {
    let mut fold = fold();
    let bwa = run_in_task(&mut fold, 60, 2_000);
    for n in 1..10 {
        let cut = Samples {
            extent: Extent::Cut,
            ..Samples::living(vec![sample(daemon(), 500, 1)], Vec::new())
        };
        fold.pass(at(1_000 + n * 10_000), None, &cut, |_, _| {
            Reading::default()
        });
    }
    assert_eq!(fold.left_out(), 9);
    let running = fold.close(at(100_000), 0, None).running;
    assert_eq!(running.iter().map(|step| step.processes).sum::<u64>(), 1);
    fold.event(ended(bwa, 101_000, ExitStatus::Code(0), totals(1, 0)));
    fold.event(reaped(bwa, 101_001, totals(1, 0)));
    pass(&mut fold, 111_000, &[sample(daemon(), 500, 1)]);
    assert_eq!(fold.take_ended().len(), 1);
}

#[test]
fn a_process_labels_its_own_step_and_who_is_of_none_is_refused() {
    let mut fold = fold();
    let task = run_in_task(&mut fold, 7, 1_000);
    let handed = |value: &str| Handed {
        trace_id: None,
        labels: [("run".to_owned(), value.to_owned())].into(),
    };
    let asker = Asker::at(task.key);
    assert_eq!(fold.label(asker, &handed("r7")), Ok(()));
    let daemon = Asker::at(daemon().key);
    assert_eq!(fold.label(daemon, &handed("x")), Err(Refusal::NoStep));
    let nobody = Asker::at(process(4_711, 1_000, 1, ROOT_CGROUP, "x").key);
    assert_eq!(fold.label(nobody, &handed("x")), Err(Refusal::Unknown));
    // An earlier and a later process with the same number.
    for start_ms in [900, 1_100] {
        let other = Asker::at(process(task.key.pid, start_ms, 1, ROOT_CGROUP, "x").key);
        assert_eq!(fold.label(other, &handed("x")), Err(Refusal::Unknown));
    }
    let many = Handed {
        trace_id: None,
        labels: (0..16).map(|n| (n.to_string(), String::new())).collect(),
    };
    assert_eq!(fold.label(asker, &many), Err(Refusal::TooMany));
    let large = handed(&"x".repeat(label::MAX_BYTES_IN_ALL));
    assert_eq!(fold.label(asker, &large), Err(Refusal::NoRoom));
    let running = fold.close(at(2_000), 0, None).running;
    let told: Vec<_> = running.iter().map(|step| &step.detail.handed).collect();
    assert_eq!(told, [&Some(Box::new(handed("r7")))]);
    fold.event(ended(task, 3_000, ExitStatus::Code(0), totals(1, 0)));
    assert_eq!(fold.label(asker, &handed("x")), Err(Refusal::Unknown));
}
