//! Records that wait to be sent, and which of them are urgent.

use std::io;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::step::StepBatch;
use ebb_telemetry::units::Bytes;
use ebb_wire::MAX_HEARTBEATS;

use super::fit::{self, OmittedSteps};
use super::sink::StepRoute;
use super::steps_key;
use super::stored_batch::StoredBatch;
use crate::spool::{RecordNumber, Spool};

/// Whether a heartbeat may wait for others to fill its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// The heartbeat may wait.
    CanWait,
    /// The heartbeat is sent at once, with those before it.
    Now,
}

/// The next message to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<T> {
    /// The records in the message.
    pub(super) records: Vec<RecordNumber>,
    pub(super) body: T,
    pub(super) left_out: OmittedSteps,
}

/// A batch of finished tasks, ready to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finished {
    /// A message of the queue.
    Message(String),
    /// An object and its key.
    Object {
        /// The key.
        key: String,
        /// The object.
        bytes: Vec<u8>,
    },
}

/// Two spools and their urgency.
#[derive(Debug)]
pub struct Outbox {
    pub(super) heartbeats: Spool,
    pub(super) steps: Spool,
    node: NodeId,
    sender: String,
    urgency: Urgency,
    /// The number of heartbeats that make a message, unless one is urgent.
    per_message: usize,
    closed: bool,
    left_out: OmittedSteps,
    unwritten: u64,
}

impl Outbox {
    /// An outbox for `node`, which the cloud attests as `sender`. Records from an earlier run are
    /// sent at once.
    pub fn new(heartbeats: Spool, steps: Spool, node: NodeId, sender: String) -> Self {
        Self {
            heartbeats,
            steps,
            node,
            sender,
            urgency: Urgency::Now,
            per_message: MAX_HEARTBEATS,
            closed: false,
            left_out: OmittedSteps::default(),
            unwritten: 0,
        }
    }

    /// The same outbox, with this number of heartbeats in a message; at most [`MAX_HEARTBEATS`].
    #[must_use]
    pub fn with_heartbeats_per_message(mut self, count: usize) -> Self {
        self.per_message = count.clamp(1, MAX_HEARTBEATS);
        self
    }

    /// Stores a heartbeat until it is sent.
    pub fn add_heartbeat(&mut self, heartbeat: &Heartbeat, urgency: Urgency) {
        match serde_json::to_vec(heartbeat) {
            Ok(record) => self.heartbeats.push(record),
            Err(error) => self.cannot_write(&error),
        }
        if urgency == Urgency::Now {
            self.urgency = Urgency::Now;
        }
    }

    /// Stores finished tasks until they are sent.
    pub fn add_steps(&mut self, batch: &StoredBatch) {
        match serde_json::to_vec(batch) {
            Ok(record) => self.steps.push(record),
            Err(error) => self.cannot_write(&error),
        }
    }

    /// The batch that was stored last; `None` if no batch waits, or it cannot be read.
    pub fn newest_steps(&self) -> Option<StepBatch> {
        serde_json::from_slice(&self.steps.newest()?).ok()
    }

    fn cannot_write(&mut self, error: &serde_json::Error) {
        self.unwritten += 1;
        tracing::error!(%error, "failed to write a record");
    }

    /// Declares that no more records follow.
    pub const fn close(&mut self) {
        self.closed = true;
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Number of records lost since the start.
    pub const fn dropped(&self) -> u64 {
        self.heartbeats.dropped() + self.steps.dropped() + self.unwritten
    }

    /// Number of lost records that could not be read from the disk.
    pub const fn unreadable(&self) -> u64 {
        self.heartbeats.unreadable() + self.steps.unreadable()
    }

    /// Omissions from sent messages, since the start.
    pub const fn left_out(&self) -> OmittedSteps {
        self.left_out
    }

    /// Counts the omissions from a message that was sent.
    pub(super) fn note_left_out(&mut self, left_out: OmittedSteps) {
        if left_out != OmittedSteps::default() {
            let OmittedSteps { steps, shortened } = left_out;
            tracing::warn!(
                steps,
                shortened,
                "sent a message with fewer details because it was too large"
            );
        }
        self.left_out.add(left_out);
    }

    /// Bytes of the waiting records.
    pub fn held(&self) -> Bytes {
        self.heartbeats.held().saturating_add(self.steps.held())
    }

    /// The next message, if one is due: a full one, an urgent one, or the last one.
    pub(super) fn next_message(&mut self, sent: &Sent) -> Option<Message<String>> {
        loop {
            let due = self.closed || self.urgency == Urgency::Now;
            let enough = if due { 1 } else { self.per_message };
            if self.heartbeats.len() < enough {
                self.urgency = Urgency::CanWait;
                return None;
            }
            let own = |h: &Heartbeat| h.node == self.node;
            let parse = |bytes: &[u8]| serde_json::from_slice::<Heartbeat>(bytes);
            let waiting = readable(&mut self.heartbeats, MAX_HEARTBEATS, parse, own);
            let (mut records, heartbeats): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
            if heartbeats.is_empty() {
                continue;
            }
            match fit::heartbeats(sent, &heartbeats) {
                Ok(fit::Fitted {
                    count,
                    body,
                    left_out,
                }) => {
                    records.truncate(count);
                    return Some(Message {
                        records,
                        body,
                        left_out,
                    });
                }
                Err(error) => {
                    tracing::error!(%error, "failed to encode a heartbeat, which is dropped");
                    self.heartbeats.drop_record(records[0]);
                }
            }
        }
    }

    /// The next batch of finished tasks; `now` contains the clocks of the node.
    pub(super) fn next_finished(
        &mut self,
        now: &Sent,
        route: StepRoute,
    ) -> Option<Message<Finished>> {
        while !self.steps.is_empty() {
            let own = |stored: &StoredBatch| stored.batch.node == self.node;
            let waiting = readable(&mut self.steps, 1, StoredBatch::from_json, own);
            let Some((number, stored)) = waiting.into_iter().next() else {
                continue;
            };
            let Some(sent) = stored.sent(now) else {
                let tasks = stored.batch.steps.len();
                tracing::warn!(
                    tasks,
                    "dropped tasks of an earlier boot, whose time is unknown"
                );
                self.steps.drop_record(number);
                continue;
            };
            let batch = stored.batch;
            if route == StepRoute::Queue
                && let Ok(body) = ebb_wire::encode_steps_message(&sent, &batch)
            {
                return Some(Message {
                    records: vec![number],
                    body: Finished::Message(body),
                    left_out: OmittedSteps::default(),
                });
            }
            match fit::steps(&sent, &batch) {
                Ok(fit::Fitted {
                    body: bytes,
                    left_out,
                    ..
                }) => {
                    let key = steps_key(&self.sender, &batch);
                    let body = Finished::Object { key, bytes };
                    return Some(Message {
                        records: vec![number],
                        body,
                        left_out,
                    });
                }
                Err(error) => {
                    tracing::error!(%error, "failed to encode finished steps, which are dropped");
                    self.steps.drop_record(number);
                }
            }
        }
        None
    }
}

/// The oldest records that this program can parse and that this node wrote. A disk image can
/// contain another node's spool, and an update can change the record format.
fn readable<T>(
    spool: &mut Spool,
    limit: usize,
    parse: impl Fn(&[u8]) -> serde_json::Result<T>,
    is_own: impl Fn(&T) -> bool,
) -> Vec<(RecordNumber, T)> {
    let mut records = Vec::new();
    for (number, bytes) in spool.oldest(limit) {
        match parse(&bytes) {
            Ok(record) if is_own(&record) => records.push((number, record)),
            Ok(_) => spool.drop_record(number),
            Err(error) => spool.set_aside(number, &io::Error::other(error)),
        }
    }
    records
}
