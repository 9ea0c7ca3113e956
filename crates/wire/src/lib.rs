//! The wire contract, v1: the encoding of heartbeats and finished tasks between node and sweep. A
//! minor version only adds fields, so a decoder accepts any later minor version of its major
//! version. Another schema or major version is refused by name.
//!
//! - An SQS message with heartbeats begins with the line `ebb.heartbeat/1.7`; its body is base64 of zstd of
//!   protobuf.
//! - An S3 object with finished tasks begins with the line `ebb.steps/1.7`; its body is zstd of protobuf.
//! - An SQS message with finished tasks begins with the same line as the object; its body is base64 of that of
//!   the object.

#![warn(missing_docs)]

mod contents;
mod decode;
mod encode;
mod error;
mod header;
mod message;
// Generated: `tests/generated.rs` creates it from `ebb.v1.proto`.
#[rustfmt::skip]
#[expect(unreachable_pub, reason = "the generator makes everything public")]
mod proto;

pub use crate::contents::{
    HeartbeatMessage, MAX_DECODED_MESSAGE_BYTES, MAX_DECODED_OBJECT_BYTES, MAX_GPUS,
    MAX_HEARTBEATS, MAX_STEPS_A_HEARTBEAT, MAX_STEPS_A_MESSAGE, MAX_STEPS_AN_OBJECT,
    MAX_TOOLS_A_STEP, StepObject,
};
pub use crate::message::{
    MAX_MESSAGE_BYTES, MAX_OBJECT_BYTES, MAX_UNPACKED_MESSAGE_BYTES, MAX_UNPACKED_OBJECT_BYTES,
    decode_heartbeats, decode_steps, decode_steps_message, encode_heartbeats, encode_steps,
    encode_steps_message, is_steps_message,
};
pub use error::{DecodeError, EncodeError};
