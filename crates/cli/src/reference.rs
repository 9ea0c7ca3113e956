//! The reference pages of the command line and of the policy in the book, from the code.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use ebb_model::policy::schema::policy_schema;
use ebb_test_support::expect_file;
use serde_json::Value;

use crate::args::Args;
use crate::policy::threshold_text;

/// Columns of a help page in the book.
const COLUMNS: usize = 100;

fn page(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference");
    folder.join(name)
}

/// The help of a command and of all commands below it.
fn add_help(command: &Command, parents: &str, out: &mut String) {
    let name = format!("{parents}{}", command.get_name());
    let mut shown = command.clone().bin_name(&name).term_width(COLUMNS);
    let help = shown.render_long_help().to_string();
    let text: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let _ = write!(out, "\n## {name}\n```text\n{}\n```\n", text.join("\n"));
    for below in command.get_subcommands() {
        if below.get_name() != "help" && !below.is_hide_set() {
            add_help(below, &format!("{name} "), out);
        }
    }
}

#[test]
fn the_page_of_the_command_line_is_current() {
    let mut text = "# Command line\n\nThe help pages of `ebb`. `ebb man DIR` writes them as manual pages. `ebb completions SHELL` prints\n\
        the completion script of a shell.\n"
        .to_owned();
    // The version is not part of the page, so that a release does not change it.
    add_help(&Args::command(), "", &mut text);
    expect_file(&page("command-line.md"), &text);
}

/// The text of a table's cell.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

/// The type of a value in words.
fn type_of(schema: &Value) -> String {
    let names = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let name = names.into_iter().find(|name| *name != "null");
    match name {
        Some("array") => format!("list of {}", type_of(&schema["items"])),
        Some("object") => "table".to_owned(),
        Some("string") if schema["enum"].is_array() => "name".to_owned(),
        Some(name) => name.to_owned(),
        // An optional type or one with a description of its own.
        None => {
            let any = schema["anyOf"].as_array().into_iter().flatten();
            let mut types = any
                .map(type_of)
                .filter(|name| name != "null" && !name.is_empty());
            types
                .next()
                .unwrap_or_else(|| match schema["oneOf"].is_array() {
                    true => "name".to_owned(),
                    false => String::new(),
                })
        }
    }
}

/// A default with its unit.
fn shown(key: &str, value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    let toml = toml::Value::try_from(value).expect("a value of TOML");
    match threshold_text::meaning(key, &toml) {
        Some(meaning) => format!("`{value}` ({meaning})"),
        None => format!("`{value}`"),
    }
}

fn text_of<'v>(schema: &'v Value, name: &str) -> &'v str {
    schema[name].as_str().unwrap_or_default()
}

fn object(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// A table of thresholds.
fn add_thresholds(name: &str, schema: &Value, out: &mut String) {
    let _ = write!(
        out,
        "\n## \\[{name}\\]\n{}\n\n",
        text_of(schema, "description")
    );
    out.push_str("| key | default | allowed | meaning |\n|---|---|---|---|\n");
    for (key, of_key) in object(schema) {
        let default = shown(key, &of_key["default"]);
        let (least, most) = (&of_key["minimum"], &of_key["maximum"]);
        let allowed = match most.is_null() {
            true => type_of(of_key),
            false => format!("{least} to {most}"),
        };
        let meaning = cell(text_of(of_key, "description"));
        let _ = writeln!(out, "| `{key}` | {default} | {allowed} | {meaning} |");
    }
}

/// The keys of an entry of a list of tables, with those of tables in it.
fn add_keys(parent: &str, schema: &Value, out: &mut String) {
    let required = schema["required"].as_array();
    for (key, of_key) in object(schema) {
        let is_required = required.is_some_and(|names| names.contains(&key.as_str().into()));
        let is_required = if is_required { "yes" } else { "no" };
        let meaning = cell(text_of(of_key, "description"));
        let kind = type_of(of_key);
        let _ = writeln!(
            out,
            "| `{parent}{key}` | {kind} | {is_required} | {meaning} |"
        );
        let parts = of_key["anyOf"].as_array().into_iter().flatten();
        for part in parts.chain([of_key]) {
            add_keys(&format!("{parent}{key}."), part, out);
        }
    }
}

#[test]
fn the_page_of_the_policy_is_current() {
    let mut text = "# Policy keys\n\nAll keys of a policy file. [Policy](../policy.md) explains how to use it. \
        `ebb policy schema` prints the\nsame as a JSON Schema, for editors.\n"
        .to_owned();
    let schema = policy_schema();
    let tables = |is_list: bool| {
        let all = object(schema.as_value());
        all.filter(move |(_, table)| table["items"].is_object() == is_list)
    };
    for (name, table) in tables(false) {
        add_thresholds(name, table, &mut text);
    }
    for (name, list) in tables(true) {
        let about = text_of(list, "description");
        let entry = text_of(&list["items"], "description");
        let _ = write!(text, "\n## \\[\\[{name}\\]\\]\n{about}\n\n{entry}\n\n");
        text.push_str("| key | type | required | meaning |\n|---|---|---|---|\n");
        add_keys("", &list["items"], &mut text);
    }
    expect_file(&page("policy.md"), &text);
}
