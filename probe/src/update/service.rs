//! The service of the probe, and trial runs of a program.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use ebb_telemetry::probe_version::ProbeVersion;

/// The unit of the daemon.
const UNIT: &str = "ebb-probe.service";

/// A restart waits until the new daemon notifies systemd, which gives it 90 seconds.
const RESTART_LIMIT: Duration = Duration::from_secs(150);

/// A daemon that runs for so long without a restart is healthy. Its watchdog ends one that hangs
/// after 60 seconds.
const HEALTHY_AFTER: Duration = Duration::from_secs(90);

/// A program that does not print its version within this time is not started.
const TRIAL_LIMIT: Duration = Duration::from_secs(60);

const QUERY_LIMIT: Duration = Duration::from_secs(20);

const POLL: Duration = Duration::from_millis(50);

/// Limit on the output of a program that is read.
const MAX_OUTPUT: u64 = 64 << 10;

/// The operations of an update on this machine.
pub(super) trait Service {
    /// The program that the service runs; `None` if the service does not run.
    fn program(&self) -> anyhow::Result<Option<PathBuf>>;

    /// Checks that a program starts here and is this version.
    fn try_version(&self, program: &Path, version: ProbeVersion) -> anyhow::Result<()>;

    /// Checks that a program can read the manifest: one that cannot could not be replaced by a later
    /// one.
    fn try_update(&self, program: &Path) -> anyhow::Result<()>;

    /// Restarts the service and checks that it stays up.
    fn restart(&self) -> anyhow::Result<()>;
}

/// The service of systemd.
#[derive(Debug)]
pub(super) struct SystemdService<'a> {
    /// The configuration with the settings of updates.
    pub(super) config: &'a Path,
}

/// Properties of the unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct UnitState {
    active: String,
    main_process: String,
    program: Option<PathBuf>,
}

impl UnitState {
    /// From the output of `systemctl show`.
    fn parse(text: &str) -> Self {
        let mut state = Self::default();
        for line in text.lines() {
            match line.split_once('=') {
                Some(("ActiveState", value)) => state.active = value.to_owned(),
                Some(("MainPID", value)) => state.main_process = value.to_owned(),
                // { path=/usr/local/bin/ebb-probe ; argv[]=… ; … }
                Some(("ExecStart", value)) => {
                    let path = value.split_once("path=").map(|(_, rest)| rest);
                    let path = path.and_then(|rest| rest.split_once(" ;"));
                    state.program = path.map(|(path, _)| PathBuf::from(path));
                }
                _ => {}
            }
        }
        state
    }

    fn read() -> anyhow::Result<Self> {
        let mut command = Command::new("systemctl");
        command.args(["show", "--property=ActiveState,MainPID,ExecStart", UNIT]);
        Ok(Self::parse(&output(command, QUERY_LIMIT)?))
    }
}

impl Service for SystemdService<'_> {
    fn program(&self) -> anyhow::Result<Option<PathBuf>> {
        let state = UnitState::read()?;
        if state.active == "inactive" {
            return Ok(None);
        }
        let program = state.program;
        Ok(Some(program.with_context(|| {
            format!("failed to find the program of {UNIT}")
        })?))
    }

    fn try_version(&self, program: &Path, version: ProbeVersion) -> anyhow::Result<()> {
        let mut command = Command::new(program);
        command.arg("--version");
        let text = output(command, TRIAL_LIMIT)?;
        let expected = format!("ebb-probe {version}");
        ensure!(
            text.trim() == expected,
            "it is not {expected}, by its own words"
        );
        Ok(())
    }

    fn try_update(&self, program: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(program);
        command
            .args(["update", "--dry-run", "--config"])
            .arg(self.config);
        output(command, TRIAL_LIMIT).map(drop)
    }

    fn restart(&self) -> anyhow::Result<()> {
        let mut command = Command::new("systemctl");
        command.args(["restart", UNIT]);
        output(command, RESTART_LIMIT)?;
        let started = UnitState::read()?;
        thread::sleep(HEALTHY_AFTER);
        let later = UnitState::read()?;
        ensure!(later.active == "active", "{UNIT} is {}", later.active);
        ensure!(
            later.main_process == started.main_process,
            "{UNIT} was restarted within {} seconds",
            HEALTHY_AFTER.as_secs()
        );
        Ok(())
    }
}

/// Runs a command within a time limit and returns its output.
fn output(mut command: Command, limit: Duration) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("failed to run {name}"))?;
    let stdout = child.stdout.take().context("failed to read the output")?;
    // A thread of its own, because a program that never ends may keep its output open.
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.take(MAX_OUTPUT).read_to_string(&mut text);
        text
    });
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            bail!("{name} did not end within {} seconds", limit.as_secs());
        }
        thread::sleep(POLL);
    };
    ensure!(status.success(), "{name} failed with {status}");
    // The output is complete, unless a descendant keeps it open.
    while !reader.is_finished() {
        ensure!(begun.elapsed() <= limit, "{name} keeps its output open");
        thread::sleep(POLL);
    }
    Ok(reader.join().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_of_the_unit_are_read() {
        let text = "ExecStart={ path=/usr/local/bin/ebb-probe ; argv[]=/usr/local/bin/ebb-probe run \
             --config /etc/ebb/probe.toml ; ignore_errors=no ; start_time=[n/a] }\nMainPID=77\n\
             ActiveState=active\n";
        let expect = UnitState {
            active: "active".to_owned(),
            main_process: "77".to_owned(),
            program: Some("/usr/local/bin/ebb-probe".into()),
        };
        assert_eq!(UnitState::parse(text), expect);
        assert_eq!(UnitState::parse("x\n=\n"), UnitState::default());
    }

    fn shell(script: &str, limit: Duration) -> Result<String, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        output(command, limit).map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_has_a_time_limit_and_a_bounded_output() {
        let long = Duration::from_secs(20);
        assert_eq!(shell("echo a", long), Ok("a\n".to_owned()));
        let failed = shell("exit 3", long).expect_err("it fails");
        assert!(failed.contains("exit status: 3"), "{failed}");
        let slow = shell("exec sleep 60", Duration::from_millis(100)).expect_err("it is slow");
        assert!(slow.contains("did not end within"), "{slow}");
        let much = shell("head -c 60000 /dev/zero", long).expect("it fits");
        assert_eq!(much.len(), 60_000);
    }

    #[test]
    fn a_program_that_is_not_the_version_is_refused() {
        let service = SystemdService {
            config: Path::new("/dev/null"),
        };
        let version = "0.3.0".parse().expect("a version");
        // It prints its argument.
        let refused = service.try_version(Path::new("/bin/echo"), version);
        let refused = refused.expect_err("another program").to_string();
        assert_eq!(refused, "it is not ebb-probe 0.3.0, by its own words");
        let missing = service.try_version(Path::new("/nowhere/ebb-probe"), version);
        assert!(missing.is_err());
    }
}
