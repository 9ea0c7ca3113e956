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
    /// Where it holds; `None` for everywhere.
    #[serde(default)]
    pub region: Option<Region>,
    /// The family that it holds for, such as `m5`; `None` for all.
    #[serde(default)]
    pub family: Option<String>,
    /// What is paid an hour.
    pub per_hour: UsdPerHour,
    /// When it ends; `None` when unknown.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// How much of it was used, as the bill tells of Savings Plans; `None` where only what
    /// runs tells.
    #[serde(default)]
    pub used: Option<CommitmentUse>,
}

/// How much of a commitment was used on days that are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitmentUse {
    /// What of it was used an hour, on average.
    pub per_hour: UsdPerHour,
    /// The begin of those days.
    pub from: Timestamp,
    /// Their end.
    pub to: Timestamp,
}

/// What a commitment takes off the list price at the most, in percent.
///
/// Source: "Savings Plans" and "Amazon EC2 Reserved Instances Pricing", up to 72 %.
const GREATEST_DISCOUNT: u64 = 72;

impl Commitment {
    /// What the machines that it pays for list at, at the most: more than its own price,
    /// by its discount.
    pub fn pays_for_at_most(&self) -> UsdPerHour {
        self.per_hour.part(100, 100 - GREATEST_DISCOUNT)
    }

    /// Whether it pays for a type somewhere, on demand.
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
