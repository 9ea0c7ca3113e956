//! Programs that the demo starts. Each has its own process group and log file, and all of them end
//! with the demo.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// How long a program may take to end after a signal.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a program may take to write the expected line.
const SILENCE: Duration = Duration::from_secs(60);

/// How often a log is read.
const POLL: Duration = Duration::from_millis(100);

/// How much of a log an error shows.
const SHOWN_LINES: usize = 25;

/// Whether a program ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It runs until it is ended.
    Server,
    /// The demo waits for its end.
    Task,
}

/// Running programs, in the order of their start.
#[derive(Debug)]
pub(super) struct Children {
    logs: PathBuf,
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    name: String,
    role: Role,
    group: Option<Pid>,
    child: Child,
}

impl Children {
    /// Without programs; logs are written to `logs`.
    ///
    /// # Errors
    /// If that folder cannot be created.
    pub(super) fn new(logs: PathBuf) -> Result<Self> {
        fs::create_dir_all(&logs).with_context(|| format!("making {}", logs.display()))?;
        let running = Vec::new();
        Ok(Self { logs, running })
    }

    /// The log of a program.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// Starts a program that runs until it is ended.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(&mut self, name: &str, command: Command) -> Result<()> {
        self.spawn(name, Role::Server, command)
    }

    /// Starts a program whose end is awaited later.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn begin(&mut self, name: &str, command: Command) -> Result<()> {
        self.spawn(name, Role::Task, command)
    }

    fn spawn(&mut self, name: &str, role: Role, mut command: Command) -> Result<()> {
        let path = self.log(name);
        let log = File::create(&path).with_context(|| format!("writing {}", path.display()))?;
        let program = command.as_std().get_program().to_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", Path::new(&program).display()))?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        self.running.push(Running {
            name: name.to_owned(),
            role,
            group: id.and_then(Pid::from_raw),
            child,
        });
        Ok(())
    }

    /// Waits until a program that was begun has ended, and removes it.
    ///
    /// # Errors
    /// If it failed, with the end of its log.
    pub(super) async fn wait(&mut self, name: &str) -> Result<()> {
        let at = self.running.iter().position(|one| one.name == name);
        let at = at.with_context(|| format!("{name} is not running"))?;
        // It stays in the list during the wait, so that it is ended with the others if this future
        // is dropped.
        let ended = self.running[at].child.wait().await?;
        self.running.remove(at);
        self.good(name, ended)
    }

    /// Starts a program and waits for its end.
    ///
    /// # Errors
    /// See [`Self::begin`] and [`Self::wait`].
    pub(super) async fn run(&mut self, name: &str, command: Command) -> Result<()> {
        self.begin(name, command)?;
        self.wait(name).await
    }

    /// Fails if a program has ended that should still run.
    ///
    /// # Errors
    /// Its name with the end of its log.
    pub(super) fn check(&mut self) -> Result<()> {
        for at in 0..self.running.len() {
            let one = &mut self.running[at];
            if one.role == Role::Server
                && let Some(ended) = one.child.try_wait()?
            {
                let name = self.running.remove(at).name;
                bail!("{name} ended too early ({ended}){}", self.tail(&name));
            }
        }
        Ok(())
    }

    /// Waits until the log of a running program contains a line with `words`; returns that line.
    ///
    /// # Errors
    /// If a program ends before, or no such line appears within a minute.
    pub(super) async fn says(&mut self, name: &str, words: &str) -> Result<String> {
        let log = self.log(name);
        let until = Instant::now() + SILENCE;
        while Instant::now() < until {
            self.check()?;
            let text = fs::read_to_string(&log).unwrap_or_default();
            if let Some(line) = text.lines().find(|line| line.contains(words)) {
                return Ok(line.to_owned());
            }
            tokio::time::sleep(POLL).await;
        }
        bail!("{name} does not say '{words}'{}", self.tail(name))
    }

    /// Ends a program and all its child processes.
    pub(super) async fn end(&mut self, name: &str) {
        if let Some(at) = self.running.iter().position(|one| one.name == name) {
            let mut one = self.running.remove(at);
            one.end().await;
        }
    }

    /// Ends all programs; the last started program ends first.
    pub(super) async fn end_all(&mut self) {
        while let Some(mut one) = self.running.pop() {
            one.end().await;
        }
    }

    fn good(&self, name: &str, ended: ExitStatus) -> Result<()> {
        if !ended.success() {
            bail!("{name} failed ({ended}){}", self.tail(name));
        }
        Ok(())
    }

    /// The end of a program's log for an error.
    fn tail(&self, name: &str) -> String {
        let path = self.log(name);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines.len().saturating_sub(SHOWN_LINES);
        format!(
            "\n--- end of {}\n{}",
            path.display(),
            lines[shown..].join("\n")
        )
    }
}

impl Running {
    async fn end(&mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .is_err()
        {
            self.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
        // Its child processes may still run.
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It is not an error if the group has already ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn what_a_program_started_ends_with_it_and_a_bad_end_shows_its_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut children = Children::new(folder.path().join("logs")).expect("a folder");
        let failed = children.run("bad", shell("echo because; exit 3")).await;
        let words = failed.expect_err("it fails").to_string();
        assert!(
            words.contains("because") && words.contains("bad failed"),
            "{words}"
        );

        let pid = folder.path().join("pid");
        let script = format!(
            "sleep 1000 & echo $! >{0}.new; mv {0}.new {0}; wait",
            pid.display()
        );
        children.start("parent", shell(&script)).expect("it starts");
        while !pid.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        children.check().expect("it goes on");
        children.end_all().await;
        let id = fs::read_to_string(&pid).expect("the id");
        // A killed process exists until it is scheduled once more.
        let gone = async {
            let stat = PathBuf::from(format!("/proc/{}/stat", id.trim()));
            while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, gone).await;
        ended.expect("what a killed program started is gone");
    }
}
