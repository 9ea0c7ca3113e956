//! Containers of real Podman and real Docker under the probe. Each must have the name and the image
//! that its runtime reports, with the same exit status, CPU time and memory.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use ebb_telemetry::step::{StepEnd, StepKind, StepUsage};
use ebb_test_support::skip;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::machine::needs_ebpf;
use crate::probe::{Probe, Sink};
use crate::{SECOND, program};

/// The image, which contains busybox only.
const IMAGE: &str = "localhost/lab/bwa:0.7.17";

/// Uses a core for two seconds, then holds 100 MB for four seconds, then fails.
const JOB: &str = "timeout 2 sh -c 'while :; do :; done'; \
                   dd if=/dev/zero bs=100M count=1 2>/dev/null | sleep 4; exit 3";

/// A stand-in for runc that starts runc without resource limits and without an `oom_score_adj`. To
/// set these needs CAP_SYS_RESOURCE, which a test in a container may lack.
pub(crate) const RUNTIME: &str = include_str!("runc_without_limits.py");

/// The report of a runtime about one of its containers.
struct Record {
    id: String,
    name: String,
    status: u8,
    cpu_seconds: f64,
    memory_bytes: f64,
}

/// CPU seconds and bytes of memory of a running container.
type Usage<'a> = &'a dyn Fn(&str) -> Option<(f64, f64)>;

/// A folder with the runtime and the content of the image.
fn prepare(programs: &[&str]) -> TempDir {
    needs_ebpf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/bin".into()]);
    let folders: Vec<PathBuf> = folders.collect();
    for name in programs
        .iter()
        .chain(&["runc", "busybox", "python3", "tar"])
    {
        if !folders.iter().any(|folder| folder.join(name).exists()) {
            skip(format_args!("no {name}; run scripts/setup test"));
        }
    }
    // Podman accepts short paths only, and so does a socket.
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = folder.path().join("runtime");
    fs::write(&runtime, RUNTIME).expect("a file");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("ours");
    let bin = folder.path().join("root/bin");
    fs::create_dir_all(&bin).expect("a folder");
    let busybox = folders.iter().map(|folder| folder.join("busybox"));
    let busybox = busybox
        .filter(|path| path.exists())
        .find(|path| is_static(path));
    let busybox = busybox.unwrap_or_else(|| skip("no busybox-static"));
    fs::copy(busybox, bin.join("busybox")).expect("copied");
    for name in ["sh", "timeout", "dd", "sleep"] {
        symlink("busybox", bin.join(name)).expect("a link");
    }
    folder
}

/// Whether a program needs no library: its file names no dynamic linker.
fn is_static(program: &Path) -> bool {
    let bytes = fs::read(program).unwrap_or_default();
    !bytes[..bytes.len().min(4_096)]
        .windows(8)
        .any(|part| part == b"/ld-linu")
}

/// The output of a command that must succeed.
fn output(command: &mut Command) -> String {
    let done = command.output().expect("the program is here");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// Imports the image.
fn import(folder: &Path, client: &dyn Fn() -> Command) {
    let mut tar = Command::new("tar");
    tar.arg("c").arg("-C").arg(folder.join("root")).arg(".");
    let mut tar = tar.stdout(Stdio::piped()).spawn().expect("tar is here");
    let archive = tar.stdout.take().expect("piped");
    output(client().args(["import", "-", IMAGE]).stdin(archive));
    tar.wait().expect("it ends");
}

/// Runs a container with a name and one without at the same time, and returns what the runtime
/// reports.
fn run_containers(client: &dyn Fn() -> Command, usage: Usage<'_>) -> Vec<Record> {
    let start = |arguments: &[&str]| {
        let mut command = client();
        command
            .args(["run", "-d", "--network", "none"])
            .args(arguments);
        output(command.args([IMAGE, "/bin/sh", "-c", JOB]))
    };
    let ids = [
        start(&["--name", "align"]),
        start(&["--label", "nf.process=RNA:SORT"]),
    ];
    let mut used = [(0.0_f64, 0.0_f64); 2];
    let began = Instant::now();
    while began.elapsed() < 8 * SECOND {
        for (id, (cpu, memory)) in ids.iter().zip(&mut used) {
            if let Some((cpu_now, memory_now)) = usage(id) {
                *cpu = cpu.max(cpu_now);
                *memory = memory.max(memory_now);
            }
        }
        std::thread::sleep(SECOND / 4);
    }
    let records = ids
        .iter()
        .zip(used)
        .map(|(id, (cpu_seconds, memory_bytes))| {
            let status = output(client().args(["wait", id]));
            let name = output(client().args(["inspect", "--format", "{{.Name}}", id]));
            Record {
                id: id.clone(),
                name: name.trim_start_matches('/').to_owned(),
                status: status.parse().expect("a status"),
                cpu_seconds,
                memory_bytes,
            }
        });
    records.collect()
}

fn compare(records: &[Record], ended: &[StepUsage], source: &str) {
    for record in records {
        let is_it = |step: &&StepUsage| step.id.key == record.id;
        let step = ended.iter().find(is_it);
        let step = step.unwrap_or_else(|| panic!("no {} among {ended:#?}", record.id));
        assert_eq!(step.id.kind, StepKind::Container);
        assert_eq!(step.name, record.name);
        assert_eq!(step.end, StepEnd::Exited(record.status));
        let labels = &step
            .detail
            .scheduler_labels
            .as_ref()
            .expect("labels")
            .labels;
        let of = |key: &str| labels.get(key).map(String::as_str);
        assert_eq!(of("container.name"), Some(record.name.as_str()));
        assert_eq!(of("container.image"), Some(IMAGE));
        assert_eq!(of("container.source"), Some(source));
        let (got, expect) = (step.cpu.as_secs_f64(), record.cpu_seconds);
        assert!(
            (got - expect).abs() < 0.1 + 0.1 * expect,
            "{got} s of CPU, {source} {expect}"
        );
        let got = step.peak_memory.expect("sampled").bytes.0 as f64;
        let expect = record.memory_bytes;
        assert!(got >= 100e6, "{got} bytes");
        // The runtime counts the page cache as well.
        assert!(
            (got - expect).abs() < 0.2 * expect,
            "{got} bytes, {source} {expect}"
        );
    }
    let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names[0], "align");
    let is_random = names[1].split('_').count() == 2;
    assert!(is_random, "{names:?}");
}

/// A probe whose `/var/lib/containers` is `storage`.
fn start_probe(sink: &Sink, storage: &Path, settings: &str) -> Probe {
    let folder = sink.folder().display();
    let config = sink.folder().join("probe.toml");
    let text = format!(
        "place = '{folder}'\nspool_dir = '{folder}/spool'\ninterval_seconds = 10\n\
         sample_seconds = 1\nsteps_seconds = 1\n{settings}"
    );
    fs::write(&config, text).expect("a file");
    let mut command = with_storage(storage);
    command.arg(program()).args(["run", "--config"]).arg(config);
    Probe::spawn(command)
}

/// A command in its own mount namespace, in which `/var/lib/containers` is `storage`.
fn with_storage(storage: &Path) -> Command {
    let enter =
        "mkdir -p /var/lib/containers && mount --bind \"$0\" /var/lib/containers && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", enter]).arg(storage);
    command
}

pub(crate) fn containers_of_podman_have_their_names_and_images() {
    let folder = prepare(&["podman", "conmon"]);
    let path = |name: &str| folder.path().join(name);
    let storage = path("storage");
    fs::create_dir(&storage).expect("a folder");
    let client = || {
        let mut command = with_storage(&storage);
        command.args([
            "podman",
            "--storage-driver",
            "vfs",
            "--cgroup-manager",
            "cgroupfs",
        ]);
        command.arg("--runroot").arg(path("run"));
        command.arg("--tmpdir").arg(path("tmp"));
        command.arg("--runtime").arg(path("runtime"));
        command
    };
    import(folder.path(), &client);
    let sink = Sink::new();
    let probe = start_probe(&sink, &storage, "");
    let usage = |id: &str| {
        let mut stats = client();
        stats.args([
            "stats",
            "--no-stream",
            "--format",
            "{{.CPUNano}} {{.MemUsageBytes}}",
            id,
        ]);
        let stdout = stats
            .output()
            .ok()
            .filter(|done| done.status.success())?
            .stdout;
        let stdout = String::from_utf8(stdout).ok()?;
        let (cpu, memory) = stdout.trim().split_once(' ')?;
        let memory = memory.split(" / ").next()?;
        Some((cpu.parse::<f64>().ok()? / 1e9, bytes(memory)?))
    };
    let records = run_containers(&client, &usage);
    std::thread::sleep(3 * SECOND);
    probe.stop();
    compare(&records, &sink.read().ended, "podman");
}

/// The number of bytes in `100.5MiB`.
fn bytes(text: &str) -> Option<f64> {
    let units = [
        ("KiB", 1_024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("B", 1.0),
    ];
    units.iter().find_map(|(unit, bytes)| {
        let number = text.trim().strip_suffix(unit)?;
        Some(number.parse::<f64>().ok()? * bytes)
    })
}

/// A daemon of Docker with all of its files and its socket in a folder.
struct Dockerd {
    child: Child,
    socket: PathBuf,
}

impl Dockerd {
    fn start(folder: &Path) -> Self {
        let path = |name: &str| folder.join(name);
        let socket = path("docker.sock");
        let runtime = path("runtime");
        let config = serde_json::json!({
            "runtimes": {"test": {"path": runtime}}, "default-runtime": "test",
        });
        fs::write(path("daemon.json"), config.to_string()).expect("a file");
        let log = fs::File::create(path("dockerd.log")).expect("a file");
        let mut command = Command::new("dockerd");
        command.arg("--config-file").arg(path("daemon.json"));
        command.arg("--data-root").arg(path("data"));
        command.arg("--exec-root").arg(path("exec"));
        command.arg("--pidfile").arg(path("dockerd.pid"));
        command
            .arg("--host")
            .arg(format!("unix://{}", socket.display()));
        command.args(["--iptables=false", "--ip6tables=false", "--bridge=none"]);
        command.args(["--storage-driver=vfs"]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin"));
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        let mut dockerd = Self {
            child: command.spawn().expect("dockerd is here"),
            socket,
        };
        let began = Instant::now();
        while dockerd.get("/_ping").is_none() {
            let has_ended = dockerd.child.try_wait().expect("ours").is_some();
            if has_ended || began.elapsed() > 60 * SECOND {
                let log = fs::read_to_string(folder.join("dockerd.log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or("no log").to_owned();
                skip(format_args!("dockerd does not run here: {last}"));
            }
            std::thread::sleep(SECOND / 4);
        }
        dockerd
    }

    /// The body of a response of the daemon; `None` if it does not answer.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n").ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        let (head, body) = response.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| body.to_owned())
    }

    fn usage(&self, id: &str) -> Option<(f64, f64)> {
        let stats = self.get(&format!(
            "/containers/{id}/stats?stream=false&one-shot=true"
        ))?;
        let stats: Value = serde_json::from_str(&stats).ok()?;
        let cpu = stats
            .pointer("/cpu_stats/cpu_usage/total_usage")?
            .as_f64()?;
        let memory = stats.pointer("/memory_stats/usage")?.as_f64()?;
        Some((cpu / 1e9, memory))
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        // It stops its containers and its containerd.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

pub(crate) fn containers_of_docker_have_their_names_images_and_listed_labels() {
    let folder = prepare(&["dockerd", "containerd", "docker"]);
    let dockerd = Dockerd::start(folder.path());
    let client = || {
        let mut command = Command::new("docker");
        command
            .arg("--host")
            .arg(format!("unix://{}", dockerd.socket.display()));
        command
    };
    import(folder.path(), &client);
    let sink = Sink::new();
    let settings = format!("docker_socket = '{}'\n", dockerd.socket.display());
    let probe = start_probe(&sink, folder.path(), &settings);
    let records = run_containers(&client, &|id| dockerd.usage(id));
    std::thread::sleep(3 * SECOND);
    probe.stop();
    let ended = sink.read().ended;
    compare(&records, &ended, "docker");
    let step = |record: &Record| {
        let step = ended.iter().find(|step| step.id.key == record.id);
        step.expect("compared").step_name().to_owned()
    };
    assert_eq!(step(&records[0]), "align");
    assert_eq!(step(&records[1]), "RNA:SORT");
}
