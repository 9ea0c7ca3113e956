//! The accepted sequence numbers of a probe run.

use ebb_telemetry::identity::{BootId, ProbeStart};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::sequences::Sequences;

/// The accepted sequence numbers of one stream of one probe run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The boot.
    pub boot: BootId,
    /// The start of the probe.
    pub probe_start: ProbeStart,
    /// The stream.
    pub stream: Stream,
    /// The sequence numbers.
    pub accepted: Sequences,
    /// The newest time of the accepted data.
    #[serde(with = "ebb_telemetry::time::nanos")]
    pub newest: Timestamp,
}

impl Run {
    pub(crate) fn key(&self) -> RunKey<'_> {
        (&self.boot, &self.probe_start, self.stream)
    }
}

/// The key of a stream of a probe run.
pub(crate) type RunKey<'a> = (&'a BootId, &'a ProbeStart, Stream);

/// The two streams of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Heartbeats over SQS.
    Heartbeats,
    /// Finished steps over S3.
    Steps,
}
