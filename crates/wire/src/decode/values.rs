//! Checks the values of fields.

use std::str::FromStr;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::identity::IdentityError;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::BootClock;

use crate::contents::MAX_TEXT_BYTES;
use crate::decode::fields::Fields;
use crate::decode::{utf8, wall};
use crate::error::DecodeError;
use crate::proto;

pub(crate) fn wrong(field: &'static str, problem: impl Into<String>) -> DecodeError {
    DecodeError::Field {
        field,
        problem: problem.into(),
    }
}

pub(crate) fn named<T: FromStr<Err = IdentityError>>(
    field: &'static str,
    name: &[u8],
) -> Result<T, DecodeError> {
    let name = utf8(field, name)?;
    name.parse()
        .map_err(|error: IdentityError| wrong(field, error.to_string()))
}

/// A name of at most `max_bytes` bytes. Our encoder cleans and cuts names. If another encoder wrote
/// an invalid name, only the task with this name is refused.
pub(crate) fn text_of(
    field: &'static str,
    value: &[u8],
    max_bytes: usize,
) -> Result<String, DecodeError> {
    if value.len() > max_bytes {
        return Err(wrong(field, format!("more than {max_bytes} bytes")));
    }
    let value = utf8(field, value)?;
    let is_plain = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !is_plain && value.chars().any(char::is_control) {
        return Err(wrong(field, "it holds a control character"));
    }
    Ok(value.to_owned())
}

pub(crate) fn text(field: &'static str, value: &[u8]) -> Result<String, DecodeError> {
    text_of(field, value, MAX_TEXT_BYTES)
}

/// Skips the check if the text equals the one in the previous heartbeat.
pub(crate) fn text_again(
    field: &'static str,
    value: &[u8],
    before: Option<&String>,
) -> Result<String, DecodeError> {
    match before.filter(|before| before.as_bytes() == value) {
        Some(before) => Ok(before.clone()),
        None => text(field, value),
    }
}

pub(crate) fn required<T>(field: &'static str, value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or_else(|| wrong(field, "it is missing"))
}

pub(crate) fn origin(origin: u32) -> Result<Origin, DecodeError> {
    match proto::Origin::try_from(origin.cast_signed()) {
        Ok(proto::Origin::Measured) => Ok(Origin::Measured),
        Ok(proto::Origin::Simulated) => Ok(Origin::Simulated),
        _ => Err(wrong("origin", format!("unknown value {origin}"))),
    }
}

pub(crate) fn sent(bytes: &[u8]) -> Result<Sent, DecodeError> {
    let mut fields = Fields::new(bytes);
    let sent = Sent {
        boot: named("sent.boot", fields.text(1))?,
        clock: BootClock::from_nanos(fields.or_zero(2)),
        wall: wall("sent.wall_us", fields.or_zero(3))?,
    };
    fields.end(3)?;
    Ok(sent)
}

/// Remaining memory for decoded data.
pub(crate) struct Room {
    max: usize,
    left: usize,
}

impl Room {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, left: max }
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), DecodeError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or(DecodeError::TooLarge {
            what: "the memory of its steps",
            max: self.max,
        })?;
        Ok(())
    }
}
