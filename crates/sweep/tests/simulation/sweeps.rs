//! Runs sweeps, one alone or several at once. Of several, the seed chooses which goes on at
//! each call of a port.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ebb_ingest::deadline::Deadline;
use ebb_notify::digest::Channels;
use ebb_sweep::collect::account::Account;
use ebb_sweep::publish::ReportCopies;
use ebb_sweep::run::{self, Config, Ports, Summary, SweepError};
use ebb_telemetry::shard::Shard;
use fastrand::Rng;

use crate::cloud::Cloud;
use crate::ports::{Control, Fault, Port};

/// How a sweep ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Nothing went wrong.
    Clean,
    /// A call or a channel failed.
    Failed(String),
    Crashed,
}

/// A sweep that is to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) shard: Shard,
    pub(crate) fault: Fault,
}

async fn sweep(cloud: &Cloud, shard: Shard, control: Control) -> Result<Summary, SweepError> {
    fn port<T>(inner: T, control: &Control) -> Port<T> {
        let control = control.clone();
        Port { inner, control }
    }
    let control = &control;
    let topic = port(cloud.topic.clone(), control);
    let events = port(cloud.events.clone(), control);
    let ports = Ports {
        account: Account {
            inventory: &port(cloud.inventory.clone(), control),
            metrics: None,
            bill: None,
            markets: None,
            prices: None,
            regions: &[],
        },
        queue: &port(cloud.queue(shard).clone(), control),
        dead_letters: &port(cloud.dead_letters.clone(), control),
        objects: &port(cloud.objects.clone(), control),
        event_log: &port(cloud.lake.clone(), control),
        channels: Channels {
            topic: Some(&topic),
            webhook: Some(&events),
            ..Channels::default()
        },
    };
    let now = || cloud.clock.now();
    let end = now()
        .saturating_add(Duration::from_secs(300))
        .expect("a time");
    let config = Config {
        policy: cloud.policy.clone(),
        shard,
        limits: cloud.limits,
        interval: None,
        copies: ReportCopies::DatedAndLatest,
        gaps: Vec::new(),
    };
    run::sweep(&ports, &config, &Deadline::within(now(), end), &now).await
}

/// A sweep that has not ended.
type Work<'a> = Pin<Box<dyn Future<Output = Result<Summary, SweepError>> + 'a>>;

/// A sweep that runs, or how it ended.
struct Running<'a> {
    control: Control,
    work: Option<Work<'a>>,
    ended: Option<Ended>,
}

/// Whether a sweep can go on at once.
enum Step {
    Ready,
    Sleeps,
    Ended,
}

impl Running<'_> {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let Some(work) = &mut self.work else {
            return Step::Ended;
        };
        let ended = match work.as_mut().poll(context) {
            Poll::Ready(Ok(summary)) if summary.failures.is_empty() => Ended::Clean,
            Poll::Ready(Ok(summary)) => Ended::Failed(format!("{:?}", summary.failures)),
            Poll::Ready(Err(error)) => Ended::Failed(format!("{error:?}")),
            Poll::Pending if self.control.has_crashed() => Ended::Crashed,
            Poll::Pending if self.control.take_yield() => return Step::Ready,
            Poll::Pending => return Step::Sleeps,
        };
        self.ended = Some(ended);
        self.work = None;
        Step::Ended
    }
}

/// Runs sweeps at once to their ends.
pub(crate) async fn run_at_once(cloud: &Cloud, starts: &[Start], mut rng: Rng) -> Vec<Ended> {
    let mut all: Vec<Running<'_>> = starts
        .iter()
        .map(|start| {
            let control = Control::new(start.fault, cloud.flaw);
            let work = Box::pin(sweep(cloud, start.shard, control.clone()));
            Running {
                control,
                work: Some(work),
                ended: None,
            }
        })
        .collect();
    let mut ready: Vec<usize> = (0..all.len()).collect();
    poll_fn(|context| {
        let mut sleeping = Vec::new();
        while !ready.is_empty() {
            let chosen = rng.usize(0..ready.len());
            // The visibility timeout may end while several sweep.
            if starts.len() > 1 && rng.u32(0..8) == 0 {
                cloud.make_visible();
            }
            match all[ready[chosen]].step(context) {
                Step::Ready => {}
                Step::Sleeps => sleeping.push(ready.swap_remove(chosen)),
                Step::Ended => drop(ready.swap_remove(chosen)),
            }
        }
        ready = sleeping;
        match ready.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    all.into_iter().filter_map(|one| one.ended).collect()
}

/// Runs one sweep to its end.
pub(crate) async fn run(cloud: &Cloud, start: Start) -> Ended {
    let mut ended = run_at_once(cloud, &[start], Rng::with_seed(0)).await;
    ended.pop().expect("a sweep ends")
}
