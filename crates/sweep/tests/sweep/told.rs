//! People hear of what is new, once, and files are written whatever becomes of that.

use std::time::Duration;

use ebb_cloud::failing::{Fault, Moment, Then};
use ebb_cloud::ports::CloudError;
use ebb_sweep::publish::LATEST_JSON;
use ebb_sweep::run::Summary;

use crate::sample::{self, Work};
use crate::world::World;

async fn swept(world: &World) -> Summary {
    world
        .sweep(&Fault::never())
        .await
        .expect("nothing fails it")
}

/// How many posts and emails there were so far.
fn words(world: &World) -> (usize, usize) {
    (world.webhook.posted().len(), world.mailer.sent().len())
}

#[tokio::test]
async fn what_is_new_is_told_once_in_each_channel() {
    let world = World::new();
    assert_eq!(swept(&world).await.findings, 0);
    assert_eq!(words(&world), (0, 0), "nothing was found");

    world.fill();
    let summary = swept(&world).await;
    assert_eq!(
        (summary.new, summary.told.as_slice()),
        (1, ["slack", "email"].as_slice())
    );
    assert_eq!(words(&world), (1, 1));
    let email = &world.mailer.sent()[0];
    assert!(email.subject.ends_with("(1 new)"), "{}", email.subject);
    assert!(email.text.starts_with("1 new\n"), "{}", email.text);

    world.clock.advance(Duration::from_secs(60));
    let summary = swept(&world).await;
    assert_eq!((summary.findings, summary.new), (1, 0));
    assert_eq!(words(&world), (1, 1), "nothing is new");
    assert_eq!(summary.published.len(), 6, "but the report is");

    world.clock.advance(Duration::from_secs(60));
    world.send(1, &sample::message(1, 6..8, Work::Busy));
    let summary = swept(&world).await;
    assert_eq!((summary.findings, summary.ended), (0, 1));
    assert_eq!(words(&world), (2, 2), "that it ended is news");
    let text = &world.mailer.sent()[1].text;
    let line = format!("1 ended: Idle node {} in eu-central-1\n", sample::node(1));
    assert!(text.starts_with(&line), "{text}");
}

#[tokio::test]
async fn what_cannot_be_seen_has_not_ended() {
    let world = World::new();
    world.fill();
    swept(&world).await;
    let denied = CloudError::Denied {
        operation: "ec2:DescribeInstances".to_owned(),
        message: "no".to_owned(),
    };
    world.inventory.set(sample::region(), Err(denied));
    let summary = swept(&world).await;
    assert_eq!((summary.findings, summary.ended), (0, 0));
    assert_eq!(summary.gaps.len(), 1);
    assert_eq!(words(&world), (1, 1));
    let seen = sample::inventory(&[1, 2]).remove(&sample::region());
    world
        .inventory
        .set(sample::region(), Ok(seen.expect("the region")));
    let summary = swept(&world).await;
    assert_eq!((summary.findings, summary.new), (1, 0));
    assert_eq!(words(&world), (1, 1), "it was there all the time");
}

/// Every try of a channel fails in one sweep: it is down for a while.
#[tokio::test]
async fn a_channel_that_fails_is_told_the_next_time_and_the_other_not_again() {
    let check = async |operation: &'static str, channel: &str, after_failing: (usize, usize)| {
        let world = World::new();
        world.fill();
        let down = Fault::always(operation);
        let summary = world.sweep(&down).await.expect("a channel fails no sweep");
        let failed: Vec<_> = summary
            .failures
            .iter()
            .map(|f| f.channel.as_str())
            .collect();
        assert_eq!(failed, [channel]);
        assert_eq!(words(&world), after_failing);
        assert!(
            world.objects.stored(LATEST_JSON).is_some(),
            "the report is written"
        );

        let summary = swept(&world).await;
        assert_eq!(summary.told, [channel]);
        assert_eq!(words(&world), (1, 1));
        assert_eq!(swept(&world).await.told.len(), 0);
    };
    check("webhook.post", "slack", (0, 1)).await;
    check("mailer.send", "email", (1, 0)).await;
}

#[tokio::test]
async fn a_call_that_fails_once_is_tried_again_at_once() {
    let rehearsal = World::new();
    rehearsal.fill();
    let whole = Fault::never();
    rehearsal.sweep(&whole).await.expect("nothing fails it");
    let at = whole
        .calls()
        .iter()
        .position(|call| *call == "webhook.post");
    let world = World::new();
    world.fill();
    let once = Fault::at(at.expect("told"), Moment::Before, Then::Recovers);
    let summary = world.sweep(&once).await.expect("a channel fails no sweep");
    assert_eq!((summary.failures.len(), words(&world)), (0, (1, 1)));
}
