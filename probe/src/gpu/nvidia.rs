//! NVIDIA GPUs, queried through `ebb-gpu`. It is a separate program because the driver's library
//! cannot be linked statically and can hang. A request is sent at one sample and its answer is read
//! at the next, so that the probe never waits.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use ebb_telemetry::gpu_sample::GpuSample;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Maximum bytes of one answer; 64 GPUs with many processes take a tenth of it.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Maximum number of samples before the program is started again.
const LONGEST_WAIT: u32 = 64;
/// Limit of helpers that were killed and have not ended: a process that hangs in the driver
/// does not react to signals. At this limit no other helper is started.
const MAX_DYING: usize = 3;
/// How long the probe waits for killed helpers when it stops.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// Queries the program.
#[derive(Debug)]
pub(super) struct Nvidia {
    program: PathBuf,
    library: Option<PathBuf>,
    helper: Option<Helper>,
    dying: EndingHelpers,
    ever_answered: bool,
    failures: u32,
    wait: u32,
    /// Restarts since the start of the probe.
    pub(super) restarts: u64,
}

impl Nvidia {
    pub(super) const fn with_helper(program: PathBuf, library: Option<PathBuf>) -> Self {
        Self {
            program,
            library,
            helper: None,
            dying: EndingHelpers(Vec::new()),
            ever_answered: false,
            failures: 0,
            wait: 0,
            restarts: 0,
        }
    }

    /// Reads the answer to the previous request and sends the next request.
    pub(super) fn scan(&mut self) -> Option<GpuSample> {
        self.dying.reap();
        let mut sample = None;
        if let Some(helper) = &mut self.helper {
            match helper.answer() {
                Ok(Some(answer)) => sample = Some(answer),
                // A first answer may take two samples, because the driver must initialise.
                Ok(None) if !self.ever_answered && !helper.late => helper.late = true,
                Ok(None) => self.failed("it does not answer"),
                Err(error) => self.failed(&error.to_string()),
            }
        }
        if self.helper.is_none() {
            self.start();
        }
        if let Some(helper) = &mut self.helper
            && !helper.late
            && let Err(error) = helper.ask()
        {
            self.failed(&error.to_string());
        }
        if sample.is_some() {
            self.ever_answered = true;
            self.failures = 0;
        }
        sample
    }

    /// A missing driver is normal; a driver that stops answering is logged.
    fn failed(&mut self, why: &str) {
        if let Some(helper) = self.helper.take() {
            self.dying.kill(helper.child);
        }
        if self.ever_answered {
            self.restarts += 1;
            tracing::warn!(why, "restarting the GPU helper");
        } else if self.failures == 0 {
            tracing::info!(why, "failed to start the GPU helper; GPU use is unknown");
        }
        self.wait = 2_u32.saturating_pow(self.failures).min(LONGEST_WAIT) - 1;
        self.failures = self.failures.saturating_add(1);
    }

    fn start(&mut self) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        if self.dying.0.len() >= MAX_DYING {
            return;
        }
        match Helper::start(&self.program, self.library.as_deref()) {
            Ok(helper) => self.helper = Some(helper),
            Err(error) => self.failed(&error.to_string()),
        }
    }
}

/// Whether there is `nvidia0` or another number; `nvidiactl` alone means a driver without a device.
pub(super) fn has_device(folder: &Path) -> bool {
    let is_device = |entry: io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        let number = name.to_str()?.strip_prefix("nvidia")?;
        number.parse::<u32>().ok()
    };
    let listed = std::fs::read_dir(folder).into_iter().flatten();
    listed.filter_map(is_device).next().is_some()
}

impl Drop for Nvidia {
    fn drop(&mut self) {
        if let Some(helper) = self.helper.take() {
            self.dying.kill(helper.child);
        }
        let began = Instant::now();
        while !self.dying.0.is_empty() && began.elapsed() < LAST_WAIT {
            std::thread::sleep(LAST_WAIT / 20);
            self.dying.reap();
        }
    }
}

/// Helpers that were killed and have not ended yet. They are reaped without blocking.
#[derive(Debug)]
struct EndingHelpers(Vec<Child>);

impl EndingHelpers {
    fn kill(&mut self, mut child: Child) {
        let _ = child.kill();
        self.0.push(child);
        self.reap();
    }

    fn reap(&mut self) {
        self.0
            .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}

/// The running helper. It can hang, so its owner hands it to [`EndingHelpers::kill`].
#[derive(Debug)]
struct Helper {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    partial: Vec<u8>,
    late: bool,
}

impl Helper {
    fn start(program: &Path, library: Option<&Path>) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(library)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let helper = Self {
            child,
            stdin,
            stdout,
            partial: Vec::new(),
            late: false,
        };
        never_block(&helper.stdout)?;
        never_block(&helper.stdin)?;
        Ok(helper)
    }

    /// Sends a request. A full pipe is not an error, because the helper already has requests.
    fn ask(&mut self) -> io::Result<()> {
        match self.stdin.write(b"\n") {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            written => written.map(drop),
        }
    }

    /// The last complete line of its output; `None` if there is none.
    fn answer(&mut self) -> io::Result<Option<GpuSample>> {
        let mut chunk = [0; 4096];
        loop {
            match self.stdout.read(&mut chunk) {
                Ok(0) => return Err(io::Error::other("it ended")),
                Ok(count) => self.partial.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if self.partial.len() > MAX_ANSWER_BYTES {
                return Err(io::Error::other("it answers without end"));
            }
        }
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let lines: Vec<u8> = self.partial.drain(..=end).collect();
        let last = lines[..end].rsplit(|byte| *byte == b'\n').next();
        self.late = false;
        Ok(Some(serde_json::from_slice(last.unwrap_or_default())?))
    }
}

fn never_block(pipe: impl AsFd) -> io::Result<()> {
    let now = fcntl_getfl(&pipe)?;
    Ok(fcntl_setfl(&pipe, now | OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_numbered_device_is_one() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["nvidiactl", "nvidia-uvm", "null"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        assert!(!has_device(folder.path()));
        std::fs::write(folder.path().join("nvidia0"), "").expect("a file");
        assert!(has_device(folder.path()));
    }

    /// A helper that is this shell script.
    fn script(folder: &Path, text: &str) -> Nvidia {
        use std::os::unix::fs::PermissionsExt;

        let program = folder.join("ebb-gpu");
        std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("its own file");
        Nvidia::with_helper(program, None)
    }

    /// The longest of `scans` samples.
    fn longest_pass(gpus: &mut Nvidia, scans: u32) -> Duration {
        let took = (0..scans).map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let began = Instant::now();
            gpus.scan();
            began.elapsed()
        });
        took.max().unwrap_or_default()
    }

    #[test]
    fn a_helper_that_hangs_floods_or_ends_stalls_no_pass() {
        let check = |text: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let mut gpus = script(folder.path(), text);
            // Only a helper that answered before counts restarts.
            gpus.ever_answered = true;
            let longest = longest_pass(&mut gpus, 40);
            assert!(longest < Duration::from_millis(200), "{text}: {longest:?}");
            assert!(gpus.restarts > 0, "{text}");
            assert!(gpus.dying.0.len() <= MAX_DYING);
            let began = Instant::now();
            drop(gpus);
            assert!(began.elapsed() < Duration::from_millis(500), "{text}");
        };
        check("exit 1");
        check("exec sleep 1000");
        check("trap '' TERM INT; exec sleep 1000");
        check("exec cat /dev/zero");
        check("exec yes");
        check("while :; do echo '{\"devices\":[]'; done");
        check("exec <&-; exec sleep 1000");
    }

    /// `sleep` simulates a helper that hangs in the driver and does not end.
    #[test]
    fn at_the_limit_of_hanging_helpers_no_other_is_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let started = folder.path().join("started");
        let text = format!("echo >>{}; exit 1", started.display());
        let mut gpus = script(folder.path(), &text);
        let mut hung: Vec<Child> = Vec::new();
        for _ in 0..MAX_DYING {
            let child = Command::new("sleep")
                .arg("1000")
                .spawn()
                .expect("it starts");
            hung.push(child);
        }
        gpus.dying.0.append(&mut hung);
        assert!(longest_pass(&mut gpus, 5) < Duration::from_millis(200));
        assert!(!started.exists(), "another one was started");
        // The hanging helpers end.
        for child in &mut gpus.dying.0 {
            child.kill().expect("it runs");
        }
        longest_pass(&mut gpus, 5);
        assert!(gpus.dying.0.len() < MAX_DYING);
        assert!(started.exists());
    }

    #[test]
    fn a_program_that_is_missing_is_tried_seldom_and_counts_no_restart() {
        let mut gpus = Nvidia::with_helper("/nowhere/ebb-gpu".into(), None);
        for _ in 0..20 {
            assert_eq!(gpus.scan(), None);
        }
        assert_eq!((gpus.restarts, gpus.failures), (0, 5));
    }
}
