//! The fields of a protobuf message one after the other, each where it lies. What a
//! field means, its reader knows.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::error::DecodeError;
use crate::message::allowed;

/// The numbers that a message says, by their tags: most fields are numbers, and to put them
/// in an array takes fewer instructions than a branch for each tag. Of one that is there
/// twice the last counts.
pub(super) struct Numbers<const N: usize> {
    values: [u64; N],
    /// A bit for each tag that was there.
    there: u32,
}

/// Of a message that says nothing but up to seven numbers, with tags up to `last`.
#[inline]
pub(super) fn numbers(bytes: &[u8], last: usize) -> Result<Numbers<8>, DecodeError> {
    let mut said = Numbers::NONE;
    take_numbers(&mut said, bytes, last)?;
    Ok(said)
}

/// One loop for all such messages.
fn take_numbers(said: &mut Numbers<8>, bytes: &[u8], last: usize) -> Result<(), DecodeError> {
    said.take(bytes, last, 0, |_, _| Ok(()))
}

/// Reads a message that says nothing but texts and messages, with tags up to `last`.
pub(super) fn texts<'a>(
    bytes: &'a [u8],
    last: usize,
    part: impl FnMut(usize, &'a [u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    Numbers::<8>::read(bytes, last, u32::MAX, part).map(|_| ())
}

impl<const N: usize> Numbers<N> {
    const NONE: Self = Self {
        values: [0; N],
        there: 0,
    };

    /// Reads a message whose tags that are known here go up to `last`, below `N`; those
    /// with a bit in `parts` are texts and messages, which are handed to `part`. What has
    /// a later tag is of a later version, and passed over.
    #[inline]
    pub(super) fn read<'a>(
        bytes: &'a [u8],
        last: usize,
        parts: u32,
        part: impl FnMut(usize, &'a [u8]) -> Result<(), DecodeError>,
    ) -> Result<Self, DecodeError> {
        let mut said = Self::NONE;
        said.take(bytes, last, parts, part)?;
        Ok(said)
    }

    #[inline(always)]
    fn take<'a>(
        &mut self,
        bytes: &'a [u8],
        last: usize,
        parts: u32,
        mut part: impl FnMut(usize, &'a [u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let (mut rest, mut there) = (bytes, 0);
        while !rest.is_empty() {
            let tag;
            let kind;
            (tag, kind, rest) = key(rest)?;
            match kind {
                0 => {
                    let number;
                    (number, rest) = varint(rest)?;
                    if let Some(value) = self.values.get_mut(tag).filter(|_| tag <= last) {
                        *value = number;
                        there |= 1 << tag;
                    }
                }
                2 => {
                    let bytes;
                    (bytes, rest) = text_or_message(rest)?;
                    if tag <= last {
                        if parts >> tag & 1 == 0 {
                            return Err(DecodeError::Malformed("a number is of another kind"));
                        }
                        part(tag, bytes)?;
                    }
                }
                _ => {
                    rest = after_foreign(tag, kind, rest)?;
                    if tag <= last {
                        return Err(DecodeError::Malformed("a field is of another kind"));
                    }
                }
            }
        }
        self.there = there;
        if there & parts != 0 {
            let foreign = "a text or part is of another kind";
            return Err(DecodeError::Malformed(foreign));
        }
        Ok(())
    }

    /// The number of a field, where it is there.
    #[inline]
    pub(super) fn get(&self, tag: usize) -> Option<u64> {
        (self.there >> tag & 1 == 1).then_some(self.values[tag])
    }

    /// The same of 32 bits; as protobuf has it, the others are left out.
    #[inline]
    pub(super) fn small(&self, tag: usize) -> Option<u32> {
        self.get(tag).map(|number| number as u32)
    }

    /// The number of a field; as protobuf has it, one that is not there is 0.
    #[inline]
    pub(super) fn or_zero(&self, tag: usize) -> u64 {
        self.values[tag]
    }
}

/// The bits of tags.
pub(super) const fn bits(tags: &[usize]) -> u32 {
    let (mut bits, mut rest) = (0, tags);
    while let [tag, others @ ..] = rest {
        bits |= 1 << *tag;
        rest = others;
    }
    bits
}

// What follows takes what is left of a message and answers what is left after it, by
// value: so both stay in registers.

/// The tag of a field and the kind of its value. Tags below 16 take one byte.
#[inline(always)]
fn key(bytes: &[u8]) -> Result<(usize, u8, &[u8]), DecodeError> {
    match bytes {
        [key @ 8..0x80, rest @ ..] => Ok((usize::from(key >> 3), key & 7, rest)),
        [low @ 0x80..=0xff, high @ 1..0x80, rest @ ..] => {
            let tag = usize::from(low & 0x7f) >> 3 | usize::from(*high) << 4;
            Ok((tag, low & 7, rest))
        }
        _ => any_key(bytes),
    }
}

#[cold]
fn any_key(mut bytes: &[u8]) -> Result<(usize, u8, &[u8]), DecodeError> {
    let (tag, kind) = decode_key(&mut bytes)?;
    Ok((tag as usize, kind as u8, bytes))
}

#[inline(always)]
fn text_or_message(bytes: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let (length, rest) = varint(bytes)?;
    let length = usize::try_from(length).ok();
    match length.and_then(|length| rest.split_at_checked(length)) {
        Some(parts) => Ok(parts),
        None => Err(DecodeError::Malformed(
            "a field is longer than what is left",
        )),
    }
}

/// What follows a value of a kind that none of ours is.
#[cold]
fn after_foreign(tag: usize, kind: u8, mut bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let tag = u32::try_from(tag).unwrap_or(u32::MAX);
    let kind = WireType::try_from(u64::from(kind))?;
    skip_field(kind, tag, &mut bytes, DecodeContext::default())?;
    Ok(bytes)
}

/// Many are of one byte.
#[inline(always)]
fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    match bytes {
        [byte @ 0..0x80, rest @ ..] => Ok((u64::from(*byte), rest)),
        _ => match of_up_to_eight_bytes(bytes) {
            Some(read) => Ok(read),
            None => any_varint(bytes),
        },
    }
}

#[cold]
fn any_varint(mut bytes: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    let number = decode_varint(&mut bytes)?;
    Ok((number, bytes))
}

/// A number of up to eight bytes, read as one word, for lengths that change from one to
/// the next are what a loop is slow at: where it ends is told by the first byte without
/// its highest bit, and the seven bits of all bytes are moved together in pairs. `None`
/// where it is longer or cut off.
#[inline]
fn of_up_to_eight_bytes(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let word = match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => of_fewer_bytes(bytes),
    };
    let end = (!word & 0x8080_8080_8080_8080).trailing_zeros();
    let rest = bytes.get(end as usize / 8 + 1..)?;
    let bits = word & u64::MAX.checked_shr(63_u32.wrapping_sub(end))? & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = bits - ((bits & 0x7f00_7f00_7f00_7f00) >> 1);
    let fours = pairs - 3 * ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    let number = fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4;
    Some((number, rest))
}

/// What is left where it is less than a word. Of a byte that is not there the highest bit
/// is set: no number ends there.
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
    #[inline]
    pub(super) fn of(what: &'static str, max: usize, expected: usize) -> Self {
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

    /// All of them.
    #[inline]
    pub(super) fn all(self) -> Result<Vec<T>, DecodeError> {
        allowed(self.what, self.count, self.max)?;
        Ok(self.read)
    }
}

/// A part that most heartbeats of a message say alike: bytes that are those of before mean
/// what they meant there.
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
                let rest = &bytes[length..];
                assert_eq!(varint(&bytes).ok(), Some((number, rest)), "{number:x}");
                assert!(varint(&bytes[..length - 1]).is_err(), "{number:x}");
            }
        }
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over_and_what_is_of_another_kind_is_refused() {
        let check = |bytes: &[u8], expect: Option<(u64, &[u8])>| {
            let mut text: &[u8] = b"";
            let said = Numbers::<4>::read(bytes, 3, bits(&[3]), |_, part| {
                text = part;
                Ok(())
            });
            let said = said.ok().map(|said| (said.or_zero(1), text));
            assert_eq!(said, expect, "{bytes:02x?}");
        };
        check(b"", Some((0, b"")));
        check(b"\x08\x07\x1a\x01a", Some((7, b"a")));
        check(b"\x08\x07\x08\x09\x1a\x01a\x1a\x01b", Some((9, b"b")));
        // Tags from 4 on: a number, a text, a fixed number and a group; tag 20.
        check(b"\x20\x05\x08\x07", Some((7, b"")));
        check(b"\x22\x01a\x08\x07", Some((7, b"")));
        check(b"\x25\x01\x02\x03\x04\x08\x07", Some((7, b"")));
        check(b"\x23\x08\x01\x24\x08\x07", Some((7, b"")));
        check(b"\xa0\x01\x05\xa2\x01\x01a\x08\x07", Some((7, b"")));
        // A number as a text or fixed, a text as a number.
        check(b"\x0a\x01a", None);
        check(b"\x0d\x01\x02\x03\x04", None);
        check(b"\x18\x01", None);
        // No tag, no such kind, and cut.
        check(b"\x00\x01", None);
        check(b"\x0f\x01", None);
        check(b"\x80\x00\x01", None);
        check(b"\x08", None);
        check(b"\xa0", None);
        check(b"\x1a\x02a", None);
    }

    #[test]
    fn what_is_said_again_is_read_once_and_what_is_new_or_bad_anew() {
        let mut alike = Again::default();
        let sum = |bytes: &[u8]| Ok(numbers(bytes, 1)?.or_zero(1));
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
