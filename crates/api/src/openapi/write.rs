//! Short functions to write JSON Schema.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::variants::variants;

pub(crate) type Named = Vec<(&'static str, Value)>;

/// A schema of [`crate::openapi::schemas::schemas`].
pub(crate) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// An object with these fields, all of which are required.
pub(crate) fn object(fields: &[(&'static str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "required": names, "properties": properties})
}

/// An object with these fields and all other fields of `T`, which have a name but no schema.
pub(crate) fn object_of<T: for<'de> Deserialize<'de>>(fields: &[(&'static str, Value)]) -> Value {
    let mut object = object(fields);
    for name in variants::<T>() {
        // The program still reads the old name of a field, without its unit, but does not write it.
        let with_unit = ["_usd", "_per_hour_usd"].map(|unit| format!("{name}{unit}"));
        let mut with_unit = with_unit.iter();
        let is_old = with_unit.any(|name| object["properties"].get(name).is_some());
        if !is_old && object["properties"].get(name).is_none() {
            object["properties"][*name] = json!({});
        }
    }
    object
}

pub(crate) fn or_null(schema: &Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

pub(crate) fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

pub(crate) fn one_of<T: for<'de> Deserialize<'de>>() -> Value {
    json!({"enum": variants::<T>()})
}

pub(crate) fn controller() -> Value {
    object(&[("kind", text()), ("name", text())])
}

pub(crate) fn text() -> Value {
    json!({"type": "string"})
}

pub(crate) fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

pub(crate) fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

pub(crate) fn share() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": 1_000_000})
}

/// Dollars as a decimal string.
pub(crate) fn money() -> Value {
    json!({
        "type": "string",
        "pattern": "^-?[0-9]+[.][0-9]{2,6}$",
        "description": "US dollars",
        "examples": ["12.34"],
    })
}
