//! From what arrived to what is believed: who sent it as the cloud attests, what
//! it says, and when that was on the cloud's clock. Pure; what is refused is told
//! in words for the dead-letter place.

use std::sync::atomic::{AtomicUsize, Ordering};

use ebb_cloud::ports::{Object, Received};
use ebb_telemetry::arrival::{Arrival, PlaceError, Placed, Sent};
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::{NodeId, RoleId, attested};
use ebb_telemetry::step::{PlacedStep, StepBatch, StepUsage};
use ebb_wire::{decode_heartbeats, decode_steps};

use crate::object_key::StepKey;
use crate::refusal::Refusal;

/// What one arrival holds. A message may be good in part: its good heartbeats
/// are taken, and the whole of it goes to the dead-letter place all the same.
#[derive(Debug, Default)]
pub struct Opened {
    /// What is believed.
    pub rows: Vec<Placed>,
    /// The first reason why something was not.
    pub refused: Option<Refusal>,
    /// Running steps that were left out of their heartbeats.
    pub refused_steps: u32,
    /// The role that sent it; `None` where the sender is no node.
    pub role: Option<RoleId>,
}

impl Opened {
    fn refused(refusal: Refusal) -> Self {
        Self {
            refused: Some(refusal),
            ..Self::default()
        }
    }

    /// Memory that the rows take.
    pub fn memory_bytes(&self) -> usize {
        let steps = self.rows.iter().flat_map(|row| &row.heartbeat.steps);
        let steps: usize = steps.map(StepUsage::memory_bytes).sum();
        steps + self.rows.len() * size_of::<Placed>()
    }
}

/// What one object holds.
#[derive(Debug)]
pub struct OpenedObject {
    /// Its steps.
    pub steps: Vec<PlacedStep>,
    /// Steps that were left out.
    pub refused_steps: u32,
}

impl OpenedObject {
    /// Memory that the steps take.
    pub fn memory_bytes(&self) -> usize {
        let usages: usize = self
            .steps
            .iter()
            .map(|step| step.usage.memory_bytes())
            .sum();
        usages + self.steps.len() * size_of::<PlacedStep>()
    }
}

/// Opens a message of the queue.
pub fn message(received: &Received) -> Opened {
    let opened = || -> Result<_, Refusal> {
        let sender = received.sender.as_deref().ok_or(Refusal::NoSender)?;
        let attested = attested(sender)?;
        let at = received.sent_at.ok_or(Refusal::NoArrival)?;
        Ok((attested, at, decode_heartbeats(&received.body)?))
    };
    match opened() {
        Err(refusal) => Opened::refused(refusal),
        Ok((attested, at, message)) => {
            let arrival = Arrival {
                attested: &attested.node,
                at,
                sent: &message.sent,
            };
            Opened {
                refused_steps: message.refused_steps,
                role: Some(attested.role),
                ..placed(&arrival, message.heartbeats)
            }
        }
    }
}

/// A heartbeat is large, so it is looked at where it lies and moved once.
fn placed(arrival: &Arrival<'_>, heartbeats: Vec<Heartbeat>) -> Opened {
    let mut opened = Opened {
        rows: Vec::with_capacity(heartbeats.len()),
        ..Opened::default()
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

/// Opens messages from the front on all cores, until their rows take `max_bytes` of memory;
/// returns one result per opened message, in their order. Opens at least one, and at most one
/// a core beyond the bound.
pub fn messages(received: &[Received], max_bytes: usize) -> Vec<Opened> {
    // To find the cores, files of the system are read: not for a few messages.
    let threads = match received.len().div_ceil(MESSAGES_A_THREAD) {
        0 | 1 => 1,
        wanted => wanted.min(std::thread::available_parallelism().map_or(1, usize::from)),
    };
    let (next, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let open = || {
        let mut opened = Vec::new();
        while bytes.load(Ordering::Relaxed) < max_bytes {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = received.get(index) else {
                break;
            };
            let one = message(one);
            bytes.fetch_add(one.memory_bytes(), Ordering::Relaxed);
            opened.push((index, one));
        }
        opened
    };
    let mut opened = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(open)).collect();
        let mut opened = open();
        for other in others {
            match other.join() {
                Ok(theirs) => opened.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        opened
    });
    // Whatever was claimed was opened, so the indexes have no gap.
    opened.sort_unstable_by_key(|(index, _)| *index);
    opened.into_iter().map(|(_, opened)| opened).collect()
}

/// Opens an object of the bucket. Its key names the sender, because the policy of
/// the bucket lets nobody write under another's name.
///
/// # Errors
/// Refuses the object as a whole: its steps stand or fall together.
pub fn object(key: &StepKey, object: &Object) -> Result<OpenedObject, Refusal> {
    let mut opened = decode_steps(&object.bytes)?;
    key.check(&opened.batch)?;
    let arrival = Arrival {
        attested: &key.node,
        at: object.modified_at,
        sent: &opened.sent,
    };
    arrival.check_claim(&opened.batch.node)?;
    check_boot(&opened.sent, &opened.batch)?;
    let usages = std::mem::take(&mut opened.batch.steps);
    let steps = usages
        .into_iter()
        .map(|usage| placed_step(&arrival, &opened.batch, &key.node, usage))
        .collect::<Result<_, _>>()?;
    Ok(OpenedObject {
        steps,
        refused_steps: opened.refused_steps,
    })
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
    usage: StepUsage,
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
        usage,
    })
}
