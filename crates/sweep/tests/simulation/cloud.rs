//! The simulated account: queues, bucket, lake and channels.

use std::collections::BTreeMap;

use ebb_cloud::fake::{FakeClock, FakeEvents, FakeInventory, FakeObjects, FakeQueue, FakeTopic};
use ebb_ingest::fold::folder::Limits;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_model::policy::Policy;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::shard::Shard;

use crate::flaw::Flaw;
use crate::lake::{MemoryLake, Numbers};
use crate::plan::Plan;
use crate::probe::{at_hour, node_name};

/// A node sends every second hour, so it is evaluated after twice that time.
const IDLE_AFTER_SECONDS: u64 = 4 * 3600;

pub(crate) struct Cloud {
    pub(crate) clock: FakeClock,
    /// One queue for each shard.
    pub(crate) queues: Vec<FakeQueue>,
    pub(crate) dead_letters: FakeQueue,
    pub(crate) objects: FakeObjects,
    pub(crate) inventory: FakeInventory,
    pub(crate) topic: FakeTopic,
    pub(crate) events: FakeEvents,
    pub(crate) lake: MemoryLake,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    pub(crate) flaw: Flaw,
}

impl Cloud {
    pub(crate) fn new(plan: &Plan, flaw: Flaw) -> Self {
        let clock = FakeClock::at(at_hour(0));
        let numbers = match flaw {
            Flaw::IgnoreBatchNumbers => Numbers::Ignored,
            Flaw::IgnoreOtherShards => Numbers::OtherShardsIgnored,
            _ => Numbers::Checked,
        };
        let mut policy = Policy::default();
        policy.idle.after_seconds = IDLE_AFTER_SECONDS;
        if flaw == Flaw::IgnoreCoverage {
            policy.idle.min_coverage_ppm = 1;
        }
        let mut cloud = Self {
            queues: Vec::new(),
            dead_letters: FakeQueue::new(clock.clone()),
            objects: FakeObjects::new(clock.clone()),
            inventory: FakeInventory::new(inventory(plan.works.len())),
            topic: FakeTopic::default(),
            events: FakeEvents::default(),
            lake: MemoryLake::new(plan.lake_rows, numbers),
            policy,
            limits: Limits {
                messages: plan.batch_messages,
                objects: 2,
                ..Limits::default()
            },
            flaw,
            clock,
        };
        cloud.set_shards(plan.shards);
        cloud
    }

    pub(crate) fn shards(&self) -> u16 {
        u16::try_from(self.queues.len()).expect("a few")
    }

    pub(crate) fn shard(&self, index: u16) -> Shard {
        let of = self.shards();
        Shard {
            index: index % of,
            of,
        }
    }

    pub(crate) fn all_shards(&self) -> impl Iterator<Item = Shard> + use<> {
        self.shard(0).all()
    }

    pub(crate) fn set_shards(&mut self, of: u16) {
        let clock = self.clock.clone();
        self.queues
            .resize_with(of.into(), || FakeQueue::new(clock.clone()));
    }

    /// The queue of a shard, which may belong to another number of shards.
    pub(crate) fn queue(&self, shard: Shard) -> &FakeQueue {
        &self.queues[usize::from(shard.index) % self.queues.len()]
    }

    pub(crate) fn make_visible(&self) {
        self.queues.iter().for_each(FakeQueue::make_visible);
    }

    /// The number of waiting messages and objects.
    pub(crate) fn waiting(&self) -> usize {
        let keys = self.objects.keys();
        let objects = keys.iter().filter(|key| key.starts_with("ingest/"));
        let messages: usize = self.queues.iter().map(|queue| queue.messages().len()).sum();
        objects.count() + messages
    }
}

fn inventory(nodes: usize) -> BTreeMap<Region, Inventory> {
    let region = Region::new("eu-central-1").expect("a region");
    let mut inventory = Inventory::default();
    for number in 0..nodes {
        let node = node_name(u32::try_from(number).expect("a few"));
        let kind = InstanceType::new("m5.xlarge").expect("a type");
        let running = InstanceState::Running;
        let instance = Instance::new(
            node.clone(),
            region.clone(),
            kind,
            running,
            Market::OnDemand,
        );
        inventory.instances.insert(node, instance);
    }
    BTreeMap::from([(region, inventory)])
}
