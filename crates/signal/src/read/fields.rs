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
        match of_up_to_eight_bytes(self.0) {
            Some((number, rest)) => {
                self.0 = rest;
                Ok(number)
            }
            None => Ok(decode_varint(&mut self.0)?),
        }
    }
}

/// A number of up to eight bytes, read as one word, for lengths that change from one to
/// the next are what a loop is slow at: where it ends is told by the first byte without
/// its highest bit, and the seven bits of all bytes are moved together in pairs. `None`
/// where it is longer or cut off.
#[inline]
fn of_up_to_eight_bytes(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let word = match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        // Of a byte that is not there the highest bit is set: no number ends there.
        None => bytes
            .iter()
            .rev()
            .fold(u64::MAX, |word, byte| word << 8 | u64::from(*byte)),
    };
    let end = (!word & 0x8080_8080_8080_8080).trailing_zeros();
    let rest = bytes.get(end as usize / 8 + 1..)?;
    let bits = word & u64::MAX.checked_shr(63_u32.wrapping_sub(end))? & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = bits & 0x007f_007f_007f_007f | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    let number = fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4;
    Some((number, rest))
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

#[cfg(test)]
mod tests {
    use prost::encoding::encode_varint;

    use super::*;

    #[test]
    fn a_number_of_any_length_is_read_whatever_follows_it_and_a_cut_one_is_refused() {
        let numbers = (0..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits, u64::MAX << bits]);
        for number in numbers {
            for after in [0, 1, 9] {
                let mut bytes = Vec::new();
                encode_varint(number, &mut bytes);
                let length = bytes.len();
                bytes.resize(length + after, 0xff);
                let mut fields = Fields(&bytes);
                assert_eq!(fields.varint().ok(), Some(number), "{number:x}");
                assert_eq!(fields.0.len(), after, "{number:x}");
                let mut cut = Fields(&bytes[..length - 1]);
                assert!(cut.varint().is_err(), "{number:x}");
            }
        }
    }
}
