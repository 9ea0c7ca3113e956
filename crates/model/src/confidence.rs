//! How sure a finding is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Look before you act.
    Low,
    /// Likely.
    Medium,
    /// Seen by a probe or said by the cloud itself.
    High,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// How sure a finding is, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confidence {
    /// How sure.
    pub level: Level,
    /// Why.
    pub reason: String,
}
