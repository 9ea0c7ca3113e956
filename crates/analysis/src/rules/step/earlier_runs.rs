//! Summary of the history of a step, computed once for all its running tasks.

use std::time::Duration;

use ebb_telemetry::step::StepEnd;
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::units::Share;

use crate::facts::Facts;
use crate::rules::step::expected_end::{presence, work};
use crate::step_history::by_step::StepHistory;
use crate::step_history::observed_task::ObservedTask;

/// A count in the integer type of findings.
pub(crate) fn many(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[derive(Clone, Copy)]
pub(crate) struct Past {
    /// Number of successful tasks.
    pub(crate) runs: u32,
    /// Median duration of these tasks.
    pub(crate) usual: Duration,
    /// Longest duration of these tasks.
    pub(crate) longest: Duration,
    /// Longest time in which one of these tasks computed without observable progress, and the
    /// number of tasks with this value.
    pub(crate) unmoved: (Duration, u32),
    /// Median share of time that these tasks waited; `None` if too few tasks have this value.
    pub(crate) waits: Option<Share>,
    /// Median share of time that these tasks worked; `None` if too few tasks have this value.
    pub(crate) work: Option<Share>,
    /// Share of the time in which one of these tasks ran; `None` without tasks.
    pub(crate) presence: Option<Share>,
}

impl Past {
    pub(crate) fn find(facts: &Facts<'_>, profiled: &StepHistory<'_>) -> Self {
        let mut walls: Vec<_> = well_ended(profiled).map(ObservedTask::wall).collect();
        walls.sort_unstable();
        let least = facts.policy.step.history_runs;
        Self {
            runs: many(walls.len()),
            usual: walls.get(walls.len() / 2).copied().unwrap_or_default(),
            longest: walls.last().copied().unwrap_or_default(),
            unmoved: unmoved(profiled),
            waits: usual(well_ended(profiled), waits, least),
            work: usual(well_ended(profiled), work, least),
            presence: presence(well_ended(profiled)),
        }
    }
}

fn unmoved(profiled: &StepHistory<'_>) -> (Duration, u32) {
    let times = well_ended(profiled).filter_map(|run| run.step.usage.detail.cpu_without_progress);
    times.fold((Duration::ZERO, 0), |(longest, runs), unmoved| {
        (longest.max(unmoved.longest), runs + 1)
    })
}

/// Successful tasks, which form the history.
pub(crate) fn well_ended<'a>(
    profiled: &'a StepHistory<'a>,
) -> impl Iterator<Item = &'a ObservedTask<'a>> {
    let ended = |end| matches!(end, StepEnd::Exited(0) | StepEnd::Unknown);
    let runs = profiled.runs.iter();
    runs.filter(move |run| ended(run.step.usage.end))
}

/// Share of the sampled time in which the task waited for a disk, page faults, a remote
/// file system or the network; `None`
/// without samples.
pub(crate) fn waits(run: &ObservedTask<'_>) -> Option<Share> {
    run.share_of_states(|state| {
        matches!(
            state,
            TaskState::Disk
                | TaskState::PageFault
                | TaskState::RemoteFileSystem
                | TaskState::Network
        )
    })
}

/// Median of a share in earlier tasks; `None` with fewer than `runs` tasks that have it.
pub(crate) fn usual<'a>(
    earlier: impl Iterator<Item = &'a ObservedTask<'a>>,
    share: impl Fn(&ObservedTask<'_>) -> Option<Share>,
    runs: u32,
) -> Option<Share> {
    let mut shares: Vec<Share> = earlier.filter_map(share).collect();
    shares.sort_unstable();
    let enough = shares.len() >= usize::try_from(runs).unwrap_or(usize::MAX);
    shares.get(shares.len() / 2).copied().filter(|_| enough)
}
