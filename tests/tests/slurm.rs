//! Names of real Slurm jobs: a cluster of one node in a folder, the probe, `squeue`, a trace of
//! Nextflow, and a sweep. Skipped without root, Slurm, munge, eBPF or cgroup v1.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ebb_test_support::{run, skip, tests};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

/// Two jobs take a few seconds; a busy machine takes longer.
const PATIENCE: Duration = Duration::from_secs(90);

/// Programs of Debian's packages slurmctld, slurmd, slurm-client and munge.
const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "sbatch", "squeue"];

/// Uses a core for two seconds.
const BUSY: &str = "timeout 2 sh -c 'while :; do :; done'";

const HASH: &str = "ab/cdef0123456789abcdef0123456789";

fn main() -> ExitCode {
    run(tests![
        jobs_have_the_names_that_squeue_and_the_trace_contain
    ])
}

/// A program of the workspace, next to the program of this package.
fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_ebb-demo")).with_file_name(name);
    if !path.exists() {
        skip(format_args!("{} is not built", path.display()));
    }
    path
}

fn check_machine() {
    if !rustix::process::geteuid().is_root() {
        skip("not root");
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        skip("this kernel has no type information (/sys/kernel/btf/vmlinux)");
    }
    if !Path::new("/sys/fs/cgroup/freezer").exists() {
        skip("no cgroup v1; with cgroup v2 Slurm needs systemd");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .collect();
    for name in PROGRAMS {
        if !folders.iter().any(|folder| folder.join(name).exists()) {
            skip(format_args!("no {name}"));
        }
    }
}

/// A program that ends with its test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = fs::File::create(log).expect("a log");
        let errors = log.try_clone().expect("a log");
        let child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn();
        Self(child.expect("it starts"))
    }

    fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            match self.0.try_wait() {
                Ok(None) => sleep(Duration::from_millis(50)),
                _ => return,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Slurm cluster of this machine. It ends with its fields: first the daemons, then the folder.
struct Cluster {
    _daemons: Vec<Running>,
    folder: TempDir,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for name in ["state", "spool"] {
            fs::create_dir(at.join(name)).expect("a folder");
        }
        write_configuration(at);
        let with_settings = |name: &str| {
            let mut command = Command::new(name);
            command.env("SLURM_CONF", at.join("slurm.conf"));
            command
        };
        let mut munged = Command::new("/usr/sbin/munged");
        munged.args(["--foreground", "--force"]);
        for (option, file) in [
            ("--key-file", "munge.key"),
            ("--socket", "munge.socket"),
            ("--pid-file", "munge.pid"),
            ("--log-file", "munge.log"),
            ("--seed-file", "munge.seed"),
        ] {
            munged.arg(format!("{option}={}", at.join(file).display()));
        }
        // Slurm's daemons stop before munge.
        let mut daemons = vec![Running::start(&mut munged, &at.join("munged.out"))];
        wait_for("munge", || at.join("munge.socket").exists());
        for name in ["/usr/sbin/slurmctld", "/usr/sbin/slurmd"] {
            let log = at.join(format!("{}.out", name.replace('/', "_")));
            let daemon = Running::start(with_settings(name).arg("-D"), &log);
            daemons.insert(0, daemon);
        }
        let cluster = Self {
            _daemons: daemons,
            folder,
        };
        let end = Instant::now() + Duration::from_secs(20);
        while !cluster.ask("sinfo", &["-h", "-o", "%t"]).contains("idle") {
            if Instant::now() > end {
                let log = fs::read_to_string(cluster.folder.path().join("_usr_sbin_slurmd.out"));
                skip(format_args!(
                    "slurmd does not start here: {}",
                    log.unwrap_or_default()
                ));
            }
            sleep(Duration::from_millis(200));
        }
        cluster
    }

    /// The output of a client of Slurm.
    fn ask(&self, name: &str, arguments: &[&str]) -> String {
        let output = Command::new(name)
            .env("SLURM_CONF", self.folder.path().join("slurm.conf"))
            .env("SLURM_TIME_FORMAT", "%s")
            .args(arguments)
            .output()
            .expect("it starts");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Submits a script from a folder; returns the id of the job.
    fn submit(&self, name: &str, more: &[&str], (folder, script): (&Path, &str)) -> String {
        let file = folder.join("job.sh");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a script");
        let file = file.display().to_string();
        let folder = folder.display().to_string();
        let mut line = vec!["--parsable", "--mem=100", "-o", "/dev/null"];
        line.extend(["-D", &folder, "-J", name]);
        line.extend(more);
        line.push(&file);
        let id = self.ask("sbatch", &line).trim().to_owned();
        assert!(!id.is_empty(), "sbatch accepted the job {name}");
        id
    }
}

/// A port that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn write_configuration(at: &Path) {
    let mut key = [0; 64];
    for (n, byte) in key.iter_mut().enumerate() {
        *byte = u8::try_from(n).unwrap_or(0) ^ 0x5a;
    }
    let key_file = at.join("munge.key");
    fs::write(&key_file, key).expect("a key");
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).expect("a key");
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("a folder");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim();
    // Cgroups of another cluster of this machine have other job ids.
    let first_job = 1_000_000 + std::process::id() * 10;
    let (d, control, node) = (at.display(), free_port(), free_port());
    let text = format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         SlurmctldPort={control}\nSlurmdPort={node}\nAuthType=auth/munge\n\
         AuthInfo=socket={d}/munge.socket\nFirstJobId={first_job}\nStateSaveLocation={d}/state\n\
         SlurmdSpoolDir={d}/spool\nSlurmctldPidFile={d}/slurmctld.pid\n\
         SlurmdPidFile={d}/slurmd.pid\nProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\n\
         JobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\n\
         SelectTypeParameters=CR_Core_Memory\nReturnToService=2\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000\n\
         PartitionName=main Nodes={host} Default=YES MaxTime=10 State=UP\n"
    );
    fs::write(at.join("slurm.conf"), text).expect("a file");
    let cgroup = "CgroupAutomount=no\nConstrainCores=yes\nConstrainRAMSpace=yes\n";
    fs::write(at.join("cgroup.conf"), cgroup).expect("a file");
}

fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_done() {
        assert!(Instant::now() < end, "{what} took more than {PATIENCE:?}");
        sleep(Duration::from_millis(200));
    }
}

fn ebb(arguments: &[&str]) -> Output {
    let output = Command::new(program("ebb")).args(arguments).output();
    let output = output.expect("ebb starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output
}

/// Task and step of all tasks of a job, sorted.
fn names(lake: &str, job: &str) -> Vec<(String, String)> {
    let output = ebb(&["names", "explain", job, "--lake", lake, "--format", "json"]);
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let tasks = told["tasks"].as_array().expect("tasks");
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
    check_machine();
    let (probe, _) = (program("ebb-probe"), program("ebb"));
    let lake = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}", lake.path().display());
    let cluster = Cluster::start();
    let mut watching = Command::new(probe);
    watching
        .args(["run", "--interval", "1", "--sink", &url])
        .env("RUST_LOG", "info");
    let log = lake.path().join("probe.log");
    let mut watching = Running::start(&mut watching, &log);
    let is_running = || fs::read_to_string(&log).is_ok_and(|log| log.contains("probe is running"));
    wait_for("the start of the probe", is_running);

    let began = Timestamp::now();
    let work = cluster.folder.path().join("work").join(HASH);
    fs::create_dir_all(&work).expect("a folder");
    let two_steps = format!("srun -n1 {BUSY}\nsrun -n1 {BUSY}\ntrue");
    let nextflow = cluster.submit("nf-RNA_ALIGN_(S1)", &[], (&work, &two_steps));
    let plain = cluster.folder.path();
    let array = cluster.submit("many", &["--array=1-2"], (plain, BUSY));
    let unnamed = cluster.submit("sbatch", &[], (plain, BUSY));
    let all = ["-a", "-r", "-t", "all", "-o", "%A|%T|%S|%Z|%j|%k"];
    wait_for("the jobs", || {
        let jobs = cluster.ask("squeue", &all);
        jobs.lines()
            .filter(|job| job.contains("|COMPLETED|"))
            .count()
            + jobs.lines().filter(|job| job.contains("|FAILED|")).count()
            == 4
    });
    // The last interval of the probe.
    sleep(Duration::from_secs(3));
    watching.stop();

    let jobs = lake.path().join("squeue.txt");
    fs::write(&jobs, cluster.ask("squeue", &all)).expect("a file");
    let trace = lake.path().join("trace.txt");
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
    let report = fs::read(lake.path().join("reports/latest/report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let runs = &report["runs"];
    assert!(runs["named"]["record"].as_u64() >= Some(5), "{runs:#}");
    assert!(runs["joined"]["record"].as_u64() >= Some(5), "{runs:#}");
    let gaps = report["gaps"].to_string();
    assert!(!gaps.contains("task names"), "{gaps}");
}
