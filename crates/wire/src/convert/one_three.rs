//! What version 1.3 added to a step: what a scheduler handed it, and what its node tells
//! only where that is switched on.

use ebb_telemetry::safe_text::clean;
use ebb_telemetry::step::{Handed, Opened};

use super::number;
use crate::proto;

fn short(text: &str, max_bytes: usize) -> String {
    clean(text, max_bytes).into_owned()
}

impl From<&Handed> for proto::Handed {
    fn from(handed: &Handed) -> Self {
        let label = |(key, value): (&String, &String)| proto::Label {
            key: short(key, Handed::MAX_KEY_BYTES),
            value: short(value, Handed::MAX_VALUE_BYTES),
        };
        let trace_id = handed.trace_id.as_deref();
        Self {
            trace_id: trace_id.map(|id| short(id, Handed::MAX_KEY_BYTES)),
            labels: handed
                .labels
                .iter()
                .take(Handed::MAX_LABELS)
                .map(label)
                .collect(),
        }
    }
}

impl From<&Opened> for proto::Opened {
    fn from(opened: &Opened) -> Self {
        let files = |(path, count): (&String, &u64)| proto::Files {
            path: short(path, Opened::MAX_PATH_BYTES),
            count: number(*count),
        };
        let mut room = Opened::MAX_ARGUMENT_BYTES;
        let arguments = opened.arguments.iter().take(Opened::MAX_ARGUMENTS);
        Self {
            arguments: arguments
                .map(|argument| {
                    let argument = short(argument, room.min(crate::read::MAX_TEXT_BYTES));
                    room -= argument.len();
                    argument
                })
                .collect(),
            files: opened
                .files
                .iter()
                .take(Opened::MAX_PATHS)
                .map(files)
                .collect(),
            files_left_out: number(opened.files_left_out),
        }
    }
}
