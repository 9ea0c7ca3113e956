//! Invalid data is moved to the dead letters with its reason, and the valid data next to it is
//! processed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ebb_cloud::failing::Fault;

use crate::sample::{self, Work};
use crate::world::World;

/// A few kilobytes that unpack to 64 MiB.
fn bomb() -> Vec<u8> {
    zstd::bulk::compress(&vec![0; 64 << 20], 3).expect("compresses")
}

async fn sweep(world: &World, kind: &str) {
    world.fill();
    let swept = world.sweep(&Fault::never()).await;
    let summary = swept.unwrap_or_else(|error| panic!("{kind}: {error:?}"));
    let refused: Vec<_> = summary.folding.refused.into_iter().collect();
    assert_eq!(refused, [(kind, 1)]);
    world.holds_all_once(kind).await;
}

#[tokio::test]
async fn a_refused_message_goes_to_the_dead_letter_queue() {
    let check = async |sender: Option<&str>, body: &str, kind: &str, reason: &str| {
        let world = World::new();
        world.queue.arrive(sender, Some(world.clock.now()), body);
        sweep(&world, kind).await;
        let dead = world.dead_letters.messages();
        assert_eq!(dead.len(), 1, "{kind}");
        assert_eq!(dead[0].body, body);
        let actual = &dead[0].attributes["reason"];
        assert!(actual.contains(reason), "{kind}: {actual}");
        assert_eq!(dead[0].attributes.get("sender").map(String::as_str), sender);
    };
    let node = sample::sender(3);
    let good = sample::message(3, 0..1, Work::Idle);
    let other = sample::message(4, 0..1, Work::Idle);
    let later = good.replacen("heartbeat/1.", "heartbeat/2.", 1);
    let (head, _) = good.split_once('\n').expect("a schema line");
    let bomb = format!("{head}\n{}", STANDARD.encode(bomb()));
    let cut = &good[..good.len() / 2];
    let node = Some(node.as_str());
    check(node, "hello", "unreadable", "no schema line").await;
    check(node, cut, "unreadable", "").await;
    check(node, &later, "unknown_schema", "ebb.heartbeat/2.").await;
    check(node, &bomb, "unreadable", "unpacks to more than").await;
    check(node, &other, "claims_another_node", "claims node i-").await;
    check(
        Some("AIDAUSER"),
        &good,
        "not_attested",
        "the sender is not a node",
    )
    .await;
    check(
        None,
        &good,
        "not_attested",
        "no sender in the queue message",
    )
    .await;
    let late = sample::late_message(3, 15);
    check(node, &late, "not_placed_in_time", "at most 336 h").await;
}

#[tokio::test]
async fn what_comes_thirteen_days_late_is_folded() {
    let world = World::new();
    world.send(1, &sample::late_message(1, 13));
    let swept = world.sweep(&Fault::never()).await;
    let summary = swept.expect("nothing fails it");
    assert_eq!(
        (summary.folding.heartbeats, summary.folding.refused.len()),
        (1, 0)
    );
    assert_eq!(world.hours().await.nodes.len(), 1);
}

#[tokio::test]
async fn a_refused_object_goes_to_the_dead_letter_folder() {
    let check = async |key: &str, bytes: &[u8], kind: &str, reason: &str| {
        let world = World::new();
        world.objects.insert(key, bytes);
        sweep(&world, kind).await;
        let dead = world.objects.stored(&format!("dead-letter/{key}"));
        let dead = dead.unwrap_or_else(|| panic!("{key} is not there"));
        assert_eq!(dead.bytes, bytes);
        let actual = &dead.metadata["reason"];
        assert!(actual.contains(reason), "{kind}: {actual}");
    };
    let (key, good) = sample::object(3, 0);
    let (_, other) = sample::object(4, 0);
    let (_, second) = sample::object(3, 1);
    let mut later = good.clone();
    later["ebb.steps/".len()] = b'2';
    let bomb = [b"ebb.steps/1.0\n".as_slice(), &bomb()].concat();
    let user = key.replacen("AROAEXAMPLE", "AIDAEXAMPLE", 1);
    check(
        "ingest/v1/notes.txt",
        b"hello",
        "foreign_object",
        "the key is not",
    )
    .await;
    check(&user, &good, "not_attested", "the sender is not a node").await;
    check(&key, b"hello", "unreadable", "no schema line").await;
    check(&key, &later, "unknown_schema", "ebb.steps/2.").await;
    check(&key, &bomb, "unreadable", "unpacks to more than").await;
    check(&key, &second, "key_mismatch", "the body boot-3/start/1").await;
    // Node 4 cannot write under node 3's prefix, but a boot id is only a claim.
    let claimed = key.replace("boot-3", "boot-4");
    check(&claimed, &other, "claims_another_node", "claims node i-").await;
}
