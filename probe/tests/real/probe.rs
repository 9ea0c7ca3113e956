//! The probe as a program, and the folder that it writes to.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::step::StepUsage;
use ebb_wire::HeartbeatMessage;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A running probe, which is killed on drop.
pub(crate) struct Probe {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Probe {
    /// Starts it with the destination `sink`, and scans each second unless `arguments` override
    /// that.
    pub(crate) fn start(sink: &Sink, arguments: &[&str]) -> Self {
        let arguments = if arguments.is_empty() {
            &["--interval", "1"]
        } else {
            arguments
        };
        let mut command = Command::new(crate::program());
        command
            .args(["run", "--sink"])
            .arg(sink.folder())
            .args(arguments);
        Self::spawn(command)
    }

    /// Starts it with the caller's command, and waits until it runs.
    pub(crate) fn spawn(mut command: Command) -> Self {
        if !command.get_envs().any(|(name, _)| name == "RUST_LOG") {
            command.env("RUST_LOG", "info");
        }
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the probe is built");
        let stderr = child.stderr.take().expect("piped");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let mut log_lines = Vec::new();
        while !log_lines
            .last()
            .is_some_and(|line: &String| line.contains("the probe is running"))
        {
            match lines.next() {
                Some(line) => log_lines.push(line),
                None => panic!("the probe ended at its start: {log_lines:#?}"),
            }
        }
        let log = Arc::new(Mutex::new(log_lines.join("\n")));
        // A full pipe would block it.
        let rest = Arc::clone(&log);
        std::thread::spawn(move || {
            lines.for_each(|line| *rest.lock().expect("nobody panics") += &format!("\n{line}"));
        });
        Self { child, log }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("nobody panics").clone()
    }

    /// Kills it, like a crash or the out-of-memory killer.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Stops it, and returns how long that took.
    pub(crate) fn stop(mut self) -> Duration {
        let began = Instant::now();
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it runs");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
        began.elapsed()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The records in a sink, in order.
pub(crate) struct SinkRecords {
    pub(crate) heartbeats: Vec<Heartbeat>,
    pub(crate) ended: Vec<StepUsage>,
}

/// A folder as the destination of a probe.
pub(crate) struct Sink(TempDir);

impl Sink {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Makes every write fail: replaces its folders by files.
    pub(crate) fn break_it(&self) {
        for name in ["heartbeats", "ingest"] {
            let (there, away) = (self.folder().join(name), self.away(name));
            let _ = fs::rename(&there, &away);
            fs::write(&there, "").expect("a file");
        }
    }

    pub(crate) fn mend(&self) {
        for name in ["heartbeats", "ingest"] {
            let (there, away) = (self.folder().join(name), self.away(name));
            fs::remove_file(&there).expect("the file that broke it");
            let _ = fs::rename(&away, &there);
        }
    }

    /// The messages that arrived, in order.
    pub(crate) fn messages(&self) -> Vec<HeartbeatMessage> {
        let paths = files(&self.folder().join("heartbeats"), ".msg").into_iter();
        let read = |path: PathBuf| {
            let body = fs::read_to_string(&path).expect("readable");
            ebb_wire::decode_heartbeats(&body).expect("a message")
        };
        paths.map(read).collect()
    }

    fn away(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.away"))
    }

    pub(crate) fn read(&self) -> SinkRecords {
        let mut records = SinkRecords {
            heartbeats: Vec::new(),
            ended: Vec::new(),
        };
        for message in self.messages() {
            records.heartbeats.extend(message.heartbeats);
        }
        for path in files(&self.folder().join("ingest"), ".steps.zst") {
            let object = fs::read(&path).expect("readable");
            let steps = ebb_wire::decode_steps(&object).expect("an object");
            records.ended.extend(steps.batch.steps);
        }
        records
    }
}

/// The files below `folder` with this suffix, in the order of their names.
pub(crate) fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, suffix));
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    found.sort();
    found
}
