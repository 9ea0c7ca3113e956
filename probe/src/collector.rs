//! Drives the source of process data: drains its events, runs scans, and closes intervals. The
//! caller decides when.

mod cpu_idle;
mod source;

use std::io;
use std::path::Path;
use std::time::Duration;

use ebb_telemetry::step::StepUsage;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::watch::WatchTotals;
use thiserror::Error;

use self::cpu_idle::{CpuIdleTracker, CpuUse};
use self::source::Source;
use crate::cgroup::reading;
use crate::cgroup::{Hierarchy, Paths};
use crate::container_names::lookup::ContainerLookup;
use crate::gpu::Gpus;
use crate::interval::Interval;
use crate::interval::aggregator::IntervalAggregator;
use crate::kernel::engine_task;
use crate::kernel::script::Script;
use crate::kernel::snakemake;
use crate::kernel::{KernelError, ProcessEvent};
use crate::label::{Refusal, Requester, TaskLabels};
use crate::label_rules::Rules;
use crate::memory;
use crate::network::NetworkCounter;
use crate::node;
use crate::pressure::PressureSampler;
use crate::watch::{WatchFacts, read_totals};

/// Why collection did not start.
#[derive(Debug, Error)]
pub enum CollectorError {
    /// The first scan failed.
    #[error("failed to list the running processes; run `ebb-probe check` for the cause")]
    Kernel(#[from] KernelError),
    /// The runtime failed.
    #[error("failed to wait for kernel events")]
    Wait(#[source] io::Error),
}

/// Numbers of processes whose arguments may still be read before the next scan. Each takes two
/// procfs files, so a burst of processes does not raise the cost of the probe.
#[derive(Debug, Clone, Copy)]
struct ArgumentReads {
    /// Interpreters and programs of engines; further ones keep their own name.
    scripts: u32,
    /// Processes of Snakemake; further ones have no rule.
    snakemake: u32,
    /// Scripts of Nextflow; further tasks have no name. 0 unless the configuration enables it.
    task_headers: u32,
}

impl ArgumentReads {
    const AFTER_SCAN: Self = Self {
        scripts: 200,
        snakemake: 200,
        task_headers: 0,
    };

    /// Events from procfs already contain the arguments.
    const NONE: Self = Self {
        scripts: 0,
        snakemake: 0,
        task_headers: 0,
    };

    /// Scripts of Nextflow between two scans.
    const TASK_HEADERS: u32 = 200;

    const fn with_task_headers(self, settings: OptInSettings) -> Self {
        let task_headers = match settings.task_headers {
            true => Self::TASK_HEADERS,
            false => 0,
        };
        Self {
            task_headers,
            ..self
        }
    }

    /// Adds the script of an interpreter, the task of an engine and the name of a task of Nextflow
    /// while the process still exists.
    fn add_to(&mut self, mut event: ProcessEvent) -> ProcessEvent {
        let ProcessEvent::Executed { process, start, .. } = &mut event else {
            return event;
        };
        if self.scripts > 0 && engine_task::can_name_a_task(&process.comm.to_string()) {
            self.scripts -= 1;
            let (script, task) = node::script_and_task_of(process);
            start.script = start.script.take().or(script);
            start.engine_task = start.engine_task.take().or(task);
        }
        // A process that starts several programs in turn can already run the last one, as a shim of
        // pyenv does. Then the script of an earlier one is that of Snakemake.
        let script = start.script.as_ref().map(Script::as_str);
        let is_snakemake = start.snakemake.is_some() || script == Some(snakemake::PROGRAM);
        if self.snakemake > 0 && is_snakemake {
            self.snakemake -= 1;
            start.snakemake = node::snakemake_of(process).or_else(|| start.snakemake.take());
        }
        if self.task_headers > 0 && start.work_folder.is_some() {
            self.task_headers -= 1;
            start.task_header = node::task_header_of(process);
        }
        event
    }
}

/// The source of process data, and all data collected from it.
pub struct Collector {
    source: Source,
    hierarchy: Hierarchy,
    network: NetworkCounter,
    pressure: PressureSampler,
    gpus: Option<Gpus>,
    cpu_idle: CpuIdleTracker,
    aggregator: IntervalAggregator,
    argument_reads: ArgumentReads,
    containers: ContainerLookup,
    opt_in: OptInSettings,
    /// Kernel events lost since the start, as last read.
    lost: u64,
}

/// Data that is reported only if the configuration enables it; none by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct OptInSettings {
    /// Names of tasks of Nextflow from their scripts.
    pub task_headers: bool,
    /// The arguments of each task's first process.
    pub arguments: bool,
    /// Number of path segments to which the paths of open files are cut; 0 disables this.
    pub files_depth: u8,
}

/// Maximum number of open files in a scan; each takes one or two system calls.
const MAX_OPEN_FILES: usize = 2_000;

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
        let samples = source.scan(drop)?;
        let sockets = source.sockets()?;
        let mut aggregator = IntervalAggregator::begin(
            rules,
            paths,
            sample_period,
            began,
            &samples.changed,
            node::start_of,
        );
        if source.reports_sockets() {
            aggregator.watch_sockets(sockets.as_ref());
        }
        if matches!(source, Source::Procfs { .. }) {
            aggregator.only_sampled();
        }
        drop((samples, sockets));
        memory::give_back();
        Ok(Self {
            source,
            hierarchy,
            network: NetworkCounter::watch("/"),
            pressure: PressureSampler::watch("/"),
            gpus: Gpus::find(sample_period),
            cpu_idle: CpuIdleTracker::begin(),
            aggregator,
            argument_reads: ArgumentReads::AFTER_SCAN,
            containers: ContainerLookup::new(None),
            opt_in: OptInSettings::default(),
            lost: 0,
        })
    }

    /// Uses these GPUs instead of the detected ones.
    pub fn set_gpus(&mut self, gpus: Gpus) {
        self.gpus = Some(gpus);
    }

    /// Uses these sources of names of containers.
    pub fn set_containers(&mut self, containers: ContainerLookup) {
        self.containers = containers;
    }

    /// Enables reports of data that is off by default.
    pub fn enable_opt_in(&mut self, settings: OptInSettings) {
        self.opt_in = settings;
        self.argument_reads = self.argument_reads.with_task_headers(settings);
    }

    /// Replaces the rules; they apply to processes that start from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.aggregator.set_rules(rules);
    }

    /// Waits for `event`, and drains the ring buffer whenever it fills meanwhile.
    pub async fn drain_until<T>(&mut self, event: impl Future<Output = T>) -> io::Result<T> {
        tokio::pin!(event);
        loop {
            tokio::select! {
                biased;
                came = &mut event => return Ok(came),
                drained = self.source.drain_when_full(|event| {
                    self.aggregator.event(self.argument_reads.add_to(event));
                }) => drained?,
            }
        }
    }

    /// Adds the labels that a process sent for its task, after all events before them.
    ///
    /// # Errors
    /// As [`IntervalAggregator::label`].
    pub fn label(&mut self, requester: Requester, labels: &TaskLabels) -> Result<(), Refusal> {
        self.source.drain(|event| {
            self.aggregator.event(self.argument_reads.add_to(event));
        });
        self.aggregator.label(requester, labels)
    }

    /// Names of jobs that were left out because a limit was reached, since the start.
    pub const fn names_left_out(&self) -> u64 {
        self.aggregator.names_left_out()
    }

    /// Scans all processes and returns the tasks that ended. The scan is skipped if the node was
    /// idle since the previous scan and no task started or ended, because nothing would have
    /// changed.
    pub fn scan_unless_idle(&mut self) -> Result<Vec<StepUsage>, KernelError> {
        let done = self.cpu_idle.since_last();
        self.source.drain(|event| {
            self.aggregator.event(self.argument_reads.add_to(event));
        });
        // With procfs, only a scan finds processes. A GPU can work without the CPU.
        let has_process_events = matches!(self.source, Source::Kernel(_));
        if done.is_some_and(|done| done.is_idle)
            && has_process_events
            && self.gpus.is_none()
            && self.opt_in.files_depth == 0
            && !self.aggregator.needs_scan()
        {
            self.aggregator.skip_scan(node::clock());
            return Ok(Vec::new());
        }
        self.scan_after(done)
    }

    /// Scans all processes and returns the tasks that ended.
    pub fn scan(&mut self) -> Result<Vec<StepUsage>, KernelError> {
        let done = self.cpu_idle.since_last();
        self.scan_after(done)
    }

    /// A scan; `done` is the CPU time since the previous scan, run or skipped.
    fn scan_after(&mut self, done: Option<CpuUse>) -> Result<Vec<StepUsage>, KernelError> {
        let at = node::clock();
        self.argument_reads = match self.source {
            Source::Kernel(_) => ArgumentReads::AFTER_SCAN,
            Source::Procfs { .. } => ArgumentReads::NONE,
        }
        .with_task_headers(self.opt_in);
        let samples = self.source.scan(|event| {
            self.aggregator.event(self.argument_reads.add_to(event));
        })?;
        if let Some(gpus) = &mut self.gpus {
            self.aggregator.add_gpu_samples(&gpus.scan(at));
        }
        self.aggregator.name_pods(node::pod_folders);
        self.aggregator
            .add_titles(&samples.changed, node::engine_task_of);
        let unnamed = self.aggregator.unnamed_containers();
        if !unnamed.is_empty() {
            let found = self.containers.find(&unnamed);
            self.aggregator.name_containers(found);
        }
        self.read_opt_in_detail();
        let busy = done.map(|done| done.cpu);
        self.aggregator.scan(at, busy, &samples, |path, wanted| {
            reading::read(&self.hierarchy, path, wanted)
        });
        Ok(self.aggregator.take_ended())
    }

    /// Reads from procfs, so it covers only live processes.
    fn read_opt_in_detail(&mut self) {
        if self.opt_in.arguments {
            self.aggregator.add_arguments(node::arguments_of);
        }
        if self.opt_in.files_depth > 0 {
            let mut room = MAX_OPEN_FILES;
            self.aggregator
                .add_open_files(self.opt_in.files_depth, |key, program| {
                    node::files_of(key, program, &mut room)
                });
        }
    }

    /// Returns the tasks that have ended and that a later scan would return. There is no later
    /// scan.
    pub fn last_ended(&mut self) -> Vec<StepUsage> {
        self.aggregator.take_all_ended()
    }

    /// Lists open sockets, so that traffic of tasks is current. A failure keeps the last counts.
    pub fn list_sockets(&mut self) {
        match self.source.sockets() {
            Ok(Some(list)) => self.aggregator.sockets(&list),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "failed to list open sockets"),
        }
    }

    /// The running tasks of users for which `is_shown` is true, at the scan at `at`, and totals of
    /// the node.
    pub fn watch(&self, at: BootClock, is_shown: impl Fn(Option<u32>) -> bool) -> WatchFacts {
        let network = self.network.totals();
        let gpus = self.gpus.as_ref().map(Gpus::newest).unwrap_or_default();
        WatchFacts {
            at,
            running: self.aggregator.running_of(at, is_shown),
            totals: WatchTotals {
                memory_used_bytes: self.pressure.memory_used(),
                network_received_bytes: network.map(|[received, _]| received),
                network_sent_bytes: network.map(|[_, sent]| sent),
                gpus: gpus.to_vec(),
                ..read_totals(Path::new("/"))
            },
            sampled_because: match &self.source {
                Source::Procfs { because, .. } => Some(because.clone()),
                Source::Kernel(_) => None,
            },
        }
    }

    /// Closes the interval after a scan. Returns the interval and the number of events lost since
    /// the start. Open sockets are listed only now: a list takes as long as a scan, and traffic is
    /// reported once in an interval.
    ///
    /// If a counter cannot be read, it keeps its last value, so that the interval always ends.
    pub fn close(&mut self) -> (Interval, u64) {
        self.list_sockets();
        match self.source.events_lost() {
            Ok(lost) => self.lost = lost,
            Err(error) => tracing::warn!(%error, "failed to count lost events"),
        }
        let lost = self.lost.saturating_add(self.aggregator.left_out());
        let mut interval = self
            .aggregator
            .close(node::clock(), lost, self.network.used());
        let (pressure, reclaimed) = self.pressure.since_last();
        interval.detail.pressure = pressure;
        interval.detail.reclaimed = reclaimed;
        interval.detail.memory_used = self.pressure.memory_used();
        if let Some(gpus) = &mut self.gpus {
            interval.add_gpus(gpus.close());
        }
        if let Source::Procfs { sampler, because } = &mut self.source {
            interval.detail.sampled_because = Some(because.clone());
            interval.add_unsampled_cpu(sampler.busy_since_last());
        }
        let in_use = self.aggregator.cgroup_ids();
        self.aggregator.paths_mut().trim(&self.hierarchy, &in_use);
        (interval, lost)
    }
}
