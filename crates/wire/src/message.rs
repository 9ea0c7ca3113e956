//! Whole messages: limits, base64 and compression around the protobuf.

use std::cell::RefCell;

use base64_simd::STANDARD;
use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::step::{StepBatch, StepUsage};
use prost::Message;
use zstd::bulk::Decompressor;

use crate::contents::{
    HeartbeatMessage, MAX_DECODED_MESSAGE_BYTES, MAX_DECODED_OBJECT_BYTES, MAX_GPUS,
    MAX_HEARTBEATS, MAX_STEPS_A_HEARTBEAT, MAX_STEPS_A_MESSAGE, MAX_STEPS_AN_OBJECT,
    MAX_TOOLS_A_STEP, StepObject, allowed,
};
use crate::error::{DecodeError, EncodeError};
use crate::header::Schema;
use crate::{decode, header, proto};

/// Maximum size of a message: 64 KiB, which SQS bills as one request.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Maximum unpacked size of a message; five full heartbeats take about a quarter.
pub const MAX_UNPACKED_MESSAGE_BYTES: usize = 1 << 20;

/// Maximum size of an object.
pub const MAX_OBJECT_BYTES: usize = 4 << 20;

/// Maximum unpacked size of an object.
pub const MAX_UNPACKED_OBJECT_BYTES: usize = 32 << 20;

/// A level without entropy coding of literals and with few matches. For such short texts, a higher
/// level costs node and sweep more than it saves. In `make bench-sweep`, messages are 18 % longer
/// than at level 3, and unpacking takes a sixth of the time.
const ZSTD_LEVEL: i32 = -5;

/// The working memory of zstd and the buffer for a decoded message. It has the same size for small
/// and large messages, so it is reused. Objects are rare and large, so each gets its own buffer.
struct Workspace {
    zstd: Decompressor<'static>,
    packed: Vec<u8>,
    /// Always [`MAX_UNPACKED_MESSAGE_BYTES`] long, because its length is the limit.
    plain: Vec<u8>,
}

impl Default for Workspace {
    fn default() -> Self {
        Self {
            zstd: Decompressor::default(),
            packed: Vec::new(),
            plain: vec![0; MAX_UNPACKED_MESSAGE_BYTES],
        }
    }
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Encodes up to [`MAX_HEARTBEATS`] heartbeats as the body of one message.
///
/// # Errors
/// `TooMany` or `TooLarge` if they do not fit; the caller must send fewer.
pub fn encode_heartbeats(sent: &Sent, heartbeats: &[Heartbeat]) -> Result<String, EncodeError> {
    fits("heartbeats", heartbeats.len(), MAX_HEARTBEATS)?;
    for heartbeat in heartbeats {
        fits(
            "steps of a heartbeat",
            heartbeat.steps.len(),
            MAX_STEPS_A_HEARTBEAT,
        )?;
        fits("GPUs of a heartbeat", heartbeat.detail.gpus.len(), MAX_GPUS)?;
        for step in &heartbeat.steps {
            fits("tools of a step", step.tools.len(), MAX_TOOLS_A_STEP)?;
        }
    }
    let steps = heartbeats.iter().flat_map(|heartbeat| &heartbeat.steps);
    let memory = steps.map(StepUsage::memory_bytes).sum();
    small_enough("memory of its steps", memory, MAX_DECODED_MESSAGE_BYTES)?;
    let message = proto::Heartbeats {
        sent: Some(sent.into()),
        heartbeats: heartbeats.iter().map(Into::into).collect(),
    };
    body_of(header::HEARTBEAT, &message)
}

/// The text of a message.
fn body_of(schema: Schema, message: &impl Message) -> Result<String, EncodeError> {
    let packed = pack(message, MAX_UNPACKED_MESSAGE_BYTES)?;
    let body = format!("{}\n{}", schema.line, STANDARD.encode_to_string(packed));
    small_enough("message", body.len(), MAX_MESSAGE_BYTES)?;
    Ok(body)
}

/// Decodes the body of one message, without a check of its sender.
///
/// # Errors
/// The message of the error is stored with the dead letter. Memory is limited by
/// [`MAX_UNPACKED_MESSAGE_BYTES`] for any body.
pub fn decode_heartbeats(body: &str) -> Result<HeartbeatMessage, DecodeError> {
    decode_body(header::HEARTBEAT, body, decode::heartbeats)
}

fn decode_body<T>(
    schema: Schema,
    body: &str,
    decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let rest = opened(schema, body.as_bytes(), "message", MAX_MESSAGE_BYTES)?;
    WORKSPACE.with_borrow_mut(|work| {
        work.packed.clear();
        STANDARD
            .decode_append(rest, &mut work.packed)
            .map_err(DecodeError::Base64)?;
        decode(unpack(&mut work.zstd, &work.packed, &mut work.plain)?)
    })
}

/// Whether a message has finished tasks, by its schema line; every other message is decoded as
/// heartbeats.
pub fn is_steps_message(body: &str) -> bool {
    header::STEPS.is_of(body.as_bytes())
}

/// Encodes finished tasks as the body of one message.
///
/// # Errors
/// `TooMany` or `TooLarge` if they do not fit; the caller then writes an object.
pub fn encode_steps_message(sent: &Sent, batch: &StepBatch) -> Result<String, EncodeError> {
    check_steps(batch, MAX_STEPS_A_MESSAGE, MAX_DECODED_MESSAGE_BYTES)?;
    body_of(header::STEPS, &crate::encode::step::steps(sent, batch))
}

/// Decodes the body of one message with finished tasks, without a check of its sender.
///
/// # Errors
/// As for [`decode_heartbeats`].
pub fn decode_steps_message(body: &str) -> Result<StepObject, DecodeError> {
    let object = decode_body(header::STEPS, body, decode::steps)?;
    allowed("steps", object.batch.steps.len(), MAX_STEPS_A_MESSAGE)?;
    let memory: usize = object.batch.steps.iter().map(StepUsage::memory_bytes).sum();
    match memory > MAX_DECODED_MESSAGE_BYTES {
        true => Err(DecodeError::TooLarge {
            what: "memory of the steps",
            max: MAX_DECODED_MESSAGE_BYTES,
        }),
        false => Ok(object),
    }
}

/// Encodes finished tasks as one object.
///
/// # Errors
/// `TooMany` or `TooLarge` if they do not fit; the caller must write fewer.
pub fn encode_steps(sent: &Sent, batch: &StepBatch) -> Result<Vec<u8>, EncodeError> {
    check_steps(batch, MAX_STEPS_AN_OBJECT, MAX_DECODED_OBJECT_BYTES)?;
    let packed = pack(
        &crate::encode::step::steps(sent, batch),
        MAX_UNPACKED_OBJECT_BYTES,
    )?;
    let mut object = format!("{}\n", header::STEPS.line).into_bytes();
    object.extend(packed);
    small_enough("object", object.len(), MAX_OBJECT_BYTES)?;
    Ok(object)
}

fn check_steps(batch: &StepBatch, steps: usize, bytes: usize) -> Result<(), EncodeError> {
    fits("steps", batch.steps.len(), steps)?;
    for step in &batch.steps {
        fits("tools of a step", step.tools.len(), MAX_TOOLS_A_STEP)?;
    }
    let memory = batch.steps.iter().map(StepUsage::memory_bytes).sum();
    small_enough("memory of its steps", memory, bytes)
}

/// Decodes one object of finished tasks, without a check of its sender.
///
/// # Errors
/// As for [`decode_heartbeats`], limited by [`MAX_UNPACKED_OBJECT_BYTES`].
pub fn decode_steps(object: &[u8]) -> Result<StepObject, DecodeError> {
    let packed = opened(header::STEPS, object, "object", MAX_OBJECT_BYTES)?;
    let mut plain = vec![0; MAX_UNPACKED_OBJECT_BYTES];
    WORKSPACE.with_borrow_mut(|work| decode::steps(unpack(&mut work.zstd, packed, &mut plain)?))
}

fn opened<'a>(
    schema: Schema,
    bytes: &'a [u8],
    what: &'static str,
    max: usize,
) -> Result<&'a [u8], DecodeError> {
    if bytes.len() > max {
        return Err(DecodeError::TooLarge { what, max });
    }
    header::open(schema, bytes)
}

/// Compresses a message. It is refused if it is too large for the decoder.
fn pack(message: &impl Message, max: usize) -> Result<Vec<u8>, EncodeError> {
    small_enough("what it unpacks to", message.encoded_len(), max)?;
    zstd::bulk::compress(&message.encode_to_vec(), ZSTD_LEVEL).map_err(EncodeError::Compress)
}

/// Unpacks into `plain`; the length of `plain` is the limit.
fn unpack<'p>(
    zstd: &mut Decompressor<'static>,
    packed: &[u8],
    plain: &'p mut [u8],
) -> Result<&'p [u8], DecodeError> {
    let max = plain.len();
    let length = zstd
        .decompress_to_buffer(packed, plain)
        .map_err(|source| DecodeError::Unpack { max, source })?;
    Ok(plain.get(..length).unwrap_or_default())
}

fn fits(what: &'static str, count: usize, max: usize) -> Result<(), EncodeError> {
    if count > max {
        Err(EncodeError::TooMany { what, count, max })
    } else {
        Ok(())
    }
}

fn small_enough(what: &'static str, bytes: usize, max: usize) -> Result<(), EncodeError> {
    if bytes > max {
        Err(EncodeError::TooLarge { what, bytes, max })
    } else {
        Ok(())
    }
}
