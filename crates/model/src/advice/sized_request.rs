//! A recommended request and its risk.

use std::fmt;

use ebb_telemetry::safe_text::counted;
use ebb_telemetry::step::Requested;
use ebb_telemetry::units::{Bytes, MilliCores};
use serde::{Deserialize, Serialize};

use crate::confidence::Level;

/// Requested cores and memory; `None` leaves the present request unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizedRequest {
    /// Cores.
    pub cores: Option<MilliCores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

impl From<Requested> for SizedRequest {
    fn from(requested: Requested) -> Self {
        Self {
            cores: requested.cores,
            memory: requested.memory,
        }
    }
}

/// The risk of a memory size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Risk {
    /// The chance that a task needs more than the size, in parts per million. `None` with fewer
    /// tasks than [`SizingPolicy::confident_samples`] (default 20), and where the range
    /// [`Risk::oom_between`] is wider than the chance.
    ///
    /// [`SizingPolicy::confident_samples`]: crate::policy::sizing::SizingPolicy::confident_samples
    pub oom_ppm: Option<u32>,
    /// The memory to request after an OOM kill, one entry for each further attempt.
    pub attempts: Vec<Bytes>,
    /// Tasks missing to the number that [`SizingPolicy::confident_samples`] requires.
    ///
    /// [`SizingPolicy::confident_samples`]: crate::policy::sizing::SizingPolicy::confident_samples
    pub samples_needed: u32,
    /// The 90 % bounds of that chance for a task of a new run; `None` when no peak is known.
    #[serde(default)]
    pub oom_between: Option<ChanceRange>,
    /// The basis of both; `None` when no peak is known.
    #[serde(default)]
    pub basis: Option<EstimateBasis>,
}

/// The memory to request for inputs up to a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizedInput {
    /// The largest input in bytes.
    pub input: Bytes,
    /// The memory to request.
    pub memory: Bytes,
}

/// Bounds of a chance, in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChanceRange {
    /// The lower bound.
    pub from_ppm: u32,
    /// The upper bound.
    pub to_ppm: u32,
}

impl ChanceRange {
    /// Whether it is narrow enough for `chance_ppm` to be shown alone: no wider than that
    /// chance.
    pub fn supports(self, chance_ppm: u32) -> bool {
        self.to_ppm - self.from_ppm <= chance_ppm
    }
}

/// The observations that an estimate is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EstimateBasis {
    /// Number of tasks.
    pub tasks: u32,
    /// Number of different samples; a task whose sample is unknown counts as one sample.
    pub samples: u32,
    /// Number of different pipeline runs, or of days where no run is known.
    pub runs: u32,
    /// Number of independent tasks with the same information, in thousandths.
    pub effective_tasks_millis: u32,
}

impl EstimateBasis {
    /// The confidence in an estimate with this basis.
    pub fn confidence(&self) -> Level {
        let effective = self.effective_tasks();
        if self.tasks >= 20 && self.runs >= 3 && effective >= 10.0 {
            Level::High
        } else if self.tasks >= 8 && effective >= 3.0 {
            Level::Medium
        } else {
            Level::Low
        }
    }

    /// Number of independent tasks with the same information.
    pub fn effective_tasks(&self) -> f64 {
        f64::from(self.effective_tasks_millis) / 1e3
    }
}

impl fmt::Display for EstimateBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tasks, runs) = (self.tasks as usize, self.runs as usize);
        write!(
            f,
            "{} in {}",
            counted(tasks, "task", "tasks"),
            counted(runs, "run or day", "runs or days")
        )
    }
}
