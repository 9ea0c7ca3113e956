//! Nodes that have been gone for weeks. The state forgets them, and refuses and counts their later
//! data.

use std::time::Duration;

use ebb_cloud::failing::Fault;
use ebb_ingest::state_store::format::Stored;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::shard::Shard;
use ebb_telemetry::time::BootClock;
use jiff::Timestamp;

use crate::sample::{self, Work};
use crate::world::World;
use ebb_ingest::state_store;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The finalizer of SplitMix64: ids that compress as badly as real ones.
fn mixed(number: u64) -> u64 {
    let a = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

fn short_lived(number: u64, end: Timestamp) -> Placed {
    let id = |salt: u64| format!("{:016x}{:016x}", mixed(number ^ salt), mixed(number + salt));
    let node = NodeId::new(format!("i-0{:016x}", mixed(number))).expect("a name");
    let mut heartbeat = sample::heartbeat(1, 0, Work::Busy);
    heartbeat.node = node.clone();
    heartbeat.boot = BootId::new(id(1 << 40)).expect("a name");
    heartbeat.probe_start = ProbeStart::new(id(1 << 41)).expect("a name");
    heartbeat.start = BootClock::from_nanos(mixed(number) >> 16);
    heartbeat.end = BootClock::from_nanos(heartbeat.start.as_nanos() + 60_000_000_000);
    let mut step = sample::step("align", number);
    step.observed = heartbeat.end;
    heartbeat.steps = vec![step];
    Placed {
        node,
        end,
        heartbeat,
    }
}

#[test]
fn the_state_of_5000_new_nodes_a_day_over_60_days_fits_its_object() {
    let mut stored = Stored::empty(&ActivityPolicy::default());
    let mut now = Timestamp::from_second(1_795_000_000).expect("a time");
    let mut most = 0;
    for day in 0..60 {
        now += DAY;
        for n in 0..5_000 {
            let at = now - Duration::from_millis(mixed(n) % 80_000_000);
            let placed = short_lived(day << 20 | n, at);
            stored.fleet.fold_heartbeat(&placed, &stored.activity);
        }
        stored.fleet.forget();
        most = most.max(stored.fleet.nodes.len());
    }
    let held = stored.fleet.nodes.len();
    assert!(most <= 29 * 5_000, "{most}");
    let (bytes, left_out) = stored.pack().expect("it fits");
    assert_eq!((left_out, stored.fleet.nodes.len()), (0, held));
    assert!(bytes.len() < 48 << 20, "{} bytes", bytes.len());
}

#[tokio::test]
async fn a_node_that_is_gone_is_forgotten_and_the_lake_gives_the_same_state() {
    let world = World::new();
    let swept = async |expect: usize| {
        let swept = world.sweep(&Fault::never()).await;
        let summary = swept.expect("nothing fails it");
        assert_eq!(world.state().await.nodes.len(), expect, "{summary:?}");
        summary
    };
    world.fill();
    swept(2).await;
    world.clock.advance(10 * DAY);
    world.send(1, &sample::message(1, 6..7, Work::Busy));
    swept(2).await;
    world.clock.advance(20 * DAY);
    world.send(3, &sample::message(3, 0..1, Work::Busy));
    swept(2).await;
    let before = world.state().await;
    assert!(!before.nodes.contains_key(&sample::node(2)));
    world
        .objects
        .insert(state_store::key(Shard::ONLY), *b"garbage");
    let summary = swept(2).await;
    assert!(summary.folding.rebuilt_because.is_some());
    assert_eq!(world.state().await, before);
}

#[tokio::test]
async fn what_waited_until_its_week_was_closed_is_refused_and_counted() {
    let world = World::new();
    let early = world.clock.now();
    world.clock.advance(30 * DAY);
    world.fill();
    let sweep = async || {
        let swept = world.sweep(&Fault::never()).await;
        swept.expect("nothing fails it").folding
    };
    sweep().await;
    let (sender, body) = (sample::sender(3), sample::message(3, 0..1, Work::Idle));
    world.queue.arrive(Some(&sender), Some(early), &body);
    let folding = sweep().await;
    let refused: Vec<_> = folding.refused.into_iter().collect();
    assert_eq!(
        (folding.heartbeats, refused),
        (0, vec![("not_placed_in_time", 1)])
    );
    let dead = world.dead_letters.messages();
    assert!(dead[0].attributes["reason"].contains("at most 336 h"));
}
