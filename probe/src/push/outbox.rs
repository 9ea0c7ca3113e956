//! What waits to be sent, and what of it must go now.

use ebb_domain::heartbeat::{Heartbeat, Sent};
use ebb_domain::identity::NodeId;
use ebb_domain::step::StepBatch;
use ebb_domain::units::Bytes;
use ebb_signal::MAX_HEARTBEATS;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{encode_fitting, steps_key};
use crate::spool::{RecordNumber, Spool, SpoolError};

/// Whether a heartbeat may wait for others to fill its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// It may.
    CanWait,
    /// It goes at once, with those before it.
    Now,
}

/// Why a record could not be kept.
#[derive(Debug, Error)]
pub enum OutboxError {
    /// The disk did not take it.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// It could not be put into words.
    #[error("a record could not be written down")]
    Write(#[source] serde_json::Error),
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
        }
    }

    /// Keeps a heartbeat until it is sent.
    pub fn add_heartbeat(
        &mut self,
        heartbeat: &Heartbeat,
        urgency: Urgency,
    ) -> Result<(), OutboxError> {
        let record = serde_json::to_vec(heartbeat).map_err(OutboxError::Write)?;
        self.heartbeats.push(&record)?;
        if urgency == Urgency::Now {
            self.urgency = Urgency::Now;
        }
        Ok(())
    }

    /// Keeps finished steps until they are sent.
    pub fn add_steps(&mut self, batch: &StepBatch) -> Result<(), OutboxError> {
        let record = serde_json::to_vec(batch).map_err(OutboxError::Write)?;
        Ok(self.steps.push(&record)?)
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
        self.heartbeats.dropped() + self.steps.dropped()
    }

    /// Bytes that wait.
    pub fn held(&self) -> Bytes {
        self.heartbeats.held().saturating_add(self.steps.held())
    }

    /// The next message, if one is due: full, urgent, or the last.
    pub(super) fn next_message(
        &mut self,
        sent: &Sent,
    ) -> Result<Option<(Vec<RecordNumber>, String)>, SpoolError> {
        loop {
            let due = self.closed || self.urgency == Urgency::Now;
            let enough = if due { 1 } else { MAX_HEARTBEATS };
            if self.heartbeats.len() < enough {
                self.urgency = Urgency::CanWait;
                return Ok(None);
            }
            let mine = |h: &Heartbeat| h.node == self.node;
            let waiting = readable(&mut self.heartbeats, MAX_HEARTBEATS, mine)?;
            let (numbers, heartbeats): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
            if heartbeats.is_empty() {
                continue;
            }
            match encode_fitting(sent, &heartbeats) {
                Ok((count, body)) => return Ok(Some((numbers[..count].to_vec(), body))),
                Err(error) => {
                    tracing::error!(%error, "a heartbeat that no message can carry is dropped");
                    self.heartbeats.drop_record(numbers[0])?;
                }
            }
        }
    }

    /// The next object of finished steps.
    pub(super) fn next_object(
        &mut self,
        sent: &Sent,
    ) -> Result<Option<(RecordNumber, String, Vec<u8>)>, SpoolError> {
        while !self.steps.is_empty() {
            let mine = |b: &StepBatch| b.node == self.node;
            let waiting = readable(&mut self.steps, 1, mine)?;
            let Some((number, batch)) = waiting.into_iter().next() else {
                continue;
            };
            match ebb_signal::encode_steps(sent, &batch) {
                Ok(object) => return Ok(Some((number, steps_key(&self.sender, &batch), object))),
                Err(error) => {
                    tracing::error!(%error, "steps that no object can carry are dropped");
                    self.steps.drop_record(number)?;
                }
            }
        }
        Ok(None)
    }
}

/// The oldest records that this program understands and this node wrote: a disk
/// image can carry another node's spool, and an update another form's.
fn readable<T: DeserializeOwned>(
    spool: &mut Spool,
    limit: usize,
    mine: impl Fn(&T) -> bool,
) -> Result<Vec<(RecordNumber, T)>, SpoolError> {
    let mut records = Vec::new();
    for (number, bytes) in spool.oldest(limit)? {
        match serde_json::from_slice(&bytes) {
            Ok(record) if mine(&record) => records.push((number, record)),
            _ => spool.drop_record(number)?,
        }
    }
    Ok(records)
}
