//! Recommendations of AWS for the same resources.

use std::fmt;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// The AWS service that recommends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// A recommendation of the cloud provider, shown next to the findings and never mixed with them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SecondOpinion {
    /// The service.
    pub adviser: Adviser,
    /// The id of the resource, such as an instance id.
    pub resource: String,
    /// The finding as the service names it, such as `OVER_PROVISIONED` or `Stop`.
    pub finding: String,
    /// The recommended replacement, such as an instance type.
    pub instead: Option<String>,
    /// The saving in a month that the service reports.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Option<Usd>,
    /// The id of the finding of this report about the same resource.
    #[serde(default)]
    pub ours: Option<String>,
}
