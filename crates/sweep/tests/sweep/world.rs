//! A deployment in memory with its lake in a folder.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_cloud::failing::{Failing, Fault};
use ebb_cloud::fake::{
    FakeBill, FakeChat, FakeClock, FakeEvents, FakeHooks, FakeInventory, FakeMailer, FakeMarkets,
    FakeMetrics, FakeObjects, FakePrices, FakeQueue, FakeTopic,
};
use ebb_cloud::ports::{BillSource, MarketSource, PriceSource};
use ebb_ingest::deadline::Deadline;
use ebb_ingest::fold::folder::Limits;
use ebb_lake::{Commits, Lake};
use ebb_model::policy::Policy;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_notify::digest::{Addresses, Channels};
use ebb_sweep::collect::account::Account;
use ebb_sweep::publish::ReportCopies;
use ebb_sweep::run::{self, Config, Ports, Summary, SweepError};

use ebb_ingest::state_store::hourly_activity::Hours;
use ebb_telemetry::shard::Shard;
use jiff::Timestamp;
use tempfile::TempDir;

use crate::lake::TestLake;
use crate::sample::{self, Work};
use ebb_ingest::state_store;

pub(crate) struct World {
    pub(crate) clock: FakeClock,
    pub(crate) queue: FakeQueue,
    pub(crate) dead_letters: FakeQueue,
    pub(crate) objects: FakeObjects,
    pub(crate) inventory: FakeInventory,
    pub(crate) chat: FakeChat,
    pub(crate) topic: FakeTopic,
    pub(crate) events: FakeEvents,
    pub(crate) hooks: FakeHooks,
    pub(crate) policy: Policy,
    /// The variable `EBB_PAGES_URL`.
    pub(crate) pages_url: Option<&'static str>,
    /// The variable `EBB_INTERVAL_MINUTES`.
    pub(crate) interval_minutes: Option<&'static str>,
    pub(crate) limits: Limits,
    pub(crate) mailer: FakeMailer,
    /// `None` if no price source is configured.
    pub(crate) prices: Option<FakePrices>,
    pub(crate) metrics: FakeMetrics,
    /// `None` if no market source is configured.
    pub(crate) markets: Option<FakeMarkets>,
    /// `None` if no bill can be read.
    pub(crate) bill: Option<FakeBill>,
    folder: TempDir,
}

impl World {
    /// Nothing has arrived yet; nodes 1 and 2 run.
    pub(crate) fn new() -> Self {
        let clock = FakeClock::at(Timestamp::from_second(1_795_000_000).expect("a time"));
        Self {
            queue: FakeQueue::new(clock.clone()),
            dead_letters: FakeQueue::new(clock.clone()),
            objects: FakeObjects::new(clock.clone()),
            inventory: FakeInventory::new(sample::inventory(&[1, 2])),
            chat: FakeChat::default(),
            topic: FakeTopic::default(),
            events: FakeEvents::default(),
            hooks: FakeHooks::default(),
            policy: policy(),
            pages_url: None,
            interval_minutes: None,
            // Small batches, so that a sweep takes several.
            limits: Limits {
                messages: 3,
                objects: 2,
                ..Limits::default()
            },
            mailer: FakeMailer::default(),
            prices: None,
            metrics: FakeMetrics::default(),
            markets: None,
            bill: None,
            folder: tempfile::tempdir().expect("a folder"),
            clock,
        }
    }

    /// Adds a message of a node to the queue.
    pub(crate) fn send(&self, number: u32, body: &str) {
        let sender = sample::sender(number);
        self.queue
            .arrive(Some(&sender), Some(self.clock.now()), body);
    }

    /// Six idle minutes of node 1, six busy minutes of node 2, and two objects.
    pub(crate) fn fill(&self) {
        for part in [0..3, 3..6] {
            self.clock.advance(Duration::from_secs(180));
            self.send(1, &sample::message(1, part.clone(), Work::Idle));
            self.send(2, &sample::message(2, part, Work::Busy));
        }
        for sequence in [0, 1] {
            let (key, bytes) = sample::object(2, sequence);
            self.objects.insert(key, bytes);
        }
    }

    pub(crate) async fn sweep(&self, fault: &Fault) -> Result<Summary, SweepError> {
        self.sweep_over(&TestLake::new(self.lake().await, fault, None), fault)
            .await
    }

    pub(crate) async fn sweep_over(
        &self,
        lake: &TestLake<'_>,
        fault: &Fault,
    ) -> Result<Summary, SweepError> {
        self.sweep_shard(lake, (Shard::ONLY, &self.queue), fault)
            .await
    }

    /// Runs the sweep of one shard with its own queue.
    pub(crate) async fn sweep_shard(
        &self,
        lake: &TestLake<'_>,
        (shard, queue): (Shard, &FakeQueue),
        fault: &Fault,
    ) -> Result<Summary, SweepError> {
        let objects = Failing::new(self.objects.clone(), fault);
        let chat = Failing::new(self.chat.clone(), fault);
        let mailer = Failing::new(self.mailer.clone(), fault);
        let topic = Failing::new(self.topic.clone(), fault);
        let events = Failing::new(self.events.clone(), fault);
        let hooks = Failing::new(self.hooks.clone(), fault);
        let addresses = Addresses {
            from: "ebb@example.com".to_owned(),
            to: vec!["team@example.com".to_owned()],
        };
        let ports = Ports {
            account: Account {
                inventory: &Failing::new(self.inventory.clone(), fault),
                metrics: Some(&Failing::new(self.metrics.clone(), fault)),
                bill: self.bill.as_ref().map(|bill| bill as &dyn BillSource),
                markets: (self.markets.as_ref()).map(|market| market as &dyn MarketSource),
                prices: self.prices.as_ref().map(|list| list as &dyn PriceSource),
                regions: &[],
            },
            queue: &Failing::new(queue.clone(), fault),
            dead_letters: &Failing::new(self.dead_letters.clone(), fault),
            objects: &objects,
            event_log: lake,
            channels: Channels {
                chat: Some(&chat),
                mail: Some((&mailer, &addresses)),
                topic: Some(&topic),
                webhook: Some(&events),
                hooks: Some(&hooks),
            },
        };
        let now = || self.clock.now();
        let end = now()
            .saturating_add(Duration::from_secs(300))
            .expect("a time");
        let deadline = Deadline::within(now(), end);
        let mut config = Config {
            policy: self.policy.clone(),
            shard,
            limits: self.limits,
            interval: None,
            copies: ReportCopies::DatedAndLatest,
            gaps: Vec::new(),
        };
        config.set_pages_url(self.pages_url);
        config.set_interval(self.interval_minutes);
        run::sweep(&ports, &config, &deadline, &now).await
    }

    pub(crate) async fn lake(&self) -> Lake {
        let url = format!("file://{}/lake", self.folder.path().display());
        Lake::open(&url).await.expect("a lake")
    }

    /// Heartbeats of the lake, each with its number of rows.
    pub(crate) async fn heartbeats(&self) -> BTreeMap<(String, u64), usize> {
        let since = self
            .lake()
            .await
            .heartbeats_since(Commits::after(None))
            .await;
        let mut counts = BTreeMap::new();
        for placed in since.expect("reads").rows {
            let key = (placed.node.to_string(), placed.heartbeat.sequence);
            *counts.entry(key).or_default() += 1;
        }
        counts
    }

    /// Finished tasks of the lake, each with its number of rows.
    pub(crate) async fn steps(&self) -> BTreeMap<(String, String), usize> {
        let since = self.lake().await.steps_since(Commits::after(None)).await;
        let mut counts = BTreeMap::new();
        for step in since.expect("reads").rows {
            let key = (step.node.to_string(), step.usage.id.key.clone());
            *counts.entry(key).or_default() += 1;
        }
        counts
    }

    /// Checks that the lake has all rows of [`World::fill`] once, that the state equals the folded
    /// lake, and that no message waits.
    pub(crate) async fn holds_all_once(&self, how: &str) {
        let heartbeats = self.heartbeats().await;
        assert_eq!(heartbeats.len(), 12, "{how}: {heartbeats:?}");
        assert!(
            heartbeats.values().all(|n| *n == 1),
            "{how}: {heartbeats:?}"
        );
        let steps = self.steps().await;
        assert_eq!(steps.len(), 4, "{how}: {steps:?}");
        assert!(steps.values().all(|n| *n == 1), "{how}: {steps:?}");
        let folded = (self.state().await, self.hours().await);
        assert_eq!(folded, self.folded_from_lake().await, "{how}");
        assert!(self.queue.messages().is_empty(), "{how}: messages wait");
        let keys = self.objects.keys();
        let waiting = keys.iter().filter(|key| key.starts_with("ingest/"));
        assert_eq!(waiting.count(), 0, "{how}: {keys:?}");
    }

    /// The state in the bucket.
    pub(crate) async fn state(&self) -> FleetState {
        let policy = self.policy.activity.clone();
        let loaded = state_store::load(&self.objects, Shard::ONLY, &policy).await;
        loaded.expect("the bucket answers").stored.fleet
    }

    /// The hourly activity in the bucket.
    pub(crate) async fn hours(&self) -> FleetHours {
        let policy = self.policy.activity.clone();
        let loaded = Hours::load(&self.objects, Shard::ONLY, &policy).await;
        loaded.expect("the bucket answers").fleet().clone()
    }

    pub(crate) async fn folded_from_lake(&self) -> (FleetState, FleetHours) {
        let (lake, policy) = (self.lake().await, self.policy.activity.clone());
        let (mut state, mut hours) = (FleetState::default(), FleetHours::default());
        for placed in lake
            .heartbeats_since(Commits::after(None))
            .await
            .expect("reads")
            .rows
        {
            state.fold_heartbeat(&placed, &policy);
            hours.fold_heartbeat(&placed, &policy);
        }
        for step in lake
            .steps_since(Commits::after(None))
            .await
            .expect("reads")
            .rows
        {
            state.fold_step(&step);
        }
        (state, hours)
    }
}

fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.idle.after_seconds = 300;
    policy
}
