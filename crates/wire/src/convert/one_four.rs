//! What version 1.4 added to a step.

use ebb_telemetry::step::{Asked, Reclaim, Unmoved};

use super::{nanos, number};
use crate::proto;

impl From<Asked> for proto::Asked {
    fn from(asked: Asked) -> Self {
        Self {
            read_bytes: number(asked.read.0),
            written_bytes: number(asked.written.0),
            read_calls: number(asked.read_calls),
            write_calls: number(asked.write_calls),
        }
    }
}

impl From<Unmoved> for proto::Unmoved {
    fn from(unmoved: Unmoved) -> Self {
        Self {
            now_ns: nanos(unmoved.now),
            longest_ns: nanos(unmoved.longest),
        }
    }
}

impl From<Reclaim> for proto::Reclaim {
    fn from(reclaim: Reclaim) -> Self {
        Self {
            taken_bytes: reclaim.taken.map(|bytes| number(bytes.0)),
            limit_hits: number(reclaim.limit_hits),
        }
    }
}
