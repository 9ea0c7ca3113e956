//! Where processes are told from: the kernel half, or procfs where that does not run.

use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::CollectorError;
use crate::cgroup::Hierarchy;
use crate::kernel::programs::{OomEvents, SocketEvents};
use crate::kernel::{KernelError, KernelHalf, ProcessEvent, Samples, Socket};
use crate::procfs::Sampler;

/// The longest that a heartbeat says why procfs is sampled: a verifier says pages.
const REASON_BYTES: usize = 200;

/// Tells of processes.
pub(super) enum Source {
    /// Of each birth and end, and of all at each pass.
    Kernel(Box<AsyncFd<KernelHalf>>),
    /// Of those that a pass meets.
    Procfs {
        /// Samples them.
        sampler: Sampler,
        /// Why it is not the kernel that tells.
        because: String,
    },
}

impl Source {
    /// The kernel half if it runs here, else procfs.
    pub(super) fn open(hierarchy: &Hierarchy) -> Result<Self, CollectorError> {
        let kernel = match KernelHalf::load(hierarchy.memory_hierarchy()) {
            Ok(kernel) => kernel,
            Err(error) => {
                let because = reason(&error);
                tracing::warn!(
                    because,
                    "procfs is sampled: short processes are not seen; `ebb-probe check` says what lacks"
                );
                let sampler = Sampler::new("/", hierarchy.clone());
                return Ok(Self::Procfs { sampler, because });
            }
        };
        if let OomEvents::Missing(error) = kernel.oom_events() {
            tracing::warn!(%error, "victims of the memory killer are told by cgroup only");
        }
        match kernel.socket_events() {
            SocketEvents::Whole => (),
            SocketEvents::OwnNamespace(error) => {
                tracing::warn!(%error, "of open sockets only those of this network namespace that were connected are told");
            }
            SocketEvents::AtEnd(error) => {
                tracing::warn!(%error, "sockets are told when they end only");
            }
            SocketEvents::Missing(error) => {
                tracing::warn!(%error, "bytes of the network are told of the whole node only");
            }
        }
        // SAFETY: the ring's descriptor is opened once, belongs to the kernel half,
        // and is closed with it; `as_raw_fd` answers no other.
        let kernel = unsafe { AsyncFd::register_with_interest(kernel, Interest::READABLE) };
        let kernel = kernel.map_err(|error| CollectorError::Wait(error.into()))?;
        Ok(Self::Kernel(Box::new(kernel)))
    }

    /// Whether the kernel tells of TCP sockets, at their end at least.
    pub(super) fn tells_sockets(&self) -> bool {
        match self {
            Self::Kernel(kernel) => {
                !matches!(kernel.get_ref().socket_events(), SocketEvents::Missing(_))
            }
            Self::Procfs { .. } => false,
        }
    }

    /// Drains the ring each time that it fills; never returns without an error.
    pub(super) async fn drain_when_full(
        &mut self,
        mut each: impl FnMut(ProcessEvent),
    ) -> io::Result<()> {
        match self {
            Self::Kernel(kernel) => loop {
                let mut ready = kernel.readable_mut().await?;
                ready.get_inner_mut().drain(&mut each);
                ready.clear_ready();
            },
            Self::Procfs { .. } => std::future::pending().await,
        }
    }

    /// Hands over what happened so far; procfs tells nothing between two passes.
    pub(super) fn drain(&mut self, each: impl FnMut(ProcessEvent)) {
        if let Self::Kernel(kernel) = self {
            kernel.get_mut().drain(each);
        }
    }

    /// Hands over what happened, and then tells what there is.
    pub(super) fn pass(&mut self, each: impl FnMut(ProcessEvent)) -> Result<Samples, KernelError> {
        match self {
            Self::Kernel(kernel) => {
                let kernel = kernel.get_mut();
                kernel.drain(each);
                kernel.sample()
            }
            Self::Procfs { sampler, .. } => {
                let pass = sampler.pass();
                pass.events.into_iter().for_each(each);
                Ok(Samples::living(pass.samples, Vec::new()))
            }
        }
    }

    /// The sockets that are open; `None` where they are not listed.
    pub(super) fn sockets(&mut self) -> Result<Option<Vec<Socket>>, KernelError> {
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

/// The first line of each cause, cut to what a heartbeat carries.
fn reason(error: &KernelError) -> String {
    let mut words = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(error);
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
        let said = "refused\u{1b}[2J\nR1=ctx()\nand so on".to_owned() + &"é".repeat(300);
        let error = KernelError::Iterate(io::Error::other(said));
        let told = reason(&error);
        assert_eq!(told, "the task iterator could not be read: refused[2J");
        let long = KernelError::Iterate(io::Error::other("é".repeat(300)));
        assert!(reason(&long).len() <= REASON_BYTES);
    }
}
