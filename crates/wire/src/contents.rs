//! Contents of messages and objects, with their limits.

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::step::StepBatch;

use crate::error::DecodeError;

/// Maximum bytes of a name; longer names are cut. Real names are shorter.
pub(crate) const MAX_TEXT_BYTES: usize = 256;

/// Maximum number of heartbeats in one message.
pub const MAX_HEARTBEATS: usize = 5;

/// Maximum memory of the decoded tasks of a message. Five full heartbeats take about half. A few
/// encoded bytes can decode to much more memory.
pub const MAX_DECODED_MESSAGE_BYTES: usize = 4 << 20;

/// Maximum memory of the decoded tasks of an object.
pub const MAX_DECODED_OBJECT_BYTES: usize = 32 << 20;

/// Maximum number of running tasks in one heartbeat.
pub const MAX_STEPS_A_HEARTBEAT: usize = 128;

/// Maximum number of finished tasks in one object.
pub const MAX_STEPS_AN_OBJECT: usize = 10_000;

/// Maximum number of finished tasks in one message.
pub const MAX_STEPS_A_MESSAGE: usize = 1_000;

/// Maximum number of executables of one task.
pub const MAX_TOOLS_A_STEP: usize = 16;

/// Maximum number of GPUs in one heartbeat; the largest machines have 16.
pub const MAX_GPUS: usize = 64;

/// The content of one SQS message with heartbeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatMessage {
    /// The sender's clocks at the time of sending.
    pub sent: Sent,
    /// The heartbeats, oldest first.
    pub heartbeats: Vec<Heartbeat>,
    /// Number of tasks that were left out because a field has an invalid value.
    pub refused_steps: u32,
}

/// The content of one S3 object, or of one SQS message with finished tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepObject {
    /// The sender's clocks at the time of sending.
    pub sent: Sent,
    /// The finished tasks.
    pub batch: StepBatch,
    /// Number of tasks that were left out because a field has an invalid value.
    pub refused_steps: u32,
}

pub(crate) fn allowed(what: &'static str, count: usize, max: usize) -> Result<(), DecodeError> {
    if count > max {
        Err(DecodeError::TooMany { what, count, max })
    } else {
        Ok(())
    }
}
