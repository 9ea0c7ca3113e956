//! The daemon: passes and intervals by the clock, records into the spool, and
//! the spool to its sink, all on one thread.

pub mod report;
mod ticks;

use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::time::Duration;

use anyhow::Context;
use ebb_domain::units::Bytes;
use tokio::sync::{Notify, mpsc};

use self::report::Report;
use self::ticks::Ticks;
use crate::cgroup::Hierarchy;
use crate::collector::{Collector, Opened};
use crate::config::Config;
use crate::connect::Connected;
use crate::label::{self, Refusal};
use crate::node;
use crate::push::{self, Outbox, Urgency};
use crate::rules::Rules;
use crate::rules::source::Source;
use crate::spool::Spool;
use crate::systemd::Manager;

/// Requests for labels that wait to be looked at; the socket has fewer connections.
const MAX_REQUESTS: usize = 32;

/// Requests for labels that are looked at between two passes: whoever asks for more must
/// not cost this node more.
const MAX_LOOKED_AT: u32 = 200;

/// Runs until `stop`, then says the last, and sends for a few seconds what it can.
/// `first_rules` hold until the source has others.
pub async fn run(
    config: &Config,
    connected: Connected,
    first_rules: Rules,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let Connected {
        run,
        sender,
        sink,
        rules,
    } = connected;
    let _lock = lock(config)?;
    let outbox = RefCell::new(open_outbox(config, &run, sender)?);
    let changed = Notify::new();
    let labels = label::Socket::open(config.label_socket.as_deref());
    let (ask, asked) = mpsc::channel(MAX_REQUESTS);
    let newest_rules = RefCell::new(None);
    let (passes, period) = config.passes();
    let mut watch = Watch {
        collector: Collector::start(Hierarchy::find()?, first_rules.clone(), period)?,
        report: Report::new(run.clone(), Duration::from_secs(config.steps_seconds)),
        outbox: &outbox,
        changed: &changed,
        newest_rules: &newest_rules,
        looks: node::Looks::begin(),
        labels: &labels,
        asked,
        waiting: Vec::new(),
        looked_at: 0,
    };
    watch.collector.open(Opened {
        arguments: config.export_args,
        files_depth: config.files_depth,
    });
    tracing::info!(
        node = %run.node,
        interval_seconds = config.interval_seconds,
        pass_seconds = period.as_secs_f64(),
        "the probe watches"
    );
    let send = async {
        let now = || node::sent(&run.boot);
        Ok(push::run(&outbox, &changed, sink.as_ref(), now).await?)
    };
    let manager = Manager::find();
    manager.ready();
    let stop = async {
        stop.await;
        manager.stopping();
    };
    tokio::select! {
        done = async { tokio::try_join!(watch.run(passes, period, stop), send) } => done.map(|_| ()),
        () = watch_rules(&rules, first_rules, &newest_rules) => Ok(()),
        () = keep_alive(&manager) => Ok(()),
        () = labels.serve(ask) => Ok(()),
    }
}

/// On the thread that does everything: when that hangs, the manager hears no more.
async fn keep_alive(manager: &Manager) {
    match manager.watchdog {
        Some(period) => loop {
            manager.alive();
            tokio::time::sleep(period).await;
        },
        None => std::future::pending().await,
    }
}

/// Two probes on one spool would send and remove each other's records.
fn lock(config: &Config) -> anyhow::Result<File> {
    let folder = &config.spool_dir;
    let path = folder.join("lock");
    let file = fs::create_dir_all(folder)
        .and_then(|()| File::create(&path))
        .with_context(|| format!("{} cannot be made; set spool_dir", path.display()))?;
    file.try_lock()
        .with_context(|| format!("another probe uses {}", folder.display()))?;
    Ok(file)
}

/// Half of the spool is heartbeats', half is finished steps'.
fn open_outbox(config: &Config, run: &report::Run, sender: String) -> anyhow::Result<Outbox> {
    let open = |name: &str| {
        let folder = config.spool_dir.join(name);
        Spool::open(folder, Bytes(config.spool_max_bytes / 2))
            .context("nothing can be kept; make the folder writable, or set spool_dir")
    };
    let outbox = Outbox::new(
        open("heartbeats")?,
        open("steps")?,
        run.node.clone(),
        sender,
    );
    if outbox.held() > Bytes(0) {
        tracing::info!(waiting = %outbox.held(), "an earlier run left records in the spool");
    }
    Ok(outbox)
}

/// The rules to begin with. A file that is named must be there; a bucket may be
/// out of reach for a while.
pub async fn first_rules(source: &Source) -> anyhow::Result<Rules> {
    match source.read().await {
        Ok(Some(rules)) => Ok(rules),
        Ok(None) => {
            tracing::info!("there are no rules of your own; the built-in ones hold");
            Ok(Rules::built_in())
        }
        Err(error) if matches!(source, Source::File(_)) => Err(error.into()),
        Err(error) => {
            tracing::warn!(error = %chain(&error), "the built-in rules hold meanwhile");
            Ok(Rules::built_in())
        }
    }
}

/// Offers rules that changed. Ones that are refused are said once, with their line,
/// and the last good ones hold.
async fn watch_rules(source: &Source, mut current: Rules, newest: &RefCell<Option<Rules>>) {
    let mut refused = None;
    loop {
        tokio::time::sleep(source.period()).await;
        match source.read().await {
            Ok(read) => {
                refused = None;
                let rules = read.unwrap_or_else(Rules::built_in);
                if rules != current {
                    tracing::info!("the rules changed; they hold for what starts from now on");
                    current = rules.clone();
                    newest.replace(Some(rules));
                }
            }
            Err(error) => {
                let words = chain(&error);
                if refused.as_ref() != Some(&words) {
                    tracing::warn!(error = %words, "the rules stay as they are");
                    refused = Some(words);
                }
            }
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

/// The side that looks; the other one sends.
struct Watch<'a> {
    collector: Collector,
    report: Report,
    outbox: &'a RefCell<Outbox>,
    changed: &'a Notify,
    newest_rules: &'a RefCell<Option<Rules>>,
    looks: node::Looks,
    labels: &'a label::Socket,
    asked: mpsc::Receiver<label::Request>,
    /// Requests of processes that no pass has shown yet, and the passes that they waited.
    waiting: Vec<(label::Request, u8)>,
    /// Requests looked at since the last pass.
    looked_at: u32,
}

/// What ends a wait for the next pass.
enum Woken {
    Stopped,
    Ticked(io::Result<()>),
    Asked(label::Request),
}

impl Watch<'_> {
    async fn run(
        &mut self,
        passes: u32,
        period: Duration,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let ticks = Ticks::every(period).context("there is no timer to pass by")?;
        tokio::pin!(stop);
        'watching: loop {
            for pass in 1..=passes {
                loop {
                    let woken = async {
                        tokio::select! {
                            () = &mut stop => Woken::Stopped,
                            ticked = ticks.next() => Woken::Ticked(ticked),
                            Some(request) = self.asked.recv() => Woken::Asked(request),
                        }
                    };
                    match self.collector.drain_until(woken).await? {
                        Woken::Stopped => break 'watching,
                        Woken::Ticked(ticked) => break ticked?,
                        Woken::Asked(request) => self.label(request, 0),
                    }
                }
                // An interval ends with one.
                self.pass(pass < passes);
            }
            self.close(Urgency::CanWait)?;
        }
        tracing::info!("told to stop; sending the last");
        self.pass(false);
        self.report
            .finish(self.collector.last_ended(), node::clock());
        self.close(Urgency::Now)?;
        while let Some(batch) = self.report.batch() {
            self.keep(|outbox| outbox.add_steps(&batch));
        }
        self.outbox.borrow_mut().close();
        self.changed.notify_waiters();
        Ok(())
    }

    /// A pass that fails is one that did not see anything, as coverage will say. Who waits
    /// for one to show who asks must not wait for long.
    fn pass(&mut self, unless_quiet: bool) {
        if let Some(rules) = self.newest_rules.take() {
            self.collector.set_rules(rules);
        }
        let now = node::clock();
        let took = match unless_quiet && self.waiting.is_empty() {
            true => self.collector.pass_unless_quiet(),
            false => self.collector.pass(),
        };
        match took {
            Ok(ended) => self.report.finish(ended, now),
            Err(error) => tracing::warn!(error = %chain(&error), "a pass failed"),
        }
        self.looked_at = 0;
        for (request, passes) in std::mem::take(&mut self.waiting) {
            self.label(request, passes + 1);
        }
        if let Some(batch) = self.report.due_batch(now) {
            self.keep(|outbox| outbox.add_steps(&batch));
        }
    }

    /// Answers a request, or lets it wait for a pass to show who asks.
    fn label(&mut self, request: label::Request, passes: u8) {
        self.looked_at += 1;
        if self.looked_at > MAX_LOOKED_AT {
            return request.answer(Err(Refusal::Busy));
        }
        match self.collector.label(request.pid, &request.handed) {
            Err(Refusal::Unknown) if passes < 2 => self.waiting.push((request, passes)),
            said => request.answer(said),
        }
    }

    fn close(&mut self, at_least: Urgency) -> anyhow::Result<()> {
        let (mut interval, events_lost) = self.collector.close()?;
        interval.detail.labels_refused = self.labels.refused();
        let (records_dropped, spool_depth) = {
            let outbox = self.outbox.borrow();
            (outbox.dropped(), outbox.held())
        };
        let mut machine = self.looks.now()?;
        machine.probe.events_lost = events_lost;
        machine.probe.records_dropped = records_dropped;
        machine.probe.spool_depth = spool_depth;
        let (heartbeat, urgency) = self.report.heartbeat(interval, machine);
        let urgency = if at_least == Urgency::Now {
            at_least
        } else {
            urgency
        };
        self.keep(|outbox| outbox.add_heartbeat(&heartbeat, urgency));
        Ok(())
    }

    /// A full disk must not end the probe; what it does not take is counted.
    fn keep(&self, add: impl FnOnce(&mut Outbox) -> Result<(), push::OutboxError>) {
        if let Err(error) = add(&mut self.outbox.borrow_mut()) {
            tracing::error!(error = %chain(&error), "a record is lost");
        }
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[rule]]\nname = \"ours\"\nprogram = [\"cron\"]\nclass = \"workload\"";

    /// The clock of this test runs only while it waits.
    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn edited_rules_are_offered_within_a_minute_and_refused_ones_never() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("rules.toml");
        let source = Source::File(file.clone());
        let newest = RefCell::new(None);
        let watching = watch_rules(&source, Rules::built_in(), &newest);
        tokio::pin!(watching);
        let mut check = async |text: &str, expect: Option<Rules>| {
            fs::write(&file, text).expect("written");
            let minute = tokio::time::timeout(Duration::from_secs(60), &mut watching);
            minute.await.expect_err("it watches on");
            assert_eq!(newest.take(), expect, "{text}");
        };
        let good = Rules::parse(GOOD).expect("valid").before(Rules::built_in());
        check(GOOD, Some(good.clone())).await;
        check("[[rule", None).await;
        check(GOOD, None).await;
        check("", Some(Rules::built_in())).await;
    }
}
