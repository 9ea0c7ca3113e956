//! One simulated week from its plan to its end.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_telemetry::shard::Shard;
use fastrand::Rng;
use jiff::Timestamp;

use crate::cloud::Cloud;
use crate::flaw::Flaw;
use crate::invariants::{self, Notifications, Promise, Violation};
use crate::plan::{Event, HOURS, Plan, SweepPlan};
use crate::ports::Fault;
use crate::probe::{Key, Probe, StepObject, at_hour};
use crate::sweeps::{self, Ended, Start};

/// Sweeps without a fault after the week until nothing waits.
const LAST_ROUNDS: usize = 12;

/// A message that the queue took and shows later.
struct Later {
    hour: u32,
    shard: Shard,
    sender: String,
    arrived: Timestamp,
    body: String,
}

/// A node, its probe and its plan.
struct Node {
    probe: Probe,
    /// By hour, whether it really worked; a machine that is down does not.
    worked: Vec<bool>,
    /// The number of shards that the probe knows of.
    shards: u16,
    /// The number that it will know of, and the hour from which it does.
    next_shards: Option<(u32, u16)>,
    offline_until: u32,
    down_until: u32,
    restarts_until: u32,
    slow_seconds: u64,
    answer_is_lost: bool,
    delay_hours: u32,
    repeat_hours: Option<u32>,
    upload_is_torn: bool,
    /// An object that was half written and is written again.
    torn: Option<StepObject>,
}

impl Node {
    fn new(number: u32, shards: u16) -> Self {
        Self {
            probe: Probe::new(number),
            worked: Vec::new(),
            shards,
            next_shards: None,
            offline_until: 0,
            down_until: 0,
            restarts_until: 0,
            slow_seconds: 0,
            answer_is_lost: false,
            delay_hours: 0,
            repeat_hours: None,
            upload_is_torn: false,
            torn: None,
        }
    }
}

/// Counts over many weeks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) weeks: u64,
    pub(crate) sweeps: u64,
    pub(crate) crashes: u64,
    pub(crate) failures: u64,
    pub(crate) heartbeats: u64,
    pub(crate) rows: u64,
    pub(crate) refused: u64,
    pub(crate) step_objects: u64,
    pub(crate) idle_findings: u64,
    pub(crate) notifications: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.weeks += other.weeks;
        self.sweeps += other.sweeps;
        self.crashes += other.crashes;
        self.failures += other.failures;
        self.heartbeats += other.heartbeats;
        self.rows += other.rows;
        self.refused += other.refused;
        self.step_objects += other.step_objects;
        self.idle_findings += other.idle_findings;
        self.notifications += other.notifications;
    }
}

pub(crate) struct Week {
    pub(crate) cloud: Cloud,
    nodes: Vec<Node>,
    later: Vec<Later>,
    /// Data that a queue or the bucket accepted.
    pub(crate) sent: BTreeSet<Key>,
    pub(crate) sent_steps: BTreeSet<Key>,
    notifications: Notifications,
    findings_version: usize,
    tally: Tally,
}

/// Runs a week.
///
/// # Errors
/// The first promise that was broken.
pub(crate) async fn run(plan: &Plan, flaw: Flaw) -> Result<Tally, Violation> {
    let mut week = Week::new(plan, flaw);
    let mut events = plan.events.iter().peekable();
    for hour in 0..HOURS {
        week.begin(hour);
        let mut sweeps = Vec::new();
        while let Some(timed) = events.next_if(|timed| timed.hour <= hour) {
            match &timed.event {
                Event::Sweeps(_) | Event::SweepsAtOnce { .. } => sweeps.push(&timed.event),
                other => week.happen(hour, other).await?,
            }
        }
        week.measure_and_send(hour, plan);
        for event in sweeps {
            week.sweep(event).await?;
        }
    }
    week.end().await
}

impl Week {
    fn new(plan: &Plan, flaw: Flaw) -> Self {
        let numbers = 0..u32::try_from(plan.works.len()).expect("a few");
        Self {
            cloud: Cloud::new(plan, flaw),
            nodes: numbers.map(|n| Node::new(n, plan.shards)).collect(),
            later: Vec::new(),
            sent: BTreeSet::new(),
            sent_steps: BTreeSet::new(),
            notifications: Notifications::default(),
            findings_version: 0,
            tally: Tally {
                weeks: 1,
                ..Tally::default()
            },
        }
    }

    /// Begins an hour: the messages that are due by now become visible.
    fn begin(&mut self, hour: u32) {
        self.cloud.clock.set(at_hour(hour + 1));
        let due: Vec<Later> = self
            .later
            .extract_if(.., |later| later.hour <= hour)
            .collect();
        for later in due {
            let queue = &self.cloud.queues[usize::from(later.shard.index)];
            queue.arrive(Some(&later.sender), Some(later.arrived), &later.body);
        }
        for node in &mut self.nodes {
            if let Some((_, of)) = node.next_shards.filter(|(from, _)| *from <= hour) {
                node.shards = of;
                node.next_shards = None;
            }
            if let Some(object) = node.torn.take() {
                self.cloud.objects.insert(object.path, object.bytes);
            }
        }
    }

    async fn happen(&mut self, hour: u32, event: &Event) -> Result<(), Violation> {
        if let Event::Reshard {
            of,
            known_after_hours,
        } = event
        {
            return self.reshard(*of, hour + known_after_hours).await;
        }
        let number = match event {
            Event::ProbeRestarts { node, .. }
            | Event::Reboot { node, .. }
            | Event::Offline { node, .. }
            | Event::ClockJump { node, .. }
            | Event::SlowNetwork { node, .. }
            | Event::LostAnswer { node }
            | Event::QueueDelay { node, .. }
            | Event::QueueRepeat { node, .. }
            | Event::TornUpload { node }
            | Event::Garbage { node } => *node,
            Event::Sweeps(_) | Event::SweepsAtOnce { .. } | Event::Reshard { .. } => return Ok(()),
        };
        let Some(node) = self.nodes.get_mut(number as usize) else {
            return Ok(());
        };
        match event {
            Event::ProbeRestarts { hours, .. } => node.restarts_until = hour + hours,
            Event::Reboot { down_hours, .. } => {
                node.down_until = hour + down_hours;
                node.probe.reboot(at_hour(hour + down_hours));
            }
            Event::Offline { hours, .. } => node.offline_until = hour + hours,
            Event::ClockJump { seconds, .. } => node.probe.jump(*seconds),
            Event::SlowNetwork { seconds, .. } => node.slow_seconds = *seconds,
            Event::LostAnswer { .. } => node.answer_is_lost = true,
            Event::QueueDelay { hours, .. } => node.delay_hours = *hours,
            Event::QueueRepeat { hours, .. } => node.repeat_hours = Some(*hours),
            Event::TornUpload { .. } => node.upload_is_torn = true,
            _ => {
                let sender = node.probe.sender();
                let at = self.cloud.clock.now();
                self.cloud.queues[0].arrive(Some(&sender), Some(at), "no heartbeat");
            }
        }
        Ok(())
    }

    /// An operator drains the queues that go before their number is reduced.
    async fn reshard(&mut self, of: u16, known_from: u32) -> Result<(), Violation> {
        if of < self.cloud.shards() {
            for later in &mut self.later {
                later.hour = 0;
            }
            self.begin_now();
            self.drain().await?;
        }
        self.cloud.set_shards(of);
        for node in &mut self.nodes {
            node.next_shards = Some((known_from, of));
        }
        Ok(())
    }

    /// Makes all delayed messages visible at once.
    fn begin_now(&mut self) {
        for later in std::mem::take(&mut self.later) {
            let queue = &self.cloud.queues[usize::from(later.shard.index)];
            queue.arrive(Some(&later.sender), Some(later.arrived), &later.body);
        }
    }

    fn measure_and_send(&mut self, hour: u32, plan: &Plan) {
        for (number, works) in plan.works.iter().enumerate() {
            let node = &mut self.nodes[number];
            let is_up = hour >= node.down_until;
            let works = is_up && works[hour as usize];
            node.worked.push(works);
            if !is_up {
                continue;
            }
            let restarts = hour < node.restarts_until;
            // Only the interval before the last restart is lost.
            let is_lost = restarts && hour + 1 == node.restarts_until;
            if !is_lost {
                node.probe.measure(hour, works);
            }
            if restarts {
                node.probe.restart();
            }
            if hour >= node.offline_until && (hour + number as u32).is_multiple_of(2) {
                self.send(number, hour);
            }
        }
    }

    fn send(&mut self, number: usize, hour: u32) {
        let (cloud, node) = (&self.cloud, &mut self.nodes[number]);
        let at = cloud.clock.now();
        let arrived = at
            .saturating_add(Duration::from_secs(std::mem::take(&mut node.slow_seconds)))
            .expect("a time");
        let shard = Shard::of_node(&node.probe.node, node.shards);
        let sender = node.probe.sender();
        let delay = std::mem::take(&mut node.delay_hours);
        let mut repeat = node.repeat_hours.take();
        let repeat_steps = repeat;
        let has_queue = shard.index < cloud.shards();
        while let Some((keys, body)) = node.probe.message(at).filter(|_| has_queue) {
            let later = |hours: u32| Later {
                hour: hour + hours,
                shard,
                sender: sender.clone(),
                arrived,
                body: body.clone(),
            };
            match delay {
                0 => cloud
                    .queue(shard)
                    .arrive(Some(&sender), Some(arrived), &body),
                hours => self.later.push(later(hours)),
            }
            self.later.extend(repeat.take().map(later));
            let count = keys.len();
            self.sent.extend(keys);
            if std::mem::take(&mut node.answer_is_lost) {
                break;
            }
            node.probe.acknowledged(count);
        }
        let Some(object) = node.probe.step_object(at) else {
            return;
        };
        self.sent_steps.insert(object.key.clone());
        // Every second batch is a message, which the queue delays and repeats.
        if object.key.sequence % 2 == 1 && has_queue {
            let later = |hours: u32| Later {
                hour: hour + hours,
                shard,
                sender: sender.clone(),
                arrived,
                body: object.message.clone(),
            };
            match delay {
                0 => cloud
                    .queue(shard)
                    .arrive(Some(&sender), Some(arrived), &object.message),
                hours => self.later.push(later(hours)),
            }
            self.later.extend(repeat_steps.map(later));
        } else if std::mem::take(&mut node.upload_is_torn) {
            let half = object.bytes[..object.bytes.len() / 2].to_vec();
            cloud.objects.insert(object.path.clone(), half);
            node.torn = Some(object);
        } else {
            cloud.objects.insert(object.path, object.bytes);
        }
    }

    async fn sweep(&mut self, event: &Event) -> Result<(), Violation> {
        self.cloud.clock.advance(Duration::from_secs(300));
        self.cloud.make_visible();
        let start = |plan: &SweepPlan| Start {
            shard: self.cloud.shard(plan.shard),
            fault: plan.fault,
        };
        match event {
            Event::SweepsAtOnce {
                sweeps,
                seed,
                other_shards,
            } => {
                let mut starts: Vec<Start> = sweeps.iter().map(start).collect();
                if let Some(of) = other_shards {
                    for start in starts.iter_mut().step_by(2) {
                        let index = start.shard.index % of;
                        start.shard = Shard { index, of: *of };
                    }
                }
                let rng = Rng::with_seed(*seed);
                let before = self.notifications.begin(&self.cloud);
                let all = sweeps::run_at_once(&self.cloud, &starts, rng).await;
                let is_alone = all.len() == 1 && matches!(all[0], Ended::Clean);
                self.notifications.end(&self.cloud, before, is_alone)?;
                for ended in &all {
                    self.count(ended);
                }
                self.check_findings()
            }
            Event::Sweeps(sweeps) => {
                let starts: Vec<Start> = sweeps.iter().map(start).collect();
                for start in starts {
                    self.sweep_one(start).await?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn sweep_one(&mut self, start: Start) -> Result<Ended, Violation> {
        self.cloud.clock.advance(Duration::from_secs(60));
        let before = self.notifications.begin(&self.cloud);
        let ended = sweeps::run(&self.cloud, start).await;
        let is_clean = matches!(ended, Ended::Clean);
        self.notifications.end(&self.cloud, before, is_clean)?;
        self.count(&ended);
        self.check_findings()?;
        Ok(ended)
    }

    fn count(&mut self, ended: &Ended) {
        self.tally.sweeps += 1;
        match ended {
            Ended::Clean => {}
            Ended::Failed(_) => self.tally.failures += 1,
            Ended::Crashed => self.tally.crashes += 1,
        }
    }

    fn check_findings(&mut self) -> Result<(), Violation> {
        let (new, version) = self.cloud.lake.findings_from(self.findings_version);
        self.findings_version = version;
        for finding in new {
            let worked = |node: &str| {
                let found = self
                    .nodes
                    .iter()
                    .find(|one| one.probe.node.as_str() == node);
                found.map_or(&[][..], |one| one.worked.as_slice())
            };
            self.tally.idle_findings += invariants::check_idle(&finding, worked)?;
        }
        Ok(())
    }

    /// Sweeps without a fault until nothing waits.
    async fn drain(&mut self) -> Result<(), Violation> {
        for round in 0..LAST_ROUNDS {
            self.cloud.make_visible();
            let mut shards: Vec<Shard> = self.cloud.all_shards().collect();
            shards.reverse();
            for shard in shards {
                let fault = Fault::None;
                if let Ended::Failed(why) = self.sweep_one(Start { shard, fault }).await? {
                    return Err(Promise::Ends.broken(why));
                }
            }
            // The next sweep of the other shard processes rows that this shard committed for it.
            if self.cloud.waiting() == 0 && round > 0 {
                return Ok(());
            }
        }
        let waiting = self.cloud.waiting();
        Err(Promise::Ends.broken(format!("{waiting} arrivals are never taken in")))
    }

    async fn end(mut self) -> Result<Tally, Violation> {
        self.cloud.clock.set(at_hour(HOURS + 1));
        let of = self.cloud.shards();
        for number in 0..self.nodes.len() {
            let node = &mut self.nodes[number];
            (node.shards, node.next_shards) = (of, None);
            node.answer_is_lost = false;
            self.send(number, HOURS);
            if let Some(object) = self.nodes[number].torn.take() {
                self.cloud.objects.insert(object.path, object.bytes);
            }
        }
        self.begin_now_in_range(of);
        self.drain().await?;
        let refused = invariants::check_rows(&self)?;
        invariants::check_state(&self.cloud).await?;
        self.tally.heartbeats = self.sent.len() as u64;
        self.tally.rows = self.cloud.lake.heartbeats().len() as u64;
        self.tally.refused = refused;
        self.tally.step_objects = self.sent_steps.len() as u64;
        self.tally.notifications = self.notifications.count();
        Ok(self.tally)
    }

    /// As [`Week::begin_now`]; a queue that is gone was drained before.
    fn begin_now_in_range(&mut self, of: u16) {
        self.later.retain(|later| later.shard.index < of);
        self.begin_now();
    }
}
