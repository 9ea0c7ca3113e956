//! Sweeps that overlap by accident.

use std::time::Duration;

use ebb_cloud::failing::Fault;
use ebb_telemetry::identity::NodeId;

use crate::crash::is_chosen;
use crate::lake::TestLake;
use crate::sample::{self, Work};
use crate::world::World;

fn filled() -> World {
    let world = World::new();
    world.fill();
    world
}

#[tokio::test]
async fn another_sweep_at_any_call_of_the_lake_changes_nothing() {
    let world = filled();
    let counting = TestLake::new(world.lake().await, &Fault::never(), None);
    let swept = world.sweep_over(&counting, &Fault::never()).await;
    swept.expect("nothing fails it");
    for call in (0..counting.calls()).filter(|call| is_chosen(*call)) {
        let how = format!("another sweep before call {call}");
        let world = filled();
        // The other one gets the same messages: their visibility timeout has ended.
        let lake = TestLake::new(world.lake().await, &Fault::never(), Some((call, &world)));
        let swept = world.sweep_over(&lake, &Fault::never()).await;
        let summary = swept.unwrap_or_else(|error| panic!("{how}: {error:?}"));
        assert_eq!(summary.findings, 1, "{how}");
        assert!(lake.calls() > call, "{how}: never reached");
        world.holds_all_once(&how).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sweeps_at_once_take_each_heartbeat_once() {
    let world = filled();
    let never = Fault::never();
    let all = futures::join!(
        world.sweep(&never),
        world.sweep(&never),
        world.sweep(&never)
    );
    let accepted = [all.0, all.1, all.2].map(|swept| match swept {
        Ok(summary) => summary.folding.heartbeats,
        Err(error) => panic!("{error:?}"),
    });
    assert_eq!(accepted.iter().sum::<u64>(), 12, "{accepted:?}");
    world.queue.make_visible();
    world.sweep(&never).await.expect("nothing fails it");
    world.holds_all_once("three at once").await;
    let nodes = world.state().await.nodes;
    let nodes: Vec<_> = nodes.keys().map(NodeId::as_str).collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
}

#[tokio::test]
async fn what_arrives_during_a_sweep_is_left_to_the_next() {
    let world = World::new();
    let later = world.clock.now().saturating_add(Duration::from_secs(1));
    let later = later.expect("a time");
    for part in 0..7 {
        let body = sample::message(1, part..part + 1, Work::Idle);
        let sender = sample::sender(1);
        world.queue.arrive(Some(&sender), Some(later), &body);
    }
    let summary = world.sweep(&Fault::never()).await.expect("it ends");
    assert_eq!(summary.folding.messages, 3);
    assert!(!summary.folding.stopped_early);
    assert_eq!(world.queue.messages().len(), 4);
}

/// The number of probe starts after which the state forgets what it accepted of the first.
const MANY_STARTS: u64 = 70;

#[tokio::test]
async fn what_another_sweep_at_any_call_made_the_state_forget_is_not_committed_again() {
    // The probe sent the first three again, because it got no answer.
    let filled = || {
        let world = World::new();
        for start in (0..3).chain(0..3).chain(3..MANY_STARTS) {
            world.clock.advance(Duration::from_secs(600));
            world.send(1, &sample::first_of_start(1, start));
        }
        world
    };
    for call in (0..8).filter(|call| is_chosen(*call)) {
        let world = filled();
        let never = Fault::never();
        let lake = TestLake::new(world.lake().await, &never, Some((call, &world)));
        // It may lose the race and end with an error: its messages are received again.
        let _ = world.sweep_over(&lake, &never).await;
        world.queue.make_visible();
        world.sweep(&never).await.expect("nothing fails it");
        let rows = world.heartbeats().await;
        let how = format!("another sweep before call {call}: {rows:?}");
        assert_eq!(rows.len() as u64, MANY_STARTS, "{how}");
        assert!(rows.values().all(|times| *times == 1), "{how}");
    }
}
