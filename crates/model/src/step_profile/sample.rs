//! What one task shows of the needs of its step.

use std::time::Duration;

use ebb_telemetry::step::PeakMemory;
use ebb_telemetry::units::{Bytes, MilliCores};

/// What one past task of a step shows of its needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// The most cores it kept busy over a sample interval; `None` when unknown.
    pub peak_cores: Option<MilliCores>,
    /// The most memory it held; `None` when unknown.
    pub peak_memory: Option<PeakMemory>,
    /// How long it was seen.
    pub wall: Duration,
    /// Bytes it read in; `None` when unknown.
    pub input: Option<Bytes>,
    /// Which pipeline run it was of, or which day it ran on; tasks of `None` are taken for
    /// those of one run.
    pub pipeline_run: Option<u64>,
    /// Which sample it worked on; `None` when unknown.
    pub sample: Option<u64>,
    /// Cores it kept busy on average; `None` when unknown.
    pub mean_cores: Option<MilliCores>,
    /// Cores it could use; `None` when unknown.
    pub allowed_cores: Option<MilliCores>,
}
