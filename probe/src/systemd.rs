//! Notifies the service manager that the probe is ready, alive, or stopping, by the protocol of
//! `sd_notify(3)`: one datagram to a named socket. Without such a manager, nothing is sent.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, if one listens.
#[derive(Debug, Default)]
pub struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often the manager expects a notification; `None` if never.
    pub watchdog: Option<Duration>,
}

impl Manager {
    /// The manager in the environment variables.
    pub fn find() -> Self {
        let text = |name| std::env::var(name).ok();
        let ours = text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = text("WATCHDOG_USEC").filter(|_| ours);
        match text("NOTIFY_SOCKET") {
            Some(name) => Self::at(&name, watchdog.as_deref()).unwrap_or_else(|error| {
                tracing::warn!(%error, socket = name, "failed to connect to the service manager");
                Self::default()
            }),
            None => Self::default(),
        }
    }

    /// A name that begins with `@` is in the abstract namespace.
    fn at(name: &str, watchdog_us: Option<&str>) -> io::Result<Self> {
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not block the probe.
        socket.set_nonblocking(true)?;
        let period = watchdog_us.and_then(|us| us.parse().ok());
        Ok(Self {
            socket: Some((socket, address)),
            // Half of the timeout, as its manual recommends.
            watchdog: period.map(|us: u64| Duration::from_micros(us / 2)),
        })
    }

    /// Notifies that the probe is ready.
    pub fn ready(&self) {
        self.say("READY=1");
    }

    /// Notifies that the probe is alive.
    pub fn alive(&self) {
        self.say("WATCHDOG=1");
    }

    /// Notifies that the probe stops.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, state: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(state.as_bytes(), address)
        {
            tracing::debug!(%error, state, "failed to notify the service manager");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears_each_state_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify").display().to_string();
        let name = format!("@ebb-probe-test-{}", std::process::id());
        let check = |name: &str, listener: io::Result<UnixDatagram>| {
            let listener = listener.expect("a socket");
            let manager = Manager::at(name, Some("30000000")).expect("it listens");
            assert_eq!(manager.watchdog, Some(Duration::from_secs(15)));
            manager.ready();
            manager.alive();
            manager.stopping();
            for expect in ["READY=1", "WATCHDOG=1", "STOPPING=1"] {
                let mut heard = [0; 64];
                let size = listener.recv(&mut heard).expect("a datagram");
                assert_eq!(&heard[..size], expect.as_bytes());
            }
        };
        check(&path, UnixDatagram::bind(&path));
        let address = SocketAddr::from_abstract_name(name.trim_start_matches('@'));
        let bound = address.and_then(|address| UnixDatagram::bind_addr(&address));
        check(&name, bound);
    }

    #[test]
    fn without_a_manager_nothing_is_said_and_nothing_fails() {
        let manager = Manager::default();
        manager.ready();
        assert_eq!(manager.watchdog, None);
        assert!(Manager::at(&"x".repeat(200), None).is_err());
        Manager::at("/nowhere/notify", None)
            .expect("it is a name")
            .alive();
    }
}
