//! When a machine is more than its work needs: its GPUs.

use serde::{Deserialize, Serialize};

/// When GPUs are idle on a machine that works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GpuPolicy {
    /// Seconds for which GPUs may compute nothing while the cores work: two hours, past
    /// what loading and preparing data takes between two trainings.
    pub idle_after_seconds: u64,
    /// Bytes of GPU memory that are somebody's: 256 MiB, above what a driver and a
    /// display server hold by themselves.
    pub held_bytes: u64,
}

impl Default for GpuPolicy {
    fn default() -> Self {
        Self {
            idle_after_seconds: 2 * 3600,
            held_bytes: 256 << 20,
        }
    }
}
