//! The schema line at the start of every message, which is readable before anything is unpacked.

use crate::error::DecodeError;

/// A schema and the version that this code writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schema {
    name: &'static str,
    major: u32,
    /// The schema line of this version.
    pub(crate) line: &'static str,
}

pub(crate) const HEARTBEAT: Schema = Schema {
    name: "ebb.heartbeat",
    major: 1,
    line: "ebb.heartbeat/1.7",
};
pub(crate) const STEPS: Schema = Schema {
    name: "ebb.steps",
    major: 1,
    line: "ebb.steps/1.7",
};

impl Schema {
    /// Whether a message begins with this schema, of any version.
    pub(crate) fn is_of(self, bytes: &[u8]) -> bool {
        let rest = bytes.strip_prefix(self.name.as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    }
}

const LONGEST_LINE: usize = 64;

/// Removes the schema line and checks that its major version is known.
pub(crate) fn open(schema: Schema, bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let none = || DecodeError::NoSchema {
        expected: schema.line,
        found: shown(bytes),
    };
    let window = &bytes[..bytes.len().min(LONGEST_LINE)];
    let end = window.iter().position(|b| *b == b'\n').ok_or_else(none)?;
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| none())?;
    let (name, version) = line.split_once('/').ok_or_else(none)?;
    let (major, minor) = version.split_once('.').ok_or_else(none)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| none());
    number(minor)?;
    if name != schema.name || number(major)? != schema.major {
        return Err(DecodeError::UnknownSchema {
            expected: schema.line,
            found: line.escape_default().to_string(),
        });
    }
    Ok(&bytes[end + 1..])
}

fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(24)].escape_ascii().to_string()
}
