//! Recommendations of AWS about the same resources.

use std::fmt;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// Who else gives advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adviser {
    /// AWS Compute Optimizer.
    ComputeOptimizer,
    /// AWS Cost Optimization Hub.
    CostOptimizationHub,
}

impl fmt::Display for Adviser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ComputeOptimizer => "Compute Optimizer",
            Self::CostOptimizationHub => "Cost Optimization Hub",
        })
    }
}

/// Advice of the cloud's own, shown beside ours and never mixed into it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondOpinion {
    /// Who says it.
    pub adviser: Adviser,
    /// The id of what it is about, such as an instance's.
    pub resource: String,
    /// What it finds, in its words, such as `OVER_PROVISIONED` or `Stop`.
    pub finding: String,
    /// What it would have instead, such as a machine type.
    pub instead: Option<String>,
    /// What it says that saves a month.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Option<Usd>,
    /// The finding of this report about the same resource.
    #[serde(default)]
    pub ours: Option<String>,
}
