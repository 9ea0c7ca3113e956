//! Pipeline runs and their tasks.

use std::collections::BTreeMap;
use std::fmt;

use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::Handed;
use ebb_telemetry::units::CpuTime;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The run of steps that no other is known of.
pub const UNASSIGNED: &str = "unassigned";

/// By what a step was joined to its run, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinedBy {
    /// The label `run` that a scheduler handed it.
    Label,
    /// A tag of its job: `ebb:run`, or those that Nextflow sets.
    Tag,
    /// The launcher that started it on its node.
    Launcher,
    /// Jobs that wait for each other.
    Dependency,
    /// The array that its job is a child of.
    Array,
    /// A rule of the policy that draws a run from a name.
    Name,
}

impl fmt::Display for JoinedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Label => "label",
            Self::Tag => "tag",
            Self::Launcher => "launcher",
            Self::Dependency => "dependencies",
            Self::Array => "array",
            Self::Name => "name",
        })
    }
}

/// Of which runs the steps are that probes saw.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Runs {
    /// Steps that were seen, login sessions and services left out.
    pub steps: usize,
    /// Of those, joined to a run, by what joined them.
    pub joined: BTreeMap<JoinedBy, usize>,
    /// The newest, at most [`MAX_RUNS`]; [`UNASSIGNED`] is the last.
    pub runs: Vec<RunSeen>,
    /// Runs beyond those.
    pub left_out: usize,
    /// Steps to which a scheduler handed a trace id or labels, the newest, at most
    /// [`MAX_HANDED`].
    pub handed: Vec<HandedStep>,
    /// Such steps beyond those.
    pub handed_left_out: usize,
}

impl Runs {
    /// The share of steps that is joined, in parts per million; `None` without steps.
    pub fn joined_ppm(&self) -> Option<u32> {
        let joined: usize = self.joined.values().sum();
        let ppm = (joined * 1_000_000).checked_div(self.steps)?;
        u32::try_from(ppm).ok()
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSeen {
    /// What tells it from others; [`UNASSIGNED`] where nothing does.
    pub run: String,
    /// What joined its steps; `None` of [`UNASSIGNED`].
    pub by: Option<JoinedBy>,
    /// What was executed; `None` where nothing names it, or its steps disagree.
    pub pipeline: Option<String>,
    /// Its steps.
    pub steps: usize,
    /// Of those, under way.
    pub running: usize,
    /// Of those, that ended badly.
    pub failed: usize,
    /// What they used together.
    pub cpu: CpuTime,
    /// When the first began.
    pub from: Timestamp,
    /// When the last was seen.
    pub to: Timestamp,
    /// Its samples by name, at most 20; empty where no rule draws them.
    pub samples: Vec<String>,
    /// Samples beyond those.
    pub samples_left_out: usize,
    /// Simulated as soon as one of its steps is.
    pub origin: Origin,
}

/// A step to which a scheduler handed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedStep {
    /// Where it ran.
    pub node: NodeId,
    /// What it is called.
    pub step: String,
    /// Its key on the node.
    pub key: String,
    /// When it was seen last.
    pub at: Timestamp,
    /// Its run.
    pub run: String,
    /// Its sample; `None` where nothing says.
    pub sample: Option<String>,
    /// What it was handed.
    #[serde(flatten)]
    pub handed: Handed,
}
