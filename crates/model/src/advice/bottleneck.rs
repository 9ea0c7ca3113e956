//! Which resource limits a step.

use std::collections::BTreeMap;
use std::fmt;

use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::units::Share;
use serde::{Deserialize, Serialize};

/// What binds a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// Cores: more or faster ones would end it sooner.
    Compute,
    /// Memory capacity: it fills what it was given, or was killed for want of it.
    Memory,
    /// Disks: the bandwidth that its machine sustains to them, or waiting for them.
    Disk,
    /// It waits for the network, a network file system included.
    Network,
    /// It waits: for a lock, a peer or a timer, or for what cannot be seen.
    Waiting,
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Waiting => "waiting",
        })
    }
}

/// Something that a step asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// Cores.
    Cores,
    /// Memory.
    Memory,
}

/// Where a step's time goes, and how much of its request it uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Boundness {
    /// What binds it; `None` when unknown.
    pub by: Option<Binding>,
    /// Share of the time in which at least one core was busy; `None` when unknown.
    pub computing: Option<Share>,
    /// Share of the time in which none was.
    pub waiting: Option<Share>,
    /// Share of the time in which it waited for disks, or that its bytes take at the
    /// least at the bandwidth that its machine sustains to EBS, whichever is more;
    /// `None` when neither is known.
    pub disk: Option<Share>,
    /// Share of the time in which it waited for the network; `None` where what it does
    /// cannot be seen.
    #[serde(default)]
    pub network: Option<Share>,
    /// Share of the samples in which it did this and nothing before it in their order;
    /// empty where what it does cannot be seen.
    #[serde(default)]
    pub doing: BTreeMap<TaskState, Share>,
    /// Share of the cores asked for that it kept busy at the most.
    pub cores_used: Option<Share>,
    /// Share of the memory asked for that it held at the most.
    pub memory_used: Option<Share>,
    /// What it uses no more of than the policy calls far less than asked for.
    pub underused: Vec<Asked>,
}
