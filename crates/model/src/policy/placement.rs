//! Limits on recommended machine types.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Limits on recommended machine types. An empty set is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PlacementPolicy {
    /// Allowed instance families, such as `m7i`.
    pub families: BTreeSet<String>,
    /// Allowed regions in addition to the region of the step. Another region needs a known amount
    /// of transferred data.
    pub regions: BTreeSet<String>,
    /// Availability zones. At least one of them must offer the type.
    pub zones: BTreeSet<String>,
    /// Whether to offer spot if its price and interruptions are known.
    pub spot: bool,
    /// Programs that run on Arm, in addition to those that were observed on Arm.
    pub arm_programs: BTreeSet<String>,
    /// Megabytes that a task transfers to and from its buckets, if no probe measures it; 0 if
    /// unknown.
    pub moved_megabytes_a_run: u64,
}

impl Default for PlacementPolicy {
    fn default() -> Self {
        Self {
            families: BTreeSet::new(),
            regions: BTreeSet::new(),
            zones: BTreeSet::new(),
            spot: true,
            arm_programs: BTreeSet::new(),
            moved_megabytes_a_run: 0,
        }
    }
}
