//! Serialization of times: text in readable formats, nanoseconds in binary formats.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Writes a time.
pub fn serialize<S: Serializer>(at: &Timestamp, out: S) -> Result<S::Ok, S::Error> {
    if out.is_human_readable() {
        return at.serialize(out);
    }
    at.as_nanosecond().serialize(out)
}

/// Reads a time.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    if from.is_human_readable() {
        return Timestamp::deserialize(from);
    }
    let nanos = i128::deserialize(from)?;
    Timestamp::from_nanosecond(nanos).map_err(de::Error::custom)
}

/// The same for an optional time.
pub mod option {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

    #[derive(Serialize, Deserialize)]
    struct At(#[serde(with = "super")] Timestamp);

    /// Writes an optional time.
    pub fn serialize<S: Serializer>(at: &Option<Timestamp>, out: S) -> Result<S::Ok, S::Error> {
        at.map(At).serialize(out)
    }

    /// Reads an optional time.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<At>::deserialize(from)?.map(|at| at.0))
    }
}
