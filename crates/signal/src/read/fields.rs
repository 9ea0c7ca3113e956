//! The fields of a protobuf message one after the other, each where it lies. What a
//! field means, its reader knows.

use prost::encoding::{DecodeContext, decode_key, decode_varint, skip_field};

use crate::error::DecodeError;
use crate::message::allowed;

/// The value of a field.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Number(u64),
    /// A text or a message.
    Bytes(&'a [u8]),
    /// Of a kind that no field of ours is.
    Foreign,
}

impl<'a> Value<'a> {
    #[inline]
    pub(super) fn number(self) -> Result<u64, DecodeError> {
        match self {
            Self::Number(number) => Ok(number),
            _ => Err(DecodeError::Malformed("a number is of another kind")),
        }
    }

    /// What has 32 bits; as protobuf has it, the others are left out.
    #[inline]
    pub(super) fn small(self) -> Result<u32, DecodeError> {
        self.number().map(|number| number as u32)
    }

    #[inline]
    pub(super) fn bytes(self) -> Result<&'a [u8], DecodeError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError::Malformed("a text or part is of another kind")),
        }
    }
}

/// What is left of a message.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The tag and the value of the next field; `None` at the end. Made part of each
    /// reader, for a message has a hundred fields.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, DecodeError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let at_key = self.0;
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok();
                let parts = length.and_then(|length| self.0.split_at_checked(length));
                let Some((value, rest)) = parts else {
                    let cut = "a field is longer than what is left";
                    return Err(DecodeError::Malformed(cut));
                };
                self.0 = rest;
                Value::Bytes(value)
            }
            _ => {
                self.0 = after_foreign(at_key)?;
                Value::Foreign
            }
        };
        match u32::try_from(key >> 3) {
            Ok(tag) if tag > 0 => Ok(Some((tag, value))),
            _ => Err(DecodeError::Malformed("a field has no number of a field")),
        }
    }

    /// Most are of one byte.
    #[inline(always)]
    fn varint(&mut self) -> Result<u64, DecodeError> {
        if let [byte @ 0..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        Ok(decode_varint(&mut self.0)?)
    }
}

/// What follows a field of a kind that none of ours is.
#[cold]
fn after_foreign(mut at_key: &[u8]) -> Result<&[u8], DecodeError> {
    let (tag, wire_type) = decode_key(&mut at_key)?;
    skip_field(wire_type, tag, &mut at_key, DecodeContext::default())?;
    Ok(at_key)
}

/// A list with a bound. What lies beyond is not read but counted, so that a refusal
/// says how many there are.
pub(super) struct List<T> {
    what: &'static str,
    max: usize,
    count: usize,
    read: Vec<T>,
}

impl<T> List<T> {
    /// An empty one, with room for as many as are expected.
    pub(super) fn of(what: &'static str, max: usize, expected: usize) -> Self {
        Self {
            what,
            max,
            count: 0,
            read: Vec::with_capacity(expected.min(max)),
        }
    }

    #[inline]
    pub(super) fn add(
        &mut self,
        read: impl FnOnce(&[T]) -> Result<T, DecodeError>,
    ) -> Result<(), DecodeError> {
        self.count += 1;
        if self.count <= self.max {
            let one = read(&self.read)?;
            self.read.push(one);
        }
        Ok(())
    }

    /// All of them.
    #[inline]
    pub(super) fn all(self) -> Result<Vec<T>, DecodeError> {
        allowed(self.what, self.count, self.max)?;
        Ok(self.read)
    }
}
