//! Drives the kernel half: drains its events, takes passes, and closes intervals.
//! When that happens is the caller's business.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use ebb_domain::step::StepUsage;
use thiserror::Error;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::cgroup::reading::{self, Reading};
use crate::cgroup::{Hierarchy, Paths};
use crate::interval::{Fold, Interval};
use crate::kernel::programs::{OomEvents, SocketEvents};
use crate::kernel::{KernelError, KernelHalf};
use crate::network::Network;
use crate::node;
use crate::pressure::Stalls;
use crate::rules::Rules;

/// Why collecting did not begin.
#[derive(Debug, Error)]
pub enum CollectorError {
    /// The kernel half.
    #[error("the kernel half does not run; `ebb-probe check` says what this machine lacks")]
    Kernel(#[from] KernelError),
    /// The runtime.
    #[error("the kernel's events cannot be waited for")]
    Wait(#[source] io::Error),
}

/// The running kernel half and all that is known through it.
pub struct Collector {
    kernel: AsyncFd<KernelHalf>,
    hierarchy: Hierarchy,
    network: Network,
    stalls: Stalls,
    fold: Fold,
}

impl Collector {
    /// Loads the kernel half and begins an interval with what runs already, told
    /// apart by the cgroups of `hierarchy`. A pass is expected every `sample_period`.
    pub fn start(
        hierarchy: Hierarchy,
        rules: Rules,
        sample_period: Duration,
    ) -> Result<Self, CollectorError> {
        let mut kernel = KernelHalf::load(hierarchy.memory_hierarchy())?;
        if let OomEvents::Missing(error) = kernel.oom_events() {
            tracing::warn!(%error, "victims of the memory killer are told by cgroup only");
        }
        let began = node::clock();
        let paths = Paths::scan(&hierarchy);
        let running = kernel.sample()?;
        let mut fold = Fold::begin(
            rules,
            paths,
            sample_period,
            began,
            &running,
            node::work_folder,
        );
        match kernel.socket_events() {
            SocketEvents::Whole => fold.watch_sockets(kernel.sockets()?.as_deref()),
            SocketEvents::AtEnd(error) => {
                tracing::warn!(%error, "sockets are told when they end only");
                fold.watch_sockets(None);
            }
            SocketEvents::Missing(error) => {
                tracing::warn!(%error, "bytes of the network are told of the whole node only");
            }
        }
        // SAFETY: the ring's descriptor is opened once, belongs to the kernel half,
        // and is closed with it; `as_raw_fd` answers no other.
        let kernel = unsafe { AsyncFd::register_with_interest(kernel, Interest::READABLE) };
        Ok(Self {
            kernel: kernel.map_err(|error| CollectorError::Wait(error.into()))?,
            hierarchy,
            network: Network::watch("/"),
            stalls: Stalls::watch("/"),
            fold,
        })
    }

    /// Takes other rules; they hold for what starts from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.fold.set_rules(rules);
    }

    /// Waits for `event`, and drains the ring whenever it fills meanwhile.
    pub async fn drain_until<T>(&mut self, event: impl Future<Output = T>) -> io::Result<T> {
        tokio::pin!(event);
        loop {
            tokio::select! {
                biased;
                came = &mut event => return Ok(came),
                drained = self.drain_when_full() => drained?,
            }
        }
    }

    async fn drain_when_full(&mut self) -> io::Result<()> {
        let mut ready = self.kernel.readable_mut().await?;
        ready.get_inner_mut().drain(|event| self.fold.event(event));
        ready.clear_ready();
        Ok(())
    }

    /// Takes a pass over all processes, and hands over the steps that ended.
    pub fn pass(&mut self) -> Result<Vec<StepUsage>, KernelError> {
        let kernel = self.kernel.get_mut();
        kernel.drain(|event| self.fold.event(event));
        let at = node::clock();
        let samples = kernel.sample()?;
        if let Some(open) = kernel.sockets()? {
            self.fold.sockets(&open);
        }
        let read = |path: String| {
            let reading = reading::read(&self.hierarchy, &path);
            (path, reading)
        };
        let readings: BTreeMap<String, Reading> =
            self.fold.cgroups().into_iter().map(read).collect();
        self.fold.pass(at, &samples, &readings);
        Ok(self.fold.take_ended())
    }

    /// Hands over what has ended and would be told by a later pass: there is none.
    pub fn last_ended(&mut self) -> Vec<StepUsage> {
        self.fold.take_all_ended()
    }

    /// Closes the interval, right after a pass: what it was, and the events lost
    /// since the start.
    pub fn close(&mut self) -> Result<(Interval, u64), KernelError> {
        let lost = self.kernel.get_ref().events_lost()?;
        let mut interval = self.fold.close(node::clock(), lost, self.network.used());
        let (pressure, reclaimed) = self.stalls.since_last();
        interval.detail.pressure = pressure;
        interval.detail.reclaimed = reclaimed;
        let in_use = self.fold.cgroup_ids();
        self.fold.paths_mut().trim(&self.hierarchy, &in_use);
        Ok((interval, lost))
    }
}
