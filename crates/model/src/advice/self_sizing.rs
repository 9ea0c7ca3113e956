//! Tools that derive their memory use from their request.

use serde::{Deserialize, Serialize};

/// A tool that derives its memory use from the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SelfSizing {
    /// The common name of the tool.
    pub tool: String,
    /// The option that sets the memory of the tool.
    pub option: String,
}
