//! What of a probe run was accepted.

use ebb_telemetry::identity::{BootId, ProbeStart};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::sequences::Sequences;

/// What was accepted of one stream of one probe run, which sequence numbers count
/// in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The boot.
    pub boot: BootId,
    /// The probe's start.
    pub probe_start: ProbeStart,
    /// Which of its streams.
    pub stream: Stream,
    /// The sequence numbers.
    pub accepted: Sequences,
    /// The newest time among them.
    #[serde(with = "ebb_telemetry::time::nanos")]
    pub newest: Timestamp,
}

impl Run {
    pub(crate) fn key(&self) -> RunKey<'_> {
        (&self.boot, &self.probe_start, self.stream)
    }
}

/// What tells two runs apart.
pub(crate) type RunKey<'a> = (&'a BootId, &'a ProbeStart, Stream);

/// The two streams of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Heartbeats over SQS.
    Heartbeats,
    /// Finished steps over S3.
    Steps,
}
