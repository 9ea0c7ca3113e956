//! A recommended request and its risk.

use std::fmt;

use ebb_telemetry::safe_text::counted;
use ebb_telemetry::step::Requested;
use ebb_telemetry::units::{Bytes, MilliCores};
use serde::{Deserialize, Serialize};

use crate::confidence::Level;

/// Cores and memory to ask for; `None` leaves the request as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
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

/// What is known of how a memory size may fail.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Risk {
    /// The chance that a task needs more than the size, in parts per million; `None` with
    /// fewer than 20 tasks, and where [`Risk::oom_between`] is wider than the chance.
    pub oom_ppm: Option<u32>,
    /// What to ask for after the size was too little, one after the other.
    pub attempts: Vec<Bytes>,
    /// Tasks missing to the number that [`SizingPolicy::confident_samples`] asks for.
    pub samples_needed: u32,
    /// Bounds of that chance at 90 %, for a task of a new run; `None` where no peak is
    /// known.
    #[serde(default)]
    pub oom_between: Option<ChanceRange>,
    /// What both rest on; `None` where no peak is known.
    #[serde(default)]
    pub basis: Option<EstimateBasis>,
}

/// What to ask for up to an input's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SizedInput {
    /// Inputs of at most so many bytes.
    pub input: Bytes,
    /// The memory to ask for.
    pub memory: Bytes,
}

/// Bounds of a chance, in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChanceRange {
    /// The least.
    pub from_ppm: u32,
    /// The most.
    pub to_ppm: u32,
}

impl ChanceRange {
    /// Whether it is narrow enough for `chance_ppm` to be shown alone: no wider than that
    /// chance.
    pub fn supports(self, chance_ppm: u32) -> bool {
        self.to_ppm - self.from_ppm <= chance_ppm
    }
}

/// What an estimate rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct EstimateBasis {
    /// Tasks.
    pub tasks: u32,
    /// Different samples among them; tasks whose sample is unknown count as one each.
    pub samples: u32,
    /// Different pipeline runs among them, or days where no run is known.
    pub runs: u32,
    /// Independent tasks that would tell as much, in thousandths.
    pub effective_tasks_millis: u32,
}

impl EstimateBasis {
    /// How far an estimate that rests on it is to be trusted.
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

    /// Independent tasks that would tell as much.
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
