//! Where steps may run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Where steps may run; an empty set leaves all of its kind open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PlacementPolicy {
    /// Families that may be used, such as `m7i`.
    pub families: BTreeSet<String>,
    /// Regions that may be used, a step's own aside. Another region is offered only
    /// where the bytes that a run moves are known.
    pub regions: BTreeSet<String>,
    /// Zones of which one must sell a type.
    pub zones: BTreeSet<String>,
    /// True to offer spot where its price and interruptions are known.
    pub spot: bool,
    /// Executables that are known to exist for Arm, beside those that were seen there.
    pub arm_programs: BTreeSet<String>,
    /// Bytes that a run moves to and from its buckets, where no probe tells, in
    /// millions; 0 for unknown.
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
