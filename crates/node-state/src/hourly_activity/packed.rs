//! Serialization of hours: numbers in formats for people, and four bytes each in other formats. A
//! hundred thousand nodes have 360 hours each.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::hourly_activity::hour::Hour;
use crate::hourly_activity::hour_of;

pub(crate) fn serialize<S: Serializer>(hours: &[Hour], out: S) -> Result<S::Ok, S::Error> {
    if out.is_human_readable() {
        return hours.serialize(out);
    }
    let bytes: Vec<u8> = hours.iter().flat_map(|hour| hour.0.to_le_bytes()).collect();
    out.serialize_bytes(&bytes)
}

/// Refuses an hour that is outside the range of a timestamp, so that no sum with it overflows.
pub(crate) fn hour_number<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let number = i64::deserialize(from)?;
    let hours = [Timestamp::MIN, Timestamp::MAX].map(|at| hour_of(at.as_second()));
    match (hours[0]..=hours[1]).contains(&number) {
        true => Ok(number),
        false => Err(de::Error::custom("invalid hour")),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Hour>, D::Error> {
    if from.is_human_readable() {
        return Vec::deserialize(from);
    }
    match <&[u8]>::deserialize(from)?.as_chunks() {
        (hours, []) => Ok(hours
            .iter()
            .map(|hour| Hour(u32::from_le_bytes(*hour)))
            .collect()),
        _ => Err(de::Error::custom("incomplete hour")),
    }
}

#[cfg(test)]
mod tests {
    use crate::hourly_activity::NodeHours;

    #[test]
    fn an_hour_that_is_no_time_is_refused() {
        let check = |first: i64, is_read: bool| {
            let stored = postcard::to_allocvec(&(first, &[1_u8, 0, 0, 0][..]));
            let stored = stored.expect("it is encoded");
            let read = postcard::from_bytes::<NodeHours>(&stored);
            assert_eq!(read.is_ok(), is_read, "{first}");
            if let Ok(read) = read {
                assert!(read.hours().count() <= 1);
            }
        };
        check(497_222, true);
        check(-100_000_000, true);
        check(i64::MAX / 3600, false);
        check(i64::MIN, false);
    }
}
