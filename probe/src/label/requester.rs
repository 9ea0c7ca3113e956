//! The process that connected to a local socket. Its start time distinguishes it from a later
//! process with the same PID.

use std::ffi::{c_int, c_void};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio::net::UnixStream;
use tokio::net::unix::UCred;

use crate::kernel::ProcessKey;
use crate::kernel_file;
use crate::proc_stat::{ProcessStat, tick_ns};

/// A process by its PID and its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    pid: u32,
    /// Clock ticks since boot, from procfs; the kernel half has nanoseconds.
    start_ticks: u64,
    /// The numeric user id.
    user: u32,
}

impl Requester {
    /// The process that connected; `None` if it has ended, or if the probe's PID namespace does
    /// not contain it.
    pub(super) fn of_peer(stream: &UnixStream) -> Option<Self> {
        let peer = stream.peer_cred().ok()?;
        // PID 0 means that the probe's PID namespace does not contain the process.
        let pid = u32::try_from(peer.pid()?).ok().filter(|pid| *pid > 0)?;
        let start_ticks = ProcessStat::parse(&read_of(pid, "stat")?)?.start_ticks;
        // This check comes last: it proves that the PID was not reused before the start time was
        // read.
        still_has(stream.as_fd(), pid, &peer).then_some(Self {
            pid,
            start_ticks,
            user: peer.uid(),
        })
    }

    /// The numeric user id.
    pub const fn user(&self) -> u32 {
        self.user
    }

    /// The PID.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether `key` is the same process.
    pub fn is(&self, key: ProcessKey) -> bool {
        key.pid == self.pid && key.start.as_nanos() / tick_ns() == self.start_ticks
    }

    /// The process of `key`.
    #[cfg(test)]
    pub(crate) fn new(key: ProcessKey) -> Self {
        Self {
            pid: key.pid,
            start_ticks: key.start.as_nanos() / tick_ns(),
            user: 0,
        }
    }
}

fn read_of(pid: u32, file: &str) -> Option<String> {
    kernel_file::read(Path::new("/proc").join(pid.to_string()).join(file)).ok()
}

/// Whether the process that connected still has its PID. Linux 6.5 and later answer this with a
/// pidfd. Before, a process that now has the PID must belong to the same user, who can control
/// that process anyway.
fn still_has(stream: BorrowedFd<'_>, pid: u32, peer: &UCred) -> bool {
    match pidfd_of_peer(stream) {
        PeerPidfd::Open(pidfd) => {
            // `Pid:` is -1 once the process has ended and its parent has waited for it.
            let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
            let about = kernel_file::read(path).unwrap_or_default();
            let number = about.lines().find_map(|line| line.strip_prefix("Pid:"));
            number.is_some_and(|number| number.trim() == pid.to_string())
        }
        PeerPidfd::Gone => false,
        PeerPidfd::NotKnownHere => {
            let about = fs::metadata(Path::new("/proc").join(pid.to_string()));
            about.is_ok_and(|about| about.uid() == peer.uid())
        }
    }
}

enum PeerPidfd {
    Open(OwnedFd),
    Gone,
    NotKnownHere,
}

/// A pidfd of the process that connected; a later process with the same PID has another one.
///
/// Source: `unix(7)`, `SO_PEERPIDFD`; `include/uapi/asm-generic/socket.h`.
fn pidfd_of_peer(stream: BorrowedFd<'_>) -> PeerPidfd {
    const SOL_SOCKET: c_int = 1;
    const SO_PEERPIDFD: c_int = 77;
    const ENOPROTOOPT: c_int = 92;
    unsafe extern "C" {
        fn getsockopt(
            socket: c_int,
            level: c_int,
            name: c_int,
            value: *mut c_void,
            length: *mut u32,
        ) -> c_int;
    }
    let mut pidfd: c_int = -1;
    let mut length = size_of::<c_int>() as u32;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the number that
    // `value` points to.
    let done = unsafe {
        getsockopt(
            stream.as_raw_fd(),
            SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut pidfd).cast(),
            &raw mut length,
        )
    };
    match done {
        0 if pidfd >= 0 => {
            // SAFETY: the kernel created the descriptor for this call, so nothing else owns it.
            PeerPidfd::Open(unsafe { OwnedFd::from_raw_fd(pidfd) })
        }
        0 => PeerPidfd::Gone,
        _ if std::io::Error::last_os_error().raw_os_error() == Some(ENOPROTOOPT) => {
            PeerPidfd::NotKnownHere
        }
        _ => PeerPidfd::Gone,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream as Plain;
    use std::process::{Command, Stdio};

    use ebb_telemetry::time::BootClock;
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_process_is_identified_by_pid_and_start_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let _own = Plain::connect(&path).expect("it listens");
        let (stream, _) = listener.accept().await.expect("a connection");
        let requester = Requester::of_peer(&stream).expect("this process lives");
        assert_eq!(requester.pid(), std::process::id());
        let stat = read_of(requester.pid(), "stat").expect("it lives");
        let start = ProcessStat::parse(&stat).expect("well formed").start_ticks * tick_ns();
        let key = |pid, start| ProcessKey {
            pid,
            start: BootClock::from_nanos(start),
        };
        assert!(requester.is(key(requester.pid(), start + 1)));
        assert!(!requester.is(key(requester.pid(), start + tick_ns())));
        assert!(!requester.is(key(requester.pid() + 1, start)));
    }

    /// The process that connected has ended, and its child holds the connection. A later process
    /// with its PID must not be taken for it.
    #[tokio::test(flavor = "current_thread")]
    async fn a_process_that_has_ended_gets_no_labels() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let script = "import os, socket, sys, time\n\
                      s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n\
                      sys.stdin.readline()\n\
                      if os.fork(): os._exit(0)\n\
                      time.sleep(5)";
        let child = Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn();
        let mut child = child.expect("python3 is installed");
        let (stream, _) = listener.accept().await.expect("a connection");
        let requester = Requester::of_peer(&stream).expect("it lives");
        assert_eq!(requester.pid(), child.id());
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(b"\n").expect("it reads");
        // The PID stays in use until the parent waits.
        child.wait().expect("it ends");
        assert_eq!(Requester::of_peer(&stream), None);
    }
}
