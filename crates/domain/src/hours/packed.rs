//! Hours as they travel: numbers where people may read them, and four bytes each where
//! not, for a hundred thousand nodes have 336 each.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Hour;

pub(super) fn serialize<S: Serializer>(hours: &[Hour], out: S) -> Result<S::Ok, S::Error> {
    if out.is_human_readable() {
        return hours.serialize(out);
    }
    let bytes: Vec<u8> = hours.iter().flat_map(|hour| hour.0.to_le_bytes()).collect();
    out.serialize_bytes(&bytes)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Hour>, D::Error> {
    if from.is_human_readable() {
        return Vec::deserialize(from);
    }
    match <&[u8]>::deserialize(from)?.as_chunks() {
        (hours, []) => Ok(hours
            .iter()
            .map(|hour| Hour(u32::from_le_bytes(*hour)))
            .collect()),
        _ => Err(de::Error::custom("an hour is cut")),
    }
}
