//! Tools that derive their memory use from their request.

use serde::{Deserialize, Serialize};

/// A tool that takes its memory from its request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SelfSizing {
    /// What people call it.
    pub tool: String,
    /// The option by which it is told.
    pub option: String,
}
