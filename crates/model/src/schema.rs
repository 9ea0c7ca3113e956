//! JSON Schemas of the types.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::report::Report;

/// The schema of a report. The file `crates/report/schema/report.schema.json` contains it.
pub fn report_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Report>();
    let mut schema = schema.to_value();
    plain_descriptions(&mut schema);
    schema["$id"] = "urn:ebb:report:2".into();
    schema["title"] = "A report of Ebb".into();
    schema["description"] = "Report of a deployment (reports/latest/report.json) and of `ebb scan --format \
                             json`. Memory is in bytes, cores are in thousandths, shares are in millionths, \
                             and amounts are US dollars as decimal strings. Later releases may add fields."
        .into();
    schema["properties"]["schema"]["const"] = Report::SCHEMA.into();
    schema
}

/// Turns comments of Rust into descriptions, and drops repeated names and defaults that are `null`.
pub fn plain_descriptions(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = description(text);
            }
            // The head and the part of an answer may share a field.
            if let Some(Value::Array(required)) = object.get_mut("required") {
                let mut seen = BTreeSet::new();
                required.retain(|name| seen.insert(name.to_string()));
            }
            object.values_mut().for_each(plain_descriptions);
        }
        Value::Array(list) => list.iter_mut().for_each(plain_descriptions),
        _ => {}
    }
}

/// A comment of Rust without its links, in the words of JSON.
fn description(comment: &str) -> String {
    let is_text = |line: &&str| !(line.is_empty() || line.starts_with("[`"));
    let lines: Vec<&str> = comment.lines().filter(is_text).collect();
    let text = lines.join(" ").replace("`None`", "`null`");
    let mut parts = text.split("[`");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (link, rest) = part.split_once("`]").unwrap_or((part, ""));
        let name = link.rsplit("::").next().unwrap_or(link);
        plain.push_str(&format!("`{name}`{rest}"));
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn comments_become_descriptions_without_links() {
        let check = |comment, expect| assert_eq!(description(comment), expect, "{comment}");
        check(
            "The peak; `None` when\nunknown.",
            "The peak; `null` when unknown.",
        );
        check("At most [`Resource::MAX_TAGS`].", "At most `MAX_TAGS`.");
        check(
            "See [`A::b`] and [`c`].\n\n[`A::b`]: crate::a::A::b",
            "See `b` and `c`.",
        );
    }

    #[test]
    fn the_file_of_the_report_schema_is_current() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = folder.join("../report/schema/report.schema.json");
        let mut schema = serde_json::to_string_pretty(&report_schema()).expect("it is JSON");
        schema.push('\n');
        if std::env::var_os("EBB_UPDATE").is_some() {
            std::fs::write(&file, &schema).expect("the file can be written");
        }
        let written = std::fs::read_to_string(&file).expect("the file exists");
        assert!(
            written == schema,
            "{} is not current; run this test with EBB_UPDATE=1",
            file.display()
        );
    }
}
