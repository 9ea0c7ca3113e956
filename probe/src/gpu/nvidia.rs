//! NVIDIA's GPUs, told by `ebb-gpu`: a program of its own, because the driver's library
//! can neither be linked statically nor be trusted to answer. It is asked at one pass and
//! read at the next, so that nothing here waits for it.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ebb_domain::gpu::GpuLook;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// One answer at most; 64 GPUs with many processes take a tenth.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Passes before it is started again grow to so many.
const LONGEST_WAIT: u32 = 64;

/// Asks the program.
#[derive(Debug)]
pub(super) struct Nvidia {
    program: PathBuf,
    library: Option<PathBuf>,
    helper: Option<Helper>,
    ever_answered: bool,
    failures: u32,
    wait: u32,
    /// Restarts since the start.
    pub(super) restarts: u64,
}

impl Nvidia {
    pub(super) const fn ask(program: PathBuf, library: Option<PathBuf>) -> Self {
        Self {
            program,
            library,
            helper: None,
            ever_answered: false,
            failures: 0,
            wait: 0,
            restarts: 0,
        }
    }

    /// Takes the answer to what was asked at the pass before, and asks again.
    pub(super) fn pass(&mut self) -> Option<GpuLook> {
        let mut look = None;
        if let Some(helper) = &mut self.helper {
            match helper.answer() {
                Ok(Some(answer)) => look = Some(answer),
                // A first answer may need the time of two passes: the driver wakes.
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
            && let Err(error) = helper.stdin.write_all(b"\n")
        {
            self.failed(&error.to_string());
        }
        if look.is_some() {
            self.ever_answered = true;
            self.failures = 0;
        }
        look
    }

    /// A driver that is not there is normal; one that stops answering is told.
    fn failed(&mut self, why: &str) {
        self.helper = None;
        if self.ever_answered {
            self.restarts += 1;
            tracing::warn!(why, "the GPUs are asked anew");
        } else if self.failures == 0 {
            tracing::info!(why, "the GPUs do not tell what they do");
        }
        self.wait = 2_u32.saturating_pow(self.failures).min(LONGEST_WAIT) - 1;
        self.failures = self.failures.saturating_add(1);
    }

    fn start(&mut self) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        match Helper::start(&self.program, self.library.as_deref()) {
            Ok(helper) => self.helper = Some(helper),
            Err(error) => self.failed(&error.to_string()),
        }
    }
}

/// `nvidia0` and so on; `nvidiactl` alone is a driver without a device.
pub(super) fn has_device(folder: &Path) -> bool {
    let is_device = |entry: io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        let number = name.to_str()?.strip_prefix("nvidia")?;
        number.parse::<u32>().ok()
    };
    let listed = std::fs::read_dir(folder).into_iter().flatten();
    listed.filter_map(is_device).next().is_some()
}

/// The running program. Dropped, it is killed: it may hang.
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
        let now = fcntl_getfl(&helper.stdout)?;
        fcntl_setfl(&helper.stdout, now | OFlags::NONBLOCK)?;
        Ok(helper)
    }

    /// Its last line, if a whole one is there.
    fn answer(&mut self) -> io::Result<Option<GpuLook>> {
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

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

    #[test]
    fn a_program_that_is_missing_is_tried_seldom_and_counts_no_restart() {
        let mut gpus = Nvidia::ask("/nowhere/ebb-gpu".into(), None);
        for _ in 0..20 {
            assert_eq!(gpus.pass(), None);
        }
        assert_eq!((gpus.restarts, gpus.failures), (0, 5));
    }
}
