//! The position of something in a policy file: its line and, if known, its key.

use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// A line and, when it is known, the key there with its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePosition {
    line: usize,
    key: Option<String>,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.line)?;
        match &self.key {
            Some(key) => write!(f, ": {key}"),
            None => Ok(()),
        }
    }
}

/// The position of `span` in the text.
pub(crate) fn of_span(text: &str, span: &Range<usize>) -> FilePosition {
    let holds = |entry: &Entry| entry.span.start <= span.start && span.end <= entry.span.end;
    let around = entries(text).into_iter().rev().find(holds);
    FilePosition {
        line: line_of(text, span.start),
        key: around.map(|entry| entry.key),
    }
}

/// The position at which `key`, given with its table, is set.
pub(crate) fn of_key(text: &str, key: &str) -> Option<FilePosition> {
    let entry = entries(text).into_iter().find(|entry| entry.key == key)?;
    Some(FilePosition {
        line: line_of(text, entry.span.start),
        key: Some(entry.key),
    })
}

/// The position of an entry in a list of tables, such as the second `[[exempt]]`.
pub(crate) fn of_entry(text: &str, list: &str, index: usize) -> Option<FilePosition> {
    let document = DeTable::parse(text).ok()?;
    let all = document
        .get_ref()
        .iter()
        .find(|(name, _)| name.get_ref() == list);
    let DeValue::Array(entries) = all?.1.get_ref() else {
        return None;
    };
    Some(FilePosition {
        line: line_of(text, entries.get(index)?.span().start),
        key: None,
    })
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// A key and the text that it covers, including its value.
struct Entry {
    key: String,
    span: Range<usize>,
}

/// Tables first, then their content; empty if the text is not TOML.
fn entries(text: &str) -> Vec<Entry> {
    let Ok(document) = DeTable::parse(text) else {
        return Vec::new();
    };
    let (mut tables, mut values) = (Vec::new(), Vec::new());
    for (name, value) in document.get_ref() {
        tables.push(Entry {
            key: name.get_ref().to_string(),
            span: name.span().start..value.span().end.max(name.span().end),
        });
        let contents: Vec<&DeTable<'_>> = match value.get_ref() {
            DeValue::Table(table) => vec![table],
            DeValue::Array(list) => list
                .iter()
                .filter_map(|one| one.get_ref().as_table())
                .collect(),
            _ => continue,
        };
        let all = contents.into_iter().flat_map(|table| table.iter());
        values.extend(all.map(|(key, value)| Entry {
            key: format!("{}.{}", name.get_ref(), key.get_ref()),
            span: key.span().start..value.span().end,
        }));
    }
    tables.append(&mut values);
    tables
}
