//! Faults in jobs of real Snakemake under the real probe. A sweep must report each of them with the
//! name of its rule and with its cause. Skipped without root, eBPF, Snakemake, cgroup v1 or a loop
//! device.

#[path = "faults/machine.rs"]
mod machine;
#[path = "real/probe.rs"]
mod probe;

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ebb_model::finding::Finding;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::Report;
use ebb_telemetry::step::TaskState;
use ebb_test_support::{run, skip, tests};
use rustix::process::{Pid, Signal, kill_process_group, setpriority_process};

use machine::{Cgroup, Disk, needs_ebpf};
use probe::{PATIENCE, Probe, ebb, program};

/// Each rule has one fault. `neighbour` keeps the core of `starved` busy.
const PIPELINE: &str = r#"
BUSY = "ulimit -t 200; while :; do :; done"
rule all:
    input: "dead_server", "out_of_memory", "slow_disk", "starved", "neighbour", "spin/1000", "retried"
rule dead_server:
    output: "dead_server"
    shell: "exec 3<>/dev/tcp/127.0.0.1/PORT; echo hello >&3; cat <&3 >{output}"
rule out_of_memory:
    output: "out_of_memory"
    shell: "echo $$ >MEMORY; {{ head -c 40M /dev/zero; sleep 2; cat /dev/zero; }} | tail -c 200M >{output}"
rule slow_disk:
    output: "slow_disk"
    shell: "echo $$ >BLKIO; dd if=/dev/zero of=DISK/file bs=64k count=800 oflag=direct; touch {output}"
rule starved:
    output: "starved"
    shell: "taskset -cp 0 $$; renice -n 0 $$; {BUSY}"
rule neighbour:
    output: "neighbour"
    shell: "taskset -cp 0 $$; renice -n 0 $$; for n in 1 2 3 4; do ({BUSY}) & done; wait"
rule spin:
    input: lambda job: [] if job.seconds == "2" else ["spin/2"]
    output: "spin/{seconds}"
    shell: "ulimit -t 200; end=$((SECONDS + {wildcards.seconds}));"
           " while [ $SECONDS -lt $end ]; do :; done; touch {output}"
rule retried:
    output: "retried"
    retries: 5
    shell: "sleep 1; exit 3"
"#;

/// The default limits are minutes and hours.
const POLICY: &str = "[activity]\ntick_seconds = 5\n[step]\nstalled_seconds = 10\n\
                      min_run_seconds = 10\nhistory_runs = 1\nspinning_seconds = 5\n\
                      starved_ppm = 500000\n";

/// Memory for the rule that needs 200 MB.
const MEMORY_LIMIT: &str = "64M";

/// Bytes a second of the slow disk.
const DISK_RATE: u32 = 100_000;

/// How a sweep reports the fault of a rule.
#[derive(Debug)]
struct Fault {
    kind: FindingKind,
    rule: &'static str,
    /// The main wait of the task; `None` if the cause is not a wait.
    wait: Option<TaskState>,
    /// A part of the evidence.
    evidence: &'static str,
}

const FAULTS: [Fault; 6] = [
    Fault {
        kind: FindingKind::StalledStep,
        rule: "dead_server",
        wait: Some(TaskState::Network),
        evidence: "cat in ",
    },
    Fault {
        kind: FindingKind::OutOfMemoryStep,
        rule: "out_of_memory",
        wait: None,
        evidence: "(largest process: tail with",
    },
    Fault {
        kind: FindingKind::WaitingStep,
        rule: "slow_disk",
        wait: Some(TaskState::Disk),
        evidence: "dd in ",
    },
    Fault {
        kind: FindingKind::StarvedStep,
        rule: "starved",
        wait: Some(TaskState::Runnable),
        evidence: "while other tasks kept",
    },
    Fault {
        kind: FindingKind::SpinningStep,
        rule: "spin",
        wait: None,
        evidence: "without I/O, memory growth or a new process",
    },
    Fault {
        kind: FindingKind::RetryStorm,
        rule: "retried",
        wait: None,
        evidence: "6 of 6 tasks failed (",
    },
];

impl Fault {
    fn is_in(&self, finding: &Finding) -> bool {
        let Evidence::Step(trouble) = &finding.evidence else {
            return false;
        };
        finding.kind == self.kind
            && trouble.step == self.rule
            && trouble.causes.map(|causes| causes.main.state) == self.wait
            && trouble.to_string().contains(self.evidence)
    }
}

fn main() -> ExitCode {
    run(tests![each_fault_is_reported_with_its_rule_and_its_cause])
}

/// Snakemake with its jobs, which end with the test.
struct Pipeline(Child);

impl Pipeline {
    /// Starts the pipeline of a folder, whose jobs send their names to `socket`.
    fn start(folder: &Path, socket: &Path) -> Self {
        let log = fs::File::create(folder.join("log")).expect("a log");
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../integrations/snakemake-logger-plugin-ebb/src");
        let mut command = snakemake();
        command
            .args(["--cores", "16", "--keep-going"])
            .args(["--logger", "ebb", "--logger-ebb-socket"])
            .arg(socket)
            .current_dir(folder)
            .env("PYTHONPATH", plugin)
            .env("XDG_CACHE_HOME", folder.join("cache"))
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .process_group(0);
        Self(command.spawn().expect("it is installed"))
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Snakemake 9 of the Python environment that `scripts/setup test` makes.
fn snakemake() -> Command {
    let cache = std::env::var_os("EBB_CACHE").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/ebb"));
    let cache = cache.or_else(home).unwrap_or_else(|| skip("no HOME"));
    let bin = cache.join("venv-advice/bin");
    let snakemake = bin.join("snakemake");
    if !snakemake.exists() {
        let shown = snakemake.display();
        skip(format_args!("no {shown}; run scripts/setup test"));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(snakemake);
    command.env("PATH", format!("{}:{path}", bin.display()));
    command
}

/// The findings of a sweep.
fn sweep(probe: &Probe, policy: &Path) -> Vec<Finding> {
    let policy = policy.display().to_string();
    ebb(&["sweep", "--lake", &probe.url(), "--policy", &policy]);
    let report: Report = serde_json::from_value(probe.report()).expect("a report");
    report.findings
}

fn each_fault_is_reported_with_its_rule_and_its_cause() {
    needs_ebpf();
    // All that must not be starved inherits this priority.
    setpriority_process(None, -20).expect("root may");
    let folder = tempfile::tempdir().expect("a folder");
    drop(snakemake());
    let memory = [
        ("memory.limit_in_bytes", MEMORY_LIMIT),
        ("memory.swappiness", "0"),
    ];
    let memory = Cgroup::new("memory", &memory);
    let disk = Disk::new();
    let rate = format!("{} {DISK_RATE}", disk.number());
    let blkio = Cgroup::new("blkio", &[("blkio.throttle.write_bps_device", &rate)]);
    let dead_server = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = dead_server.local_addr().expect("an address").port();
    let pipeline = PIPELINE
        .replace("PORT", &port.to_string())
        .replace("MEMORY", &memory.processes())
        .replace("BLKIO", &blkio.processes())
        .replace("DISK", &disk.path().display().to_string());
    fs::write(folder.path().join("Snakefile"), pipeline).expect("a file");
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, POLICY).expect("a file");

    let (mut probe, _) = (Probe::start(), program("ebb"));
    let pipeline = Pipeline::start(folder.path(), &probe.path("label.sock"));
    wait_for_reports(&probe, &policy);
    drop(pipeline);
    probe.running.stop();
}

/// Waits until some sweep has reported each fault. A busy machine can delay one fault until another
/// has ended.
fn wait_for_reports(probe: &Probe, policy: &Path) {
    let end = Instant::now() + PATIENCE;
    let mut missing = Vec::from(FAULTS);
    loop {
        sleep(Duration::from_secs(2));
        let findings = sweep(probe, policy);
        missing.retain(|fault| !findings.iter().any(|finding| fault.is_in(finding)));
        if missing.is_empty() {
            return;
        }
        if Instant::now() > end {
            let found = findings.iter().map(|finding| finding.evidence.to_string());
            let found: Vec<String> = found.collect();
            panic!("not reported: {missing:#?}\nreported: {found:#?}");
        }
    }
}
