//! The watch socket, and `ebb top` on it in a pseudo-terminal.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ebb_telemetry::watch::{WatchScope, WatchSnapshot};
use ebb_test_support::skip;
use serde_json::Value;

use crate::machine::{Task, needs_ebpf};
use crate::probe::{Probe, Sink};
use crate::{SECOND, program};

const NOBODY: u32 = 65_534;

/// Two lines of the socket, read by a user.
const READ: &str = "\
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
lines = s.makefile()
[print(lines.readline(), end='') for _ in range(int(sys.argv[2]))]";

/// A folder that every user can enter.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("own folder");
    folder
}

fn start(sink: &Sink, socket: &Path) -> Probe {
    let socket = socket.to_str().expect("a name");
    // The default time between scans is longer than that between two snapshots.
    Probe::start(sink, &["--interval", "60", "--watch-socket", socket])
}

fn snapshots(socket: &Path, user: u32, count: usize) -> Vec<WatchSnapshot> {
    let output = Command::new("setpriv")
        .arg(format!("--reuid={user}"))
        .args(["--clear-groups", "/usr/bin/python3", "-c", READ])
        .args([socket.as_os_str(), count.to_string().as_ref()])
        .output()
        .expect("setpriv is installed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).expect("text");
    let parse = |line| serde_json::from_str(line).expect("a snapshot");
    text.lines().map(parse).collect()
}

/// The program `ebb`, next to the probe or named by `EBB`.
fn ebb() -> PathBuf {
    let configured_path = std::env::var_os("EBB").map(PathBuf::from);
    let path = configured_path.unwrap_or_else(|| Path::new(&program()).with_file_name("ebb"));
    if !path.exists() {
        skip(format_args!("{} is not built", path.display()));
    }
    path
}

pub(crate) fn a_user_sees_the_own_tasks_only_and_root_sees_all() {
    needs_ebpf();
    if !Path::new("/usr/bin/python3").exists() {
        skip("/usr/bin/python3 is not installed");
    }
    let (sink, folder) = (Sink::new(), folder());
    let socket = folder.path().join("watch.sock");
    let probe = start(&sink, &socket);
    let (of_root, of_nobody) = (Task::new(None), Task::new(None));
    let busy = "timeout 8 sh -c 'while :; do :; done'; true";
    let mut first = of_root.start(busy);
    // Its first process runs as this user from its first program on.
    let [shell, arguments @ ..] = of_nobody.command(busy);
    let script = arguments[1].replace(
        "exec sh -c",
        "exec setpriv --reuid=65534 --clear-groups sh -c",
    );
    let mut second = Command::new(shell)
        .args(["-c", &script, "sh", busy])
        .spawn()
        .expect("a shell");
    std::thread::sleep(3 * SECOND);
    let all = snapshots(&socket, 0, 2);
    let own = snapshots(&socket, NOBODY, 2);
    first.wait().expect("it ends");
    second.wait().expect("it ends");
    probe.stop();
    let find = |snapshot: &WatchSnapshot, task: &Task| {
        snapshot
            .tasks
            .iter()
            .find(|one| one.id.key == task.id)
            .cloned()
    };
    for snapshot in &all {
        assert_eq!(snapshot.scope, WatchScope::All);
        assert!(find(snapshot, &of_root).is_some() && find(snapshot, &of_nobody).is_some());
    }
    for snapshot in &own {
        assert_eq!(snapshot.scope, WatchScope::Own);
        assert!(find(snapshot, &of_nobody).is_some(), "{snapshot:#?}");
        let others = snapshot
            .tasks
            .iter()
            .filter(|task| task.user != Some(NOBODY));
        assert_eq!(others.count(), 0, "{snapshot:#?}");
        assert!(snapshot.totals.cpu_ns.is_some());
    }
    // Cumulative CPU time grows by one core, although the interval has a minute.
    let [before, now] = &all[..] else {
        panic!("{all:#?}");
    };
    let cpu = |snapshot| {
        find(snapshot, &of_root)
            .expect("it runs")
            .cpu_ns
            .as_secs_f64()
    };
    let wall = now.at_ns.since(before.at_ns).expect("later").as_secs_f64();
    let cores = (cpu(now) - cpu(before)) / wall;
    assert!((0.05..1.2).contains(&cores), "{cores} cores in {wall} s");
}

fn top(end: &str) -> Value {
    needs_ebpf();
    let ebb = ebb();
    let (sink, folder) = (Sink::new(), folder());
    let socket = folder.path().join("watch.sock");
    let probe = start(&sink, &socket);
    let task = Task::new(None);
    let mut load = task.start("timeout 40 sh -c 'while :; do :; done'; true");
    // The first of the two snapshots must contain the task.
    std::thread::sleep(2 * SECOND);
    check_once(&ebb, &socket, &task.id);
    let screen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/watch_screen.py");
    let output = Command::new("python3")
        .arg(screen)
        .args([ebb.as_os_str(), socket.as_os_str()])
        .args([&task.id, end])
        .stderr(Stdio::inherit())
        .output()
        .expect("python3 is installed");
    let _ = load.kill();
    let _ = load.wait();
    probe.stop();
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn check_once(ebb: &Path, socket: &Path, id: &str) {
    let output = Command::new(ebb)
        .args(["top", "--once", "--format", "json", "--socket"])
        .arg(socket)
        .output()
        .expect("it is built");
    let view: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut tasks = view["tasks"].as_array().expect("a list").iter();
    let task = tasks.find(|task| task["name"] == id).expect("it runs");
    // Other programs use the machine too.
    let cores = task["cores"].as_f64().expect("known");
    assert!((0.05..1.2).contains(&cores), "{task:#}");
    assert!(view["busy_cores"].as_f64() > Some(0.05), "{view:#}");
    let tools = task["tools"].as_array().expect("a list");
    assert!(tools.iter().any(|tool| tool["name"] == "sh"), "{task:#}");
}

fn check_screen(end: &str) {
    let screen = top(end);
    let text = |name: &str| screen[name].as_str().unwrap_or_default();
    for expect in ["CORES", "users)", "memory", "\u{1b}[?1049h"] {
        assert!(text("table").contains(expect), "{expect}: {screen:#}");
    }
    assert!(text("task").contains("TOOL"), "{screen:#}");
    assert!(text("task").contains("sh"), "{screen:#}");
    assert!(text("last").contains("\u{1b}[?1049l"), "{screen:#}");
    assert_eq!(screen["raw"], true, "{screen:#}");
    assert_eq!(screen["restored"], true, "{screen:#}");
    assert_eq!(screen["status"], 0, "{screen:#}");
}

pub(crate) fn ebb_top_shows_a_task_and_its_tools_and_restores_the_terminal() {
    check_screen("quit");
}

pub(crate) fn ebb_top_restores_the_terminal_after_a_signal() {
    check_screen("term");
}
