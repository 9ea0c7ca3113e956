//! Authenticates and decodes arrivals: the sender as the cloud attests it, the content, and its
//! time on the clock of the cloud. The module performs no I/O. A refusal has a reason in words for
//! the dead-letter queue or prefix.

use std::sync::atomic::{AtomicUsize, Ordering};

use ebb_cloud::ports::{Object, Received};
use ebb_telemetry::arrival::{Arrival, PlaceError, Placed, Sent};
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::{NodeId, RoleId, attested};
use ebb_telemetry::step::{PlacedStep, StepBatch, StepUsage};
use ebb_wire::{
    StepObject, decode_heartbeats, decode_steps, decode_steps_message, is_steps_message,
};
use jiff::Timestamp;

use crate::object_key::StepKey;
use crate::refusal::Refusal;

/// Content of one arrival. A message may be valid in part: its valid heartbeats are accepted, and
/// the whole message still goes to the dead-letter queue.
#[derive(Debug, Default)]
pub struct Opened {
    /// Accepted heartbeats.
    pub rows: Vec<Placed>,
    /// Finished tasks; a message has either these or heartbeats.
    pub steps: Vec<PlacedStep>,
    /// First reason for a refusal; `None` if everything was accepted.
    pub refused: Option<Refusal>,
    /// Tasks that were removed from the message.
    pub refused_steps: u32,
    /// Role of the sender; `None` if the sender is not a node.
    pub role: Option<RoleId>,
}

impl Opened {
    fn refused(refusal: Refusal) -> Self {
        Self {
            refused: Some(refusal),
            ..Self::default()
        }
    }

    /// The node of the message; `None` if nothing was accepted.
    pub fn node(&self) -> Option<&NodeId> {
        let of_heartbeat = self.rows.first().map(|row| &row.node);
        of_heartbeat.or_else(|| self.steps.first().map(|step| &step.node))
    }

    /// Memory of the rows in bytes.
    pub fn memory_bytes(&self) -> usize {
        let steps = self.rows.iter().flat_map(|row| &row.heartbeat.steps);
        let steps: usize = steps.map(StepUsage::memory_bytes).sum();
        steps + self.rows.len() * size_of::<Placed>() + memory_of(&self.steps)
    }
}

fn memory_of(steps: &[PlacedStep]) -> usize {
    let usages: usize = steps.iter().map(|step| step.usage.memory_bytes()).sum();
    usages + size_of_val(steps)
}

/// Content of one object.
#[derive(Debug)]
pub struct OpenedObject {
    /// Tasks of the object.
    pub steps: Vec<PlacedStep>,
    /// Number of removed tasks.
    pub refused_steps: u32,
}

impl OpenedObject {
    /// Memory of the tasks in bytes.
    pub fn memory_bytes(&self) -> usize {
        memory_of(&self.steps)
    }
}

/// Opens a message of the queue.
pub fn message(received: &Received) -> Opened {
    let opened = || -> Result<Opened, Refusal> {
        let sender = received.sender.as_deref().ok_or(Refusal::NoSender)?;
        let attested = attested(sender)?;
        let at = received.sent_at.ok_or(Refusal::NoArrival)?;
        let opened = match is_steps_message(&received.body) {
            true => {
                let message = decode_steps_message(&received.body)?;
                let opened = placed_steps(&attested.node, at, message)?;
                Opened {
                    steps: opened.steps,
                    refused_steps: opened.refused_steps,
                    ..Opened::default()
                }
            }
            false => {
                let message = decode_heartbeats(&received.body)?;
                let arrival = Arrival {
                    attested: &attested.node,
                    at,
                    sent: &message.sent,
                };
                Opened {
                    refused_steps: message.refused_steps,
                    ..placed(&arrival, message.heartbeats)
                }
            }
        };
        Ok(Opened {
            role: Some(attested.role),
            ..opened
        })
    };
    opened().unwrap_or_else(Opened::refused)
}

/// Reads each heartbeat by reference and moves it once, because heartbeats are large.
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

/// Below this number of messages a thread takes longer to start than the work takes.
const MESSAGES_A_THREAD: usize = 200;

/// Opens messages from the front on all cores, until their rows take `max_bytes` of memory. Returns
/// one result for each opened message, in the order of the messages. Opens at least one message,
/// and exceeds the limit by at most one message for each core.
pub fn messages(received: &[Received], max_bytes: usize) -> Vec<Opened> {
    // Finding the number of cores reads files of the system, so it is skipped for a few messages.
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
    // Every claimed message was opened, so the indexes have no gap.
    opened.sort_unstable_by_key(|(index, _)| *index);
    opened.into_iter().map(|(_, opened)| opened).collect()
}

/// Opens an object of the bucket. Its key contains the sender, because the bucket policy allows
/// each sender to write only under its own name.
///
/// # Errors
/// Refuses the whole object if its key, its sender, its boot or the time of a task is invalid.
pub fn object(key: &StepKey, object: &Object) -> Result<OpenedObject, Refusal> {
    let opened = decode_steps(&object.bytes)?;
    key.check(&opened.batch)?;
    placed_steps(&key.node, object.modified_at, opened)
}

/// Finished tasks of a node, which the cloud attests, with their times.
fn placed_steps(
    attested: &NodeId,
    at: Timestamp,
    mut opened: StepObject,
) -> Result<OpenedObject, Refusal> {
    let arrival = Arrival {
        attested,
        at,
        sent: &opened.sent,
    };
    arrival.check_claim(&opened.batch.node)?;
    check_boot(&opened.sent, &opened.batch)?;
    let usages = std::mem::take(&mut opened.batch.steps);
    let steps = usages
        .into_iter()
        .map(|usage| placed_step(&arrival, &opened.batch, attested, usage))
        .collect::<Result<_, _>>()?;
    Ok(OpenedObject {
        steps,
        refused_steps: opened.refused_steps,
    })
}

/// Finished tasks contain no wall clock time, so they have a known time only if the sender's clocks are
/// those of their boot.
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
                what: "a task was observed before it started or made progress",
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
