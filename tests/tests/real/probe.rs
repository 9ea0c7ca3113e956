//! The built probe on this machine, and the programs that a test starts next to it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ebb_test_support::skip;
use serde_json::Value;
use tempfile::TempDir;

/// A few jobs take seconds; a busy machine takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A program of the workspace, next to the program of this package.
pub(crate) fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_ebb-demo")).with_file_name(name);
    if !path.exists() {
        skip(format_args!("{} is not built", path.display()));
    }
    path
}

/// A probe that sends to a folder and listens for labels.
pub(crate) struct Probe {
    pub(crate) running: Running,
    lake: TempDir,
}

impl Probe {
    pub(crate) fn start() -> Self {
        Self::enter("exec \"$0\" \"$@\"")
    }

    /// Starts a probe by a shell script, in a mount namespace of its own. The script gets the probe
    /// as its arguments, and a free file name as `FREE_FILE`.
    pub(crate) fn enter(enter: &str) -> Self {
        let lake = tempfile::tempdir().expect("a folder");
        let at = lake.path();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("a folder");
        let (url, d) = (
            format!("file://{}", at.join("lake").display()),
            at.display(),
        );
        for folder in ["lake", "spool"] {
            fs::create_dir(at.join(folder)).expect("a folder");
        }
        let settings = format!(
            "place = \"{url}\"\nspool_dir = \"{d}/spool\"\nlabel_socket = \"{d}/label.sock\"\n\
             interval_seconds = 1\nsample_seconds = 1\n"
        );
        let file = at.join("probe.toml");
        fs::write(&file, settings).expect("a file");
        let log = at.join("probe.log");
        let mut probe = Command::new("unshare");
        probe
            .args(["--mount", "sh", "-c", enter])
            .arg(program("ebb-probe"))
            .args(["run", "--config"])
            .arg(file)
            .env("RUST_LOG", "info")
            .env("FREE_FILE", at.join("free"));
        let running = Running::start(&mut probe, &log);
        wait_for("the start of the probe", || {
            fs::read_to_string(&log).is_ok_and(|log| log.contains("probe is running"))
        });
        Self { running, lake }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.lake.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.path("lake").display())
    }

    pub(crate) fn report(&self) -> Value {
        let report = fs::read(self.path("lake/reports/latest/report.json"));
        serde_json::from_slice(&report.expect("a report")).expect("JSON")
    }
}

pub(crate) fn try_ebb(arguments: &[&str]) -> Output {
    let output = Command::new(program("ebb")).args(arguments).output();
    output.expect("ebb starts")
}

pub(crate) fn ebb(arguments: &[&str]) -> Output {
    let output = try_ebb(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output
}

/// A program that ends with its test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command, log: &Path) -> Self {
        let log = fs::File::create(log).expect("a log");
        let errors = log.try_clone().expect("a log");
        let child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn();
        Self(child.expect("it starts"))
    }

    pub(crate) fn stop(&mut self) {
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

pub(crate) fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_done() {
        assert!(Instant::now() < end, "{what} took more than {PATIENCE:?}");
        sleep(Duration::from_millis(200));
    }
}
