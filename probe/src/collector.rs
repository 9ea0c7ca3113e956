//! Drives what tells of processes: drains its events, takes passes, and closes intervals.
//! When that happens is the caller's business.

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

/// Why collecting did not begin.
#[derive(Debug, Error)]
pub enum CollectorError {
    /// The first pass.
    #[error(
        "the running processes cannot be listed; `ebb-probe check` says what this machine lacks"
    )]
    Kernel(#[from] KernelError),
    /// The runtime.
    #[error("the kernel's events cannot be waited for")]
    Wait(#[source] io::Error),
}

/// Interpreters that are asked what they run from one pass to the next: each takes two
/// files of procfs. Those beyond go by their own name.
const MOST_LOOKS: u32 = 200;

/// Adds what an interpreter runs, while it is there to be asked.
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

/// What tells of processes, and all that is known through it.
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
    /// Lost kernel events since the start, as last read.
    lost: u64,
}

/// What is told only where it is switched on; nothing by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opened {
    /// The arguments of each step's first process.
    pub arguments: bool,
    /// The files that steps have open, their paths cut to so many parts; 0 for none.
    pub files_depth: u8,
}

/// Open files that are looked at in a pass: each takes a call or two.
const MOST_FILES: usize = 2_000;

impl Collector {
    /// Loads the kernel half, or else samples procfs, and begins an interval with what
    /// runs already, told apart by the cgroups of `hierarchy`. A pass is expected
    /// every `sample_period`.
    pub fn start(
        hierarchy: Hierarchy,
        rules: Rules,
        sample_period: Duration,
    ) -> Result<Self, CollectorError> {
        let mut source = Source::open(&hierarchy)?;
        let began = node::clock();
        let paths = Paths::scan(&hierarchy);
        // What happened before the first pass, the pass shows.
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

    /// Asks these GPUs instead of those that were found.
    pub fn set_gpus(&mut self, gpus: Gpus) {
        self.gpus = Some(gpus);
    }

    /// Tells more of steps than it usually does.
    pub fn open(&mut self, opened: Opened) {
        self.opened = opened;
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
                drained = self.source.drain_when_full(|event| {
                    self.fold.event(named(event, &mut self.looks));
                }) => drained?,
            }
        }
    }

    /// Takes in what a process hands its step, once its birth has been heard of.
    ///
    /// # Errors
    /// As [`Fold::label`].
    pub fn label(&mut self, asker: Asker, handed: &Handed) -> Result<(), Refusal> {
        self.source
            .drain(|event| self.fold.event(named(event, &mut self.looks)));
        self.fold.label(asker, handed)
    }

    /// Takes a pass over all processes, and hands over the steps that ended. It is left out,
    /// in favour of the next, where next to nothing ran since the last and no step began or ended:
    /// all would be as it was.
    pub fn pass_unless_quiet(&mut self) -> Result<Vec<StepUsage>, KernelError> {
        let done = self.quiet.since_last();
        self.source
            .drain(|event| self.fold.event(named(event, &mut self.looks)));
        // Procfs tells only of what a pass meets, and a GPU works without its processors.
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

    /// Takes a pass over all processes, and hands over the steps that ended.
    pub fn pass(&mut self) -> Result<Vec<StepUsage>, KernelError> {
        let done = self.quiet.since_last();
        self.pass_after(done)
    }

    /// A pass, after all that ran since the last one was taken or left out.
    fn pass_after(&mut self, done: Option<Done>) -> Result<Vec<StepUsage>, KernelError> {
        let at = node::clock();
        self.looks = match self.source {
            Source::Kernel(_) => MOST_LOOKS,
            // Its events say what interpreters run.
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

    /// By procfs, and so only of what lives now.
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

    /// Hands over what has ended and would be told by a later pass: there is none.
    pub fn last_ended(&mut self) -> Vec<StepUsage> {
        self.fold.take_all_ended()
    }

    /// Closes the interval, right after a pass: what it was, and the events lost
    /// since the start. Open sockets are listed only now: that takes as long as a pass,
    /// and what one carried is told once an interval.
    ///
    /// If a counter cannot be read, the last value stays, so that the interval always ends.
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
