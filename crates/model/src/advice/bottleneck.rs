//! Which resource limits a step.

use std::collections::BTreeMap;
use std::fmt;

use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::units::Share;
use serde::{Deserialize, Serialize};

/// The resource that limits a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// CPU cores: more or faster cores would shorten the step.
    Compute,
    /// Memory capacity: the step fills its memory, or was killed because it ran out of memory.
    Memory,
    /// Disks: the sustained disk bandwidth of its machine, or time spent waiting for disks.
    Disk,
    /// The step waits for the network, including network file systems.
    Network,
    /// Busy cores: other work on the machine, or a CPU limit, leaves the step without a core.
    BusyCores,
    /// The step waits for a lock, a peer, a timer, or something that the probe cannot see.
    Waiting,
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::BusyCores => "busy cores",
            Self::Waiting => "waiting",
        })
    }
}

/// A resource that a step requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestedResource {
    /// Cores.
    Cores,
    /// Memory.
    Memory,
}

/// How a step spends its time, and how much of its request it uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Boundness {
    /// The limiting resource; `None` when unknown.
    pub by: Option<Binding>,
    /// Share of the time in which at least one core was busy; `None` when unknown.
    pub computing: Option<Share>,
    /// Share of the time in which no core was busy; `None` when unknown.
    pub waiting: Option<Share>,
    /// Share of the time that the step waited for disks, or that its bytes take at the sustained
    /// EBS bandwidth of its machine. The larger of the two; `None` when neither is known.
    pub disk: Option<Share>,
    /// Share of the time that the step waited for the network; `None` when the probe does not see
    /// task states.
    #[serde(default)]
    pub network: Option<Share>,
    /// Share of the samples by state. Each sample counts only for the first state that applies, in
    /// the order of [`TaskState`]. Empty when the probe does not see task states.
    #[serde(default)]
    pub doing: BTreeMap<TaskState, Share>,
    /// The peak of busy cores as a share of the requested cores; `None` when unknown.
    pub cores_used: Option<Share>,
    /// The peak memory as a share of the requested memory; `None` when unknown.
    pub memory_used: Option<Share>,
    /// Resources of which the step uses so little that the policy calls them underused.
    pub underused: Vec<RequestedResource>,
}
