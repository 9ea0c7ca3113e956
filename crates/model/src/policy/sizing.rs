//! How requests are sized.

use serde::{Deserialize, Serialize};

/// How requests are sized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SizingPolicy {
    /// Headroom over the greatest peak, in parts per million: 20 %, which Compute
    /// Optimizer takes for memory too.
    pub memory_headroom_ppm: u32,
    /// Samples below which the confidence is low.
    pub confident_samples: u32,
    /// The greatest chance that a first ask for memory fails, in parts per million:
    /// 1 %, for a failed attempt costs its whole time again. A million means that
    /// only the waste counts, failed attempts included.
    pub oom_ppm: u32,
    /// Tasks below which no request shrinks: three are the fewest with a spread and
    /// something next to it.
    pub min_runs: u32,
    /// How much longer a task may take with fewer cores, in parts per million, where only
    /// its average use of cores is known: 10 %, in the worst case.
    pub max_slowdown_ppm: u32,
}

impl Default for SizingPolicy {
    fn default() -> Self {
        Self {
            memory_headroom_ppm: 200_000,
            confident_samples: 20,
            oom_ppm: 10_000,
            min_runs: 3,
            max_slowdown_ppm: 100_000,
        }
    }
}
