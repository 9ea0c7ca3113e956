//! The socket for label requests. Each connection has one request, and gets the answer `ok`, or
//! `refused:` with the reason.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinSet};

use super::{MAX_REQUEST_BYTES, Refusal, Requester, TaskLabels, parse};
use crate::local_socket::{ClientLimits, listen, write};

/// Schedulers label as root.
const LIMITS: ClientLimits = ClientLimits {
    all: 64,
    a_user: 16,
};

/// Time limit for reading a request and for writing its answer.
const TALK: Duration = Duration::from_secs(2);

/// How long a client waits until the probe sees its process.
const ANSWER: Duration = Duration::from_secs(60);

/// A label request of a process.
#[derive(Debug)]
pub struct Request {
    /// The process that asks, as the kernel reports it.
    pub requester: Requester,
    /// The labels and their task.
    pub labels: TaskLabels,
    answer: oneshot::Sender<Result<(), Refusal>>,
}

impl Request {
    /// Sends the answer; the client may have disconnected.
    pub fn answer(self, result: Result<(), Refusal>) {
        let _ = self.answer.send(result);
    }
}

/// The listening socket; empty if no path is configured.
#[derive(Debug, Default)]
pub struct LabelSocket {
    listener: Option<UnixListener>,
    refused: Arc<AtomicU64>,
}

impl LabelSocket {
    /// Listens at `path`. Labels are optional: if this fails, the probe runs without them.
    pub fn open(path: Option<&Path>) -> Self {
        let listener = path.and_then(|path| {
            // Every user may connect, because a process can label only its own task.
            let opened = listen(path);
            let warn = |error: &io::Error| {
                tracing::warn!(%error, path = %path.display(), "failed to open the socket for labels; create its folder, \
                     as RuntimeDirectory=ebb of the unit does");
            };
            opened.inspect_err(warn).ok()
        });
        Self {
            listener,
            refused: Arc::default(),
        }
    }

    /// Number of requests refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Accepts connections and sends their requests to `to`; never returns.
    pub async fn serve(&self, to: mpsc::Sender<Request>) {
        let Some(listener) = &self.listener else {
            return std::future::pending().await;
        };
        let mut open = JoinSet::new();
        let mut users = HashMap::<Id, u32>::new();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "failed to serve a connection for labels");
                    tokio::time::sleep(TALK).await;
                    continue;
                }
            };
            while let Some(ended) = open.try_join_next_with_id() {
                users.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
            }
            let user = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
            if !LIMITS.has_room(users.values().copied(), user) {
                self.refused.fetch_add(1, Ordering::Relaxed);
                // A new connection has room for one short line.
                let _ = stream.try_write(format!("refused: {}\n", Refusal::Busy).as_bytes());
                continue;
            }
            let answered = answer(stream, to.clone(), Arc::clone(&self.refused));
            users.insert(open.spawn(answered).id(), user);
        }
    }
}

async fn answer(stream: UnixStream, to: mpsc::Sender<Request>, refused: Arc<AtomicU64>) {
    let words = match serve_request(&stream, &to).await {
        Ok(()) => "ok\n".to_owned(),
        Err(refusal) => {
            refused.fetch_add(1, Ordering::Relaxed);
            format!("refused: {refusal}\n")
        }
    };
    let _ = tokio::time::timeout(TALK, write(&stream, words.as_bytes())).await;
}

async fn serve_request(stream: &UnixStream, to: &mpsc::Sender<Request>) -> Result<(), Refusal> {
    // Before the request is read: the process can end meanwhile, and its PID can be reused.
    let requester = Requester::of_peer(stream).ok_or(Refusal::Unknown)?;
    let read = tokio::time::timeout(TALK, read(stream)).await;
    let slow = || Refusal::Malformed("it did not come within two seconds".to_owned());
    let bytes = read.map_err(|_| slow())?;
    let bytes = bytes.map_err(|error| Refusal::Malformed(error.to_string()))?;
    let labels = parse(&bytes)?;
    let (answer, response) = oneshot::channel();
    let request = Request {
        requester,
        labels,
        answer,
    };
    to.try_send(request).map_err(|_| Refusal::Busy)?;
    match tokio::time::timeout(ANSWER, response).await {
        Ok(Ok(result)) => result,
        _ => Err(Refusal::Busy),
    }
}

/// Reads up to the end of a line or of the input.
async fn read(stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut room = [0; 1_024];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut room) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&room[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        if bytes.last() == Some(&b'\n') || bytes.len() > MAX_REQUEST_BYTES {
            return Ok(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream as Plain;

    use super::*;

    fn talk(path: &Path, bytes: Vec<u8>) -> std::thread::JoinHandle<String> {
        let path = path.to_owned();
        std::thread::spawn(move || {
            let mut stream = Plain::connect(path).expect("it listens");
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut response = String::new();
            let _ = stream.read_to_string(&mut response);
            response
        })
    }

    #[tokio::test]
    async fn each_connection_brings_one_request_with_who_asks_and_refusals_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("label.sock");
        // A new socket replaces an existing one.
        drop(LabelSocket::open(Some(&path)));
        let socket = LabelSocket::open(Some(&path));
        let (to, mut from) = mpsc::channel::<Request>(4);
        let mut check = async |bytes: &[u8], result: Result<(), Refusal>, expect: &str| {
            let client = talk(&path, bytes.to_vec());
            let answering = async {
                while !client.is_finished() {
                    let wait = tokio::time::sleep(Duration::from_millis(5));
                    tokio::select! {
                        request = from.recv() => {
                            let request = request.expect("a request");
                            assert_eq!(request.requester.pid(), std::process::id());
                            request.answer(result.clone());
                        }
                        () = wait => (),
                    }
                }
            };
            tokio::select! {
                () = socket.serve(to.clone()) => (),
                () = answering => (),
            }
            let got = client.join().expect("it asked");
            assert!(got.starts_with(expect), "{got}");
        };
        let good = br#"{"labels":{"run":"r7"}}"#;
        check(good, Ok(()), "ok").await;
        check(b"{\"trace_id\":\"a\"}\n", Ok(()), "ok").await;
        check(
            good,
            Err(Refusal::NoStep),
            "refused: the requesting process",
        )
        .await;
        check(b"\xff\xfe", Ok(()), "refused: not a request").await;
        check(&[b'x'; 9_000], Ok(()), "refused: more than 4096").await;
        assert_eq!(socket.refused(), 3);
    }

    #[tokio::test]
    async fn one_user_does_not_take_all_connections() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("label.sock");
        let socket = LabelSocket::open(Some(&path));
        let (to, _from) = mpsc::channel::<Request>(4);
        let connect = || Plain::connect(&path).expect("it listens");
        let is_root = rustix::process::geteuid().is_root();
        let most = if is_root { LIMITS.all } else { LIMITS.a_user };
        let open: Vec<Plain> = (0..most).map(|_| connect()).collect();
        let late = connect();
        let refused = async {
            while socket.refused() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = socket.serve(to) => (),
            () = refused => (),
        }
        let mut response = String::new();
        let _ = (&late).read_to_string(&mut response);
        assert!(response.starts_with("refused: "), "{response}");
        drop(open);
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone_and_the_probe_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("label.sock");
        fs::write(&path, "mine").expect("a file");
        assert!(LabelSocket::open(Some(&path)).listener.is_none());
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "mine");
        assert!(LabelSocket::open(None).listener.is_none());
    }
}
