//! Packed values as bytes of a stored state.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serializer, de};

pub(crate) fn serialize<S: Serializer>(packed: &[u8], out: S) -> Result<S::Ok, S::Error> {
    out.serialize_bytes(packed)
}

/// Refuses bytes that cannot be unpacked to a `T`.
pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    from: D,
) -> Result<Box<[u8]>, D::Error> {
    let packed = <&[u8]>::deserialize(from)?;
    postcard::from_bytes::<T>(packed)
        .map(|_| packed.into())
        .map_err(de::Error::custom)
}
