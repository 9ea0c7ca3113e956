//! Several sweeps that divide the nodes. Together they give the same result as one, even if a sweep
//! dies or the number of shards changes.

use std::time::Duration;

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::failing::{Fault, Moment, Then};
use ebb_cloud::fake::FakeQueue;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;

use ebb_ingest::state_store::hourly_activity::Hours;
use ebb_telemetry::shard::Shard;
use futures::{StreamExt, stream};

use crate::crash::{chosen, is_chosen};
use crate::lake::TestLake;
use crate::sample::{self, Work};
use crate::world::World;
use ebb_ingest::state_store;

const NODES: std::ops::RangeInclusive<u32> = 1..=6;

/// Six nodes, one queue for each shard, and the sent messages.
struct Shards {
    world: World,
    queues: Vec<FakeQueue>,
}

impl Shards {
    fn new(of: u16) -> Self {
        let mut world = World::new();
        let nodes: Vec<u32> = NODES.collect();
        world.inventory = ebb_cloud::fake::FakeInventory::new(sample::inventory(&nodes));
        let queues = (0..of).map(|_| FakeQueue::new(world.clock.clone()));
        let queues = queues.collect();
        Self { world, queues }
    }

    fn count(&self) -> u16 {
        u16::try_from(self.queues.len()).expect("a few")
    }

    /// Three minutes of every node, sent for this number of shards. Finished tasks of one node are an
    /// object, and those of another are a message.
    fn fill(&self, part: u64, as_of: u16) {
        self.world.clock.advance(Duration::from_secs(180));
        for number in NODES {
            let work = if number == 2 { Work::Busy } else { Work::Idle };
            let body = sample::message(number, 3 * part..3 * part + 3, work);
            let shard = Shard::of_node(&sample::node(number), as_of);
            let at = Some(self.world.clock.now());
            let sender = sample::sender(number);
            self.queues[usize::from(shard.index)].arrive(Some(&sender), at, &body);
        }
        let (key, bytes) = sample::object(2, part);
        self.world.objects.insert(key, bytes);
        let shard = Shard::of_node(&sample::node(3), as_of);
        let (sender, at) = (sample::sender(3), Some(self.world.clock.now()));
        let body = sample::steps_message(3, part);
        self.queues[usize::from(shard.index)].arrive(Some(&sender), at, &body);
    }

    fn all(&self) -> impl Iterator<Item = Shard> {
        let of = self.count();
        Shard { index: 0, of }.all()
    }

    async fn sweep(&self, shard: Shard, fault: &Fault) -> bool {
        let lake = TestLake::new(self.world.lake().await, fault, None);
        let queue = &self.queues[usize::from(shard.index)];
        let swept = self.world.sweep_shard(&lake, (shard, queue), fault).await;
        swept.is_ok()
    }

    /// Runs the sweep of every shard; the shard that reports is last.
    async fn sweep_all(&self) {
        self.queues.iter().for_each(FakeQueue::make_visible);
        let mut all: Vec<Shard> = self.all().collect();
        all.reverse();
        for shard in all {
            assert!(self.sweep(shard, &Fault::never()).await, "{shard:?}");
        }
    }

    async fn report(&self) -> String {
        let report = self.world.objects.stored(LATEST_JSON);
        String::from_utf8(report.expect("it is written").bytes).expect("text")
    }

    /// The state of all shards; each stores only its own nodes.
    async fn remembered(&self) -> (FleetState, FleetHours) {
        let activity = &self.world.policy.activity;
        let mut together = (FleetState::default(), FleetHours::default());
        for shard in self.all() {
            let state = state_store::load(&self.world.objects, shard, activity).await;
            let fleet = state.expect("it answers").stored.fleet;
            assert!(fleet.nodes.keys().all(|node| shard.holds(node)));
            let hours = Hours::load(&self.world.objects, shard, activity).await;
            let hours = hours.expect("it answers").fleet().clone();
            together = (together.0.merge(fleet), together.1.merge(hours));
        }
        together
    }

    /// Checks that the lake has all rows of this number of parts once, and that the shards store
    /// the folded lake. A shard learns of rows that another shard committed in its next own sweep.
    async fn holds_all_once(&self, parts: usize, how: &str) {
        self.sweep_all().await;
        let heartbeats = self.world.heartbeats().await;
        assert_eq!(heartbeats.len(), 18 * parts, "{how}");
        assert!(
            heartbeats.values().all(|n| *n == 1),
            "{how}: {heartbeats:?}"
        );
        let steps = self.world.steps().await;
        assert_eq!(steps.len(), 4 * parts, "{how}: {steps:?}");
        assert!(steps.values().all(|n| *n == 1), "{how}: {steps:?}");
        assert_eq!(
            self.remembered().await,
            self.world.folded_from_lake().await,
            "{how}"
        );
        let waiting = self.queues.iter().map(|queue| queue.messages().len());
        assert_eq!(waiting.sum::<usize>(), 0, "{how}: messages wait");
    }
}

#[tokio::test]
async fn one_two_and_four_shards_publish_the_same_report() {
    let report = async |of: u16| {
        let shards = Shards::new(of);
        for part in [0, 1] {
            shards.fill(part, of);
            shards.sweep_all().await;
        }
        shards.holds_all_once(2, &format!("{of} shards")).await;
        shards.report().await
    };
    let one = report(1).await;
    assert!(one.contains("idle_node"), "{one}");
    assert_eq!(report(2).await, one);
    assert_eq!(report(4).await, one);
}

#[tokio::test]
async fn from_two_shards_to_four_nothing_is_lost_or_doubled_though_probes_hear_of_it_later() {
    let mut shards = Shards::new(2);
    shards.fill(0, 2);
    shards.sweep_all().await;
    shards.fill(1, 2);
    let clock = shards.world.clock.clone();
    shards
        .queues
        .extend([FakeQueue::new(clock.clone()), FakeQueue::new(clock)]);
    shards.sweep_all().await;
    shards
        .holds_all_once(2, "sent to the queues of before")
        .await;
    shards.fill(2, 4);
    shards.sweep_all().await;
    shards.holds_all_once(3, "sent to the new queues").await;
    let whole = Shards::new(1);
    for part in 0..3 {
        whole.fill(part, 1);
        whole.sweep_all().await;
    }
    assert_eq!(shards.remembered().await, whole.remembered().await);
}

#[tokio::test]
async fn for_other_shards_messages_their_state_is_read_once_a_sweep() {
    let shard = Shard { index: 0, of: 2 };
    let reads = async |parts: u64| {
        let shards = Shards::new(2);
        (0..parts).for_each(|part| shards.fill(part, 1));
        let whole = Fault::never();
        assert!(shards.sweep(shard, &whole).await);
        let calls = whole.calls();
        let of = |name: &str| calls.iter().filter(|call| **call == name).count();
        assert!(
            of("queue.receive") as u64 >= 2 * parts,
            "batches: {calls:?}"
        );
        of("objects.get")
    };
    let objects_a_part = usize::from(shard.holds(&sample::node(2)));
    assert_eq!(reads(4).await, reads(1).await + 3 * objects_a_part);
}

#[tokio::test]
async fn from_four_shards_back_to_one_their_states_are_joined() {
    let mut shards = Shards::new(4);
    shards.fill(0, 4);
    shards.sweep_all().await;
    shards.queues.truncate(1);
    shards.fill(1, 1);
    shards.sweep_all().await;
    shards.holds_all_once(2, "four to one").await;
}

#[tokio::test]
async fn a_shard_killed_at_any_call_loses_and_doubles_nothing() {
    // The nodes of the other shard are in its queue too, as after a change of the number of shards.
    let filled = || {
        let shards = Shards::new(2);
        shards.fill(0, 1);
        shards
    };
    // `make prove` kills the second shard too.
    for index in (0..2).filter(|index| is_chosen(usize::from(*index))) {
        let shard = Shard { index, of: 2 };
        let whole = Fault::never();
        assert!(filled().sweep(shard, &whole).await);
        let calls = whole.calls();
        let runs = chosen(&calls).into_iter().map(async |(n, operation)| {
            let how = format!("shard {index}, {operation}, call {n} of {}", calls.len());
            let shards = filled();
            let fault = Fault::at(n, Moment::After, Then::StaysDead);
            shards.sweep(shard, &fault).await;
            shards.sweep_all().await;
            shards.holds_all_once(1, &how).await;
        });
        stream::iter(runs).for_each_concurrent(16, |run| run).await;
    }
}
