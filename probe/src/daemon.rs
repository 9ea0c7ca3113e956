//! The daemon: runs scans and intervals by the clock, adds records to the spool, and sends the
//! spool to its sink, all on one thread. After the start only a stop request ends the daemon;
//! failures are logged and counted.

mod last_run;
pub mod report;
mod ticks;
mod waiting_steps;

use std::cell::RefCell;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use ebb_telemetry::probe_version::ProbeVersion;
use ebb_telemetry::step::StepBatch;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::Bytes;
use tokio::sync::{Notify, mpsc};

use self::last_run::{LastRun, PastEnds};
use self::report::Report;
use self::ticks::Ticks;
use self::waiting_steps::WaitingSteps;
use crate::cgroup::Hierarchy;
use crate::collector::{Collector, OptInSettings};
use crate::config::Config;
use crate::connect::Connected;
use crate::container_names::lookup::ContainerLookup;
use crate::durable;
use crate::label::{self, Refusal, RequestBudget};
use crate::label_rules::keeper::{ActiveRules, RulesKeeper};
use crate::node;
use crate::probe_run::ProbeRun;
use crate::push::{self, Outbox, StoredBatch, Urgency};
use crate::spool::Spool;
use crate::systemd::Manager;
use crate::watch::{self, WatchRequest, WatchSocket};

/// Maximum number of label requests in the queue; the socket has fewer connections.
const MAX_REQUESTS: usize = 32;

/// Runs until `stop`, then adds the last records and sends as many as it can for a few seconds.
///
/// # Errors
/// If it cannot start to observe, or another probe uses the same folder.
pub async fn run(
    config: &Config,
    connected: Connected,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let Connected {
        run,
        sender,
        sink,
        rules,
    } = connected;
    let folders = Folders::new(config);
    let _lock = folders.lock()?;
    let last_run = LastRun::begin(&folders.state, &run);
    let (outbox, waiting_steps) = open_outbox(config, &folders, &run, sender);
    let changed = Notify::new();
    let mut rules = RulesKeeper::new(rules, Some(&folders.state));
    let first_rules = rules.first().await;
    let labels = label::LabelSocket::open(config.label_socket.as_deref());
    let watch = WatchSocket::open(config.watch_socket.as_deref());
    let (ask, label_requests) = mpsc::channel(MAX_REQUESTS);
    let (ask_watch, watch_requests) = mpsc::channel(1);
    let newest_rules = RefCell::new(None);
    let (scans, period) = config.scans();
    let mut observer = Observer {
        collector: start_collector(config, &first_rules, period)?,
        report: Report::new(run.clone(), Duration::from_secs(config.steps_seconds)),
        waiting_steps,
        outbox: &outbox,
        changed: &changed,
        newest_rules: &newest_rules,
        masked_because: first_rules.masked_because.clone(),
        past_ends: last_run.past_ends(),
        sampler: node::MachineSampler::begin()?,
        labels: &labels,
        label_requests,
        waiting_requests: Vec::new(),
        requests_since_scan: RequestBudget::default(),
        watch: &watch,
        watch_requests,
        last_scan: None,
    };
    log_start(&run, config, period);
    let send = async {
        push::run(&outbox, &changed, sink.as_ref(), || node::sent(&run.boot)).await;
        Ok(())
    };
    let manager = Manager::find();
    manager.ready();
    let stop = async {
        stop.await;
        manager.stopping();
    };
    let done = tokio::select! {
        done = async { tokio::try_join!(observer.run(scans, period, stop), send) } => done.map(|_| ()),
        () = watch_rules(&mut rules, first_rules, &newest_rules) => Ok(()),
        () = keep_alive(&manager) => Ok(()),
        _ = async { tokio::join!(labels.serve(ask), watch.serve(ask_watch)) } => Ok(()),
    };
    if done.is_ok() {
        last_run.stopped();
    }
    done
}

fn log_start(run: &ProbeRun, config: &Config, period: Duration) {
    tracing::info!(
        node = %run.node,
        interval_seconds = config.interval_seconds,
        scan_seconds = period.as_secs_f64(),
        "the probe is running"
    );
}

fn start_collector(
    config: &Config,
    first: &ActiveRules,
    period: Duration,
) -> anyhow::Result<Collector> {
    let mut collector = Collector::start(Hierarchy::find()?, first.rules.clone(), period)?;
    collector.set_containers(ContainerLookup::new(config.docker_socket.as_deref()));
    collector.enable_opt_in(OptInSettings {
        task_headers: config.task_headers,
        arguments: config.export_args,
        files_depth: config.files_depth,
    });
    Ok(collector)
}

/// Runs on the only thread: if this thread hangs, the service manager gets no more notifications.
async fn keep_alive(manager: &Manager) {
    match manager.watchdog {
        Some(period) => loop {
            manager.alive();
            tokio::time::sleep(period).await;
        },
        None => std::future::pending().await,
    }
}

/// The folders below `spool_dir`.
struct Folders {
    heartbeats: PathBuf,
    steps: PathBuf,
    /// State that survives a restart.
    state: PathBuf,
}

impl Folders {
    fn new(config: &Config) -> Self {
        let folder = |name: &str| config.spool_dir.join(name);
        let all = Self {
            heartbeats: folder("heartbeats"),
            steps: folder("steps"),
            state: config.state_dir(),
        };
        if let Err(error) = durable::make_own_folder(&all.state) {
            tracing::error!(
                error = %error.source,
                "{error}; unsent records and state are lost at a restart. \
                 Make spool_dir writable, or set another folder"
            );
        }
        all
    }

    /// Locks the state folder: two probes on one spool would send and remove each other's
    /// records. `None` if the folder cannot be opened or locked.
    fn lock(&self) -> anyhow::Result<Option<File>> {
        let Ok(folder) = File::open(&self.state) else {
            return Ok(None);
        };
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "another probe uses {}; stop it, or set another folder in spool_dir or \
                     EBB_PROBE_SPOOL_DIR",
                    shown_parent(&self.state)
                )
            }
            // Some file systems have no locks.
            Err(TryLockError::Error(error)) => {
                tracing::warn!(%error, "failed to lock {}", self.state.display());
                Ok(None)
            }
            Ok(()) => Ok(Some(folder)),
        }
    }
}

fn shown_parent(folder: &Path) -> std::path::Display<'_> {
    folder.parent().unwrap_or(folder).display()
}

/// Half of the spool is for heartbeats, half for finished tasks.
fn open_outbox(
    config: &Config,
    folders: &Folders,
    run: &ProbeRun,
    sender: String,
) -> (RefCell<Outbox>, WaitingSteps) {
    let open = |folder: &Path| Spool::open(folder, Bytes(config.spool_max_bytes / 2));
    let mut outbox = Outbox::new(
        open(&folders.heartbeats),
        open(&folders.steps),
        run.node.clone(),
        sender,
    )
    .with_heartbeats_per_message(config.heartbeats_per_message as usize);
    if outbox.held() > Bytes(0) {
        tracing::info!(waiting = %outbox.held(), "the spool contains records of an earlier run");
    }
    let waiting_steps = WaitingSteps::begin(&folders.state, &mut outbox);
    (RefCell::new(outbox), waiting_steps)
}

/// Forwards changed rules; see [`RulesKeeper::reload`].
async fn watch_rules(
    rules: &mut RulesKeeper,
    mut current: ActiveRules,
    newest: &RefCell<Option<ActiveRules>>,
) {
    loop {
        tokio::time::sleep(rules.period()).await;
        if let Some(held) = rules.reload().await
            && held != current
        {
            tracing::info!("the rules changed; they apply to processes that start from now on");
            current = held.clone();
            newest.replace(Some(held));
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words += &format!(": {cause}");
        source = cause.source();
    }
    words
}

/// The part that observes; the other part sends.
struct Observer<'a> {
    collector: Collector,
    report: Report,
    waiting_steps: WaitingSteps,
    outbox: &'a RefCell<Outbox>,
    changed: &'a Notify,
    newest_rules: &'a RefCell<Option<ActiveRules>>,
    /// Why all names are masked.
    masked_because: Option<String>,
    /// How earlier runs ended.
    past_ends: Option<PastEnds>,
    sampler: node::MachineSampler,
    labels: &'a label::LabelSocket,
    label_requests: mpsc::Receiver<label::Request>,
    /// Requests of processes that no scan has found yet, with the number of scans so far.
    waiting_requests: Vec<(label::Request, u8)>,
    /// Requests handled since the last scan.
    requests_since_scan: RequestBudget,
    watch: &'a WatchSocket,
    watch_requests: mpsc::Receiver<WatchRequest>,
    last_scan: Option<BootClock>,
}

/// The event that ends a wait for the next scan.
enum WakeReason {
    Stopped,
    Ticked(io::Result<()>),
    LabelRequest(label::Request),
    WatchRequest(WatchRequest),
}

impl Observer<'_> {
    async fn run(
        &mut self,
        scans: u32,
        period: Duration,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let ticks = Ticks::every(period).context("failed to create a timer for scans")?;
        tokio::pin!(stop);
        'watching: loop {
            for scan in 1..=scans {
                loop {
                    let woken = async {
                        tokio::select! {
                            () = &mut stop => WakeReason::Stopped,
                            ticked = ticks.next() => WakeReason::Ticked(ticked),
                            Some(request) = self.label_requests.recv() => WakeReason::LabelRequest(request),
                            Some(request) = self.watch_requests.recv() => WakeReason::WatchRequest(request),
                        }
                    };
                    match self.collector.drain_until(woken).await? {
                        WakeReason::Stopped => break 'watching,
                        WakeReason::Ticked(ticked) => break ticked?,
                        WakeReason::LabelRequest(request) => self.label(request, 0),
                        WakeReason::WatchRequest(request) => self.show(request),
                    }
                }
                // An interval ends with a scan that is never skipped.
                self.scan(scan < scans);
            }
            self.close(Urgency::CanWait);
        }
        tracing::info!("stop requested; sending the last records");
        self.scan(false);
        self.report
            .finish(self.collector.last_ended(), node::clock());
        self.close(Urgency::Now);
        while let Some(batch) = self.report.batch() {
            self.keep_batch(batch);
        }
        self.outbox.borrow_mut().close();
        self.changed.notify_waiters();
        Ok(())
    }

    /// Runs a scan and answers label requests that wait for it; while requests wait, the scan is not
    /// skipped. A failed scan observes nothing, which lowers the coverage.
    fn scan(&mut self, unless_idle: bool) {
        if let Some(ActiveRules {
            rules,
            masked_because,
        }) = self.newest_rules.take()
        {
            self.collector.set_rules(rules);
            self.masked_because = masked_because;
        }
        // The scan reports the end of a task that started and ended since the request.
        for (request, scans) in std::mem::take(&mut self.waiting_requests) {
            self.label(request, scans);
        }
        let now = node::clock();
        self.last_scan = Some(now);
        let took = match unless_idle && self.waiting_requests.is_empty() {
            true => self.collector.scan_unless_idle(),
            false => self.collector.scan(),
        };
        match took {
            Ok(ended) => self.report.finish(ended, now),
            Err(error) => tracing::warn!(error = %chain(&error), "failed to scan the processes"),
        }
        self.requests_since_scan = RequestBudget::default();
        for (request, scans) in std::mem::take(&mut self.waiting_requests) {
            self.label(request, scans + 1);
        }
        // Sends all due batches, because a batch that waits for a later scan takes memory.
        while let Some(batch) = self.report.due_batch(now) {
            self.keep_batch(batch);
        }
        self.waiting_steps.keep(&self.report);
    }

    /// Answers a client of the watch socket, after a scan unless there was one just before.
    fn show(&mut self, request: WatchRequest) {
        let age = |last: BootClock| node::clock().since(last);
        let is_new = (self.last_scan.and_then(age)).is_some_and(|age| age < watch::MIN_SCAN_GAP);
        if !is_new {
            self.scan(false);
            self.collector.list_sockets();
        }
        let user = request.user;
        let scope = watch::scope_of(user, rustix::process::geteuid().as_raw());
        let at = self.last_scan.unwrap_or_else(node::clock);
        let facts = (self.collector).watch(at, |of_task| watch::may_see(scope, user, of_task));
        let hardware = self.sampler.hardware();
        let node = self.report.node().clone();
        let snapshot = watch::snapshot(node, scope, hardware, self.watch.clients(), facts);
        match watch::line(snapshot) {
            Ok(line) => request.answer(line),
            Err(error) => tracing::warn!(%error, "failed to write a snapshot for `ebb top`"),
        }
    }

    /// Answers a request, or keeps it until a scan finds the process.
    fn label(&mut self, request: label::Request, scans: u8) {
        if !self.requests_since_scan.take(request.requester.user()) {
            return request.answer(Err(Refusal::Busy));
        }
        match self.collector.label(request.requester, &request.labels) {
            Err(Refusal::Unknown) if scans < 2 => self.waiting_requests.push((request, scans)),
            result => request.answer(result),
        }
    }

    fn close(&mut self, at_least: Urgency) {
        let (mut interval, events_lost) = self.collector.close();
        interval.detail.labels_refused =
            (self.labels.refused()).saturating_add(self.collector.names_left_out());
        interval.detail.masked_because = self.masked_because.clone();
        interval.detail.version = ProbeVersion::of_this_program();
        let mut machine = self.sampler.now();
        let probe = &mut machine.probe;
        probe.events_lost = events_lost;
        probe.unclean_stops = self.past_ends.map(|past| past.unclean_stops);
        probe.power_losses = self.past_ends.map(|past| past.power_losses);
        {
            let outbox = self.outbox.borrow();
            let left_out = outbox.left_out();
            probe.records_dropped = outbox.dropped();
            probe.records_unreadable = Some(outbox.unreadable());
            probe.spool_depth = outbox.held();
            probe.steps_left_out = Some(left_out.steps);
            probe.steps_shortened = Some(left_out.shortened);
        }
        let (heartbeat, urgency) = self.report.heartbeat(interval, machine);
        let urgency = if at_least == Urgency::Now {
            at_least
        } else {
            urgency
        };
        self.keep(|outbox| outbox.add_heartbeat(&heartbeat, urgency));
    }

    /// Moves a batch to the outbox. Nothing is sent between the two writes, so that a batch which was
    /// sent is never in the file of waiting tasks.
    fn keep_batch(&mut self, batch: StepBatch) {
        let stored = Some(node::sent(&batch.boot));
        let batch = StoredBatch { batch, stored };
        self.outbox.borrow_mut().add_steps(&batch);
        self.waiting_steps.clear();
        self.changed.notify_waiters();
    }

    fn keep(&self, add: impl FnOnce(&mut Outbox)) {
        add(&mut self.outbox.borrow_mut());
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label_rules::Rules;
    use crate::label_rules::source::RulesSource;

    const GOOD: &str = "[[rule]]\nname = \"ours\"\nprogram = [\"cron\"]\nclass = \"workload\"";

    /// The test clock advances only while the test waits.
    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn edited_rules_are_offered_within_a_minute_and_refused_ones_never() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("rules.toml");
        std::fs::write(&file, "").expect("written");
        let mut rules = RulesKeeper::new(RulesSource::File(file.clone()), None);
        let first = rules.first().await;
        let newest = RefCell::new(None);
        let watching = watch_rules(&mut rules, first, &newest);
        tokio::pin!(watching);
        let mut check = async |text: &str, expect: Option<Rules>| {
            std::fs::write(&file, text).expect("written");
            let minute = tokio::time::timeout(Duration::from_secs(60), &mut watching);
            minute.await.expect_err("it watches on");
            assert_eq!(newest.take().map(|held| held.rules), expect, "{text}");
        };
        let good = Rules::parse(GOOD).expect("valid").before(Rules::built_in());
        check(GOOD, Some(good.clone())).await;
        check("[[rule", None).await;
        check(GOOD, None).await;
        check("", Some(Rules::built_in())).await;
    }

    #[test]
    fn two_probes_do_not_use_one_folder() {
        let root = tempfile::tempdir().expect("a folder");
        let config = Config {
            spool_dir: root.path().join("spool"),
            ..Config::default()
        };
        let first = Folders::new(&config).lock().expect("nobody else");
        assert!(first.is_some());
        let error = Folders::new(&config).lock().expect_err("one is there");
        let expect = format!(
            "another probe uses {}; stop it, or set another folder in spool_dir or \
             EBB_PROBE_SPOOL_DIR",
            config.spool_dir.display()
        );
        assert_eq!(error.to_string(), expect);
        drop(first);
        assert!(Folders::new(&config).lock().expect("it is gone").is_some());
        // Without a directory no other probe can share the spool.
        let nowhere = Config {
            spool_dir: "/proc/nowhere".into(),
            ..Config::default()
        };
        assert!(Folders::new(&nowhere).lock().expect("no folder").is_none());
    }
}
