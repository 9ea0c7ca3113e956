//! The JSON Schema of a policy file, from the types of the policy. Descriptions are the doc comments
//! of the types; minimum and maximum are the bounds that a policy file is checked against.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::policy::{Policy, bounds};

/// The schema, in the dialect of 2020-12, without references.
pub fn policy_schema() -> Schema {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<Policy>();
    schema.insert("title".to_owned(), "Policy of Ebb".into());
    for (table, of_table) in properties(schema.as_object_mut()) {
        let Some(of_table) = of_table.as_object_mut() else {
            continue;
        };
        // Each key has its own default.
        of_table.retain(|name, value| name != "default" || !value.is_object());
        for (key, of_key) in properties(Some(of_table)) {
            if let (Some(bounds), Some(of_key)) =
                (bounds::of_key(table, key), of_key.as_object_mut())
            {
                of_key.insert("minimum".to_owned(), bounds.least.into());
                of_key.insert("maximum".to_owned(), bounds.most.into());
            }
        }
    }
    schema
}

fn properties(
    schema: Option<&mut Map<String, Value>>,
) -> impl Iterator<Item = (&String, &mut Value)> {
    let found = schema.and_then(|schema| schema.get_mut("properties"));
    found.and_then(Value::as_object_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding_kind::FindingKind;
    use toml::Table;

    #[test]
    fn each_key_has_a_description_and_its_default() {
        let schema = policy_schema();
        let schema = schema.as_value();
        let defaults = Table::try_from(Policy::default()).expect("TOML");
        for (table, keys) in &defaults {
            let of_table = &schema["properties"][table];
            assert!(of_table["description"].is_string(), "{table}");
            for (key, default) in keys.as_table().into_iter().flatten() {
                let of_key = &of_table["properties"][key];
                assert!(of_key["description"].is_string(), "{table}.{key}");
                let default = serde_json::to_value(default).expect("JSON");
                assert_eq!(of_key["default"], default, "{table}.{key}");
            }
        }
    }

    #[test]
    fn numbers_have_bounds_and_kinds_have_names() {
        let schema = policy_schema();
        let properties = &schema.as_value()["properties"];
        let tick = &properties["activity"]["properties"]["tick_seconds"];
        assert_eq!(
            (&tick["minimum"], &tick["maximum"]),
            (&1.into(), &3_600.into())
        );
        let kinds = properties["quiet"]["properties"]["pass"]["items"]["oneOf"].as_array();
        assert_eq!(kinds.expect("names").len(), FindingKind::ALL.len());
        assert_eq!(properties["idle"]["additionalProperties"], false);
    }
}
