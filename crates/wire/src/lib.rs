//! The wire contract, v1: how heartbeats and finished steps travel from a node
//! to the sweep. A minor version adds fields only, so a reader takes any later
//! minor of its major; another schema or major is refused by name.
//!
//! | | schema line | body |
//! |---|---|---|
//! | SQS message | `ebb.heartbeat/1.6` | base64 of zstd of protobuf |
//! | S3 object | `ebb.steps/1.6` | zstd of protobuf |

#![warn(missing_docs)]

mod contents;
mod decode;
mod encode;
mod error;
mod header;
mod message;
// Generated: `tests/generated.rs` makes it from `ebb.v1.proto`.
#[rustfmt::skip]
#[expect(unreachable_pub, reason = "the generator makes everything public")]
mod proto;

pub use crate::contents::{
    HeartbeatMessage, MAX_DECODED_MESSAGE_BYTES, MAX_DECODED_OBJECT_BYTES, MAX_GPUS,
    MAX_HEARTBEATS, MAX_STEPS_A_HEARTBEAT, MAX_STEPS_AN_OBJECT, MAX_TOOLS_A_STEP, StepObject,
};
pub use crate::message::{
    MAX_MESSAGE_BYTES, MAX_OBJECT_BYTES, MAX_UNPACKED_MESSAGE_BYTES, MAX_UNPACKED_OBJECT_BYTES,
    decode_heartbeats, decode_steps, encode_heartbeats, encode_steps,
};
pub use error::{DecodeError, EncodeError};
