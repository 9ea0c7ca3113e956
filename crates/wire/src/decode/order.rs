//! Handles messages with fields that are not in tag order or that repeat a number. Our encoder
//! writes no such messages, but protobuf allows them. They are sorted and decoded again.

use std::borrow::Cow;

use prost::encoding::{WireType, encode_key, encode_varint};

use crate::contents::MAX_STEPS_AN_OBJECT;
use crate::decode::fields::{Value, any_field};
use crate::error::DecodeError;

/// The structure of a message.
pub(super) struct Shape {
    /// The last known tag, below 32.
    last: u32,
    /// The tags of texts; a tag that is in neither list is a number.
    texts: &'static [u32],
    /// The tags of nested messages.
    messages: &'static [(u32, &'static Shape)],
}

pub(super) const fn shape(
    last: u32,
    texts: &'static [u32],
    messages: &'static [(u32, &'static Shape)],
) -> Shape {
    Shape {
        last,
        texts,
        messages,
    }
}

/// The most nested messages that are sorted: 50 for each of the most tasks of an object.
const MAX_NESTED: usize = 50 * MAX_STEPS_AN_OBJECT;

/// Decodes a refused message again, if its fields were only in another order.
#[cold]
pub(super) fn decode_reordered<T>(
    bytes: &[u8],
    shape: &Shape,
    refused: DecodeError,
    read: fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    // No order makes them fewer, and sorting them takes seconds.
    if matches!(refused, DecodeError::TooMany { .. }) {
        return Err(refused);
    }
    let ordered = shape.in_order(bytes, &mut 0)?;
    match ordered == bytes {
        true => Err(refused),
        false => read(&ordered),
    }
}

impl Shape {
    /// The known fields in tag order, with the last value of each number. This takes a few times
    /// the memory of the message, which nests at most five levels.
    fn in_order(&self, bytes: &[u8], nested: &mut usize) -> Result<Vec<u8>, DecodeError> {
        *nested += 1;
        if *nested > MAX_NESTED {
            return Err(DecodeError::Malformed("too many nested messages"));
        }
        let mut by_tag = vec![Vec::new(); self.last as usize + 1];
        let mut rest = bytes;
        while !rest.is_empty() {
            let (tag, value) = any_field(&mut rest)?;
            let Some(same) = by_tag.get_mut(tag as usize) else {
                continue;
            };
            let message = self.messages.iter().find(|(at, _)| *at == tag);
            let is_number = message.is_none() && !self.texts.contains(&tag);
            match value {
                Value::Number(number) if is_number => {
                    same.clear();
                    encode_key(tag, WireType::Varint, same);
                    encode_varint(number, same);
                }
                Value::Part(part) if !is_number => {
                    let part = match message {
                        Some((_, shape)) => Cow::Owned(shape.in_order(part, nested)?),
                        None => Cow::Borrowed(part),
                    };
                    encode_key(tag, WireType::LengthDelimited, same);
                    encode_varint(part.len() as u64, same);
                    same.extend_from_slice(&part);
                }
                _ => return Err(DecodeError::Malformed("a field is of another kind")),
            }
        }
        Ok(by_tag.concat())
    }
}

#[cfg(test)]
mod tests {
    use base64_simd::STANDARD;

    use super::*;
    use crate::decode::fields::Fields;
    use crate::decode::shapes::HEARTBEATS;

    #[test]
    fn whatever_order_fields_have_they_are_read_and_what_is_of_another_kind_is_refused() {
        fn read(bytes: &[u8]) -> Result<(u64, Vec<u8>), DecodeError> {
            let mut fields = Fields::new(bytes);
            let number_and_text = (fields.or_zero(1), fields.text(3).to_vec());
            fields.end(3)?;
            Ok(number_and_text)
        }
        let check = |bytes: &[u8], expect: Option<(u64, &[u8])>| {
            let shape = shape(3, &[3], &[]);
            let result =
                read(bytes).or_else(|refused| decode_reordered(bytes, &shape, refused, read));
            let expect = expect.map(|(number, text)| (number, text.to_vec()));
            assert_eq!(result.ok(), expect, "{bytes:02x?}");
        };
        check(b"", Some((0, b"")));
        check(b"\x08\x07\x1a\x01a", Some((7, b"a")));
        check(b"\x1a\x01a\x08\x07", Some((7, b"a")));
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
    fn a_message_of_many_parts_is_not_sorted() {
        let sorted = |count| HEARTBEATS.in_order(&b"\x12\x00".repeat(count), &mut 0);
        assert!(sorted(1_000).is_ok());
        assert!(sorted(MAX_NESTED).is_err());
    }

    /// The same message with reversed tags in every nested message.
    fn backwards(bytes: &[u8], shape: &Shape) -> Vec<u8> {
        let mut by_tag = vec![Vec::new(); 32];
        let mut rest = bytes;
        while !rest.is_empty() {
            let (tag, value) = any_field(&mut rest).expect("what was written");
            let same = &mut by_tag[tag as usize];
            match value {
                Value::Number(number) => {
                    encode_key(tag, WireType::Varint, same);
                    encode_varint(number, same);
                }
                Value::Part(part) => {
                    let message = shape.messages.iter().find(|(at, _)| *at == tag);
                    let part = message.map_or(part.to_vec(), |(_, shape)| backwards(part, shape));
                    encode_key(tag, WireType::LengthDelimited, same);
                    encode_varint(part.len() as u64, same);
                    same.extend(part);
                }
                Value::Foreign => panic!("no writer writes it"),
            }
        }
        by_tag.reverse();
        by_tag.concat()
    }

    #[test]
    fn messages_of_every_version_mean_the_same_backwards() {
        let check = |golden: &str| {
            let (_, body) = golden.trim_end().split_once('\n').expect("a header");
            let packed = STANDARD.decode_to_vec(body).expect("base64");
            let plain = zstd::bulk::decompress(&packed, 1 << 20).expect("zstd");
            let ordered = HEARTBEATS.in_order(&plain, &mut 0);
            let ordered = ordered.expect("it is well formed");
            assert_eq!(ordered, plain, "every field of it has its place");
            let other = backwards(&plain, &HEARTBEATS);
            assert_ne!(other, plain);
            let [plain, reordered] =
                [&plain, &other].map(|bytes| crate::decode::heartbeats(bytes).ok());
            assert!(plain.is_some());
            assert_eq!(plain, reordered);
        };
        check(include_str!("../../tests/golden/heartbeat-1.0.txt"));
        check(include_str!("../../tests/golden/heartbeat-1.1.txt"));
        check(include_str!("../../tests/golden/heartbeat-1.2.txt"));
        check(include_str!("../../tests/golden/heartbeat-1.3.txt"));
        check(include_str!("../../tests/golden/heartbeat-1.4.txt"));
        check(include_str!("../../tests/golden/heartbeat-1.5.txt"));
    }
}
