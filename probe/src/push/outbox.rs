//! What waits to be sent, and what of it must go now.

use std::io;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::step::StepBatch;
use ebb_telemetry::units::Bytes;
use ebb_wire::MAX_HEARTBEATS;
use serde::de::DeserializeOwned;

use super::fit::{self, LeftOut};
use super::steps_key;
use crate::spool::{RecordNumber, Spool};

/// Whether a heartbeat may wait for others to fill its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// It may.
    CanWait,
    /// It goes at once, with those before it.
    Now,
}

/// What is sent next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<T> {
    /// The records that it has.
    pub(super) records: Vec<RecordNumber>,
    pub(super) body: T,
    pub(super) left_out: LeftOut,
}

/// An object of finished steps and where it goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) key: String,
    pub(super) bytes: Vec<u8>,
}

/// Two spools and what is urgent about them.
#[derive(Debug)]
pub struct Outbox {
    pub(super) heartbeats: Spool,
    pub(super) steps: Spool,
    node: NodeId,
    sender: String,
    urgency: Urgency,
    closed: bool,
    left_out: LeftOut,
    unwritten: u64,
}

impl Outbox {
    /// An outbox for `node`, which the cloud attests as `sender`. What waits from
    /// an earlier run goes at once.
    pub fn new(heartbeats: Spool, steps: Spool, node: NodeId, sender: String) -> Self {
        Self {
            heartbeats,
            steps,
            node,
            sender,
            urgency: Urgency::Now,
            closed: false,
            left_out: LeftOut::default(),
            unwritten: 0,
        }
    }

    /// Keeps a heartbeat until it is sent.
    pub fn add_heartbeat(&mut self, heartbeat: &Heartbeat, urgency: Urgency) {
        match serde_json::to_vec(heartbeat) {
            Ok(record) => self.heartbeats.push(record),
            Err(error) => self.cannot_write(&error),
        }
        if urgency == Urgency::Now {
            self.urgency = Urgency::Now;
        }
    }

    /// Keeps finished steps until they are sent.
    pub fn add_steps(&mut self, batch: &StepBatch) {
        match serde_json::to_vec(batch) {
            Ok(record) => self.steps.push(record),
            Err(error) => self.cannot_write(&error),
        }
    }

    fn cannot_write(&mut self, error: &serde_json::Error) {
        self.unwritten += 1;
        tracing::error!(%error, "failed to write a record");
    }

    /// Says that nothing more comes.
    pub const fn close(&mut self) {
        self.closed = true;
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Records lost since the start.
    pub const fn dropped(&self) -> u64 {
        self.heartbeats.dropped() + self.steps.dropped() + self.unwritten
    }

    /// Of the lost records, those that could not be read from the disk.
    pub const fn unreadable(&self) -> u64 {
        self.heartbeats.unreadable() + self.steps.unreadable()
    }

    /// What was left out of sent messages, since the start.
    pub const fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Counts what was left out of a message that was sent.
    pub(super) fn note_left_out(&mut self, left_out: LeftOut) {
        if left_out != LeftOut::default() {
            let LeftOut { steps, shortened } = left_out;
            tracing::warn!(
                steps,
                shortened,
                "sent a message with fewer details because it was too large"
            );
        }
        self.left_out.add(left_out);
    }

    /// Bytes that wait.
    pub fn held(&self) -> Bytes {
        self.heartbeats.held().saturating_add(self.steps.held())
    }

    /// The next message, if one is due: full, urgent, or the last.
    pub(super) fn next_message(&mut self, sent: &Sent) -> Option<Message<String>> {
        loop {
            let due = self.closed || self.urgency == Urgency::Now;
            let enough = if due { 1 } else { MAX_HEARTBEATS };
            if self.heartbeats.len() < enough {
                self.urgency = Urgency::CanWait;
                return None;
            }
            let own = |h: &Heartbeat| h.node == self.node;
            let waiting = readable(&mut self.heartbeats, MAX_HEARTBEATS, own);
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

    /// The next object of finished steps.
    pub(super) fn next_object(&mut self, sent: &Sent) -> Option<Message<Object>> {
        while !self.steps.is_empty() {
            let own = |b: &StepBatch| b.node == self.node;
            let waiting = readable(&mut self.steps, 1, own);
            let Some((number, batch)) = waiting.into_iter().next() else {
                continue;
            };
            match fit::steps(sent, &batch) {
                Ok(fit::Fitted {
                    body: bytes,
                    left_out,
                    ..
                }) => {
                    let key = steps_key(&self.sender, &batch);
                    let body = Object { key, bytes };
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

/// The oldest records that this program understands and this node wrote: a disk image can
/// hold another node's spool, and an update can change the form of records.
fn readable<T: DeserializeOwned>(
    spool: &mut Spool,
    limit: usize,
    is_own: impl Fn(&T) -> bool,
) -> Vec<(RecordNumber, T)> {
    let mut records = Vec::new();
    for (number, bytes) in spool.oldest(limit) {
        match serde_json::from_slice(&bytes) {
            Ok(record) if is_own(&record) => records.push((number, record)),
            Ok(_) => spool.drop_record(number),
            Err(error) => spool.set_aside(number, &io::Error::other(error)),
        }
    }
    records
}
