//! Thresholds of stuck Batch jobs, and of machines that Batch keeps without a job.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Thresholds of stuck Batch jobs. Three cases have no threshold: a job that Batch reports as
/// misconfigured, a job without capacity, and an INVALID queue or environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BatchPolicy {
    /// Seconds that a RUNNING job may have no CPU time, disk activity or new process.
    pub no_progress_seconds: u64,
    /// Seconds that an ECS agent may be disconnected while its node sends heartbeats. A container
    /// runtime may be impaired for the same time.
    pub agent_disconnected_seconds: u64,
    /// Seconds that a RUNNABLE job may be at the head of its queue without a reason. The default of
    /// 30 minutes is several times the start time of a machine.
    pub at_head_seconds: u64,
    /// Seconds that a job may be STARTING. In the default of 15 minutes, 100 GB are pulled at
    /// 1 Gbit/s.
    pub starting_seconds: u64,
    /// Seconds that a job may be RUNNING after its last process ended.
    pub process_gone_seconds: u64,
    /// Seconds that a container may run after the end of its job. The default is two sweeps of ten
    /// minutes, because a container may end between two responses of the API.
    pub orphan_seconds: u64,
    /// Consecutive sweeps with a container that is unknown to Batch and ECS. The default is 2,
    /// because a task may start between the responses of the API and the probe.
    pub vanished_sweeps: u32,
    /// Share of the last interval in which tasks waited for a disk, in parts per million. From this
    /// share, the disk counts as saturated. The default is 50 %: other work on the disk then waits
    /// longer than it runs.
    pub saturated_disk_ppm: u32,
    /// Seconds that a machine of an environment may need to join its cluster.
    pub never_joined_seconds: u64,
    /// Seconds that tasks outside Batch may keep a machine running.
    pub daemon_task_seconds: u64,
    /// Seconds that a machine for minimum capacity may be idle. The default is one hour, because a
    /// user configured the minimum.
    pub minimum_capacity_seconds: u64,
    /// Seconds after the configured scale-in delay.
    pub scale_in_grace_seconds: u64,
    /// Minimum number of jobs of one definition for a history of waiting times.
    pub queued_runs: u32,
    /// Seconds beyond twice the longest waiting time in the history. A job that waits longer is
    /// reported.
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
    /// See [`Self::no_progress_seconds`].
    pub fn no_progress(&self) -> Duration {
        Duration::from_secs(self.no_progress_seconds)
    }

    /// See [`Self::agent_disconnected_seconds`].
    pub fn agent_disconnected(&self) -> Duration {
        Duration::from_secs(self.agent_disconnected_seconds)
    }
}
