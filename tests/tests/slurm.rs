//! Real Slurm jobs under the real probe: a cluster of one node in a folder, `squeue`, `sacct`, a
//! trace of Nextflow, and sweeps. Skipped without root, Slurm, munge or eBPF, and
//! where the kernel lacks the version of cgroups of a test.

#[path = "slurm/cluster.rs"]
mod cluster;
#[path = "real/probe.rs"]
mod probe;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use ebb_lake::Lake;
use ebb_telemetry::step::{PlacedStep, StepEnd, StepKind};
use ebb_test_support::{run, tests};
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use serde_json::Value;

use cluster::{Accounting, Cgroups, Cluster, take_turn};
use probe::{Probe, ebb, program, try_ebb, wait_for};

/// Uses a core for two seconds.
const BUSY: &str = "timeout 2 sh -c 'while :; do :; done'";

/// Uses the same CPU time, a few seconds, however busy the machine is. The step that works then
/// uses much more than the step that waits for it.
const COUNT: &str = "i=0; while [ $i -lt 4000000 ]; do i=$((i+1)); done";

const HASH: &str = "ab/cdef0123456789abcdef0123456789";

/// The script that `docs/src/slurm.md` recommends as `TaskProlog`.
const TASK_PROLOG: &str = include_str!("../../infra/slurm-task-prolog");

/// The script of the timer, which pushes the names of jobs.
const COLLECTOR: &str = include_str!("../../infra/slurm-names");

/// Makes the probe observe cgroup v2, also on a machine whose memory controller is in v1.
const ENTER_V2: &str = "\
    if [ -e /sys/fs/cgroup/unified ]; then \
        sed 's/^memory[[:space:]]*[0-9]*/memory\\t0/' /proc/cgroups >\"$FREE_FILE\" && \
        mount --bind \"$FREE_FILE\" /proc/cgroups; \
    fi; \
    exec \"$0\" \"$@\"";

fn main() -> ExitCode {
    run(tests![
        jobs_have_the_names_that_squeue_and_the_trace_contain,
        jobs_in_cgroup_v2_are_tasks_by_step_with_their_exit_status,
        tasks_of_the_probe_agree_with_the_accounting,
        the_documents_show_the_command_of_the_collector
    ])
}

/// Stops the probe after its last interval.
fn stop(probe: &mut Probe) {
    sleep(Duration::from_secs(3));
    probe.running.stop();
}

/// Task and step of all tasks of a job, sorted.
fn names(lake: &str, job: &str) -> Vec<(String, String)> {
    let output = ebb(&["names", "explain", job, "--lake", lake, "--format", "json"]);
    let explanation: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let tasks = explanation["tasks"].as_array().expect("tasks");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = tasks
        .iter()
        .map(|one| (text(&one["task"]).replace(job, "JOB"), text(&one["step"])));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn pairs(expect: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = expect
        .iter()
        .map(|(task, step)| ((*task).to_owned(), (*step).to_owned()));
    pairs.collect()
}

#[expect(
    clippy::too_many_lines,
    reason = "one story from the jobs to the report"
)]
fn jobs_have_the_names_that_squeue_and_the_trace_contain() {
    let _turn = take_turn(Accounting::None, Cgroups::V1);
    let (mut probe, _) = (Probe::start(), program("ebb"));
    let url = probe.url();
    let cluster = Cluster::start(Accounting::None, Cgroups::V1, "");

    let began = Timestamp::now();
    let work = cluster.path().join("work").join(HASH);
    fs::create_dir_all(&work).expect("a folder");
    let two_steps = format!("srun -n1 {BUSY}\nsrun -n1 {BUSY}\ntrue");
    let nextflow = cluster.submit("nf-RNA_ALIGN_(S1)", &[], (&work, &two_steps));
    let plain = cluster.path();
    let array = cluster.submit("many", &["--array=1-2"], (plain, BUSY));
    let unnamed = cluster.submit("sbatch", &[], (plain, BUSY));
    let all = ["-a", "-r", "-t", "all", "-o", "%A|%T|%S|%Z|%C|%D|%j|%k"];
    wait_for("the jobs", || {
        let jobs = cluster.ask("squeue", &all);
        jobs.lines()
            .filter(|job| job.contains("|COMPLETED|"))
            .count()
            + jobs.lines().filter(|job| job.contains("|FAILED|")).count()
            == 4
    });
    stop(&mut probe);

    let jobs = probe.path("squeue.txt");
    fs::write(&jobs, cluster.ask("squeue", &all)).expect("a file");
    let trace = probe.path("trace.txt");
    let (start, end) = (began.as_millisecond(), Timestamp::now().as_millisecond());
    let short = &HASH[..9];
    let text = format!(
        "hash\tname\tprocess\ttag\tstatus\tstart\tcomplete\trealtime\n\
         {short}\tRNA:ALIGN (S1)\tRNA:ALIGN\tS1\tCOMPLETED\t{start}\t{end}\t5000\n"
    );
    fs::write(&trace, text).expect("a file");
    let (jobs, trace) = (jobs.display().to_string(), trace.display().to_string());
    ebb(&["sweep", "--lake", &url]);
    assert!(
        names(&url, &nextflow)
            .iter()
            .all(|(_, step)| !step.contains("ALIGN"))
    );
    ebb(&[
        "names", "push", &jobs, &trace, "--lake", &url, "--run", "r1",
    ]);
    ebb(&["sweep", "--lake", &url]);

    let steps = names(&url, &nextflow);
    let expect = [
        ("JOB.0", "RNA:ALIGN.0"),
        ("JOB.1", "RNA:ALIGN.1"),
        ("JOB.batch", "RNA:ALIGN.batch"),
    ];
    let steps: Vec<_> = steps
        .into_iter()
        .filter(|(task, _)| !task.ends_with("extern"))
        .collect();
    assert_eq!(steps, pairs(&expect));
    assert_eq!(names(&url, &array), pairs(&[("JOB.batch", "many")]));
    let [(_, step)] = &names(&url, &unnamed)[..] else {
        panic!("one step: {:?}", names(&url, &unnamed))
    };
    assert_ne!(step, "sbatch", "that is no name");
    let report = probe.report();
    let runs = &report["runs"];
    assert!(runs["named"]["record"].as_u64() >= Some(5), "{runs:#}");
    assert!(runs["joined"]["record"].as_u64() >= Some(5), "{runs:#}");
    let gaps = report["gaps"].to_string();
    assert!(!gaps.contains("task names"), "{gaps}");
}

fn jobs_in_cgroup_v2_are_tasks_by_step_with_their_exit_status() {
    let _turn = take_turn(Accounting::None, Cgroups::V2);
    let (mut probe, _) = (Probe::enter(ENTER_V2), program("ebb"));
    let cluster = Cluster::start(Accounting::None, Cgroups::V2, "");
    let at = cluster.path();
    let two_steps = format!("srun -n1 {BUSY}\nsrun -n1 {BUSY}\nexit 5");
    let two = cluster.submit("two", &[], (at, &two_steps));
    let array = cluster.submit("many", &["--array=1-2"], (at, &format!("{BUSY}\nexit 3")));
    wait_for("the jobs", || {
        cluster.ask("squeue", &["-h"]).trim().is_empty()
    });
    stop(&mut probe);
    ebb(&["sweep", "--lake", &probe.url()]);

    let tasks = tasks(&probe.url());
    let ends = |id: &str| -> Vec<StepEnd> {
        let of_id = tasks.get(id).into_iter().flatten();
        of_id.map(|task| task.usage.end).collect()
    };
    // `timeout` exits with 124.
    for (id, end) in [
        (format!("{two}.0"), 124),
        (format!("{two}.1"), 124),
        (format!("{two}.batch"), 5),
        (format!("{array}.batch"), 3),
    ] {
        assert_eq!(ends(&id), [StepEnd::Exited(end)], "{id}: {tasks:#?}");
    }
    let seconds = |id: &str| tasks[id][0].usage.cpu.as_secs_f64();
    let steps = [seconds(&format!("{two}.0")), seconds(&format!("{two}.1"))];
    assert!(
        steps.iter().all(|cpu| (0.05..3.0).contains(cpu)),
        "{steps:?}"
    );
    assert_eq!(tasks.len(), 5, "no other tasks: {:?}", tasks.keys());
}

/// A row of a step in `sacct`.
#[derive(Debug)]
struct Row {
    /// `7.batch`.
    id: String,
    state: String,
    /// Status and signal.
    exit: (u8, u8),
    cpu_seconds: f64,
    max_rss_kib: Option<f64>,
}

/// `[hours:]minutes:seconds.milliseconds`.
fn seconds(text: &str) -> f64 {
    let parts = text.split(':').map(|part| part.parse::<f64>());
    parts.fold(0.0, |sum, part| sum * 60.0 + part.expect("a number"))
}

fn rows(cluster: &Cluster) -> Vec<Row> {
    let columns = "--format=JobIDRaw,State,ExitCode,TotalCPU,MaxRSS";
    let text = cluster.ask("sacct", &["-D", "-a", "-n", "--parsable2", columns]);
    let rows = text.lines().map(|line| {
        let [id, state, exit, cpu, rss] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("five columns: {line}")
        };
        let (status, signal) = exit.split_once(':').expect("status and signal");
        let rss = rss.strip_suffix('K').unwrap_or(rss);
        Row {
            id: id.to_owned(),
            state: state.to_owned(),
            exit: (
                status.parse().expect("a status"),
                signal.parse().expect("a signal"),
            ),
            cpu_seconds: seconds(cpu),
            max_rss_kib: rss.parse().ok().filter(|kib| *kib > 0.0),
        }
    });
    let steps = rows.filter(|row| row.id.contains('.') && !row.id.ends_with("extern"));
    steps.collect()
}

/// The ended Slurm tasks in the lake, by id, and in the order of their starts.
fn tasks(url: &str) -> BTreeMap<String, Vec<PlacedStep>> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let yesterday = today.checked_sub(1.day()).expect("a day");
    let window = runtime.block_on(async {
        let lake = Lake::open(&format!("{url}/lake")).await.expect("a lake");
        lake.steps_between(yesterday, today).await.expect("tasks")
    });
    let mut tasks: BTreeMap<String, Vec<PlacedStep>> = BTreeMap::new();
    for step in window.rows {
        if step.usage.id.kind == StepKind::SlurmJob && step.usage.end != StepEnd::Running {
            let of_id = tasks.entry(step.usage.id.key.clone()).or_default();
            of_id.push(step);
        }
    }
    for of_id in tasks.values_mut() {
        of_id.sort_by_key(|step| step.usage.started);
    }
    tasks
}

/// Compares attempt `number` of the probe's tasks with its row in the accounting.
fn compare(tasks: &[PlacedStep], number: usize, row: &Row) {
    let task = tasks.get(number);
    let usage = &task.unwrap_or_else(|| panic!("no task for {row:?}")).usage;
    let end = match (row.state.as_str(), row.exit) {
        // Slurm has a signal of its own for it. The kernel ends one process with signal 9, and the
        // probe knows the reason only if it saw the event of the kernel.
        ("OUT_OF_MEMORY", _) => {
            let ends = [
                StepEnd::OutOfMemory,
                StepEnd::Signalled(9),
                StepEnd::Exited(137),
            ];
            assert!(ends.contains(&usage.end), "{row:?}: {:?}", usage.end);
            usage.end
        }
        (_, (_, signal)) if signal > 0 => StepEnd::Signalled(signal),
        (_, (status, _)) => StepEnd::Exited(status),
    };
    assert_eq!(usage.end, end, "attempt {number} of {row:?}: {tasks:#?}");
    let cpu = usage.cpu.as_secs_f64();
    let more = cpu - row.cpu_seconds;
    // Slurm's sum lacks processes that nobody waited for, such as those of a killed script.
    let is_killed = !matches!(usage.end, StepEnd::Exited(0..128));
    let difference = if is_killed {
        (-more).max(0.0)
    } else {
        more.abs()
    };
    assert!(
        difference < 0.2 + row.cpu_seconds * 0.1,
        "{row:?}: the probe has {cpu} s"
    );
    // Slurm samples each second, so it can miss what a short step used.
    let big = row.max_rss_kib.filter(|kib| *kib > 30_000.0);
    if let (Some(kib), Some(peak)) = (big, usage.peak_memory) {
        let ratio = peak.bytes.0 as f64 / 1024.0 / kib;
        assert!(
            (0.9..1.3).contains(&ratio),
            "{row:?}: the probe has {peak:?}"
        );
    }
}

/// The jobs of the test of the accounting, by their names.
struct Jobs {
    hold: String,
    two: String,
    labelled: String,
    array: String,
    greedy: String,
    fails: String,
    again: String,
}

impl Jobs {
    fn submit(cluster: &Cluster) -> Self {
        let at = cluster.path();
        let busy = at.join("busy");
        fs::write(&busy, format!("#!/bin/sh\n{COUNT}\n")).expect("a script");
        fs::set_permissions(&busy, fs::Permissions::from_mode(0o755)).expect("a script");
        let two_steps = format!("srun -n1 {0}\nsrun -n1 {0}", busy.display());
        // `tail` holds all its input.
        let hold = |bytes: u64, seconds: u64| {
            format!(
                "{{ head -c {bytes} /dev/zero; sleep {seconds}; }} | tail -c {bytes} >/dev/null"
            )
        };
        let again = format!(
            "{BUSY}\n[ \"$SLURM_RESTART_COUNT\" = 1 ] && exit 0\n\
             scontrol requeue $SLURM_JOB_ID\nsleep 60"
        );
        let script = |script: &str| script.to_owned();
        let submit =
            |name: &str, more: &[&str], script: String| cluster.submit(name, more, (at, &script));
        Self {
            again: submit("again", &["--requeue", "--comment=A|b|1"], again),
            hold: submit("hold", &[], hold(60_000_000, 4)),
            two: submit("two", &[], two_steps.clone()),
            labelled: submit(
                "labelled",
                &[],
                script(&format!("srun -n1 {}", busy.display())),
            ),
            array: submit("many", &["--array=1-3"], format!("{BUSY}\ntrue")),
            greedy: submit("greedy", &[], hold(300_000_000, 4)),
            fails: submit("fails", &[], script("sleep 2\nexit 3")),
        }
    }

    /// Waits for the end of all jobs. Slurm delays a requeued job by two minutes, so the delay is
    /// removed.
    fn wait(&self, cluster: &Cluster) {
        let start = ["update", &format!("JobId={}", self.again), "StartTime=now"];
        wait_for("the jobs", || {
            let waiting = cluster.ask("squeue", &["-h", "-t", "PD", "-n", "again", "-o", "%r"]);
            if waiting.contains("BeginTime") {
                // The probe reports the first attempt before the second begins, as with the delay.
                sleep(Duration::from_secs(5));
                cluster.ask("scontrol", &start);
            }
            let left = cluster.ask("squeue", &["-h"]);
            left.trim().is_empty()
        });
    }
}

/// The advice about a step.
fn advice<'a>(report: &'a Value, step: &str) -> &'a Value {
    let steps = report["steps"].as_array().expect("steps");
    let found = steps.iter().find(|one| one["step"] == step);
    found.unwrap_or_else(|| panic!("no step {step}"))
}

fn write_task_prolog(probe: &Probe) -> String {
    let label = format!(
        "{} label --socket {}",
        program("ebb-probe").display(),
        probe.path("label.sock").display()
    );
    let called = "/usr/local/bin/ebb-probe label";
    assert!(TASK_PROLOG.contains(called), "it calls the installed probe");
    // Only one job has a label; the accounting names the others.
    let text = TASK_PROLOG
        .replace(called, &label)
        .replace("'' | wrap", "[!l]* | '' | wrap");
    let file = probe.path("task-prolog");
    fs::write(&file, text).expect("a script");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a script");
    format!("TaskProlog={}\n", file.display())
}

/// Runs the script of the timer.
fn collect(cluster: &Cluster, url: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/slurm-names");
    let ebb = program("ebb");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    let folders = ebb.parent().map(Path::to_owned).into_iter().chain(folders);
    let output = cluster
        .command(&script.display().to_string())
        .env("PATH", std::env::join_paths(folders).expect("a path"))
        .env("EBB_LAKE", url)
        .output()
        .expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{error}");
}

fn the_documents_show_the_command_of_the_collector() {
    let columns = COLLECTOR.split_once("--format=").map(|(_, rest)| rest);
    let columns = columns.and_then(|rest| rest.split_whitespace().next());
    let columns = format!("--format={}", columns.expect("columns"));
    let page = include_str!("../../docs/src/slurm.md");
    // The help divides long lines as a shell reads them.
    let help = include_str!("../../crates/cli/src/args/names.rs").replace("\\\\\n", "");
    assert!(
        page.contains(&format!("{columns} | ebb names push")),
        "{columns}"
    );
    assert!(help.contains(&columns), "{columns}");
    assert!(columns.ends_with(",Comment"), "a comment may contain |");
}

fn check_explanation(url: &str) {
    let explained = ebb(&["scan", "--lake", url, "--explain", "greedy"]);
    let explained = String::from_utf8(explained.stdout).expect("UTF-8");
    let question = "How many of its tasks were OOM-killed?";
    assert!(explained.contains(question), "{explained}");
}

#[expect(
    clippy::too_many_lines,
    reason = "one story from the jobs to the advice"
)]
fn tasks_of_the_probe_agree_with_the_accounting() {
    let _turn = take_turn(Accounting::Slurmdbd, Cgroups::V1);
    let (mut probe, _) = (Probe::start(), program("ebb"));
    let url = probe.url();
    let cluster = Cluster::start(
        Accounting::Slurmdbd,
        Cgroups::V1,
        &write_task_prolog(&probe),
    );
    let jobs = Jobs::submit(&cluster);
    jobs.wait(&cluster);
    stop(&mut probe);
    ebb(&["sweep", "--lake", &url]);

    let (rows, tasks) = (rows(&cluster), tasks(&url));
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        let number = taken.entry(&row.id).or_default();
        let of_id = tasks.get(&row.id).map_or(&[][..], Vec::as_slice);
        compare(of_id, *number, row);
        *number += 1;
    }
    let again = format!("{}.batch", jobs.again);
    assert_eq!(taken[again.as_str()], 2, "two attempts: {rows:#?}");
    for (id, tasks) in &tasks {
        assert_eq!(taken.get(id.as_str()), Some(&tasks.len()), "{id}");
    }

    let file = probe.path("sacct.txt");
    let push = |arguments: &[&str]| {
        fs::write(&file, cluster.ask("sacct", arguments)).expect("a file");
        try_ebb(&["names", "push", &file.display().to_string(), "--lake", &url])
    };
    for (arguments, expect) in [
        (&["-a"][..], "run sacct with --parsable2"),
        (&["-a", "--parsable2"], "Elapsed"),
    ] {
        let refused = push(arguments);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && error.contains(expect),
            "{error}"
        );
    }
    collect(&cluster, &url);
    ebb(&["sweep", "--lake", &url]);

    let expect = [
        (&jobs.hold, &[("JOB.batch", "hold")][..]),
        (
            &jobs.two,
            &[
                ("JOB.0", "two.0"),
                ("JOB.1", "two.1"),
                ("JOB.batch", "two.batch"),
            ],
        ),
        (
            &jobs.labelled,
            &[("JOB.0", "labelled"), ("JOB.batch", "labelled.batch")],
        ),
        (&jobs.array, &[("JOB.batch", "many")]),
        (&jobs.greedy, &[("JOB.batch", "greedy")]),
        (&jobs.fails, &[("JOB.batch", "fails")]),
        (
            &jobs.again,
            &[("JOB.batch", "again"), ("JOB.batch", "again")],
        ),
    ];
    for (job, steps) in expect {
        assert_eq!(names(&url, job), pairs(steps), "{job}");
    }
    let report = probe.report();
    let gaps = report["gaps"].to_string();
    assert!(!gaps.contains("task names"), "{gaps}");
    for (step, tasks) in [("hold", 1), ("many", 3), ("again", 2), ("greedy", 1)] {
        let advice = advice(&report, step);
        let request = serde_json::json!({"cores": 1000, "memory": 100 << 20});
        assert_eq!(advice["asks"], request, "{step}");
        assert_eq!(advice["runs"], tasks, "{step}");
    }
    assert_eq!(advice(&report, "greedy")["oom_kills"], 1);
    assert_eq!(advice(&report, "fails")["failures"][0]["exit_status"], 3);
    check_explanation(&url);
    // Commands that submit and wait are no steps.
    let steps = report["steps"].as_array().expect("steps");
    for client in ["sbatch", "srun", "scontrol", "squeue", "task-prolog"] {
        assert!(steps.iter().all(|one| one["step"] != client), "{client}");
    }
    let lines = ebb(&[
        "tune",
        "--format",
        "slurm",
        "--report",
        &probe
            .path("lake/reports/latest/report.json")
            .display()
            .to_string(),
    ]);
    let lines = String::from_utf8(lines.stdout).expect("UTF-8");
    // It ran out of 100 MiB. The others fit their requests, and the steps of `two` share one.
    assert!(lines.contains("\n#SBATCH --mem=256M\n"), "{lines}");
    for step in ["many", "hold", "two", "again"] {
        assert!(!lines.contains(&format!("\n# {step}")), "{step}: {lines}");
    }
}
