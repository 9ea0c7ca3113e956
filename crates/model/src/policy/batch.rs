//! When Batch is stuck, and how long it may keep a machine without a job.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When Batch is stuck. A job that Batch itself calls misconfigured or without
/// capacity, and an INVALID queue or environment, are reported on sight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BatchPolicy {
    /// Seconds that a RUNNING job may go without CPU, disk or a new process.
    pub no_progress_seconds: u64,
    /// Seconds that an ECS agent may be disconnected while its node is well, and that a
    /// container runtime may be impaired.
    pub agent_disconnected_seconds: u64,
    /// Seconds that a RUNNABLE job may stand at the head of its queue without a
    /// reason: half an hour, several times what a machine takes to start.
    pub at_head_seconds: u64,
    /// Seconds that a job may be STARTING: a quarter of an hour pulls 100 GB at
    /// 1 Gbit/s.
    pub starting_seconds: u64,
    /// Seconds for which a job may be called RUNNING after its last process ended.
    pub process_gone_seconds: u64,
    /// Seconds that a container may outlive its job: two sweeps of ten minutes, since
    /// one may fall between two answers of the cloud.
    pub orphan_seconds: u64,
    /// Sweeps in a row that must find a container of which neither Batch nor ECS knows:
    /// two, since a task may begin between the answers of the cloud and of the probe.
    pub vanished_sweeps: u32,
    /// The share of the newest interval in which some task waited for a disk, in parts per
    /// million, from which that disk is called saturated: half, as what else is done on it
    /// then waits longer than it works.
    pub saturated_disk_ppm: u32,
    /// Seconds that a machine of an environment may take to join its cluster.
    pub never_joined_seconds: u64,
    /// Seconds that a machine may be held by tasks which are none of Batch's.
    pub daemon_task_seconds: u64,
    /// Seconds that a machine kept as minimum capacity may do nothing: an hour, since
    /// somebody asked for it.
    pub minimum_capacity_seconds: u64,
    /// Seconds beyond the scale-in delay that was asked for.
    pub scale_in_grace_seconds: u64,
    /// Jobs of one definition from which a history of waiting begins.
    pub queued_runs: u32,
    /// Seconds beyond twice the longest wait of that history that a job is queued for
    /// too long.
    pub queued_by_seconds: u64,
}

impl Default for BatchPolicy {
    fn default() -> Self {
        Self {
            no_progress_seconds: 15 * 60,
            agent_disconnected_seconds: 5 * 60,
            at_head_seconds: 30 * 60,
            starting_seconds: 15 * 60,
            process_gone_seconds: 5 * 60,
            orphan_seconds: 20 * 60,
            vanished_sweeps: 2,
            saturated_disk_ppm: 500_000,
            never_joined_seconds: 15 * 60,
            daemon_task_seconds: 15 * 60,
            minimum_capacity_seconds: 3600,
            scale_in_grace_seconds: 10 * 60,
            queued_runs: 5,
            queued_by_seconds: 15 * 60,
        }
    }
}

impl BatchPolicy {
    /// Time that a RUNNING job may go without progress.
    pub fn no_progress(&self) -> Duration {
        Duration::from_secs(self.no_progress_seconds)
    }

    /// Time that an ECS agent may be disconnected.
    pub fn agent_disconnected(&self) -> Duration {
        Duration::from_secs(self.agent_disconnected_seconds)
    }
}
