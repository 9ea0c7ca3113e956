//! Money in JSON: a decimal string of dollars. An integer is millionths of a dollar;
//! `ebb.report/1.0` and state of that version contain this form.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

use super::Usd;

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(&self.to_decimal()),
            false => serializer.serialize_i64(self.micros),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Usd {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^-?[0-9]+[.][0-9]{2,6}$",
            "description": "US dollars.",
            "examples": ["12.34"],
        })
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_any(Decimal),
            false => i64::deserialize(deserializer).map(Self::from_micros),
        }
    }
}

struct Decimal;

impl Visitor<'_> for Decimal {
    type Value = Usd;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dollars as a decimal string, such as \"12.34\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Usd, E> {
        Usd::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_i64<E: Error>(self, micros: i64) -> Result<Usd, E> {
        Ok(Usd::from_micros(micros))
    }

    fn visit_u64<E: Error>(self, micros: u64) -> Result<Usd, E> {
        i64::try_from(micros)
            .map(Usd::from_micros)
            .map_err(|_| E::invalid_value(Unexpected::Unsigned(micros), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::UsdPerHour;

    #[test]
    fn dollars_are_a_decimal_string_and_an_integer_is_millionths() {
        let check = |json: &str, expect: Option<i64>| {
            let read: Option<Usd> = serde_json::from_str(json).ok();
            assert_eq!(read.map(Usd::micros), expect, "{json}");
        };
        check("\"12.34\"", Some(12_340_000));
        check("\"-0.000001\"", Some(-1));
        check("12340000", Some(12_340_000));
        check("-1", Some(-1));
        check("12.34", None);
        check("\"$12\"", None);
        check("18446744073709551615", None);
        let text = serde_json::to_string(&UsdPerHour::from_micros(10_400));
        assert_eq!(text.expect("JSON"), "\"0.0104\"");
    }

    #[test]
    fn stored_state_holds_millionths_as_before() {
        let usd = Usd::from_micros(-12_340_000);
        let bytes = postcard::to_allocvec(&usd).expect("it is encoded");
        assert_eq!(
            bytes,
            postcard::to_allocvec(&-12_340_000_i64).expect("it is encoded")
        );
        assert_eq!(postcard::from_bytes(&bytes), Ok(usd));
    }
}
