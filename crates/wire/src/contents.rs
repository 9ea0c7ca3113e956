//! What messages and objects contain, and how much of it.

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::step::StepBatch;

use crate::error::DecodeError;

/// Names from outside keep their first bytes; nothing real is longer.
pub(crate) const MAX_TEXT_BYTES: usize = 256;

/// Heartbeats in one message at most.
pub const MAX_HEARTBEATS: usize = 5;

/// Memory that the steps of a message may take once they are read; five full heartbeats
/// take about half. A few bytes on the wire may stand for much more in memory.
pub const MAX_DECODED_MESSAGE_BYTES: usize = 4 << 20;

/// Memory that the steps of an object may take once they are read.
pub const MAX_DECODED_OBJECT_BYTES: usize = 32 << 20;

/// Running steps in one heartbeat at most.
pub const MAX_STEPS_A_HEARTBEAT: usize = 128;

/// Finished steps in one object at most.
pub const MAX_STEPS_AN_OBJECT: usize = 10_000;

/// Executables named for one step at most.
pub const MAX_TOOLS_A_STEP: usize = 16;

/// GPUs of one heartbeat at most; the largest machines have 16.
pub const MAX_GPUS: usize = 64;

/// What one SQS message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatMessage {
    /// The sender's clocks at the send.
    pub sent: Sent,
    /// Its heartbeats, oldest first.
    pub heartbeats: Vec<Heartbeat>,
    /// Steps that were left out because a field of theirs cannot be what it says.
    pub refused_steps: u32,
}

/// What one S3 object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepObject {
    /// The sender's clocks at the send.
    pub sent: Sent,
    /// Its steps.
    pub batch: StepBatch,
    /// Steps that were left out because a field of theirs cannot be what it says.
    pub refused_steps: u32,
}

pub(crate) fn allowed(what: &'static str, count: usize, max: usize) -> Result<(), DecodeError> {
    if count > max {
        Err(DecodeError::TooMany { what, count, max })
    } else {
        Ok(())
    }
}
