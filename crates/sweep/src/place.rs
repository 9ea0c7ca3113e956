//! From what arrived to what is believed: who sent it as the cloud attests, what
//! it says, and when that was on the cloud's clock. Pure; what is refused is told
//! in words for the dead-letter place.

mod key;
mod refusal;

pub use key::StepKey;
pub use refusal::Refusal;

use ebb_cloud::ports::{Object, Received};
use ebb_domain::heartbeat::{Arrival, Heartbeat, PlaceError, Placed, Sent};
use ebb_domain::identity::{NodeId, attested_node};
use ebb_domain::step::{PlacedStep, StepBatch, StepUsage};
use ebb_signal::{HeartbeatMessage, decode_heartbeats, decode_steps};

/// Where nodes put their finished steps, and nothing else may lie.
pub const INGEST_PREFIX: &str = "ingest/v1/";

/// What one arrival holds. A message may be good in part: its good heartbeats
/// are taken, and the whole of it goes to the dead-letter place all the same.
#[derive(Debug, Default)]
pub struct Opened<T> {
    /// What is believed.
    pub rows: Vec<T>,
    /// The first reason why something was not.
    pub refused: Option<Refusal>,
}

impl<T> Opened<T> {
    fn refused(refusal: Refusal) -> Self {
        Self {
            rows: Vec::new(),
            refused: Some(refusal),
        }
    }
}

/// Opens a message of the queue.
pub fn message(received: &Received) -> Opened<Placed> {
    let opened = || -> Result<_, Refusal> {
        let sender = received.sender.as_deref().ok_or(Refusal::NoSender)?;
        let attested = attested_node(sender)?;
        let at = received.sent_at.ok_or(Refusal::NoArrival)?;
        Ok((attested, at, decode_heartbeats(&received.body)?))
    };
    match opened() {
        Err(refusal) => Opened::refused(refusal),
        Ok((attested, at, HeartbeatMessage { sent, heartbeats })) => {
            let arrival = Arrival {
                attested: &attested,
                at,
                sent: &sent,
            };
            placed(&arrival, heartbeats)
        }
    }
}

/// A heartbeat is large, so it is looked at where it lies and moved once.
fn placed(arrival: &Arrival<'_>, heartbeats: Vec<Heartbeat>) -> Opened<Placed> {
    let mut opened = Opened {
        rows: Vec::with_capacity(heartbeats.len()),
        refused: None,
    };
    for heartbeat in heartbeats {
        match arrival.end_of(&heartbeat) {
            Ok(end) => opened.rows.push(Placed {
                node: arrival.attested.clone(),
                end,
                heartbeat,
            }),
            Err(error) => opened.refused = opened.refused.or(Some(error.into())),
        }
    }
    opened
}

/// Fewer messages than this are opened sooner than a thread starts.
const MESSAGES_A_THREAD: usize = 200;

/// Opens messages, on all cores; what each holds, in their order.
pub fn messages(received: &[Received]) -> Vec<Opened<Placed>> {
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    let each = received.len().div_ceil(cores).max(MESSAGES_A_THREAD);
    let open = |part: &[Received]| part.iter().map(message).collect::<Vec<_>>();
    let mut parts = received.chunks(each);
    let first = parts.next().unwrap_or_default();
    std::thread::scope(|scope| {
        let others: Vec<_> = parts
            .map(|part| (part, scope.spawn(move || open(part))))
            .collect();
        let mut opened = open(first);
        for (part, other) in others {
            // What panics on another thread would on this one, where it is told.
            opened.extend(other.join().unwrap_or_else(|_| open(part)));
        }
        opened
    })
}

/// Opens an object of the bucket. Its key names the sender, because the policy of
/// the bucket lets nobody write under another's name.
///
/// # Errors
/// Refuses the object as a whole: its steps stand or fall together.
pub fn object(key: &StepKey, object: &Object) -> Result<Vec<PlacedStep>, Refusal> {
    let opened = decode_steps(&object.bytes)?;
    key.check(&opened.batch)?;
    let arrival = Arrival {
        attested: &key.node,
        at: object.modified_at,
        sent: &opened.sent,
    };
    arrival.check_claim(&opened.batch.node)?;
    check_boot(&opened.sent, &opened.batch)?;
    let steps = opened.batch.steps.iter();
    steps
        .map(|usage| placed_step(&arrival, &opened.batch, &key.node, usage))
        .collect()
}

/// Finished steps carry no wall clock, so only those of the boot that sent them
/// can be placed.
fn check_boot(sent: &Sent, batch: &StepBatch) -> Result<(), Refusal> {
    if sent.boot == batch.boot {
        return Ok(());
    }
    Err(Refusal::EarlierBoot {
        boot: batch.boot.clone(),
    })
}

fn placed_step(
    arrival: &Arrival<'_>,
    batch: &StepBatch,
    node: &NodeId,
    usage: &StepUsage,
) -> Result<PlacedStep, Refusal> {
    let observed_at = arrival.place(&batch.boot, usage.observed, None)?;
    let before = |clock| {
        let age = usage.observed.since(clock);
        age.and_then(|age| observed_at.checked_sub(age).ok())
            .ok_or(PlaceError::Contradiction {
                what: "a step was observed before it started or made progress",
            })
    };
    Ok(PlacedStep {
        node: node.clone(),
        boot: batch.boot.clone(),
        probe_start: batch.probe_start.clone(),
        sequence: batch.sequence,
        origin: batch.origin,
        started_at: before(usage.started)?,
        observed_at,
        last_progress_at: before(usage.last_progress)?,
        usage: usage.clone(),
    })
}
