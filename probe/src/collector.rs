//! Drives the source of process data: drains its events, runs scans, and closes intervals. The
//! caller decides when.

mod quiet;
mod source;

use std::io;
use std::time::Duration;

use ebb_telemetry::step::{Handed, StepUsage};
use thiserror::Error;

use self::quiet::Done;
use self::source::Source;
use crate::attribute::script;
use crate::cgroup::reading;
use crate::cgroup::{Hierarchy, Paths};
use crate::gpu::Gpus;
use crate::interval::Interval;
use crate::interval::aggregator::Fold;
use crate::kernel::{KernelError, ProcessEvent};
use crate::label::{Asker, Refusal};
use crate::memory;
use crate::network::Network;
use crate::node;
use crate::pressure::Stalls;
use crate::rules::Rules;

/// Why collection did not start.
#[derive(Debug, Error)]
pub enum CollectorError {
    /// The first scan failed.
    #[error(
        "the running processes cannot be listed; `ebb-probe check` says what this machine lacks"
    )]
    Kernel(#[from] KernelError),
    /// The runtime failed.
    #[error("the kernel's events cannot be waited for")]
    Wait(#[source] io::Error),
}

/// Maximum number of interpreters between two scans whose script is read; each takes two procfs
/// files. Further interpreters keep their own name.
const MOST_LOOKS: u32 = 200;

/// Adds the script of an interpreter while the process still exists.
fn named(mut event: ProcessEvent, looks: &mut u32) -> ProcessEvent {
    if let ProcessEvent::Executed { process, start, .. } = &mut event
        && *looks > 0
        && script::is_interpreter(&process.comm.to_string())
    {
        *looks -= 1;
        start.script = start.script.take().or_else(|| node::script_of(process));
    }
    event
}

/// The source of process data, and all data collected from it.
pub struct Collector {
    source: Source,
    hierarchy: Hierarchy,
    network: Network,
    stalls: Stalls,
    gpus: Option<Gpus>,
    quiet: quiet::Looks,
    fold: Fold,
    looks: u32,
    opened: Opened,
    /// Kernel events lost since the start, as last read.
    lost: u64,
}

/// Data that is reported only if the configuration enables it; none by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opened {
    /// The arguments of each task's first process.
    pub arguments: bool,
    /// Number of path segments to which the paths of open files are cut; 0 disables this.
    pub files_depth: u8,
}

/// Maximum number of open files in a scan; each takes one or two system calls.
const MOST_FILES: usize = 2_000;

impl Collector {
    /// Loads the eBPF programs, or else samples procfs. Starts an interval with the running
    /// processes, which are identified by the cgroups of `hierarchy`. Scans are expected every
    /// `sample_period`.
    pub fn start(
        hierarchy: Hierarchy,
        rules: Rules,
        sample_period: Duration,
    ) -> Result<Self, CollectorError> {
        let mut source = Source::open(&hierarchy)?;
        let began = node::clock();
        let paths = Paths::scan(&hierarchy);
        // The first scan contains the results of events before it.
        let samples = source.pass(drop)?;
        let sockets = source.sockets()?;
        let mut fold = Fold::begin(
            rules,
            paths,
            sample_period,
            began,
            &samples.told,
            node::start_of,
        );
        if source.tells_sockets() {
            fold.watch_sockets(sockets.as_deref());
        }
        if matches!(source, Source::Procfs { .. }) {
            fold.only_sampled();
        }
        drop((samples, sockets));
        memory::give_back();
        Ok(Self {
            source,
            hierarchy,
            network: Network::watch("/"),
            stalls: Stalls::watch("/"),
            gpus: Gpus::find(),
            quiet: quiet::Looks::begin(),
            fold,
            looks: MOST_LOOKS,
            opened: Opened::default(),
            lost: 0,
        })
    }

    /// Uses these GPUs instead of the detected ones.
    pub fn set_gpus(&mut self, gpus: Gpus) {
        self.gpus = Some(gpus);
    }

    /// Enables reports of data that is off by default.
    pub fn open(&mut self, opened: Opened) {
        self.opened = opened;
    }

    /// Replaces the rules; they apply to processes that start from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.fold.set_rules(rules);
    }

    /// Waits for `event`, and drains the ring buffer whenever it fills meanwhile.
    pub async fn drain_until<T>(&mut self, event: impl Future<Output = T>) -> io::Result<T> {
        tokio::pin!(event);
        loop {
            tokio::select! {
                biased;
                came = &mut event => return Ok(came),
                drained = self.source.drain_when_full(|event| {
                    self.fold.event(named(event, &mut self.looks));
                }) => drained?,
            }
        }
    }

    /// Adds the labels that a process sent for its task, after all events before them.
    ///
    /// # Errors
    /// As [`Fold::label`].
    pub fn label(&mut self, asker: Asker, handed: &Handed) -> Result<(), Refusal> {
        self.source
            .drain(|event| self.fold.event(named(event, &mut self.looks)));
        self.fold.label(asker, handed)
    }

    /// Scans all processes and returns the tasks that ended. The scan is skipped if the node was
    /// idle since the previous scan and no task started or ended, because nothing would have
    /// changed.
    pub fn pass_unless_quiet(&mut self) -> Result<Vec<StepUsage>, KernelError> {
        let done = self.quiet.since_last();
        self.source
            .drain(|event| self.fold.event(named(event, &mut self.looks)));
        // With procfs, only a scan finds processes. A GPU can work without the CPU.
        let told_by_events = matches!(self.source, Source::Kernel(_));
        if done.is_some_and(|done| done.quiet)
            && told_by_events
            && self.gpus.is_none()
            && self.opened.files_depth == 0
            && !self.fold.awaits_pass()
        {
            self.fold.leave_out(node::clock());
            return Ok(Vec::new());
        }
        self.pass_after(done)
    }

    /// Scans all processes and returns the tasks that ended.
    pub fn pass(&mut self) -> Result<Vec<StepUsage>, KernelError> {
        let done = self.quiet.since_last();
        self.pass_after(done)
    }

    /// A scan; `done` is the CPU time since the previous scan, run or skipped.
    fn pass_after(&mut self, done: Option<Done>) -> Result<Vec<StepUsage>, KernelError> {
        let at = node::clock();
        self.looks = match self.source {
            Source::Kernel(_) => MOST_LOOKS,
            // Events from procfs already contain the script of interpreters.
            Source::Procfs { .. } => 0,
        };
        let samples = self
            .source
            .pass(|event| self.fold.event(named(event, &mut self.looks)))?;
        if let Some((look, since)) = self.gpus.as_mut().and_then(|gpus| gpus.pass(at)) {
            self.fold.gpus(&look, since);
        }
        self.fold.name_pods(node::pod_folders);
        self.look_into_steps();
        let busy = done.map(|done| done.cpu);
        self.fold.pass(at, busy, &samples, |path, wanted| {
            reading::read(&self.hierarchy, path, wanted)
        });
        Ok(self.fold.take_ended())
    }

    /// Reads from procfs, so it covers only live processes.
    fn look_into_steps(&mut self) {
        if self.opened.arguments {
            self.fold.arguments(node::arguments_of);
        }
        if self.opened.files_depth > 0 {
            let mut room = MOST_FILES;
            self.fold.files(self.opened.files_depth, |key, program| {
                node::files_of(key, program, &mut room)
            });
        }
    }

    /// Returns the tasks that have ended and that a later scan would return. There is no later
    /// scan.
    pub fn last_ended(&mut self) -> Vec<StepUsage> {
        self.fold.take_all_ended()
    }

    /// Closes the interval after a scan. Returns the interval and the number of events lost since
    /// the start. Open sockets are listed only now: a list takes as long as a scan, and traffic is
    /// reported once in an interval.
    ///
    /// If a counter cannot be read, it keeps its last value, so that the interval always ends.
    pub fn close(&mut self) -> (Interval, u64) {
        match self.source.sockets() {
            Ok(Some(open)) => self.fold.sockets(&open),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "failed to list open sockets"),
        }
        match self.source.events_lost() {
            Ok(lost) => self.lost = lost,
            Err(error) => tracing::warn!(%error, "failed to count lost events"),
        }
        let lost = self.lost.saturating_add(self.fold.left_out());
        let mut interval = self.fold.close(node::clock(), lost, self.network.used());
        let (pressure, reclaimed) = self.stalls.since_last();
        interval.detail.pressure = pressure;
        interval.detail.reclaimed = reclaimed;
        interval.detail.memory_used = self.stalls.memory_used();
        if let Some(gpus) = &mut self.gpus {
            interval.add_gpus(gpus.close());
        }
        if let Source::Procfs { sampler, because } = &mut self.source {
            interval.detail.sampled_because = Some(because.clone());
            interval.add_unseen(sampler.busy_since_last());
        }
        let in_use = self.fold.cgroup_ids();
        self.fold.paths_mut().trim(&self.hierarchy, &in_use);
        (interval, lost)
    }
}
