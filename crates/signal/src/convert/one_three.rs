//! What version 1.3 added to a step: what a scheduler handed it, and what its node tells
//! only where that is switched on.

use ebb_domain::step::{Handed, Opened};

use crate::proto;

impl From<&Handed> for proto::Handed {
    fn from(handed: &Handed) -> Self {
        let label = |(key, value): (&String, &String)| proto::Label {
            key: key.clone(),
            value: value.clone(),
        };
        Self {
            trace_id: handed.trace_id.clone(),
            labels: handed.labels.iter().map(label).collect(),
        }
    }
}

impl From<&Opened> for proto::Opened {
    fn from(opened: &Opened) -> Self {
        let files = |(path, count): (&String, &u64)| proto::Files {
            path: path.clone(),
            count: *count,
        };
        Self {
            arguments: opened.arguments.clone(),
            files: opened.files.iter().map(files).collect(),
            files_left_out: opened.files_left_out,
        }
    }
}
