//! The names of an enum's variants and a struct's fields in JSON, derived from their
//! deserialization. A list in the source would lack new ones.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::{de, forward_to_deserialize_any};

/// The names of the variants or fields of `T`; empty if `T` is neither an enum nor a struct.
pub(crate) fn variants<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    match T::deserialize(Asked) {
        Err(Told(names)) => names,
        Ok(_) => &[],
    }
}

/// A deserializer that records the requested names and returns no value.
struct Asked;

#[derive(Debug)]
struct Told(&'static [&'static str]);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for Told {}

impl de::Error for Told {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Asked {
    type Error = Told;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Told> {
        Err(Told(&[]))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Told> {
        Err(Told(names))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Told> {
        Err(Told(names))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_model::advice::sized_request::SizedRequest;
    use ebb_model::finding_kind::FindingKind;
    use ebb_telemetry::origin::Origin;

    #[test]
    fn enums_and_structs_tell_their_names_and_nothing_else_has_any() {
        assert_eq!(variants::<Origin>(), ["measured", "simulated"]);
        assert!(variants::<FindingKind>().contains(&"idle_node"));
        assert_eq!(variants::<SizedRequest>(), ["cores", "memory"]);
        assert!(variants::<String>().is_empty());
    }
}
