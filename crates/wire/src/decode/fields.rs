//! Reads the fields of a protobuf message in place, one after the other. The caller knows the tags
//! and their meaning, and reads them in ascending order.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::contents::allowed;
use crate::error::DecodeError;

/// The fields of a message, read in the order of their tags. Each field is expected at the current
/// position, which takes one comparison. The module `order` handles messages with another order.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    /// Position of the next field; beyond the end of the bytes after a malformed field.
    at: usize,
}

impl<'a> Fields<'a> {
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Call this after the last field; `last` is the last known tag. Fields with a later tag belong
    /// to a later version and are skipped.
    #[inline(always)]
    pub(super) fn end(self, last: u32) -> Result<(), DecodeError> {
        match self.at == self.bytes.len() {
            true => Ok(()),
            false => self.end_but_for_later_ones(last),
        }
    }

    #[cold]
    fn end_but_for_later_ones(self, last: u32) -> Result<(), DecodeError> {
        let out_of_order = DecodeError::Malformed("a field is not where it must be");
        let Some(mut rest) = self.bytes.get(self.at..) else {
            return Err(out_of_order);
        };
        while !rest.is_empty() {
            if any_field(&mut rest)?.0 <= last {
                return Err(out_of_order);
            }
        }
        Ok(())
    }

    /// Whether the next field has this tag and wire type; if so, advances to its value.
    #[inline(always)]
    fn comes(&mut self, tag: u32, kind: WireType) -> bool {
        let key = tag << 3 | kind as u32;
        let (is_next, length) = match key {
            0..0x80 => (self.bytes.get(self.at) == Some(&(key as u8)), 1),
            _ => {
                let low = self.bytes.get(self.at) == Some(&(key as u8 | 0x80));
                let high = |at: usize| self.bytes.get(at) == Some(&((key >> 7) as u8));
                (low && high(self.at + 1), 2)
            }
        };
        if is_next {
            self.at += length;
        }
        is_next
    }

    /// The value of an integer field; `None` if it is absent.
    #[inline(always)]
    pub(super) fn get(&mut self, tag: u32) -> Option<u64> {
        self.comes(tag, WireType::Varint).then(|| {
            let number;
            (number, self.at) = number_at(self.bytes, self.at);
            number
        })
    }

    /// The value of a 32-bit integer field; as in protobuf, higher bits are dropped.
    #[inline(always)]
    pub(super) fn small(&mut self, tag: u32) -> Option<u32> {
        self.get(tag).map(|number| number as u32)
    }

    /// The value of an integer field; as in protobuf, an absent field is 0.
    #[inline(always)]
    pub(super) fn or_zero(&mut self, tag: u32) -> u64 {
        self.get(tag).unwrap_or_default()
    }

    /// A text or message field; `None` if it is absent.
    #[inline(always)]
    pub(super) fn part(&mut self, tag: u32) -> Option<&'a [u8]> {
        if !self.comes(tag, WireType::LengthDelimited) {
            return None;
        }
        let (length, begin) = number_at(self.bytes, self.at);
        let rest = self.bytes.get(begin..).unwrap_or_default();
        let part = usize::try_from(length).ok();
        let part = part.and_then(|length| rest.get(..length));
        self.at = part.map_or(usize::MAX, |part| begin + part.len());
        part
    }

    /// Calls `take` for each text or message with this tag.
    #[inline(always)]
    pub(super) fn each(
        &mut self,
        tag: u32,
        mut take: impl FnMut(&'a [u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        while let Some(part) = self.part(tag) {
            take(part)?;
        }
        Ok(())
    }

    /// The last text or message with this tag; `None` if there is none.
    #[inline(always)]
    pub(super) fn last<T>(
        &mut self,
        tag: u32,
        mut read: impl FnMut(&'a [u8]) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        let mut last = None;
        self.each(tag, |part| {
            last = Some(read(part)?);
            Ok(())
        })?;
        Ok(last)
    }

    /// The bytes of a text field; empty if it is absent.
    #[inline(always)]
    pub(super) fn text(&mut self, tag: u32) -> &'a [u8] {
        let mut last = Default::default();
        while let Some(text) = self.part(tag) {
            last = text;
        }
        last
    }
}

/// The value of a field.
pub(super) enum Value<'a> {
    Number(u64),
    Part(&'a [u8]),
    /// A wire type that the schema does not use.
    Foreign,
}

/// Reads the next field with any tag.
pub(super) fn any_field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Value<'a>), DecodeError> {
    let (tag, kind) = decode_key(rest)?;
    let value = match kind {
        WireType::Varint => Value::Number(decode_varint(rest)?),
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(rest)?).ok();
            let parts = length.and_then(|length| rest.split_at_checked(length));
            let long = DecodeError::Malformed("a field is longer than what is left");
            let part;
            (part, *rest) = parts.ok_or(long)?;
            Value::Part(part)
        }
        kind => {
            skip_field(kind, tag, rest, DecodeContext::default())?;
            Value::Foreign
        }
    };
    Ok((tag, value))
}

/// A varint and its end; the end is beyond the bytes if the varint is malformed.
#[inline(always)]
fn number_at(bytes: &[u8], at: usize) -> (u64, usize) {
    match bytes.get(at) {
        Some(byte @ 0..0x80) => (u64::from(*byte), at + 1),
        _ => long_number_at(bytes, at),
    }
}

/// Returns by value, so that both numbers stay in registers.
#[inline(never)]
fn long_number_at(bytes: &[u8], at: usize) -> (u64, usize) {
    let begin = bytes.get(at..).unwrap_or_default();
    match of_up_to_eight_bytes(begin) {
        Some((number, length)) => (number, at + length),
        None => any_number_at(bytes, at),
    }
}

#[cold]
fn any_number_at(bytes: &[u8], at: usize) -> (u64, usize) {
    let mut rest = bytes.get(at..).unwrap_or_default();
    let number = decode_varint(&mut rest);
    number.map_or((0, usize::MAX), |number| (number, bytes.len() - rest.len()))
}

/// Reads a varint of up to eight bytes as one word, because a loop is slow if lengths vary. The
/// first byte without its highest bit is the end, and the seven bits of all bytes are combined in
/// pairs. `None` if the varint is longer or cut off.
#[inline]
fn of_up_to_eight_bytes(bytes: &[u8]) -> Option<(u64, usize)> {
    let word = match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => of_fewer_bytes(bytes),
    };
    let ends = !word & 0x8080_8080_8080_8080;
    let length = ends.trailing_zeros() as usize / 8 + 1;
    if length > bytes.len().min(8) {
        return None;
    }
    // All bits up to the end of the first varint.
    let bits = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = bits - ((bits & 0x7f00_7f00_7f00_7f00) >> 1);
    let fours = pairs - 3 * ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    let number = fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4;
    Some((number, length))
}

/// The remaining bytes if they are fewer than a word. Missing bytes have the highest bit set, so
/// that no varint ends there.
#[inline]
fn of_fewer_bytes(bytes: &[u8]) -> u64 {
    let bits = 8 * bytes.len() as u32;
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            let four = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
            u64::MAX << bits | four(last) << (bits - 32) | four(first)
        }
        _ => bytes
            .iter()
            .rev()
            .fold(u64::MAX, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// A list with a limit. Entries beyond the limit are counted but not decoded, so that the error
/// contains their number.
pub(super) struct List<T> {
    what: &'static str,
    max: usize,
    count: usize,
    read: Vec<T>,
}

impl<T> List<T> {
    /// An empty list with capacity for the expected number of entries.
    #[inline]
    pub(super) fn new(what: &'static str, max: usize, expected: usize) -> Self {
        Self {
            what,
            max,
            count: 0,
            read: match expected {
                0 => Vec::new(),
                _ => Vec::with_capacity(expected.min(max)),
            },
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

    /// All entries.
    #[inline]
    pub(super) fn all(self) -> Result<Vec<T>, DecodeError> {
        allowed(self.what, self.count, self.max)?;
        Ok(self.read)
    }
}

/// A part that is usually equal in all heartbeats of a message. If its bytes equal the previous
/// ones, the decoded value is reused.
pub(super) struct Again<'a, T> {
    bytes: &'a [u8],
    read: Option<T>,
}

impl<T> Default for Again<'_, T> {
    fn default() -> Self {
        let (bytes, read) = (Default::default(), None);
        Self { bytes, read }
    }
}

impl<'a, T: Copy> Again<'a, T> {
    pub(super) fn read(
        &mut self,
        bytes: &'a [u8],
        read: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        match self.read.filter(|_| self.bytes == bytes) {
            Some(known) => Ok(known),
            None => {
                let new = read(bytes)?;
                (self.bytes, self.read) = (bytes, Some(new));
                Ok(new)
            }
        }
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
                assert_eq!(number_at(&bytes, 0), (number, length), "{number:x}");
                let (_, cut) = number_at(&bytes[..length - 1], 0);
                assert_eq!(cut, usize::MAX, "{number:x}");
            }
        }
    }

    #[test]
    fn fields_are_read_where_writers_have_them_and_later_ones_passed_over() {
        let check = |bytes: &[u8], expect: Option<(u64, &[u8])>| {
            let mut fields = Fields::new(bytes);
            let number_and_text = (fields.or_zero(1), fields.text(3));
            assert_eq!(
                fields.end(3).ok().map(|()| number_and_text),
                expect,
                "{bytes:02x?}"
            );
        };
        check(b"", Some((0, b"")));
        check(b"\x08\x07\x1a\x01a\x1a\x01b", Some((7, b"b")));
        check(b"\x08\x07\x20\x05\xa2\x01\x01a", Some((7, b"")));
        check(b"\x1a\x01a\x08\x07", None);
        check(b"\x20\x05\x08\x07", None);
        check(b"\x08\x07\x08\x07", None);
        check(b"\x08\x07\x1a\x02a", None);
        check(b"\x08", None);
    }

    #[test]
    fn a_repeated_value_is_read_once() {
        let mut alike = Again::default();
        let sum = |bytes: &[u8]| {
            let mut fields = Fields::new(bytes);
            let sum = fields.or_zero(1);
            fields.end(1).map(|()| sum)
        };
        let mut check = |bytes: &'static [u8], expect: Option<u64>| {
            assert_eq!(alike.read(bytes, sum).ok(), expect, "{bytes:02x?}");
        };
        check(b"", Some(0));
        check(b"\x08\x05", Some(5));
        check(b"\x08\x05", Some(5));
        check(b"\x08", None);
        check(b"\x08\x06", Some(6));
    }
}
