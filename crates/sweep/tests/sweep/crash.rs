//! A sweep that is killed, or whose call fails, at any call. The next sweep loses nothing and
//! counts nothing twice.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_cloud::failing::{Fault, Moment, Then};

use ebb_telemetry::shard::Shard;
use futures::{StreamExt, stream};

use crate::lake::{Reads, TestLake};
use crate::world::World;
use ebb_ingest::state_store;
use ebb_ingest::state_store::hourly_activity;

/// Valid data, one invalid message and one invalid object.
fn filled() -> World {
    let world = World::new();
    world.send(1, "no schema line");
    world.objects.insert("ingest/v1/notes.txt", *b"hello");
    world.fill();
    world
}

async fn clean_run(world: &World, how: &str) {
    world.queue.make_visible();
    // Until then, the dead sweep could still send.
    world.clock.advance(Duration::from_secs(5 * 60));
    let swept = world.sweep(&Fault::never()).await;
    let summary = swept.unwrap_or_else(|error| panic!("{how}: {error:?}"));
    assert_eq!(summary.findings, 1, "{how}");
    world.holds_all_once(how).await;
    // Moved, possibly twice, but never lost.
    assert!(!world.dead_letters.messages().is_empty(), "{how}");
    let moved = world.objects.stored("dead-letter/ingest/v1/notes.txt");
    assert!(moved.is_some(), "{how}");
    let posted = world.chat.posted();
    let posts = posted
        .iter()
        .filter(|post| post.body.to_string().contains("1 new"));
    assert_eq!(
        posts.count(),
        1,
        "{how}: a chat that can be read gets one message"
    );
    let opened = world.events.sent();
    let opened = opened.iter().filter(|(_, body)| body.contains("opened"));
    let ids: BTreeSet<&String> = opened.map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 1, "{how}: an event has one identifier");
    let sent = world.mailer.sent();
    let emails = sent
        .iter()
        .filter(|email| email.subject.ends_with("(1 new)"));
    assert!(emails.count() > 0, "{how}: no email was sent");
    assert!(
        !world.topic.published().is_empty(),
        "{how}: nothing was published to the topic"
    );
}

/// Sweeps that run at the same time: a channel that is down is retried after a pause, in which
/// others run.
const AT_ONCE: usize = 16;

/// Every how many calls one fails in `make test`. `make prove` sets `EBB_EVERY_CALL`, and each fails.
const CALLS_APART: usize = 5;

/// Whether something happens at this call in a run.
pub(crate) fn is_chosen(call: usize) -> bool {
    call.is_multiple_of(CALLS_APART) || std::env::var_os("EBB_EVERY_CALL").is_some()
}

/// The calls to fail, each in a world of its own: the first of each operation, and others evenly.
pub(crate) fn chosen(calls: &[&'static str]) -> Vec<(usize, &'static str)> {
    let mut seen = BTreeSet::new();
    let numbered = calls.iter().copied().enumerate();
    numbered
        .filter(|(n, operation)| seen.insert(*operation) || is_chosen(*n))
        .collect()
}

/// Fails calls of a sweep in turn. The sweep itself may end with an error.
async fn at_any_call(moment: Moment, then: Then) {
    let whole = Fault::never();
    filled().sweep(&whole).await.expect("nothing fails it");
    let calls = whole.calls();
    assert!(calls.len() > 30, "several batches: {calls:?}");
    let runs = chosen(&calls).into_iter().map(async |(n, operation)| {
        let how = format!("{operation}, call {n} of {}", calls.len());
        let world = filled();
        let fault = Fault::at(n, moment, then);
        let _ = world.sweep(&fault).await;
        assert!(fault.calls().len() > n, "{how}: never reached");
        clean_run(&world, &how).await;
    });
    stream::iter(runs)
        .for_each_concurrent(AT_ONCE, |run| run)
        .await;
}

#[tokio::test]
async fn killed_after_any_call_it_loses_and_doubles_nothing() {
    at_any_call(Moment::After, Then::StaysDead).await;
}

#[tokio::test]
async fn an_answer_lost_at_any_call_loses_and_doubles_nothing() {
    at_any_call(Moment::After, Then::Recovers).await;
}

#[tokio::test]
async fn a_failure_of_any_call_loses_and_doubles_nothing() {
    at_any_call(Moment::Before, Then::Recovers).await;
}

#[tokio::test]
async fn killed_between_appending_and_deleting_it_counts_nothing_twice() {
    let whole = Fault::never();
    filled().sweep(&whole).await.expect("nothing fails it");
    let calls = whole.calls();
    let delete = calls.iter().position(|call| *call == "queue.delete");
    let delete = delete.expect("messages are deleted");
    assert!(calls[..delete].contains(&"lake.append_heartbeats"));

    let world = filled();
    let killed = Fault::at(delete, Moment::Before, Then::StaysDead);
    world.sweep(&killed).await.expect_err("it is dead");
    assert!(!world.heartbeats().await.is_empty(), "the lake has some");
    assert_eq!(
        world.queue.messages().len(),
        5,
        "and every message is still there"
    );

    world.queue.make_visible();
    let again = world
        .sweep(&Fault::never())
        .await
        .expect("nothing fails it");
    assert!(again.folding.duplicates > 0, "they were known: {again:?}");
    world.holds_all_once("after the second run").await;
}

#[tokio::test]
async fn a_state_that_is_lost_is_folded_again_from_the_lake() {
    let world = filled();
    world
        .sweep(&Fault::never())
        .await
        .expect("nothing fails it");
    let (before, hours) = (world.state().await, world.hours().await);
    assert_eq!(hours.nodes.len(), 2);
    let (key, hours_key) = (
        state_store::key(Shard::ONLY),
        hourly_activity::key(Shard::ONLY),
    );
    world.objects.insert(key, *b"garbage");
    let summary = world
        .sweep(&Fault::never())
        .await
        .expect("nothing fails it");
    assert!(summary.folding.rebuilt_because.is_some(), "{summary:?}");
    assert_eq!(world.state().await, before);
    world.objects.insert(hours_key, *b"garbage");
    let swept = world.sweep(&Fault::never()).await;
    swept.expect("nothing fails it");
    assert_eq!((world.state().await, world.hours().await), (before, hours));
}

#[tokio::test]
async fn a_lake_too_large_for_one_sweep_is_folded_by_several() {
    let world = filled();
    world
        .sweep(&Fault::never())
        .await
        .expect("nothing fails it");
    let before = world.state().await;
    world
        .objects
        .insert(state_store::key(Shard::ONLY), *b"garbage");
    let mut sweeps = 0;
    loop {
        // Get state and hours, last batch, read, put state, read, put state; then it is killed.
        let killed = Fault::at(7, Moment::Before, Then::StaysDead);
        let lake = TestLake::new(world.lake().await, &killed, None).reading(Reads::OneCommit);
        let _ = world.sweep_over(&lake, &killed).await;
        sweeps += 1;
        if world.state().await == before {
            break;
        }
        assert!(sweeps < 10, "no sweep gets further: {:?}", killed.calls());
    }
    assert!(sweeps > 1, "one sweep was enough");
}
