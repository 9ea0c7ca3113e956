//! Thresholds of the rules about steps.

use std::time::Duration;

use ebb_telemetry::units::Share;
use serde::{Deserialize, Serialize};

/// Thresholds of stalled, slow, starved, waiting or failing steps, and of steps without enough
/// memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StepPolicy {
    /// Seconds that a task outside Batch may have no CPU time, disk activity or new process. The
    /// default of 30 minutes is longer than in Batch, because no service reports such a task as
    /// RUNNING.
    pub stalled_seconds: u64,
    /// Minimum run time of a task, in seconds, for findings about its waiting time or its
    /// neighbours.
    #[serde(alias = "judged_after_seconds")]
    pub min_run_seconds: u64,
    /// Share of its waiting and running time that a task may wait for a core, in parts per million.
    /// The default is 20 %, which makes a task 25 % slower. The same share applies to all tasks of
    /// a node together.
    pub starved_ppm: u32,
    /// Share of the cores that other tasks must use to be the reported cause, in parts per million.
    /// The default is 25 %.
    pub neighbours_ppm: u32,
    /// Share of its time that a task may wait for disk, pages or network, in parts per million. It
    /// applies if the step has no history. The default of 80 % excludes most transfers, which mainly
    /// wait.
    pub waiting_ppm: u32,
    /// Maximum increase of the share of waiting time over the median of earlier tasks, in parts per
    /// million. The default is 25 percentage points.
    pub waiting_more_ppm: u32,
    /// Maximum duration as a multiple of the usual duration, in parts per million. The default is 2
    /// times.
    pub slow_ppm: u32,
    /// Seconds beyond the longest earlier task before a task is slow.
    pub slow_by_seconds: u64,
    /// Seconds that a task must compute without a read, a write or a new process before it is
    /// compared with earlier tasks. The default is one hour, because normal work may do so for
    /// minutes. The time must also exceed the longest earlier time by the factor `slow_ppm`.
    pub spinning_seconds: u64,
    /// Minimum number of earlier tasks for a history. The default is 5, so that an outlier on either side
    /// does not change the median.
    pub history_runs: u32,
    /// Share of its limit at which the memory of a step is full, in parts per million. The default
    /// is 95 %, because samples every ten seconds miss the last part.
    pub full_memory_ppm: u32,
    /// Seconds for which a failure is reported. The default is one day, which includes a nightly
    /// run.
    pub failed_within_seconds: u64,
    /// Number of failed tasks of one step within `failed_within_seconds` that make a retry storm.
    /// The default of 5 is more than a retry strategy of three attempts produces.
    pub storm_runs: u32,
}

impl Default for StepPolicy {
    fn default() -> Self {
        Self {
            stalled_seconds: 30 * 60,
            min_run_seconds: 30 * 60,
            starved_ppm: 200_000,
            neighbours_ppm: 250_000,
            waiting_ppm: 800_000,
            waiting_more_ppm: 250_000,
            slow_ppm: 2_000_000,
            slow_by_seconds: 15 * 60,
            spinning_seconds: 3600,
            history_runs: 5,
            full_memory_ppm: 950_000,
            failed_within_seconds: 24 * 3600,
            storm_runs: 5,
        }
    }
}

impl StepPolicy {
    /// See [`Self::stalled_seconds`].
    pub fn stalled(&self) -> Duration {
        Duration::from_secs(self.stalled_seconds)
    }

    /// See [`Self::min_run_seconds`].
    pub fn min_run(&self) -> Duration {
        Duration::from_secs(self.min_run_seconds)
    }

    /// See [`Self::failed_within_seconds`].
    pub fn failed_within(&self) -> Duration {
        Duration::from_secs(self.failed_within_seconds)
    }

    /// Whether this amount of a limit counts as full.
    pub fn is_full(&self, held: u64, limit: u64) -> bool {
        let full = Share::from_ppm(self.full_memory_ppm);
        Share::from_parts(held, limit).is_some_and(|share| share >= full)
    }
}
