//! Tests of whole intervals with made-up events and scans.

mod gpu;
mod nextflow;
mod quiet;
mod snakemake;

use ebb_telemetry::step::{
    MemorySource, Namespaces, PeerScope, SchedulerLabels, StepEnd, StepKind, TaskState,
};
use ebb_telemetry::units::{CpuTime, MilliCores, Share};

use std::time::Duration;

use super::*;
use crate::cgroup::Paths;
use crate::cgroup::reading::Reading;
use crate::interval::aggregator::IntervalAggregator;
use crate::kernel::{
    CgroupId, ExitStatus, Extent, Process, ProcessEvent, ProcessKey, Samples, Socket, SocketId,
    SocketList, Start, TaskKind, TaskSample,
};
use crate::kernel::{Comm, DiskBytes, Resident, TaskCounters, Totals, WorkFolder};
use crate::label::{self, Refusal, Requester, TaskLabels};
use crate::label_rules::Rules;
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
    let is_daemon = process.comm == Comm::new("containerd");
    TaskSample {
        process,
        kind: TaskKind::User,
        totals: totals(cpu_ms, 0),
        resident: Some(resident),
        counters: Some(TaskCounters::default()),
        state: Some(TaskState::Network),
        threads: 2,
        user: Some(if is_daemon { 0 } else { 1_000 }),
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

fn reaped(process: Process, totals: Totals) -> ProcessEvent {
    ProcessEvent::Reaped {
        key: process.key,
        totals,
        maxrss: Bytes::mib(50),
        counters: TaskCounters::default(),
    }
}

/// State that started at 1 s, with 10 s between scans and a running daemon.
fn aggregator() -> IntervalAggregator {
    let mut paths = Paths::default();
    paths.learn(ROOT_CGROUP, "/".into());
    paths.learn(TASK_CGROUP, format!("/ecs/{TASK}/c"));
    let running = [sample(daemon(), 500, 1)];
    let period = Duration::from_secs(10);
    IntervalAggregator::begin(
        Rules::built_in(),
        paths,
        period,
        at(1_000),
        &running,
        |_| Start::default(),
    )
}

#[test]
fn a_task_that_runs_when_the_probe_starts_has_its_user_and_namespaces() {
    let mut paths = Paths::default();
    paths.learn(TASK_CGROUP, format!("/ecs/{TASK}/c"));
    let namespaces = Some(Namespaces::from_bits(3));
    let bwa = process(60, 500, 1, TASK_CGROUP, "bwa");
    let running = [TaskSample {
        namespaces,
        ..sample(bwa, 500, 1)
    }];
    let period = Duration::from_secs(10);
    let rules = Rules::built_in();
    let mut aggregator =
        IntervalAggregator::begin(rules, paths, period, at(1_000), &running, |_| {
            Start::default()
        });
    let running = aggregator.close(at(2_000), 0, None).running;
    let found: Vec<_> = running
        .iter()
        .map(|step| (step.detail.user, step.detail.namespaces))
        .collect();
    assert_eq!(found, [(Some(1_000), namespaces)]);
}

fn daemon() -> Process {
    process(50, 100, 1, ROOT_CGROUP, "containerd")
}

fn scan(aggregator: &mut IntervalAggregator, at_ms: u64, samples: &[TaskSample]) {
    let samples = Samples::living(samples.to_vec(), Vec::new());
    aggregator.scan(at(at_ms), None, &samples, |_, _| Reading::default());
}

fn run_in_task(aggregator: &mut IntervalAggregator, pid: u32, start_ms: u64) -> Process {
    let born = process(pid, start_ms, 50, TASK_CGROUP, "runc:[2:INIT]");
    aggregator.event(ProcessEvent::Forked(born));
    let running = Process {
        comm: Comm::new("bwa"),
        ..born
    };
    aggregator.event(exec(running));
    running
}

/// runc starts a container by processes that fork one another; the last one runs the program.
#[test]
fn a_container_ends_as_the_process_that_runc_started_in_it() {
    let check = |outer: &str, expect: StepEnd| {
        let mut aggregator = aggregator();
        let stage = process(60, 2_000, 50, TASK_CGROUP, "exe");
        aggregator.event(exec(stage));
        for (pid, start) in [(61, 2_100), (62, 2_200)] {
            let next = process(pid, start, pid - 1, TASK_CGROUP, "exe");
            aggregator.event(ProcessEvent::Forked(next));
        }
        let stages = [(60, 2_000, outer), (61, 2_100, "runc:[1:CHILD]")];
        for (pid, start, name) in stages {
            let stage = process(pid, start, pid - 1, TASK_CGROUP, name);
            aggregator.event(ended(stage, 2_300, ExitStatus::Code(0), totals(0, 0)));
        }
        let bwa = process(62, 2_200, 61, TASK_CGROUP, "bwa");
        aggregator.event(exec(bwa));
        aggregator.event(ended(bwa, 9_000, ExitStatus::Code(3), totals(0, 0)));
        let steps = aggregator.take_all_ended();
        let got: Vec<_> = steps.iter().map(|step| (step.started, step.end)).collect();
        assert_eq!(got, [(at(2_000), expect)], "{outer}");
    };
    check("runc:[0:PARENT]", StepEnd::Exited(3));
    // A program that left processes behind.
    check("sh", StepEnd::Exited(0));
}

/// Each search for another first process iterates over all processes.
#[test]
fn a_name_of_runc_moves_the_end_of_a_task_only_twice_and_only_in_a_container() {
    let check = |cgroup: CgroupId, expect: StepEnd| {
        let mut aggregator = aggregator();
        let one = |n: u32| process(60 + n, 2_000 + u64::from(n), 59 + n, cgroup, "runc:[x");
        let first = Comm::new("x");
        aggregator.event(exec(Process {
            comm: first,
            ..one(0)
        }));
        for n in 1..5 {
            aggregator.event(ProcessEvent::Forked(one(n)));
        }
        for n in 0..5_u8 {
            let end = ended(one(n.into()), 3_000, ExitStatus::Code(n), totals(0, 0));
            aggregator.event(end);
        }
        let steps = aggregator.take_all_ended();
        let ends: Vec<_> = steps.iter().map(|step| step.end).collect();
        assert_eq!(ends, [expect], "{cgroup:?}");
    };
    check(TASK_CGROUP, StepEnd::Exited(2));
    check(ROOT_CGROUP, StepEnd::Exited(0));
}

/// The keys of the tasks of two programs, in order.
fn keys_of(programs: [(Process, Start); 2], paths: &[(CgroupId, &str)]) -> Vec<String> {
    let mut aggregator = aggregator();
    for (id, path) in paths {
        aggregator.paths_mut().learn(*id, (*path).to_owned());
    }
    for (process, start) in programs {
        aggregator.event(ProcessEvent::Executed {
            process,
            maxrss_before: Bytes(0),
            start,
        });
        let child = self::process(
            process.key.pid + 10,
            2_500,
            process.key.pid,
            CgroupId(0),
            "sh",
        );
        let child = Process {
            cgroup: process.cgroup,
            ..child
        };
        aggregator.event(ProcessEvent::Forked(child));
        aggregator.event(exec(child));
    }
    let steps = aggregator.close(at(3_000), 0, None).running;
    let processes: Vec<u64> = steps.iter().map(|step| step.processes).collect();
    assert!(
        processes
            .iter()
            .all(|count| *count == 4 / steps.len() as u64)
    );
    steps.into_iter().map(|step| step.id.key).collect()
}

#[test]
fn a_user_joins_no_task_of_another_user_by_the_name_of_a_folder() {
    let (leaf, parent) = ("adbeef0123456789abcdef01234567", "de");
    let program = |pid: u32, user: u32| {
        let folder = WorkFolder {
            parent: parent.into(),
            leaf: leaf.into(),
        };
        let start = Start {
            work_folder: Some(folder),
            user: Some(user),
            ..Start::default()
        };
        (
            process(pid, 2_000 + u64::from(pid), 1, ROOT_CGROUP, "bash"),
            start,
        )
    };
    let task = format!("{parent}/{leaf}");
    let same = keys_of([program(60, 1_000), program(61, 1_000)], &[]);
    assert_eq!(same, [task.as_str()]);
    let apart = keys_of([program(60, 1_000), program(61, 65_534)], &[]);
    assert_eq!(apart, [task.clone(), format!("{task}@65534")]);
}

#[test]
fn a_program_of_a_crontab_is_no_daemon_whatever_its_name_is() {
    let mut aggregator = aggregator();
    let (cron, elsewhere) = (CgroupId(30), CgroupId(31));
    let paths = aggregator.paths_mut();
    paths.learn(cron, "/system.slice/cron.service".into());
    paths.learn(elsewhere, "/system.slice/run-1.scope".into());
    let run = |aggregator: &mut IntervalAggregator, process, user| {
        aggregator.event(ProcessEvent::Executed {
            process,
            maxrss_before: Bytes(0),
            start: Start {
                user: Some(user),
                ..Start::default()
            },
        });
    };
    run(&mut aggregator, process(60, 2_000, 1, cron, "cron"), 0);
    let copy = process(61, 2_100, 60, cron, "cron");
    aggregator.event(ProcessEvent::Forked(copy));
    let shell = Process {
        comm: Comm::new("vector"),
        ..copy
    };
    run(&mut aggregator, shell, 1_000);
    // The record of a fork has no user, and the process has the name of its parent.
    let child = process(62, 2_200, 61, elsewhere, "vector");
    aggregator.event(ProcessEvent::Forked(child));
    let running = aggregator.close(at(3_000), 0, None).running;
    let keys: Vec<_> = running
        .iter()
        .map(|step| (step.id.key.as_str(), step.processes))
        .collect();
    assert_eq!(keys, [("cron.service", 1), ("run-1.scope", 1)]);
}

#[test]
fn a_user_joins_no_container_by_the_name_of_a_cgroup() {
    let id = "ab".repeat(32);
    let (docker, sub) = (format!("/docker/{id}"), format!("/docker/{id}/init"));
    let own = format!("/user.slice/user-7.slice/user@7.service/app.slice/{id}");
    let (first, second) = (CgroupId(30), CgroupId(31));
    let program = |pid, cgroup| (process(pid, 2_000, 1, cgroup, "bwa"), Start::default());
    let programs = || [program(60, first), program(61, second)];
    let same = keys_of(programs(), &[(first, &docker), (second, &sub)]);
    assert_eq!(same, [id.as_str()]);
    let apart = keys_of(programs(), &[(first, &docker), (second, &own)]);
    assert!(
        apart.len() == 2 && apart[1].starts_with(&format!("{id}@")),
        "{apart:?}"
    );
}

/// Slurm starts the script of a job by a copy of its launcher, which runs the prolog before.
#[test]
fn a_task_of_slurm_ends_as_its_script_also_if_the_launcher_is_in_its_cgroup() {
    let in_job = CgroupId(20);
    let launcher = |pid, start, parent| process(pid, start, parent, in_job, "slurmstepd");
    let run = |outer: Option<Process>| {
        let mut aggregator = aggregator();
        let path = "/slurm/uid_0/job_5/step_batch";
        aggregator.paths_mut().learn(in_job, path.into());
        let outer = outer.map(|outer| sample(outer, 1, 1));
        scan(&mut aggregator, 2_000, outer.as_slice());
        let (copy, fork) = (launcher(61, 2_100, 60), launcher(62, 2_200, 61));
        for forked in [copy, fork] {
            aggregator.event(ProcessEvent::Forked(forked));
        }
        let [script, prolog] =
            [(copy, "slurm_script"), (fork, "task-prolog")].map(|(one, name)| {
                let comm = Comm::new(name);
                Process { comm, ..one }
            });
        let sleep = process(63, 2_400, 61, in_job, "sleep");
        let epilog = process(64, 9_100, 60, in_job, "task-epilog");
        let end = |program: Process, at: u64, status: u8| {
            ended(program, at, ExitStatus::Code(status), totals(0, 0))
        };
        let events = [
            exec(prolog),
            end(prolog, 2_250, 0),
            exec(script),
            exec(sleep),
            end(sleep, 8_000, 0),
            end(script, 9_000, 3),
            exec(epilog),
            end(epilog, 9_200, 0),
        ];
        let last = outer.as_ref().map(|outer| end(outer.process, 9_300, 0));
        for event in events.into_iter().chain(last) {
            aggregator.event(event);
        }
        let steps = aggregator.take_all_ended();
        let ends: Vec<_> = steps.iter().map(|step| step.end).collect();
        assert_eq!(ends, [StepEnd::Exited(3)], "{outer:?}");
    };
    run(None);
    run(Some(launcher(60, 1_900, 50)));
}

#[test]
fn a_process_between_two_passes_is_counted_in_full_with_its_last_totals() {
    let mut aggregator = aggregator();
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    aggregator.event(ended(bwa, 2_500, ExitStatus::Code(0), totals(0, 4096)));
    aggregator.event(reaped(bwa, totals(7, 4096)));
    scan(&mut aggregator, 11_000, &[sample(daemon(), 520, 1)]);
    let interval = aggregator.close(at(11_000), 0, None);
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(7)));
    assert_eq!(interval.workload.disk, Some(Bytes(4096)));
    assert_eq!(interval.workload.processes_started, 1);
    // Resource use of the daemon before the start of this probe is not in the interval.
    assert_eq!(interval.background.cpu, Some(CpuTime::from_millis(20)));
    assert_eq!(interval.coverage.cpu, Some(Share::ALL));
    assert!(interval.running.is_empty());

    let steps = aggregator.take_ended();
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
    let mut aggregator = aggregator();
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    scan(
        &mut aggregator,
        11_000,
        &[sample(daemon(), 500, 1), sample(bwa, 3_000, 30)],
    );
    scan(
        &mut aggregator,
        21_000,
        &[sample(daemon(), 500, 1), sample(bwa, 23_000, 80)],
    );
    scan(
        &mut aggregator,
        31_000,
        &[sample(daemon(), 500, 1), sample(bwa, 23_000, 10)],
    );
    let interval = aggregator.close(at(31_000), 0, None);
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
    scan(
        &mut aggregator,
        41_000,
        &[sample(daemon(), 500, 1), sample(bwa, 24_000, 10)],
    );
    let interval = aggregator.close(at(41_000), 0, None);
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(1_000)));
    assert_eq!(interval.running[0].cpu, CpuTime::from_millis(24_000));
}

#[test]
fn what_rests_holds_and_does_what_it_did_when_it_was_told() {
    let mut aggregator = aggregator();
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    scan(&mut aggregator, 11_000, &[sample(bwa, 100, 30)]);
    let child = process(61, 12_000, 60, TASK_CGROUP, "bwa");
    for (ms, processes) in [(21_000, vec![sample(child, 5, 20)]), (31_000, vec![])] {
        let samples = Samples::living(processes, vec![60, 4_711]);
        aggregator.scan(at(ms), None, &samples, |_, _| Reading::default());
    }
    let step = aggregator.close(at(31_000), 0, None).running.remove(0);
    assert_eq!(step.detail.states[&TaskState::Network].samples, 3);
    let peak = step.peak_memory.map(|peak| peak.bytes);
    assert_eq!(peak, Some(Bytes::mib(50)));
}

#[test]
fn a_counter_that_goes_backwards_counts_nothing_until_it_is_ahead_again() {
    let mut aggregator = aggregator();
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    let mut used = Vec::new();
    for (ms, cpu) in [(11_000, 100), (21_000, 80), (31_000, 150)] {
        scan(
            &mut aggregator,
            ms,
            &[sample(daemon(), 500, 1), sample(bwa, cpu, 1)],
        );
        used.push(aggregator.close(at(ms), 0, None).workload.cpu);
    }
    let ms = |ms| Some(CpuTime::from_millis(ms));
    assert_eq!(used, [ms(100), ms(0), ms(50)]);
}

#[test]
fn how_a_step_ended_is_its_first_process_or_the_memory_killer() {
    let check = |status: ExitStatus, killed: Option<u32>, expect: StepEnd| {
        let of_child = match killed {
            Some(61) => ExitStatus::Signal(9),
            _ => ExitStatus::Code(77),
        };
        let mut aggregator = aggregator();
        let first = run_in_task(&mut aggregator, 60, 2_000);
        let child = process(61, 2_100, 60, TASK_CGROUP, "bwa");
        aggregator.event(ProcessEvent::Forked(child));
        if let Some(pid) = killed {
            aggregator.event(ProcessEvent::OutOfMemory { pid });
        }
        aggregator.event(ended(first, 3_000, status, totals(1, 0)));
        aggregator.event(ended(child, 3_001, of_child, totals(1, 0)));
        // Nobody reaps them: after two seconds the task ends anyway.
        scan(&mut aggregator, 4_000, &[sample(daemon(), 500, 1)]);
        assert!(aggregator.take_ended().is_empty());
        scan(&mut aggregator, 6_000, &[sample(daemon(), 500, 1)]);
        let ends: Vec<_> = aggregator
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
    // It was already exiting when the kernel marked it.
    check(ExitStatus::Code(3), Some(60), StepEnd::Exited(3));
}

#[test]
fn at_the_last_a_step_is_told_before_its_last_totals() {
    let mut aggregator = aggregator();
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    aggregator.event(ended(bwa, 10_500, ExitStatus::Code(3), totals(1, 0)));
    scan(&mut aggregator, 11_000, &[sample(daemon(), 500, 1)]);
    assert!(aggregator.take_ended().is_empty());
    let ends: Vec<_> = aggregator.take_all_ended().iter().map(|s| s.end).collect();
    assert_eq!(ends, [StepEnd::Exited(3)]);
    assert!(aggregator.take_all_ended().is_empty());
}

#[test]
fn a_process_whose_end_was_lost_is_missed_after_two_passes() {
    let mut aggregator = aggregator();
    run_in_task(&mut aggregator, 60, 2_000);
    scan(&mut aggregator, 11_000, &[sample(daemon(), 500, 1)]);
    assert!(aggregator.take_ended().is_empty());
    scan(&mut aggregator, 21_000, &[sample(daemon(), 500, 1)]);
    let ends: Vec<_> = aggregator.take_ended().iter().map(|s| s.end).collect();
    assert_eq!(ends, [StepEnd::Unknown]);
}

#[test]
fn a_task_ends_when_its_last_process_has_moved_away() {
    let mut aggregator = aggregator();
    let (session, service) = (CgroupId(30), CgroupId(31));
    let paths = aggregator.paths_mut();
    paths.learn(
        session,
        "/user.slice/user-1000.slice/session-3.scope".into(),
    );
    paths.learn(service, "/system.slice/run-1.scope".into());
    let bwa = process(60, 2_000, 1, session, "bwa");
    aggregator.event(exec(bwa));
    scan(&mut aggregator, 11_000, &[sample(bwa, 10, 1)]);
    let moved = Process {
        cgroup: Some(service),
        ..bwa
    };
    scan(&mut aggregator, 21_000, &[sample(moved, 20, 1)]);
    let ended = aggregator.take_ended();
    let ended: Vec<_> = ended
        .iter()
        .map(|step| (step.id.key.as_str(), step.observed))
        .collect();
    assert_eq!(ended, [("3", at(21_000))]);
}

#[test]
fn a_process_id_that_comes_again_is_another_process() {
    let mut aggregator = aggregator();
    let first = run_in_task(&mut aggregator, 60, 2_000);
    scan(
        &mut aggregator,
        11_000,
        &[sample(daemon(), 500, 1), sample(first, 900, 1)],
    );
    let second = run_in_task(&mut aggregator, 60, 12_000);
    scan(
        &mut aggregator,
        21_000,
        &[sample(daemon(), 500, 1), sample(second, 40, 1)],
    );
    let interval = aggregator.close(at(21_000), 0, None);
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(940)));
    assert_eq!(interval.running[0].processes, 2);
}

#[test]
fn what_was_not_seen_is_missing_from_the_coverage() {
    let mut aggregator = aggregator();
    scan(&mut aggregator, 11_000, &[]);
    // Five minutes of suspend: only three periods count as covered.
    scan(&mut aggregator, 311_000, &[]);
    let interval = aggregator.close(at(311_000), 0, None);
    assert_eq!(interval.coverage.cpu, Share::from_parts(40, 310));
    assert_eq!(interval.coverage.short_processes, Some(Share::ALL));
    // One event was received and three were lost; earlier losses do not count again.
    run_in_task(&mut aggregator, 60, 312_000);
    scan(&mut aggregator, 321_000, &[]);
    let interval = aggregator.close(at(321_000), 6, None);
    assert_eq!(interval.coverage.short_processes, Share::from_parts(2, 8));
    scan(&mut aggregator, 331_000, &[]);
    assert_eq!(
        aggregator
            .close(at(331_000), 6, None)
            .coverage
            .short_processes,
        Some(Share::ALL)
    );
}

#[test]
fn the_network_is_the_workloads_and_unknown_where_it_was_not_seen() {
    let mut aggregator = aggregator();
    scan(&mut aggregator, 11_000, &[]);
    let interval = aggregator.close(at(11_000), 0, Some(Bytes(77)));
    assert_eq!(interval.workload.network, Some(Bytes(77)));
    assert_eq!(interval.background.network, None);
    assert_eq!(interval.coverage.network, Some(Share::ALL));
    scan(&mut aggregator, 21_000, &[]);
    let interval = aggregator.close(at(21_000), 0, None);
    assert_eq!(interval.workload.network, None);
    assert_eq!(interval.coverage.network, None);
}

#[test]
fn a_process_without_an_end_event_ended_at_the_last_known_time() {
    let mut aggregator = aggregator();
    let lost = run_in_task(&mut aggregator, 60, 2_000);
    let other = process(61, 1_500, 50, ROOT_CGROUP, "sh");
    aggregator.event(exec(other));
    aggregator.event(ended(other, 2_500, ExitStatus::Code(0), totals(1, 0)));
    aggregator.event(reaped(lost, totals(7, 0)));
    scan(&mut aggregator, 11_000, &[sample(daemon(), 500, 1)]);
    let steps = aggregator.take_ended();
    let step = steps.iter().find(|step| step.id.key == TASK);
    let found = step.map(|step| (step.observed, step.cpu));
    assert_eq!(found, Some((at(2_500), CpuTime::from_millis(7))));
}

#[test]
fn a_pass_that_is_ahead_of_the_ring_counts_no_process_twice() {
    let mut aggregator = aggregator();
    let bwa = process(60, 2_000, 50, TASK_CGROUP, "bwa");
    scan(
        &mut aggregator,
        11_000,
        &[sample(daemon(), 500, 1), sample(bwa, 100, 1)],
    );
    aggregator.event(ProcessEvent::Forked(bwa));
    aggregator.event(exec(bwa));
    aggregator.event(ended(bwa, 12_000, ExitStatus::Code(0), totals(150, 0)));
    aggregator.event(reaped(bwa, totals(160, 0)));
    scan(&mut aggregator, 21_000, &[sample(daemon(), 500, 1)]);
    let interval = aggregator.close(at(21_000), 0, None);
    assert_eq!(interval.workload.processes_started, 1);
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(160)));
    assert_eq!(
        aggregator
            .take_ended()
            .iter()
            .map(|s| s.processes)
            .sum::<u64>(),
        1
    );
}

#[test]
fn a_pass_that_is_ahead_of_the_ring_keeps_the_newer_of_two_processes_with_one_number() {
    let mut aggregator = aggregator();
    let old = run_in_task(&mut aggregator, 60, 2_000);
    let new = process(60, 10_000, 50, TASK_CGROUP, "bwa");
    scan(&mut aggregator, 11_000, &[sample(new, 100, 1)]);
    aggregator.event(ended(old, 9_000, ExitStatus::Code(0), totals(50, 0)));
    aggregator.event(reaped(old, totals(50, 0)));
    aggregator.event(ProcessEvent::Forked(new));
    aggregator.event(exec(new));
    scan(&mut aggregator, 21_000, &[sample(new, 160, 1)]);
    assert_eq!(aggregator.left_out(), 1);
    let interval = aggregator.close(at(21_000), 0, None);
    assert_eq!(interval.workload.processes_started, 2);
    assert_eq!(interval.workload.cpu, Some(CpuTime::from_millis(160)));
}

#[test]
fn processes_beyond_the_limit_count_as_lost_events() {
    let mut aggregator = aggregator();
    for pid in 100..40_100 {
        aggregator.event(ProcessEvent::Forked(process(
            pid,
            2_000,
            50,
            TASK_CGROUP,
            "x",
        )));
    }
    // One process existed before.
    assert_eq!(aggregator.left_out(), 40_000 - 32_768 + 1);
    let lost = aggregator.left_out();
    let interval = aggregator.close(at(3_000), lost, None);
    let coverage = interval.coverage.short_processes;
    assert!(coverage < Some(Share::from_ppm(950_000)), "{coverage:?}");
}

#[test]
fn steps_beyond_the_limit_are_summed_as_one() {
    let mut aggregator = aggregator();
    for pid in 100..5_100 {
        let program = process(pid, 2_000, 1, ROOT_CGROUP, "x");
        aggregator.event(exec(program));
    }
    let running = aggregator.close(at(3_000), 0, None).running;
    // A quarter of the places is for other users.
    assert_eq!(running.len(), 1_537);
    let others = running.iter().find(|step| step.id.key == "(others)");
    assert_eq!(others.map(|step| step.processes), Some(5_000 - 1_536));
}

/// A process that is missing from an incomplete scan still runs.
#[test]
fn an_incomplete_pass_ends_no_process_and_is_counted() {
    let mut aggregator = aggregator();
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    for n in 1..10 {
        let cut = Samples {
            extent: Extent::Truncated,
            ..Samples::living(vec![sample(daemon(), 500, 1)], Vec::new())
        };
        aggregator.scan(at(1_000 + n * 10_000), None, &cut, |_, _| {
            Reading::default()
        });
    }
    assert_eq!(aggregator.left_out(), 9);
    let running = aggregator.close(at(100_000), 0, None).running;
    assert_eq!(running.iter().map(|step| step.processes).sum::<u64>(), 1);
    aggregator.event(ended(bwa, 101_000, ExitStatus::Code(0), totals(1, 0)));
    aggregator.event(reaped(bwa, totals(1, 0)));
    scan(&mut aggregator, 111_000, &[sample(daemon(), 500, 1)]);
    assert_eq!(aggregator.take_ended().len(), 1);
}

#[test]
fn the_time_before_an_incomplete_scan_is_not_covered_whatever_else_was_observed() {
    let mut aggregator = aggregator();
    scan(&mut aggregator, 11_000, &[sample(daemon(), 500, 1)]);
    for pid in 100..10_000 {
        let short = process(pid, 12_000, 50, TASK_CGROUP, "x");
        aggregator.event(ProcessEvent::Forked(short));
    }
    let cut = Samples {
        extent: Extent::Truncated,
        ..Samples::living(vec![sample(daemon(), 500, 1)], Vec::new())
    };
    aggregator.scan(at(21_000), None, &cut, |_, _| Reading::default());
    let interval = aggregator.close(at(21_000), aggregator.left_out(), None);
    assert_eq!(interval.coverage.cpu, Share::from_parts(10, 20));
    assert_eq!(interval.coverage.disk, interval.coverage.cpu);
}

#[test]
fn an_incomplete_list_of_sockets_counts_as_a_loss_and_changes_no_connections() {
    let mut aggregator = aggregator();
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    scan(&mut aggregator, 11_000, &[sample(bwa, 100, 1)]);
    aggregator.watch_sockets(None);
    let mut list = |ms, sockets: &[(u64, u64)], extent| {
        let one = |(id, received): &(u64, u64)| socket(bwa.key, *id, *received);
        let open = sockets.iter().map(one).collect();
        aggregator.sockets(&SocketList { open, extent });
        let lost = aggregator.left_out();
        let interval = aggregator.close(at(ms), lost, None);
        let of_node = interval.detail.network.and_then(|node| node.connections);
        let of_task = interval.running[0].detail.network;
        let of_task = of_task.map(|task| (task.connections, task.received.0));
        (of_node, of_task, lost)
    };
    let whole = list(12_000, &[(1, 10), (2, 10)], Extent::Complete);
    assert_eq!(whole, (Some(2), Some((2, 20)), 0));
    let cut = list(13_000, &[(1, 15)], Extent::Truncated);
    assert_eq!(cut, (None, Some((2, 25)), 1));
    let whole = list(14_000, &[(2, 20)], Extent::Complete);
    assert_eq!(whole, (Some(1), Some((1, 35)), 1));
}

fn socket(owner: ProcessKey, id: u64, received: u64) -> Socket {
    Socket {
        id: SocketId(id),
        owner: Some(owner),
        cgroup: None,
        loopback: false,
        received: Bytes(received),
        sent: Bytes(0),
        retransmits: 0,
        peer_port: 443,
        own_port: 40_000,
        scope: PeerScope::Public,
    }
}

#[test]
fn a_process_labels_its_own_step_and_who_is_of_none_is_refused() {
    let mut aggregator = aggregator();
    let task = run_in_task(&mut aggregator, 7, 1_000);
    let labels = |value: &str| TaskLabels {
        pid: None,
        labels: SchedulerLabels {
            trace_id: None,
            labels: [("run".to_owned(), value.to_owned())].into(),
        },
    };
    let requester = Requester::new(task.key);
    assert_eq!(aggregator.label(requester, &labels("r7")), Ok(()));
    let daemon = Requester::new(daemon().key);
    assert_eq!(aggregator.label(daemon, &labels("x")), Err(Refusal::NoStep));
    let nobody = Requester::new(process(4_711, 1_000, 1, ROOT_CGROUP, "x").key);
    assert_eq!(
        aggregator.label(nobody, &labels("x")),
        Err(Refusal::Unknown)
    );
    // An earlier and a later process with the same number.
    for start_ms in [900, 1_100] {
        let other = Requester::new(process(task.key.pid, start_ms, 1, ROOT_CGROUP, "x").key);
        assert_eq!(aggregator.label(other, &labels("x")), Err(Refusal::Unknown));
    }
    let many = TaskLabels {
        pid: None,
        labels: SchedulerLabels {
            trace_id: None,
            labels: (0..16).map(|n| (n.to_string(), String::new())).collect(),
        },
    };
    assert_eq!(aggregator.label(requester, &many), Err(Refusal::TooMany));
    let large = labels(&"x".repeat(label::MAX_BYTES_IN_ALL));
    assert_eq!(aggregator.label(requester, &large), Err(Refusal::NoRoom));
    let running = aggregator.close(at(2_000), 0, None).running;
    let scheduler_labels: Vec<_> = running
        .iter()
        .map(|step| &step.detail.scheduler_labels)
        .collect();
    assert_eq!(scheduler_labels, [&Some(Box::new(labels("r7").labels))]);
    aggregator.event(ended(task, 3_000, ExitStatus::Code(0), totals(1, 0)));
    assert_eq!(
        aggregator.label(requester, &labels("x")),
        Err(Refusal::Unknown)
    );
}
