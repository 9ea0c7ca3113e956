//! The needs of a step as one task shows them.

use std::time::Duration;

use ebb_telemetry::step::PeakMemory;
use ebb_telemetry::units::{Bytes, MilliCores};

/// The needs of a step as one past task shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// The peak of busy cores over a sample interval; `None` when unknown.
    pub peak_cores: Option<MilliCores>,
    /// The peak memory; `None` when unknown.
    pub peak_memory: Option<PeakMemory>,
    /// The observed duration.
    pub wall: Duration,
    /// Bytes of input; `None` when unknown.
    pub input: Option<Bytes>,
    /// A number for its pipeline run, or for the day of its start. All tasks with `None` count as
    /// one run.
    pub pipeline_run: Option<u64>,
    /// A number for the sample that it processed; `None` when unknown.
    pub sample: Option<u64>,
    /// Mean number of busy cores; `None` when unknown.
    pub mean_cores: Option<MilliCores>,
    /// Cores that it could use; `None` when unknown.
    pub allowed_cores: Option<MilliCores>,
    /// The memory that it used for certain; `None` if the peak is unknown or an upper bound.
    pub held_memory: Option<Bytes>,
    /// The memory request with which it succeeded; `None` if it did not succeed or had none.
    pub sufficient_memory: Option<Bytes>,
    /// Whether it ran out of memory and never succeeded. Its need is then unknown, and
    /// `peak_memory` is an assumption above its last request.
    pub is_unmet: bool,
}
