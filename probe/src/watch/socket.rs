//! The watch socket: each client gets a line a second until it disconnects.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ebb_telemetry::watch::{SCHEMA, WatchClients, WatchRefusal};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::local_socket::{ClientLimits, listen, write};

const LIMITS: ClientLimits = ClientLimits { all: 8, a_user: 4 };

/// Time between two snapshots for one client.
const PERIOD: Duration = Duration::from_secs(1);

/// Time limit for a client to read a snapshot.
const READ_LIMIT: Duration = Duration::from_secs(2);

/// A request for the line of a user.
#[derive(Debug)]
pub struct WatchRequest {
    /// The id of the user, as the kernel reports it.
    pub user: u32,
    answer: oneshot::Sender<String>,
}

impl WatchRequest {
    /// Sends the line; the client may have disconnected.
    pub fn answer(self, line: String) {
        let _ = self.answer.send(line);
    }
}

#[derive(Debug, Default)]
struct ClientCounts {
    connected: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

/// How the connection of a client ended.
#[derive(Debug, PartialEq, Eq)]
enum ClientEnd {
    Left,
    Dropped,
}

/// The listening socket; it never accepts without a path.
#[derive(Debug, Default)]
pub struct WatchSocket {
    listener: Option<UnixListener>,
    counts: Arc<ClientCounts>,
}

impl WatchSocket {
    /// Listens at `path`; an empty path disables the socket. If this fails, the probe runs without it.
    pub fn open(path: Option<&Path>) -> Self {
        let path = path.filter(|path| !path.as_os_str().is_empty());
        let listener = path.and_then(|path| {
            let warn = |error: &io::Error| {
                tracing::warn!(%error, path = %path.display(), "failed to open the socket for `ebb top`; create its \
                     folder, as RuntimeDirectory=ebb of the unit does");
            };
            listen(path).inspect_err(warn).ok()
        });
        Self {
            listener,
            counts: Arc::default(),
        }
    }

    /// The clients so far.
    pub fn clients(&self) -> WatchClients {
        WatchClients {
            connected: self.counts.connected.load(Ordering::Relaxed),
            refused: self.counts.refused.load(Ordering::Relaxed),
            dropped: self.counts.dropped.load(Ordering::Relaxed),
        }
    }

    /// Accepts clients and sends their requests to `to`; never returns.
    pub async fn serve(&self, to: mpsc::Sender<WatchRequest>) {
        let Some(listener) = &self.listener else {
            return std::future::pending().await;
        };
        let mut open = JoinSet::new();
        let mut users = HashMap::<Id, u32>::new();
        loop {
            tokio::select! {
                Some(done) = open.join_next_with_id() => {
                    let (id, end) = match done {
                        Ok((id, end)) => (id, end),
                        Err(error) => (error.id(), ClientEnd::Dropped),
                    };
                    users.remove(&id);
                    if end == ClientEnd::Dropped {
                        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                }
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.accept(stream, &to, &mut open, &mut users),
                    Err(error) => {
                        tracing::debug!(%error, "failed to accept a connection of `ebb top`");
                        tokio::time::sleep(READ_LIMIT).await;
                    }
                },
            }
            self.counts
                .connected
                .store(users.len() as u64, Ordering::Relaxed);
        }
    }

    fn accept(
        &self,
        stream: UnixStream,
        to: &mpsc::Sender<WatchRequest>,
        open: &mut JoinSet<ClientEnd>,
        users: &mut HashMap<Id, u32>,
    ) {
        let Ok(peer) = stream.peer_cred() else {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let user = peer.uid();
        if !LIMITS.has_room(users.values().copied(), user) {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            refuse(&stream);
            return;
        }
        let task = open.spawn(serve_client(stream, user, to.clone()));
        users.insert(task.id(), user);
    }
}

/// A new connection has room for one short line.
fn refuse(stream: &UnixStream) {
    let refusal = WatchRefusal {
        schema: SCHEMA.to_owned(),
        refused: format!(
            "at most {} clients, and {} of one user",
            LIMITS.all, LIMITS.a_user
        ),
    };
    if let Ok(line) = serde_json::to_string(&refusal) {
        let _ = stream.try_write(format!("{line}\n").as_bytes());
    }
}

async fn serve_client(stream: UnixStream, user: u32, to: mpsc::Sender<WatchRequest>) -> ClientEnd {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            end = end_of(&stream) => return end,
        }
        let (answer, line) = oneshot::channel();
        if to.send(WatchRequest { user, answer }).await.is_err() {
            return ClientEnd::Left;
        }
        let Ok(line) = line.await else {
            continue;
        };
        match tokio::time::timeout(READ_LIMIT, write(&stream, line.as_bytes())).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return ClientEnd::Left,
            Err(_) => return ClientEnd::Dropped,
        }
    }
}

/// Waits until the client disconnects. A client that sends something is dropped.
async fn end_of(stream: &UnixStream) -> ClientEnd {
    loop {
        if stream.readable().await.is_err() {
            return ClientEnd::Left;
        }
        match stream.try_read(&mut [0; 16]) {
            Ok(0) => return ClientEnd::Left,
            Ok(_) => return ClientEnd::Dropped,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return ClientEnd::Left,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream as Plain;

    use super::*;

    async fn until(mut done: impl FnMut() -> bool) {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn clients_are_limited_and_those_that_do_not_read_or_write_something_are_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("watch.sock");
        let socket = WatchSocket::open(Some(&path));
        let (to, mut from) = mpsc::channel::<WatchRequest>(1);
        // More than the buffers of a socket hold.
        let vast = format!("{}\n", "x".repeat(4 << 20));
        let answers = async {
            while let Some(request) = from.recv().await {
                assert_eq!(request.user, rustix::process::geteuid().as_raw());
                request.answer(vast.clone());
            }
        };
        let connected = || Plain::connect(&path).expect("it listens");
        let test = async {
            let mut open: Vec<_> = (0..LIMITS.all).map(|_| connected()).collect();
            let is_root = rustix::process::geteuid().is_root();
            let most = if is_root { LIMITS.all } else { LIMITS.a_user } as u64;
            until(|| socket.clients().connected == most).await;
            let late = connected();
            until(|| socket.clients().refused >= 1).await;
            let mut refusal = String::new();
            BufReader::new(late)
                .read_line(&mut refusal)
                .expect("a line");
            assert!(refusal.contains("at most 8 clients"), "{refusal}");
            open[0].write_all(b"{}\n").expect("connected");
            until(|| socket.clients().dropped >= 1).await;
            // The others do not read. On a busy machine, some of them are dropped before.
            until(|| socket.clients().connected == 0).await;
            assert_eq!(socket.clients().dropped, most);
        };
        tokio::select! {
            () = socket.serve(to) => panic!("it ended"),
            () = answers => panic!("it ended"),
            done = tokio::time::timeout(Duration::from_secs(20), test) => done.expect("in time"),
        }
    }

    /// A client of this user. On Linux, each thread has a user of its own.
    fn connected_as(user: u32, path: &Path) -> Plain {
        let path = path.to_owned();
        let client = std::thread::spawn(move || {
            let user = rustix::process::Uid::from_raw(user);
            rustix::thread::set_thread_res_uid(user, user, user).expect("root changes it");
            Plain::connect(path).expect("it listens")
        });
        client.join().expect("it connects")
    }

    #[tokio::test]
    async fn two_users_leave_places_for_root() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped two_users_leave_places_for_root: only root can become other users");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let permissions = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(folder.path(), permissions).expect("open to others");
        let path = folder.path().join("watch.sock");
        let socket = WatchSocket::open(Some(&path));
        let (to, _from) = mpsc::channel::<WatchRequest>(1);
        let test = async {
            let mut open = Vec::new();
            for (user, connected, refused) in [(1_001, 4, 0), (1_002, 6, 2), (0, 8, 4)] {
                open.extend((0..4).map(|_| connected_as(user, &path)));
                until(|| {
                    let clients = socket.clients();
                    clients.connected + clients.refused == connected + refused
                })
                .await;
                assert_eq!(socket.clients().connected, connected, "user {user}");
            }
        };
        tokio::select! {
            () = socket.serve(to) => panic!("it ended"),
            done = tokio::time::timeout(Duration::from_secs(20), test) => done.expect("in time"),
        }
    }

    #[tokio::test]
    async fn a_client_that_leaves_is_not_counted_as_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("watch.sock");
        let socket = WatchSocket::open(Some(&path));
        let (to, mut from) = mpsc::channel::<WatchRequest>(1);
        let test = async {
            let mut client = Plain::connect(&path).expect("it listens");
            from.recv()
                .await
                .expect("asked")
                .answer("line\n".to_owned());
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut line = [0; 5];
            client.read_exact(&mut line).expect("a line");
            assert_eq!(&line, b"line\n");
            drop(client);
            until(|| socket.clients().connected == 0).await;
            assert_eq!(socket.clients().dropped, 0);
        };
        tokio::select! {
            () = socket.serve(to) => panic!("it ended"),
            done = tokio::time::timeout(Duration::from_secs(20), test) => done.expect("in time"),
        }
        assert!(WatchSocket::open(Some(Path::new(""))).listener.is_none());
        assert!(WatchSocket::open(None).listener.is_none());
    }
}
