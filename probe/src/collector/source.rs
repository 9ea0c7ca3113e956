//! The source of process data: the eBPF programs, or procfs if they do not run.

use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::CollectorError;
use crate::cgroup::Hierarchy;
use crate::kernel::programs::{OomEvents, SocketEvents};
use crate::kernel::{Extent, KernelError, KernelHalf, ProcessEvent, Samples, SocketList};
use crate::procfs::Sampler;

/// Maximum bytes of the reason for sampling procfs in a heartbeat; a verifier log can have pages.
const REASON_BYTES: usize = 200;

/// A source of process data.
pub(super) enum Source {
    /// Reports each start and end, and all processes at each scan.
    Kernel(Box<AsyncFd<KernelHalf>>),
    /// Reports the processes that exist at a scan.
    Procfs {
        /// Reads procfs.
        sampler: Sampler,
        /// Why the eBPF programs do not run.
        because: String,
    },
}

impl Source {
    /// The eBPF programs if they run here, otherwise procfs.
    pub(super) fn open(hierarchy: &Hierarchy) -> Result<Self, CollectorError> {
        let kernel = match KernelHalf::load(hierarchy.memory_hierarchy()) {
            Ok(kernel) => kernel,
            Err(error) => {
                let because = reason(&error);
                tracing::warn!(
                    because,
                    "failed to load the eBPF programs; sampling procfs, which misses short \
                     processes. Run `ebb-probe check` for the cause"
                );
                let sampler = Sampler::new("/", hierarchy.clone());
                return Ok(Self::Procfs { sampler, because });
            }
        };
        if let OomEvents::Missing(error) = kernel.oom_events() {
            let because = reason(error);
            tracing::warn!(
                because,
                "failed to attach to out-of-memory kills; victims are known by cgroup only"
            );
        }
        warn_of_sockets(kernel.socket_events());
        // SAFETY: the descriptor of the ring buffer is opened once, belongs to the eBPF programs,
        // and is closed with them; `as_raw_fd` always returns this descriptor.
        let kernel = unsafe { AsyncFd::register_with_interest(kernel, Interest::READABLE) };
        let kernel = kernel.map_err(|error| CollectorError::Wait(error.into()))?;
        Ok(Self::Kernel(Box::new(kernel)))
    }

    /// Whether the kernel reports TCP sockets, at least when they end.
    pub(super) fn reports_sockets(&self) -> bool {
        match self {
            Self::Kernel(kernel) => {
                !matches!(kernel.get_ref().socket_events(), SocketEvents::Missing(_))
            }
            Self::Procfs { .. } => false,
        }
    }

    /// Drains the ring buffer each time that it fills; returns only with an error. Under overload it
    /// waits between two drains, so that other futures of the thread run.
    pub(super) async fn drain_when_full(
        &mut self,
        mut each: impl FnMut(ProcessEvent),
    ) -> io::Result<()> {
        match self {
            Self::Kernel(kernel) => loop {
                let mut ready = kernel.readable_mut().await?;
                match ready.get_inner_mut().drain(&mut each) {
                    Extent::Complete => ready.clear_ready(),
                    // No wake-up follows for the rest, so the buffer stays ready.
                    Extent::Truncated => tokio::task::yield_now().await,
                }
            },
            Self::Procfs { .. } => std::future::pending().await,
        }
    }

    /// Passes on all events before the call; procfs has none between two scans.
    pub(super) fn drain(&mut self, each: impl FnMut(ProcessEvent)) {
        if let Self::Kernel(kernel) = self {
            kernel.get_mut().drain(each);
        }
    }

    /// Passes on all events before the call, and then returns the live processes.
    pub(super) fn scan(&mut self, each: impl FnMut(ProcessEvent)) -> Result<Samples, KernelError> {
        match self {
            Self::Kernel(kernel) => {
                let kernel = kernel.get_mut();
                kernel.drain(each);
                kernel.sample()
            }
            Self::Procfs { sampler, .. } => {
                let scan = sampler.scan();
                scan.events.into_iter().for_each(each);
                Ok(Samples::living(scan.samples, Vec::new()))
            }
        }
    }

    /// The open sockets; `None` if they are not listed.
    pub(super) fn sockets(&mut self) -> Result<Option<SocketList>, KernelError> {
        match self {
            Self::Kernel(kernel) => kernel.get_mut().sockets(),
            Self::Procfs { .. } => Ok(None),
        }
    }

    /// Events lost since the start.
    pub(super) fn events_lost(&self) -> Result<u64, KernelError> {
        match self {
            Self::Kernel(kernel) => kernel.get_ref().events_lost(),
            Self::Procfs { .. } => Ok(0),
        }
    }
}

fn warn_of_sockets(events: &SocketEvents) {
    let (error, limit) = match events {
        SocketEvents::Whole => return,
        SocketEvents::OwnNamespace(error) => (
            error,
            "failed to list sockets by process; open sockets are known only in this network \
             namespace, if connected. Linux 5.11 lists all",
        ),
        SocketEvents::AtEnd(error) => (
            error,
            "failed to list open sockets; a socket is counted when it ends. Linux 5.11 lists open \
             sockets",
        ),
        SocketEvents::Missing(error) => (
            error,
            "failed to attach to TCP sockets; network traffic is known only for the whole node",
        ),
    };
    tracing::warn!(%error, "{limit}");
}

/// The first line of each cause, cut to the limit of a heartbeat.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = String::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let line = error.to_string();
        let line = line.lines().next().unwrap_or_default();
        if !words.is_empty() {
            words += ": ";
        }
        words.extend(line.chars().filter(|c| !c.is_control()));
        cause = error.source();
    }
    let end = words.floor_char_boundary(REASON_BYTES);
    words.truncate(end);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_short_line() {
        let text = "refused\u{1b}[2J\nR1=ctx()\nand so on".to_owned() + &"é".repeat(300);
        let error = KernelError::Iterate(io::Error::other(text));
        let message = reason(&error);
        assert_eq!(message, "failed to read the task iterator: refused[2J");
        let long = KernelError::Iterate(io::Error::other("é".repeat(300)));
        assert!(reason(&long).len() <= REASON_BYTES);
    }
}
