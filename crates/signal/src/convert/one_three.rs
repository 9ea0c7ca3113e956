//! What version 1.3 added to a step: what a scheduler handed it, and what its node tells
//! only where that is switched on.

use ebb_domain::step::{Handed, Opened};

use super::{text, wire, wrong};
use crate::error::DecodeError;
use crate::message::allowed;
use crate::proto::{self, Text};

impl From<&Handed> for proto::Handed {
    fn from(handed: &Handed) -> Self {
        let label = |(key, value): (&String, &String)| proto::Label {
            key: wire(key),
            value: wire(value),
        };
        Self {
            trace_id: handed.trace_id.as_deref().map(wire),
            labels: handed.labels.iter().map(label).collect(),
        }
    }
}

impl TryFrom<&proto::Handed> for Handed {
    type Error = DecodeError;

    fn try_from(handed: &proto::Handed) -> Result<Self, DecodeError> {
        allowed("labels of a step", handed.labels.len(), Self::MAX_LABELS)?;
        let trace_id = |id: &Text| short("handed.trace_id", id, Self::MAX_KEY_BYTES);
        let label = |label: &proto::Label| {
            Ok((
                short("handed.labels.key", &label.key, Self::MAX_KEY_BYTES)?,
                short("handed.labels.value", &label.value, Self::MAX_VALUE_BYTES)?,
            ))
        };
        Ok(Self {
            trace_id: handed.trace_id.as_ref().map(trace_id).transpose()?,
            labels: (handed.labels.iter())
                .map(label)
                .collect::<Result<_, DecodeError>>()?,
        })
    }
}

impl From<&Opened> for proto::Opened {
    fn from(opened: &Opened) -> Self {
        let files = |(path, count): (&String, &u64)| proto::Files {
            path: wire(path),
            count: *count,
        };
        Self {
            arguments: opened
                .arguments
                .iter()
                .map(|argument| wire(argument))
                .collect(),
            files: opened.files.iter().map(files).collect(),
            files_left_out: opened.files_left_out,
        }
    }
}

impl TryFrom<&proto::Opened> for Opened {
    type Error = DecodeError;

    fn try_from(opened: &proto::Opened) -> Result<Self, DecodeError> {
        let most = Self::MAX_ARGUMENT_BYTES;
        allowed("arguments of a step", opened.arguments.len(), most)?;
        let bytes = opened.arguments.iter().map(Text::len).sum();
        allowed("bytes of a step's arguments", bytes, most)?;
        allowed("paths of a step", opened.files.len(), Self::MAX_PATHS)?;
        let argument = |argument: &Text| text("opened.arguments", argument);
        let files = |files: &proto::Files| {
            let path = short("opened.files.path", &files.path, Self::MAX_PATH_BYTES)?;
            Ok((path, files.count))
        };
        Ok(Self {
            arguments: (opened.arguments.iter())
                .map(argument)
                .collect::<Result<_, DecodeError>>()?,
            files: (opened.files.iter())
                .map(files)
                .collect::<Result<_, DecodeError>>()?,
            files_left_out: opened.files_left_out,
        })
    }
}

fn short(field: &'static str, value: &Text, max: usize) -> Result<String, DecodeError> {
    match value.len() > max {
        true => Err(wrong(field, format!("more than {max} bytes"))),
        false => text(field, value),
    }
}
