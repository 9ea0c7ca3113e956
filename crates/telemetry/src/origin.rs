//! Whether data was measured or made up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether something was measured on a machine or made by a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A probe saw it.
    Measured,
    /// A generator made it; every reader must say so.
    Simulated,
}

/// The tag that marks what a generator made, so that every reader says so.
pub const SIMULATED_TAG: &str = "ebb:simulated";

/// Whether tags label their resource as simulated.
pub fn labelled(tags: &BTreeMap<String, String>) -> Origin {
    match tags.get(SIMULATED_TAG).map(String::as_str) {
        Some("true") => Origin::Simulated,
        _ => Origin::Measured,
    }
}
