//! NVIDIA GPUs, sampled by `ebb-gpu`. It is a separate program because the driver's library cannot
//! be linked statically and can hang. It writes samples to a pipe, and the probe never waits for
//! them.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use ebb_telemetry::gpu_sample::GpuSample;
use ebb_telemetry::units::{Bytes, CpuTime};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::kernel_file;
use crate::node;
use crate::proc_stat::{ProcessStat, tick_ns};

/// Maximum bytes between two scans; samples of 8 GPUs with 64 processes take a tenth of it.
const MAX_BYTES: usize = 1 << 20;
/// Maximum time without a sample before the program is started again. The start of the driver takes
/// some seconds if no other program uses it.
const LONGEST_SILENCE: Duration = Duration::from_secs(20);
/// Maximum number of scans before the program is started again.
const LONGEST_WAIT: u32 = 64;
/// Limit of helpers that were killed and have not ended: a process that hangs in the driver
/// does not react to signals. At this limit no other helper is started.
const MAX_DYING: usize = 3;
/// How long the probe waits for killed helpers when it stops.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// Runs the program.
#[derive(Debug)]
pub(super) struct Nvidia {
    program: PathBuf,
    /// The time between two samples.
    period: Duration,
    pub(super) longest_silence: Duration,
    helper: Option<Helper>,
    dying: EndingHelpers,
    ever_answered: bool,
    failures: u32,
    wait: u32,
    /// Restarts since the start of the probe.
    pub(super) restarts: u64,
}

impl Nvidia {
    pub(super) const fn with_helper(program: PathBuf, period: Duration) -> Self {
        Self {
            program,
            period,
            longest_silence: LONGEST_SILENCE,
            helper: None,
            dying: EndingHelpers(Vec::new()),
            ever_answered: false,
            failures: 0,
            wait: 0,
            restarts: 0,
        }
    }

    /// The samples since the last scan.
    pub(super) fn scan(&mut self) -> Vec<GpuSample> {
        self.dying.reap();
        let mut samples = Vec::new();
        if let Some(helper) = &mut self.helper {
            match helper.read() {
                Ok(read) if !read.is_empty() => samples = read,
                Ok(_) if helper.heard.elapsed() < self.longest_silence => {}
                Ok(_) => self.failed("it does not answer"),
                Err(error) => self.failed(&error.to_string()),
            }
        }
        if self.helper.is_none() {
            self.start();
        }
        if !samples.is_empty() {
            self.ever_answered = true;
            self.failures = 0;
        }
        samples
    }

    /// The CPU time of the running helper since the last call, and its resident memory.
    pub(super) fn cost(&mut self) -> Option<(CpuTime, Bytes)> {
        let helper = self.helper.as_mut()?;
        let folder = format!("/proc/{}", helper.child.id());
        let stat = kernel_file::read(format!("{folder}/stat")).ok()?;
        let ticks = ProcessStat::parse(&stat)?.cpu_ticks;
        let before = std::mem::replace(&mut helper.cpu_ticks, ticks);
        let cpu = CpuTime(ticks.saturating_sub(before) * tick_ns());
        Some((cpu, node::resident(&folder)?))
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

    /// Starts the helper, unless it failed a short time ago.
    pub(super) fn start(&mut self) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        if self.dying.0.len() >= MAX_DYING {
            return;
        }
        match Helper::start(&self.program, self.period) {
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
    stdout: ChildStdout,
    partial: Vec<u8>,
    /// When its last sample was read, or else when it started.
    heard: Instant,
    cpu_ticks: u64,
}

impl Helper {
    fn start(program: &Path, period: Duration) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg(period.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take();
        let helper = Self {
            child,
            stdout: stdout.ok_or_else(|| io::Error::other("it has no pipe"))?,
            partial: Vec::new(),
            heard: Instant::now(),
            cpu_ticks: 0,
        };
        never_block(&helper.stdout)?;
        Ok(helper)
    }

    /// The samples that it wrote since the last call.
    fn read(&mut self) -> io::Result<Vec<GpuSample>> {
        let mut chunk = [0; 4096];
        loop {
            match self.stdout.read(&mut chunk) {
                Ok(0) => return Err(io::Error::other("it ended")),
                Ok(count) => self.partial.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if self.partial.len() > MAX_BYTES {
                return Err(io::Error::other("it answers without end"));
            }
        }
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Vec::new());
        };
        let lines: Vec<u8> = self.partial.drain(..=end).collect();
        let lines = lines[..end].split(|byte| *byte == b'\n');
        let samples = lines
            .map(serde_json::from_slice)
            .collect::<Result<_, _>>()?;
        self.heard = Instant::now();
        Ok(samples)
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
        let mut gpus = Nvidia::with_helper(program, Duration::from_secs(2));
        gpus.longest_silence = Duration::from_millis(50);
        gpus
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
        check("exec >&-; exec sleep 1000");
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
        let mut gpus = Nvidia::with_helper("/nowhere/ebb-gpu".into(), Duration::from_secs(2));
        for _ in 0..20 {
            assert_eq!(gpus.scan(), []);
        }
        assert_eq!((gpus.restarts, gpus.failures), (0, 5));
    }
}
