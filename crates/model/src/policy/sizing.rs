//! Thresholds of recommended requests.

use serde::{Deserialize, Serialize};

/// Thresholds of recommended requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SizingPolicy {
    /// Headroom above the greatest peak, in parts per million. The default is 20 %, as in Compute
    /// Optimizer for memory.
    pub memory_headroom_ppm: u32,
    /// Minimum number of tasks for statistical models of memory, a risk as one number, and spot
    /// candidates. With fewer tasks, the headroom applies.
    pub confident_samples: u32,
    /// Maximum probability that the first attempt runs out of memory, in parts per million. The
    /// default is 1 %, because a failed attempt costs its whole run time. With 1000000 only the
    /// total waste counts, including failed attempts.
    pub oom_ppm: u32,
    /// Minimum number of tasks for a smaller request. Three is the fewest with a spread.
    pub min_runs: u32,
    /// Maximum slowdown by fewer cores in the worst case, in parts per million. It applies if only
    /// the average use of cores is known. The default is 10 %.
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
