//! What shows that a machine is more than its work needs: its GPUs, its hours, its
//! generation.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SeenBy;
use crate::identity::InstanceType;
use crate::units::{Bytes, MilliCores, Spoken, UsdPerHour};

/// GPUs compute nothing while the machine works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietGpu {
    /// How many.
    pub gpus: u32,
    /// For how long.
    pub quiet_for: Duration,
    /// How much of their memory is held; `None` when it does not tell.
    pub held: Option<Bytes>,
    /// Steps that hold it, by name; empty when not known.
    pub holders: Vec<String>,
    /// A type without GPUs that holds the rest; `None` when none does.
    pub instead: Option<InstanceType>,
    /// Who watched; reports of earlier releases tell of probes only.
    #[serde(default)]
    pub seen_by: SeenBy,
}

/// A node is used in the same hours of each week, and runs in all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffHours {
    /// When it is used, in UTC, such as `Mon-Fri 8-18`.
    pub used: String,
    /// The hours of a week in which it could be off.
    pub off_hours: u32,
    /// Weeks watched.
    pub weeks: u32,
}

/// A newer type does the same for less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newer {
    /// The newer type.
    pub instead: InstanceType,
    /// The list price of the one that runs.
    pub now: UsdPerHour,
    /// That of the newer one.
    pub then: UsdPerHour,
}

/// A node's work needs but a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roomy {
    /// Cores that its busiest minute needs, headroom included.
    pub cores: MilliCores,
    /// Cores that it has.
    pub of_cores: MilliCores,
    /// Memory that its steps at one time need, headroom included.
    pub memory: Bytes,
    /// Memory that it has.
    pub of_memory: Bytes,
    /// Hours in which its probe saw it.
    pub hours: u32,
    /// The cheapest type that holds it.
    pub instead: InstanceType,
}

impl fmt::Display for Roomy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cores, of_cores, memory, of_memory) =
            (self.cores, self.of_cores, self.memory, self.of_memory);
        write!(
            f,
            "all that ran in {} hours needs, headroom included, {cores} of {of_cores} cores and \
             {memory} of {of_memory}: {} holds it",
            self.hours, self.instead
        )
    }
}

impl fmt::Display for QuietGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gpus, quiet) = (self.gpus, Spoken(self.quiet_for));
        let word = if gpus == 1 { "GPU" } else { "GPUs" };
        write!(f, "{gpus} {word} computed nothing for {quiet}")?;
        if let Some(held) = self.held {
            write!(f, ", {held} of memory held")?;
        }
        if !self.holders.is_empty() {
            write!(f, " by {}", self.holders.join(", "))?;
        }
        match self.seen_by {
            SeenBy::Probe => Ok(()),
            SeenBy::Metrics => f.write_str(", as its CloudWatch agent tells"),
        }
    }
}

impl fmt::Display for OffHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, off, weeks) = (&self.used, self.off_hours, self.weeks);
        write!(
            f,
            "used {used} UTC only, in each of {weeks} weeks: {off} of 168 hours off"
        )
    }
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (instead, now, then) = (&self.instead, self.now, self.then);
        write!(f, "{instead} has as much for {then} instead of {now}")
    }
}
