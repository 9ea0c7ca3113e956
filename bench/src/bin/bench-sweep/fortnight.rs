//! The hourly activity of the two weeks before the measured minutes.

use ebb_cloud::fake::{FakeClock, FakeObjects};
use ebb_ingest::state_store::hourly_activity::Hours;
use ebb_node_state::hourly_activity::{KEPT_HOURS, NodeHours};
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::time::BootClock;
use futures::executor::block_on;

use crate::fleet::{self, MINUTE_NS};

/// The number of different histories. More nodes share them, which changes neither the time nor the
/// memory.
pub(crate) const HISTORIES: u32 = 200;

/// The hours of one node with a heartbeat every five minutes. It works by day, and some nodes also
/// by night.
pub(crate) fn hours(number: u32) -> NodeHours {
    let policy = fleet::policy().activity;
    let mut hours = NodeHours::default();
    for back in (1..=KEPT_HOURS as u64 * 12).rev() {
        let mut heartbeat = fleet::heartbeat(number, 1 + back % 40);
        let hour_of_day = back / 12 % 24;
        if hour_of_day > 9 && !number.is_multiple_of(3) {
            heartbeat.workload = fleet::heartbeat(99, 1).workload;
        }
        heartbeat.start = BootClock::from_nanos(heartbeat.end.as_nanos() - MINUTE_NS);
        let ago = std::time::Duration::from_secs(back * 300);
        let end = fleet::at(0).checked_sub(ago).expect("a time");
        let node = heartbeat.node.clone();
        let placed = Placed {
            node,
            end,
            heartbeat,
        };
        hours.fold(&placed, &policy);
    }
    hours
}

/// A bucket with the hours of this number of nodes.
pub(crate) fn bucket(nodes: u32) -> FakeObjects {
    let histories: Vec<NodeHours> = (0..nodes.min(HISTORIES)).map(hours).collect();
    let bucket = FakeObjects::new(FakeClock::at(fleet::at(0)));
    let loaded = block_on(Hours::load(&bucket, Shard::ONLY, &fleet::policy().activity));
    let mut all = loaded.expect("it answers");
    let known = all.folding(Some(0));
    for number in 0..nodes {
        let history = &histories[(number % HISTORIES) as usize];
        known.nodes.insert(fleet::node(number), history.clone());
    }
    block_on(all.keep(&bucket, Shard::ONLY)).expect("it fits");
    bucket
}
