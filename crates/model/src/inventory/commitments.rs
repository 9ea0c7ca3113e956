//! Savings Plans and reservations.

use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A Savings Plan or reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commitment {
    /// Its id.
    pub id: String,
    /// The region that it applies to; `None` for all regions.
    #[serde(default)]
    pub region: Option<Region>,
    /// The instance family that it applies to, such as `m5`; `None` for all.
    #[serde(default)]
    pub family: Option<String>,
    /// The price per hour.
    pub per_hour: UsdPerHour,
    /// The end of the term; `None` when unknown.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// The used part, which the bill reports for Savings Plans; `None` if only the running machines
    /// show the use.
    #[serde(default)]
    pub used: Option<CommitmentUse>,
}

/// The use of a commitment on days that are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitmentUse {
    /// Mean use per hour.
    pub per_hour: UsdPerHour,
    /// The begin of the first day.
    pub from: Timestamp,
    /// The end of the last day.
    pub to: Timestamp,
}

/// The largest discount of a commitment on the list price, in percent.
///
/// Source: "Savings Plans" and "Amazon EC2 Reserved Instances Pricing", up to 72 %.
const GREATEST_DISCOUNT: u64 = 72;

impl Commitment {
    /// An upper bound of the list price of the machines that it pays for: its own price without the
    /// largest discount.
    pub fn pays_for_at_most(&self) -> UsdPerHour {
        self.per_hour.part(100, 100 - GREATEST_DISCOUNT)
    }

    /// Whether it pays for on-demand machines of a type in a region.
    pub fn pays_for(&self, region: &Region, kind: &InstanceType) -> bool {
        let there = self.region.as_ref().is_none_or(|held| held == region);
        let family = kind.as_str().split('.').next();
        there
            && self
                .family
                .as_deref()
                .is_none_or(|held| Some(held) == family)
    }
}
