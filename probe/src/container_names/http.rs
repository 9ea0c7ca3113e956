//! One bounded request to a program on this machine. It runs on a thread of its own, so that a
//! program that hangs does not stop the probe.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum bytes of a response. Docker sends about 1 KiB for each container.
const MAX_BYTES: u64 = 512 << 10;

/// Maximum time of a request. Docker answers in some milliseconds.
const MAX_TIME: Duration = Duration::from_secs(3);

/// How long a scan waits for the response. A later response is used by a later scan.
const PATIENCE: Duration = Duration::from_millis(200);

/// The most scans without a request after failures.
const MAX_PAUSE: u32 = 64;

/// The address of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A port of the loopback address.
    Loopback(u16),
}

/// A program that answers requests, with at most one request at a time.
#[derive(Debug)]
pub(super) struct LocalProgram {
    name: &'static str,
    address: Address,
    pending: Option<Receiver<io::Result<Vec<u8>>>>,
    failures: u32,
    pause: u32,
}

impl LocalProgram {
    pub(super) const fn new(name: &'static str, address: Address) -> Self {
        Self {
            name,
            address,
            pending: None,
            failures: 0,
            pause: 0,
        }
    }

    /// The body of the response to `GET path`, or to an earlier request that took longer than a
    /// scan waits. `None` without one. After a failure, some calls send no request.
    pub(super) fn get(&mut self, path: String) -> Option<Vec<u8>> {
        if self.pending.is_none() && self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => {
                let (send, receive) = mpsc::channel();
                let address = self.address.clone();
                let request = move || {
                    // Nobody waits any more if the probe ends.
                    let _ = send.send(request(&address, &path));
                };
                let thread = thread::Builder::new().name("containers".to_owned());
                // Without a thread, the channel is closed, which counts as a failure.
                let _ = thread.spawn(request);
                receive
            }
        };
        let response = match pending.recv_timeout(PATIENCE) {
            Ok(response) => response,
            Err(RecvTimeoutError::Timeout) => {
                self.pending = Some(pending);
                return None;
            }
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("no thread")),
        };
        match response {
            Ok(body) => {
                self.failures = 0;
                Some(body)
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    /// Counts a failure, and logs the first one.
    pub(super) fn failed(&mut self, error: &dyn std::fmt::Display) {
        if self.failures == 0 {
            tracing::info!(program = self.name, %error, "failed to list containers");
        }
        self.pause = (1 << self.failures.min(31)).min(MAX_PAUSE);
        self.failures = self.failures.saturating_add(1);
    }
}

fn request(address: &Address, path: &str) -> io::Result<Vec<u8>> {
    let until = Instant::now() + MAX_TIME;
    match address {
        Address::Unix(socket) => {
            let mut stream = UnixStream::connect(socket)?;
            stream.set_write_timeout(Some(MAX_TIME))?;
            write_request(&mut stream, path)?;
            read(&mut stream, until, |stream, left| {
                stream.set_read_timeout(Some(left))
            })
        }
        Address::Loopback(port) => {
            let server = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            let mut stream = TcpStream::connect_timeout(&server, MAX_TIME)?;
            stream.set_write_timeout(Some(MAX_TIME))?;
            write_request(&mut stream, path)?;
            read(&mut stream, until, |stream, left| {
                stream.set_read_timeout(Some(left))
            })
        }
    }
}

/// With HTTP 1.0, the end of the response is the end of the connection.
fn write_request(stream: &mut impl Write, path: &str) -> io::Result<()> {
    // One write, because `write!` sends each part of the text on its own.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes())
}

/// The body of a response.
///
/// # Errors
/// If it is too long or takes too long, or its status is not 200.
fn read<S: Read>(
    stream: &mut S,
    until: Instant,
    set_timeout: impl Fn(&S, Duration) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let mut response = Vec::new();
    let mut part = [0; 8 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        set_timeout(stream, left)?;
        let length = match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        response.extend_from_slice(&part[..length]);
        if response.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("the response is too long"));
        }
    }
    let end = response.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or(ErrorKind::InvalidData)?;
    let status = response.split(|byte| *byte == b' ').nth(1);
    if status != Some(b"200") {
        return Err(io::Error::other("the program refused the request"));
    }
    Ok(response.split_off(end + 4))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A program on a port of the loopback address that sends `parts`, one after the other.
    fn program(parts: Vec<Vec<u8>>, between: Duration) -> LocalProgram {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 1_024]);
                for part in &parts {
                    thread::sleep(between);
                    let _ = stream.write_all(part);
                }
            }
        });
        LocalProgram::new("test", Address::Loopback(port))
    }

    fn get(mut program: LocalProgram) -> Option<String> {
        // A response that comes late is there at a later call.
        let body = (0..40).find_map(|_| {
            let body = program.get("/".to_owned());
            (body.is_some() || program.pending.is_none()).then_some(body)
        });
        body?.map(|body| String::from_utf8_lossy(&body).into_owned())
    }

    #[test]
    fn a_response_is_bounded_in_bytes_and_time() {
        let check = |parts: &[&str], between_ms: u64, expect: Option<&str>| {
            let parts = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
            let program = program(parts, Duration::from_millis(between_ms));
            assert_eq!(get(program).as_deref(), expect, "{between_ms}");
        };
        let ok = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n";
        check(&[ok, "[]"], 0, Some("[]"));
        check(&[ok, "[", "]"], 50, Some("[]"));
        check(&["HTTP/1.0 403 Forbidden\r\n\r\n[]"], 0, None);
        check(&["no HTTP"], 0, None);
        check(&[], 0, None);
        // One byte after the other, for longer than a request may take.
        let slow: Vec<&str> = std::iter::repeat_n("x", 20).collect();
        check(&slow, 300, None);
        let long = "x".repeat(600 << 10);
        check(&[ok, &long], 0, None);
    }

    #[test]
    fn after_a_failure_fewer_requests_are_sent() {
        let mut program = LocalProgram::new("test", Address::Unix("/nowhere/docker.sock".into()));
        let pauses: Vec<u32> = (0..9)
            .map(|_| {
                program.pause = 0;
                // On a busy machine, the thread can be late.
                while program.pause == 0 {
                    assert_eq!(program.get("/".to_owned()), None);
                }
                program.pause
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        program.pause = 1;
        assert_eq!(program.get("/".to_owned()), None);
        assert_eq!(program.pause, 0);
    }
}
