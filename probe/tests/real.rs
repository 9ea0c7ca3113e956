//! The built probe on this machine's kernel, compared with the kernel's own counters. A test that this machine cannot run is reported as ignored, with the reason.

#[path = "real/canary.rs"]
mod canary;
#[cfg(feature = "aws")]
#[path = "real/cloud.rs"]
mod cloud;
#[path = "real/containers.rs"]
mod containers;
#[path = "real/engines.rs"]
mod engines;
#[path = "real/exact.rs"]
mod exact;
#[path = "real/faults.rs"]
mod faults;
#[path = "real/gpu.rs"]
mod gpu;
#[path = "real/label.rs"]
mod label;
#[path = "real/machine.rs"]
mod machine;
#[path = "real/names.rs"]
mod names;
#[path = "real/network.rs"]
mod network;
#[path = "real/nextflow.rs"]
mod nextflow;
#[path = "real/probe.rs"]
mod probe;
#[path = "real/restarts.rs"]
mod restarts;
#[path = "real/sampled.rs"]
mod sampled;
#[path = "real/snakemake.rs"]
mod snakemake;
#[path = "real/watch.rs"]
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use ebb_probe::cgroup::Hierarchy;
use ebb_probe::collector::Collector;
use ebb_probe::label_rules::Rules;
use ebb_telemetry::step::{MemorySource, StepEnd, StepUsage};
use ebb_telemetry::units::{Bytes, Share};
use ebb_test_support::{run, skip, tests};

use machine::{Limit, Task, needs_ebpf, version_two};
use probe::{Probe, Sink};

const SECOND: Duration = Duration::from_secs(1);

/// The path of the program. `scripts/kernels-guest` sets it if the tests run on another machine than
/// the one that built them.
fn program() -> OsString {
    let built = option_env!("CARGO_BIN_EXE_ebb-probe").map(OsString::from);
    let path = built.or_else(|| std::env::var_os("PROBE"));
    path.expect("cargo or PROBE says where the program is")
}

/// True when `got` is within `percent` of `expect`.
fn near(got: f64, expect: f64, percent: f64) -> bool {
    (got - expect).abs() <= expect * percent / 100.0
}

/// Runs one script as an ECS task under a probe. Returns its task and the counters of its cgroup.
fn run_task(limit: Option<Limit>, script: &str) -> (StepUsage, machine::Counted) {
    let sink = Sink::new();
    let probe = Probe::start(&sink, &[]);
    let task = Task::new(limit);
    task.start(script).wait().expect("the shell ends");
    let counted = task.counted();
    let id = task.id.clone();
    // The task must be reported although its cgroup is removed.
    drop(task);
    std::thread::sleep(3 * SECOND);
    probe.stop();
    let records = sink.read();
    let ended = records.ended.iter().find(|step| step.id.key == id);
    let ended = ended.unwrap_or_else(|| panic!("no step {id} among {:#?}", records.ended));
    (ended.clone(), counted)
}

fn a_thousand_short_processes_are_counted_one_by_one() {
    needs_ebpf();
    let script = "n=0; while [ $n -lt 1000 ]; do /bin/true; n=$((n+1)); done; exit 7";
    let (step, counted) = run_task(None, script);
    assert_eq!(step.processes, 1_001);
    assert_eq!(step.end, StepEnd::Exited(7));
    let of = |name: &str| {
        step.tools
            .iter()
            .find(|t| t.name == name)
            .map(|t| t.processes)
    };
    assert_eq!(of("true"), Some(1_000), "{:#?}", step.tools);
    if let Some(cpu) = counted.cpu {
        let (got, expect) = (step.cpu.as_secs_f64(), cpu.as_secs_f64());
        assert!(
            near(got, expect, 10.0),
            "{got} s of CPU, the cgroup says {expect}"
        );
    }
}

fn a_busy_child_used_the_cpu_that_its_cgroup_counted() {
    needs_ebpf();
    let (step, counted) = run_task(None, "timeout 4 sh -c 'while :; do :; done'");
    let Some(cpu) = counted.cpu else {
        eprintln!("not compared: this machine counts no CPU by cgroup");
        return;
    };
    let (got, expect) = (step.cpu.as_secs_f64(), cpu.as_secs_f64());
    // On an overloaded machine it may have had half a second of CPU time.
    assert!(
        near(got, expect, 5.0) || (got - expect).abs() < 0.05,
        "{got} s of CPU, the cgroup says {expect}"
    );
    // `timeout` exits with 124 if it ended the command.
    assert_eq!(step.end, StepEnd::Exited(124));
    assert!(
        step.peak_cores.is_some_and(|cores| cores.0 > 100),
        "{:?}",
        step.peak_cores
    );
}

fn bytes_are_those_that_went_to_the_disk() {
    needs_ebpf();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("data").display().to_string();
    let write = format!("dd if=/dev/zero of={file} bs=1M count=64 oflag=direct 2>/dev/null");
    let read = format!("dd if={file} of=/dev/null bs=1M iflag=direct 2>/dev/null");
    let (step, counted) = run_task(None, &format!("{write} && {read}"));
    assert_eq!(step.end, StepEnd::Exited(0), "the disk takes direct writes");
    let mib = |bytes: Option<Bytes>| bytes.expect("counted").0 as f64 / f64::from(1 << 20);
    assert!(
        near(mib(step.disk_written), 64.0, 2.0),
        "{:?}",
        step.disk_written
    );
    assert!(near(mib(step.disk_read), 64.0, 5.0), "{:?}", step.disk_read);
    match counted.disk {
        Some(disk) if disk.0 > 0 => {
            let reported_mib = mib(step.disk_written) + mib(step.disk_read);
            let expect = mib(Some(disk));
            assert!(
                near(reported_mib, expect, 5.0),
                "{reported_mib} MiB, the cgroup says {expect}"
            );
        }
        _ => eprintln!("not compared: this machine counts no bytes by cgroup"),
    }
}

fn the_peak_is_what_was_held_at_once_even_by_a_process_that_no_pass_saw() {
    needs_ebpf();
    // `tail` stores its whole single line in memory.
    let (step, _) = run_task(None, "head -c 200M /dev/zero | tail -n 1 >/dev/null");
    let peak = step.peak_memory.expect("seen at exit");
    let mib = peak.bytes.0 as f64 / f64::from(1 << 20);
    assert!(
        (200.0..260.0).contains(&mib),
        "{mib} MiB from {:?}",
        peak.source
    );
    assert_ne!(peak.source, MemorySource::MaxRssUpperBound);
}

fn a_step_that_the_memory_killer_ended_says_so() {
    needs_ebpf();
    let limit = Limit {
        memory: Bytes::mib(32),
    };
    if let Err(reason) = limit.holds_here() {
        skip(reason);
    }
    // Long enough for a scan to read the limit.
    let (step, _) = run_task(
        Some(limit),
        "sleep 2; head -c 200M /dev/zero | tail -n 1 >/dev/null",
    );
    assert_eq!(step.end, StepEnd::OutOfMemory);
    assert_eq!(step.requested.memory, Some(Bytes::mib(32)));
}

fn told_to_stop_it_says_the_last_and_ends_within_five_seconds() {
    needs_ebpf();
    let sink = Sink::new();
    let probe = Probe::start(&sink, &["--interval", "60"]);
    let task = Task::new(None);
    task.start("exit 3").wait().expect("the shell ends");
    let took = probe.stop();
    assert!(took < 5 * SECOND, "{took:?}");
    let records = sink.read();
    let [heartbeat] = &records.heartbeats[..] else {
        panic!("one interval, cut short: {:#?}", records.heartbeats)
    };
    assert_eq!(heartbeat.sequence, 0);
    assert!(heartbeat.workload.processes_started > 0);
    assert!(heartbeat.workload.network.is_some() == heartbeat.coverage.network.is_some());
    // It ended less than two seconds ago, and is still reported.
    let ended = records.ended.iter().find(|step| step.id.key == task.id);
    assert_eq!(ended.map(|step| step.end), Some(StepEnd::Exited(3)));
}

fn a_sink_that_fails_for_a_while_misses_nothing() {
    needs_ebpf();
    let sink = Sink::new();
    let probe = Probe::start(&sink, &["--interval", "1"]);
    std::thread::sleep(2 * SECOND);
    sink.break_it();
    std::thread::sleep(4 * SECOND);
    sink.mend();
    probe.stop();
    let records = sink.read();
    let sequences: Vec<u64> = records.heartbeats.iter().map(|h| h.sequence).collect();
    let expect: Vec<u64> = (0..sequences.len() as u64).collect();
    assert_eq!(sequences, expect);
    assert!(sequences.len() >= 4, "{sequences:?}");
    let dropped: u64 = records
        .heartbeats
        .iter()
        .map(|h| h.probe.records_dropped)
        .sum();
    assert_eq!(dropped, 0);
}

fn what_a_stopped_probe_could_not_send_the_next_one_sends() {
    needs_ebpf();
    let sink = Sink::new();
    let first = Probe::start(&sink, &["--interval", "1"]);
    let task = Task::new(None);
    task.start("exit 0").wait().expect("the shell ends");
    sink.break_it();
    std::thread::sleep(3 * SECOND);
    first.stop();
    sink.mend();
    assert!(sink.read().ended.is_empty());
    Probe::start(&sink, &["--interval", "1"]).stop();
    let records = sink.read();
    let runs: std::collections::BTreeSet<_> = records
        .heartbeats
        .iter()
        .map(|h| h.probe_start.clone())
        .collect();
    assert_eq!(runs.len(), 2, "{:#?}", records.heartbeats);
    for run in &runs {
        let of_run = records.heartbeats.iter().filter(|h| h.probe_start == *run);
        let sequences: Vec<u64> = of_run.map(|h| h.sequence).collect();
        let expect: Vec<u64> = (0..sequences.len() as u64).collect();
        assert_eq!(sequences, expect);
    }
    assert!(records.ended.iter().any(|step| step.id.key == task.id));
}

fn in_a_tree_of_version_two_a_task_is_told_as_well() {
    needs_ebpf();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let _runs = runtime.as_ref().expect("a runtime").enter();
    let Some(hierarchy) = version_two() else {
        skip("no cgroup2 is mounted");
    };
    let rules = Rules::built_in();
    let started = Collector::start(hierarchy.clone(), rules, SECOND);
    let mut collector = started.expect("the kernel half loads");
    let task = Task::under(hierarchy, None);
    let script = "n=0; while [ $n -lt 50 ]; do /bin/true; n=$((n+1)); done; exit 4";
    task.start(script).wait().expect("the shell ends");
    let id = task.id.clone();
    drop(task);
    let mut ended = collector.scan().expect("a scan");
    ended.extend(collector.last_ended());
    let step = ended.iter().find(|step| step.id.key == id);
    let outcome = step.map(|step| (step.processes, step.end));
    assert_eq!(outcome, Some((51, StepEnd::Exited(4))), "{ended:#?}");
}

/// Whether scans are skipped depends on this machine; the report does not.
fn what_waits_is_told_for_all_the_time_whether_passes_are_left_out_or_not() {
    needs_ebpf();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let _runs = runtime.as_ref().expect("a runtime").enter();
    let hierarchy = Hierarchy::find().expect("asked before");
    let rules = Rules::built_in();
    let mut collector = Collector::start(hierarchy, rules, SECOND).expect("the kernel half loads");
    let task = Task::new(None);
    let mut shell = task.start("exec sleep 100");
    std::thread::sleep(SECOND);
    // The next scan is not skipped, because a task changed.
    collector.scan_unless_idle().expect("a scan");
    for _ in 0..4 {
        std::thread::sleep(SECOND);
        collector.scan_unless_idle().expect("a scan, or none");
    }
    collector.scan().expect("a scan");
    let (interval, _) = collector.close();
    shell
        .kill()
        .and_then(|()| shell.wait().map(drop))
        .expect("it ends");
    let is_of_task = |step: &&StepUsage| step.id.key == task.id;
    let step = interval.running.iter().find(is_of_task).expect("it runs");
    // It closes a moment after its last scan.
    assert!(
        interval.coverage.cpu > Share::from_parts(99, 100),
        "{:?}",
        interval.coverage
    );
    let states = &step.detail.states;
    let sampled_time: Duration = states.values().map(|sampled| sampled.time).sum();
    assert!(sampled_time >= 4 * SECOND, "{states:?}");
}

#[expect(clippy::too_many_lines, reason = "a flat list of all tests")]
fn main() -> ExitCode {
    #[cfg_attr(not(feature = "aws"), expect(unused_mut, reason = "the cloud needs it"))]
    let mut tests = tests![
        a_thousand_short_processes_are_counted_one_by_one,
        a_busy_child_used_the_cpu_that_its_cgroup_counted,
        bytes_are_those_that_went_to_the_disk,
        the_peak_is_what_was_held_at_once_even_by_a_process_that_no_pass_saw,
        a_step_that_the_memory_killer_ended_says_so,
        told_to_stop_it_says_the_last_and_ends_within_five_seconds,
        a_sink_that_fails_for_a_while_misses_nothing,
        what_a_stopped_probe_could_not_send_the_next_one_sends,
        in_a_tree_of_version_two_a_task_is_told_as_well,
        what_waits_is_told_for_all_the_time_whether_passes_are_left_out_or_not,
        canary::a_secret_is_in_nothing_that_the_probe_writes_or_sends,
        canary::a_secret_is_masked_where_arguments_and_files_are_sent,
        canary::the_search_finds_the_secret,
        engines::a_step_of_cwltool_is_a_task_of_its_run_without_a_name,
        engines::a_worker_of_toil_is_a_task_with_the_name_of_its_function,
        engines::a_worker_of_dask_is_one_task_for_all_functions,
        engines::a_container_of_miniwdl_has_the_name_of_its_task,
        engines::jobs_of_snakemake_7_have_names_and_one_run,
        engines::a_script_of_cromwell_is_a_task_with_the_name_of_its_folder,
        engines::a_title_of_airflow_makes_a_process_a_task,
        containers::containers_of_docker_have_their_names_images_and_listed_labels,
        containers::containers_of_podman_have_their_names_and_images,
        exact::cpu_and_memory_are_those_that_wait4_tells,
        exact::direct_writes_and_reads_are_exact_to_the_byte,
        exact::a_step_of_which_nothing_comes_is_told_from_one_that_writes_a_line_now_and_then,
        exact::each_executable_says_when_it_ran_and_how_often_it_failed,
        exact::each_ends_as_it_ended_and_only_the_victim_ran_out_of_memory,
        exact::processes_of_under_a_millisecond_are_all_counted,
        exact::a_step_says_what_it_waited_for,
        exact::a_step_says_in_which_namespaces_it_was_apart,
        faults::on_a_full_disk_the_oldest_give_way_and_every_loss_is_counted,
        faults::on_a_read_only_disk_records_wait_in_memory_and_those_of_the_disk_are_sent_once,
        faults::a_probe_without_a_disk_sends_every_heartbeat_and_says_so,
        faults::every_file_of_the_probe_is_readable_by_its_owner_only,
        faults::a_cgroup_that_goes_while_it_is_read_is_unknown_and_no_error,
        faults::a_drain_ends_although_events_come_without_end,
        gpu::each_gpu_tells_how_busy_it_was_and_for_whom,
        gpu::a_driver_that_hangs_is_asked_anew_and_counted,
        gpu::a_step_is_told_what_its_process_did_on_gpus,
        gpu::tasks_on_a_real_gpu_are_told_their_part_of_it,
        label::a_step_is_told_with_the_labels_that_it_was_handed_and_with_what_was_switched_on,
        names::a_job_of_snakemake_is_named_by_its_arguments_and_sends_no_other_of_them,
        names::jars_classes_and_scripts_are_told_by_their_base_names_and_nothing_else_of_the_arguments,
        network::tcp_payload_is_that_of_the_sockets_of_each_step,
        nextflow::local_tasks_of_nextflow_are_named_by_the_header_of_each_version,
        nextflow::tasks_of_nextflow_in_containers_are_named_by_their_headers,
        nextflow::headers_of_nextflow_are_read_only_if_the_configuration_enables_it,
        restarts::after_seventy_kills_every_heartbeat_is_one_row_or_counted_as_refused,
        restarts::a_killed_probe_loses_no_finished_task_and_sends_none_twice,
        sampled::without_ebpf_procfs_is_sampled_and_every_heartbeat_says_so,
        snakemake::jobs_of_snakemake_have_the_names_of_their_rules_and_the_use_of_their_benchmarks,
        snakemake::jobs_that_a_scheduler_starts_are_named_by_their_arguments,
        watch::a_user_sees_the_own_tasks_only_and_root_sees_all,
        watch::ebb_top_shows_a_task_and_its_tools_and_restores_the_terminal,
        watch::ebb_top_restores_the_terminal_after_a_signal,
    ];
    #[cfg(feature = "aws")]
    tests.extend(tests![
        cloud::heartbeats_and_steps_arrive_under_the_attested_name,
    ]);
    run(tests)
}
