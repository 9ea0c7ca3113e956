//! Whether data was measured or simulated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether a record was measured on a machine or created by a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A probe measured it.
    Measured,
    /// A generator created it; every output must label it as simulated.
    Simulated,
}

/// The tag of simulated resources; every output must label them as simulated.
pub const SIMULATED_TAG: &str = "ebb:simulated";

/// The origin of a resource, from its tags.
pub fn labelled(tags: &BTreeMap<String, String>) -> Origin {
    match tags.get(SIMULATED_TAG).map(String::as_str) {
        Some("true") => Origin::Simulated,
        _ => Origin::Measured,
    }
}
