//! Opens a batch of arrivals with a size limit.

use std::collections::BTreeMap;

use ebb_cloud::ports::{CloudError, Listed, Object, Received};
use ebb_lake::MAX_BATCH_ROWS;
use ebb_lake::{check_heartbeat, check_step};
use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::PlacedStep;
use ebb_wire::MAX_OBJECT_BYTES;
use ebb_wire::MAX_STEPS_AN_OBJECT;
use futures::{StreamExt, stream};
use jiff::Timestamp;

use crate::authenticate;
use crate::authenticate::{Opened, OpenedObject};
use crate::fold::folder::{FoldError, Folder, Folding, left};
use crate::fold::intake::{Arrivals, Intake};
use crate::fold::working_state::Work;
use crate::object_key::StepKey;
use crate::refusal::Refusal;
use crate::state_store::format::Stored;
use crate::state_store::roles::Roles;

/// Concurrent reads of objects: enough to hide the latency of the store, and few enough to limit
/// memory.
const READS_AT_ONCE: usize = 8;

/// A refused message.
pub(crate) struct BadMessage {
    pub(crate) received: Received,
    pub(crate) refusal: Refusal,
}

/// A refused object.
pub(crate) struct BadObject {
    pub(crate) listed: Listed,
    pub(crate) refusal: Refusal,
}

/// One opened batch, before duplicates are removed.
#[derive(Default)]
pub(crate) struct Taken {
    /// Arrival time of the oldest message; `None` if the batch is empty.
    pub(crate) oldest: Option<Timestamp>,
    pub(crate) heartbeats: Vec<Placed>,
    /// Messages for nodes of other shards, which are compared with the states of those shards. A
    /// probe that does not know a new number of shards still uses its old queue.
    pub(crate) elsewhere: BTreeMap<Shard, Vec<(Received, Opened)>>,
    pub(crate) steps: Vec<Vec<PlacedStep>>,
    /// Receipts for the deletion of accepted messages.
    pub(crate) receipts: Vec<String>,
    /// Keys of accepted objects, including those accepted before.
    pub(crate) keys: Vec<String>,
    /// Number of objects and messages of finished tasks that were accepted before.
    pub(crate) old_objects: u64,
    pub(crate) bad_messages: Vec<BadMessage>,
    pub(crate) bad_objects: Vec<BadObject>,
    /// Memory of the rows in bytes.
    bytes: usize,
}

impl Taken {
    pub(crate) fn is_empty(&self) -> bool {
        self.receipts.is_empty()
            && self.keys.is_empty()
            && self.elsewhere.is_empty()
            && self.bad_messages.is_empty()
            && self.bad_objects.is_empty()
    }

    fn arrived(&mut self, at: Timestamp) {
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
    }

    fn accept_object(&mut self, listed: Listed, opened: OpenedObject) {
        self.bytes += opened.memory_bytes();
        self.steps.push(opened.steps);
        self.keys.push(listed.key);
    }

    fn refuse_object(&mut self, listed: Listed, refusal: Refusal) {
        self.bad_objects.push(BadObject { listed, refusal });
    }

    /// Whether another object or message of finished tasks may exceed the limit of one commit or of memory.
    fn is_full(&self, max_bytes: usize) -> bool {
        let rows: usize = self.steps.iter().map(Vec::len).sum();
        self.bytes >= max_bytes || rows + MAX_STEPS_AN_OBJECT > MAX_BATCH_ROWS
    }
}

/// Opens the next arrivals up to the memory limit of a batch.
pub(crate) async fn take(
    folder: &Folder<'_>,
    work: &mut Work,
    (intake, folding): (&mut Intake, &mut Folding),
) -> Result<Taken, FoldError> {
    let mut taken = Taken::default();
    let arrivals = intake.next(folder, work, folding).await?;
    if arrivals.is_empty() {
        return Ok(taken);
    }
    intake.guard.opening(folder.objects, arrivals.names()).await;
    let Arrivals { messages, objects } = arrivals;
    take_messages(folder, work, messages, (intake, &mut taken, folding));
    take_objects(folder, work, objects, (intake, &mut taken, folding)).await;
    Ok(taken)
}

fn take_messages(
    folder: &Folder<'_>,
    work: &mut Work,
    all: Vec<Received>,
    (intake, taken, folding): (&mut Intake, &mut Taken, &mut Folding),
) {
    let mut received = Vec::with_capacity(all.len());
    for message in all {
        match intake.refusal(&message.id, message.sent_at) {
            None => received.push(message),
            Some(refusal) => taken.bad_messages.push(BadMessage {
                received: message,
                refusal,
            }),
        }
    }
    let opened = authenticate::messages(&received, folder.limits.batch_bytes);
    let rest = received.split_off(opened.len());
    intake.put_back_messages(rest);
    let rows = opened.iter().map(|opened| opened.rows.len()).sum();
    taken.heartbeats.reserve_exact(rows);
    let (mut finished, mut no_room) = (0, Vec::new());
    for (message, opened) in received.into_iter().zip(opened) {
        finished += opened.steps.len();
        // A commit has a maximum of rows; the next batch opens the message again.
        if finished > MAX_BATCH_ROWS && !opened.steps.is_empty() {
            finished -= opened.steps.len();
            no_room.push(message);
            continue;
        }
        let bytes = opened.memory_bytes();
        taken.bytes += bytes;
        intake.opened(&message, bytes, opened.steps.len());
        folding.refuse_steps(opened.node(), opened.refused_steps);
        taken.arrived(arrival(&message));
        match opened.node() {
            Some(node) if !folder.shard.holds(node) => {
                let home = Shard::of_node(node, folder.shard.of);
                let of_home = taken.elsewhere.entry(home).or_default();
                of_home.push((message, opened));
            }
            _ => take_message(message, opened, (&mut work.stored, taken)),
        }
    }
    intake.put_back_messages(no_room);
}

/// A message without an arrival time counts as very old.
fn arrival(received: &Received) -> Timestamp {
    received.sent_at.unwrap_or(Timestamp::MIN)
}

/// Accepts or refuses a message by the state of the shard of its node.
pub(crate) fn take_message(
    received: Received,
    opened: Opened,
    (stored, taken): (&mut Stored, &mut Taken),
) {
    let arrived = arrival(&received);
    let claim = opened.node().zip(opened.role.as_ref());
    let claim = claim.and_then(|(node, role)| {
        let holder = stored.roles.claim(node, role, arrived).err()?;
        let role = role.clone();
        Some(Refusal::AnotherRole { role, holder })
    });
    let Opened {
        mut rows,
        mut steps,
        mut refused,
        ..
    } = opened;
    if claim.is_some() {
        refused = claim;
        rows.clear();
        steps.clear();
    }
    let fleet = &stored.fleet;
    match check_steps(fleet, &steps) {
        Ok(StepsBefore::Accepted) => taken.old_objects += 1,
        Ok(StepsBefore::New) => taken.steps.extend((!steps.is_empty()).then_some(steps)),
        Err(refusal) => refused = refused.or(Some(refusal)),
    }
    for placed in rows {
        let fits = check_heartbeat(&placed).map_err(|row| Refusal::Unstorable(Box::new(row)));
        // A heartbeat that was accepted before is a duplicate, regardless of its age.
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

/// Whether finished tasks were accepted before.
enum StepsBefore {
    Accepted,
    New,
}

/// Whether finished tasks of one batch may be accepted. Tasks that were accepted before are
/// duplicates, regardless of their age.
fn check_steps(fleet: &FleetState, steps: &[PlacedStep]) -> Result<StepsBefore, Refusal> {
    if let Some(first) = steps.first()
        && fleet.accepted_steps(&first.node, &first.boot, &first.probe_start, first.sequence)
    {
        return Ok(StepsBefore::Accepted);
    }
    for step in steps {
        check_step(step).map_err(|row| Refusal::Unstorable(Box::new(row)))?;
        fleet.check_age(&step.node, step.observed_at)?;
    }
    Ok(StepsBefore::New)
}

/// Result of reading an object.
enum Outcome {
    Read(StepKey, Object),
    Old,
    Bad(Refusal),
    Gone,
    Unread(CloudError),
}

async fn take_objects(
    folder: &Folder<'_>,
    work: &mut Work,
    listed: Vec<Listed>,
    (intake, taken, folding): (&mut Intake, &mut Taken, &mut Folding),
) {
    let fleet = &work.stored.fleet;
    let refused: Vec<Option<Refusal>> = listed
        .iter()
        .map(|entry| intake.refusal(&entry.key, Some(entry.modified_at)))
        .collect();
    let reads = listed.into_iter().zip(refused);
    let reads = reads.map(|(entry, refused)| async move {
        let outcome = match refused {
            Some(refusal) => Outcome::Bad(refusal),
            None => read((folder, fleet), &entry).await,
        };
        (entry, outcome)
    });
    // Only bytes are read ahead, because decoded data may take eight times as much memory.
    let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
    let mut unread = Vec::new();
    let mut rest = Vec::new();
    while let Some((entry, outcome)) = reads.next().await {
        if taken.is_full(folder.limits.batch_bytes) {
            rest.push(entry);
            continue;
        }
        if intake.has_no_rows_left(&entry.key, folding) {
            continue;
        }
        folding.objects += 1;
        taken.arrived(entry.modified_at);
        match outcome {
            Outcome::Read(key, object) => {
                match decode((fleet, &mut work.stored.roles), &key, &object) {
                    Ok(opened) => {
                        folding.refuse_steps(Some(&key.node), opened.refused_steps);
                        intake.opened_object(&entry.key, opened.steps.len());
                        taken.accept_object(entry, opened);
                    }
                    Err(refusal) => taken.refuse_object(entry, refusal),
                }
            }
            Outcome::Old => {
                taken.old_objects += 1;
                taken.keys.push(entry.key);
            }
            Outcome::Bad(refusal) => taken.refuse_object(entry, refusal),
            Outcome::Gone => folding.objects -= 1,
            Outcome::Unread(error) => {
                left(folding, &entry.key, &error);
                unread.push(entry.key);
            }
        }
    }
    drop(reads);
    intake.put_back_objects(rest);
    unread.into_iter().for_each(|key| work.skip(key));
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

async fn read((folder, fleet): (&Folder<'_>, &FleetState), entry: &Listed) -> Outcome {
    let key = match known(entry) {
        Ok(key) => key,
        Err(refusal) => return Outcome::Bad(refusal),
    };
    if fleet.accepted_steps(&key.node, &key.boot, &key.probe_start, key.sequence) {
        return Outcome::Old;
    }
    let max = MAX_OBJECT_BYTES as u64;
    match folder.objects.get(&entry.key, max).await {
        Ok(object) => Outcome::Read(key, object),
        Err(CloudError::Missing { .. }) => Outcome::Gone,
        Err(error) => Outcome::Unread(error),
    }
}

/// Opens an object and checks whether its tasks may be accepted.
fn decode(
    (fleet, roles): (&FleetState, &mut Roles),
    key: &StepKey,
    object: &Object,
) -> Result<OpenedObject, Refusal> {
    let opened = authenticate::object(key, object)?;
    check_steps(fleet, &opened.steps)?;
    let claim = roles.claim(&key.node, &key.role, object.modified_at);
    claim.map_err(|holder| Refusal::AnotherRole {
        role: key.role.clone(),
        holder,
    })?;
    Ok(opened)
}
