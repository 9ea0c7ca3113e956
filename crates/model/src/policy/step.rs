//! When something is wrong with a step: thresholds of the rules about steps.

use std::time::Duration;

use ebb_telemetry::units::Share;
use serde::{Deserialize, Serialize};

/// When a step is stalled, slow, starved, waiting, short of memory or failing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StepPolicy {
    /// Seconds that a step outside Batch may go without CPU, disk or a new process.
    /// Half an hour, as for a node: nobody outside Batch calls it RUNNING, so it is
    /// given longer.
    pub stalled_seconds: u64,
    /// Seconds that a step must have run before its waiting, or its neighbours, say
    /// anything: shorter ones end before anyone looks.
    pub judged_after_seconds: u64,
    /// The share of its waiting and working time that a step may wait for a core, in
    /// parts per million: 20 %, from which it takes a quarter longer. Of a whole node's
    /// steps it is the same.
    pub starved_ppm: u32,
    /// The share of a machine's cores that neighbours must keep busy to be blamed for
    /// that, in parts per million: a quarter.
    pub neighbours_ppm: u32,
    /// The share of its time that a step without history may wait for disk, pages or
    /// network, in parts per million: 80 %, so that transfers, which mostly wait and
    /// are meant to, are told only where nothing else happens.
    pub waiting_ppm: u32,
    /// By how much that share may exceed a step's own history, in parts per million.
    pub waiting_more_ppm: u32,
    /// How many times its usual time a step may take, in parts per million: twice.
    pub slow_ppm: u32,
    /// Seconds beyond its longest run that a step must take before it is slow.
    pub slow_by_seconds: u64,
    /// Seconds that a step must have computed, with nothing read, written or begun, before
    /// that is compared with its earlier runs: an hour, since much honest work does so for
    /// minutes. It must be as many times its longest as a slow step's usual time.
    pub spinning_seconds: u64,
    /// Runs from which a history begins: five, the fewest whose middle one outlier on
    /// either side does not move.
    pub history_runs: u32,
    /// The share of its limit at which a step's memory is full, in parts per million:
    /// 95 %, since what is sampled every ten seconds misses the last of it.
    pub full_memory_ppm: u32,
    /// Seconds that a failure is told for: a day, so that a nightly run is seen.
    pub failed_within_seconds: u64,
    /// Failed runs of one step within that time that are a storm: five, past what any
    /// retry strategy of three attempts gives.
    pub storm_runs: u32,
}

impl Default for StepPolicy {
    fn default() -> Self {
        Self {
            stalled_seconds: 30 * 60,
            judged_after_seconds: 30 * 60,
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
    /// Time that a step outside Batch may go without progress.
    pub fn stalled(&self) -> Duration {
        Duration::from_secs(self.stalled_seconds)
    }

    /// Time that a step must have run before its waiting says anything.
    pub fn judged_after(&self) -> Duration {
        Duration::from_secs(self.judged_after_seconds)
    }

    /// Time that a failure is told for.
    pub fn failed_within(&self) -> Duration {
        Duration::from_secs(self.failed_within_seconds)
    }

    /// True when this much of a limit is all of it.
    pub fn is_full(&self, held: u64, limit: u64) -> bool {
        let full = Share::from_ppm(self.full_memory_ppm);
        Share::of(held, limit).is_some_and(|share| share >= full)
    }
}
