//! Takes a bounded batch out of queue and bucket and opens it.

use ebb_cloud::ports::{CloudError, Listed, Received};
use ebb_domain::heartbeat::Placed;
use ebb_domain::state::FleetState;
use ebb_domain::step::PlacedStep;
use ebb_lake::{MAX_BATCH_ROWS, check_heartbeat, check_step};
use ebb_signal::MAX_OBJECT_BYTES;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use std::time::Duration;

use super::{FoldError, Folder, Folding, Work, left};
use crate::place::{self, INGEST_PREFIX, Opened, Refusal, StepKey};

/// With a wait the queue asks all its servers, and so does not call itself empty
/// while something waits.
const WAIT: Duration = Duration::from_secs(1);

/// Objects read at once: enough to hide a store's latency, few enough to bound
/// memory.
const READS_AT_ONCE: usize = 8;

/// A message that is refused.
pub(super) struct BadMessage {
    pub(super) received: Received,
    pub(super) refusal: Refusal,
}

/// An object that is refused.
pub(super) struct BadObject {
    pub(super) listed: Listed,
    pub(super) refusal: Refusal,
}

/// One batch, opened and not yet believed to be news.
#[derive(Default)]
pub(super) struct Taken {
    /// When the oldest of it arrived; `None` when it is empty.
    pub(super) oldest: Option<Timestamp>,
    pub(super) heartbeats: Vec<Placed>,
    pub(super) steps: Vec<Vec<PlacedStep>>,
    /// What deletes the messages that were good.
    pub(super) receipts: Vec<String>,
    /// The objects that were good, old ones too.
    pub(super) keys: Vec<String>,
    /// Objects that had been accepted before.
    pub(super) old_objects: u64,
    pub(super) bad_messages: Vec<BadMessage>,
    pub(super) bad_objects: Vec<BadObject>,
}

impl Taken {
    pub(super) fn is_empty(&self) -> bool {
        self.receipts.is_empty()
            && self.keys.is_empty()
            && self.bad_messages.is_empty()
            && self.bad_objects.is_empty()
    }

    fn arrived(&mut self, at: Timestamp) {
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
    }

    fn step_rows(&self) -> usize {
        self.steps.iter().map(Vec::len).sum()
    }
}

/// Takes a batch.
pub(super) async fn take(
    folder: &Folder<'_>,
    work: &mut Work,
    folding: &mut Folding,
) -> Result<Taken, FoldError> {
    let mut taken = Taken::default();
    let received = folder.queue.receive(folder.limits.messages, WAIT).await?;
    folding.messages += received.len() as u64;
    let opened = place::messages(&received);
    let rows = opened.iter().map(|opened| opened.rows.len()).sum();
    taken.heartbeats.reserve_exact(rows);
    for (message, opened) in received.into_iter().zip(opened) {
        take_message(message, opened, (&work.stored.fleet, &mut taken));
    }
    let listed = list(folder, work).await?;
    take_objects(folder, work, listed, (&mut taken, folding)).await;
    Ok(taken)
}

fn take_message(
    received: Received,
    opened: Opened<Placed>,
    (fleet, taken): (&FleetState, &mut Taken),
) {
    // One that does not say when it arrived may have waited for long.
    taken.arrived(received.sent_at.unwrap_or(Timestamp::MIN));
    let mut refused = opened.refused;
    for placed in opened.rows {
        let fits = check_heartbeat(&placed).map_err(|row| Refusal::Unstorable(Box::new(row)));
        // What was accepted before is a repeat, however old it is.
        let is_late = |()| match fleet.accepted_heartbeat(&placed) {
            true => Ok(()),
            false => Ok(fleet.check_age(&placed.node, placed.end)?),
        };
        match fits.and_then(is_late) {
            Ok(()) => taken.heartbeats.push(placed),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    match refused {
        None => taken.receipts.push(received.receipt),
        Some(refusal) => taken.bad_messages.push(BadMessage { received, refusal }),
    }
}

async fn list(folder: &Folder<'_>, work: &Work) -> Result<Vec<Listed>, FoldError> {
    let limit = folder.limits.objects;
    // All shards' objects lie there together; with twice as many as are due to lie there
    // one that is behind does not hide the others' from them.
    let asked = match folder.shard.of {
        1 => limit + work.skipped(),
        of => 2 * usize::from(of) * limit + work.skipped(),
    };
    let mut listed = folder.objects.list(INGEST_PREFIX, asked).await?;
    let is_own = |entry: &Listed| match StepKey::parse(&entry.key) {
        Ok(key) => folder.shard.holds(&key.node),
        Err(_) => folder.shard.reports(),
    };
    listed.retain(|entry| is_own(entry) && !work.is_skipped(&entry.key));
    listed.truncate(limit);
    Ok(listed)
}

/// What became of an object.
enum Outcome {
    Good(Vec<PlacedStep>),
    Old,
    Bad(Refusal),
    Gone,
    Unread(CloudError),
}

async fn take_objects(
    folder: &Folder<'_>,
    work: &mut Work,
    listed: Vec<Listed>,
    (taken, folding): (&mut Taken, &mut Folding),
) {
    let fleet = &work.stored.fleet;
    let reads = listed.into_iter().map(|entry| async move {
        let outcome = match known(&entry) {
            Err(refusal) => Outcome::Bad(refusal),
            Ok(key)
                if fleet.accepted_steps(&key.node, &key.boot, &key.probe_start, key.sequence) =>
            {
                Outcome::Old
            }
            Ok(key) => read((folder, fleet), &key, &entry).await,
        };
        (entry, outcome)
    });
    let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
    let mut skip = Vec::new();
    while let Some((entry, outcome)) = reads.next().await {
        folding.objects += 1;
        taken.arrived(entry.modified_at);
        match outcome {
            // It comes again with the next batch.
            Outcome::Good(steps) if taken.step_rows() + steps.len() > MAX_BATCH_ROWS => break,
            Outcome::Good(steps) => {
                taken.steps.push(steps);
                taken.keys.push(entry.key);
            }
            Outcome::Old => {
                taken.old_objects += 1;
                taken.keys.push(entry.key);
            }
            Outcome::Bad(refusal) => taken.bad_objects.push(BadObject {
                listed: entry,
                refusal,
            }),
            Outcome::Gone => folding.objects -= 1,
            Outcome::Unread(error) => {
                left(folding, &entry.key, &error);
                skip.push(entry.key);
            }
        }
    }
    drop(reads);
    skip.into_iter().for_each(|key| work.skip(key));
}

fn known(entry: &Listed) -> Result<StepKey, Refusal> {
    let max = MAX_OBJECT_BYTES as u64;
    if entry.bytes > max {
        return Err(Refusal::TooLarge {
            bytes: entry.bytes,
            max,
        });
    }
    StepKey::parse(&entry.key)
}

async fn read(
    (folder, fleet): (&Folder<'_>, &FleetState),
    key: &StepKey,
    entry: &Listed,
) -> Outcome {
    let object = match folder
        .objects
        .get(&entry.key, MAX_OBJECT_BYTES as u64)
        .await
    {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => return Outcome::Gone,
        Err(error) => return Outcome::Unread(error),
    };
    let checked = place::object(key, &object).and_then(|steps| {
        for step in &steps {
            check_step(step).map_err(|row| Refusal::Unstorable(Box::new(row)))?;
            fleet.check_age(&step.node, step.observed_at)?;
        }
        Ok(steps)
    });
    match checked {
        Ok(steps) => Outcome::Good(steps),
        Err(refusal) => Outcome::Bad(refusal),
    }
}
