//! The main job end to end in the demo: three seeds, an account without waste, a wrong manifest,
//! and an early end.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use ebb_test_support::{run, skip, tests};
use serde_json::Value;
use tempfile::TempDir;

/// One probe at a time, because it measures this machine.
static PROBE: Mutex<()> = Mutex::new(());

const TERRAFORM: &[&str] = &[];
const CALLS: &[&str] = &["--skip-terraform"];
const CALLS_WITHOUT_PROBE: &[&str] = &["--skip-terraform", "--skip-probe"];
const TWO_SHARDS_WITHOUT_PROBE: &[&str] = &["--shards", "2", "--skip-probe"];

/// The demo with `arguments`. Skips the test if this machine cannot run the demo.
fn demo(arguments: &[&str]) -> Command {
    let cache = ebb_tests::cache().unwrap_or_default();
    if !ebb_tests::python().is_some_and(|python| python.exists()) {
        skip("no Python environment (scripts/setup test makes it)");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_terraform =
        std::env::split_paths(&path).any(|folder| folder.join("terraform").exists());
    let has_terraform = has_terraform || cache.join("bin/terraform").exists();
    if !arguments.contains(&"--skip-terraform") && !has_terraform {
        skip("no terraform (scripts/setup test says how to get it)");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb-demo"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The output of a finished run, and its folder.
struct Played {
    output: String,
    status: Option<i32>,
    folder: TempDir,
}

fn play(seed: u64, arguments: &[&str]) -> Played {
    let has_probe = !arguments.contains(&"--skip-probe");
    let _alone = has_probe.then(|| PROBE.lock().unwrap_or_else(PoisonError::into_inner));
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = demo(arguments);
    let ended = command
        .args(["--seed", &seed.to_string(), "--work"])
        .arg(folder.path().join("run"))
        .output()
        .expect("the demo starts");
    let output = words(&ended);
    for port in ports(&output) {
        assert!(
            TcpStream::connect(("127.0.0.1", port)).is_err(),
            "{port} still answers\n{output}"
        );
    }
    Played {
        output,
        status: ended.status.code(),
        folder,
    }
}

fn words(ended: &Output) -> String {
    let [out, err] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// The ports of the simulators in the demo's output.
fn ports(output: &str) -> Vec<u16> {
    let lines = output
        .lines()
        .filter(|line| line.contains("MiniStack (") || line.contains("moto ("));
    let ports = lines.filter_map(|line| line.rsplit(':').next()?.trim().parse().ok());
    ports.collect()
}

impl Played {
    fn ends_with(&self, status: i32) -> &Self {
        assert_eq!(self.status, Some(status), "{}", self.output);
        self
    }

    fn says(&self, text: &str) -> &Self {
        assert!(
            self.output.contains(text),
            "it should say: {text}\n{}",
            self.output
        );
        self
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("run").join(name)
    }
}

/// Compares the report of a run without the probe with its manifest again.
fn check_again(folder: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb-demo"));
    command.args(["check", "--skip-probe"]).arg(folder);
    let ended = command.output().expect("it starts");
    (ended.status.code(), words(&ended))
}

fn all_that_was_planted_is_found_with_the_real_provider_and_the_real_probe() {
    let played = play(1, TERRAFORM);
    played.ends_with(0).says("nothing else was called waste");
    let page = fs::read_to_string(played.file("report.html")).expect("a page");
    assert!(
        page.to_lowercase().contains("simulated"),
        "the page says that its input is simulated"
    );
    if played.output.contains("real probe: skipped") {
        skip("all but what only the real probe sees was checked");
    }
    played
        .says("stuck_batch_job (no_progress)")
        .says("overprovisioned_step: demo-overasked");
}

/// The manifest of a run matches; a manifest with one line more or less does not.
fn a_manifest_that_does_not_fit_is_told(played: &Played) {
    let manifest = played.file("planted.json");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    let planted: Vec<Value> = serde_json::from_str(&text).expect("a list");
    let check = |planted: &[Value], expect_status: i32, expect: &str| {
        let text = serde_json::to_string(planted).expect("JSON");
        fs::write(&manifest, text).expect("it is written");
        let (status, output) = check_again(manifest.parent().expect("a folder"));
        assert_eq!(status, Some(expect_status), "{output}");
        assert!(output.contains(expect), "{output}");
    };
    check(&planted, 0, "nothing else was called waste");
    check(&planted[1..], 1, "called waste, and not planted");
    let other = serde_json::json!({"kind": "idle_node", "variant": null, "resource": "i-0none"});
    let more: Vec<Value> = planted.iter().cloned().chain([other]).collect();
    check(&more, 1, "idle_node: i-0none: planted, and not found");
}

fn another_seed(seed: u64, arguments: &[&str]) {
    let played = play(seed, arguments);
    played.ends_with(0).says("nothing else was called waste");
    played.says("skipped  overprovisioned_step: demo-overasked");
    a_manifest_that_does_not_fit_is_told(&played);
}

fn another_seed_plants_other_waste_and_that_is_found() {
    another_seed(2, CALLS_WITHOUT_PROBE);
}

fn two_shards_find_what_a_third_seed_plants() {
    another_seed(3, TWO_SHARDS_WITHOUT_PROBE);
}

fn where_no_waste_is_none_is_found_and_people_hear_hello_and_no_more() {
    let arguments: Vec<&str> = CALLS.iter().copied().chain(["--no-waste"]).collect();
    let played = play(4, &arguments);
    played
        .ends_with(0)
        .says("no waste was planted, and none was found");
    played.says("Slack took 1 message(s) and SES 1 email(s)");
}

fn an_end_before_its_time_takes_everything_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = demo(CALLS_WITHOUT_PROBE);
    command.arg("--work").arg(folder.path().join("run"));
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut output = String::new();
    while !output.contains("moto (") {
        let line = lines.next().expect("it goes on").expect("text");
        output += &format!("{line}\n");
    }
    assert_eq!(ports(&output).len(), 2);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.code(), Some(130), "{output}");
    for port in ports(&output) {
        assert!(
            TcpStream::connect(("127.0.0.1", port)).is_err(),
            "{port} still answers"
        );
    }
}

fn main() -> ExitCode {
    run(tests![
        all_that_was_planted_is_found_with_the_real_provider_and_the_real_probe,
        another_seed_plants_other_waste_and_that_is_found,
        two_shards_find_what_a_third_seed_plants,
        where_no_waste_is_none_is_found_and_people_hear_hello_and_no_more,
        an_end_before_its_time_takes_everything_down
    ])
}
