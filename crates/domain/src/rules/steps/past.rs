//! What a step's history comes to: asked once a step, for all its runs under way.

use std::time::Duration;

use super::{many, waiting};
use crate::judge::Facts;
use crate::profile::gather::{Profiled, SeenRun};
use crate::step::StepEnd;
use crate::units::Share;

#[derive(Clone, Copy)]
pub(super) struct Past {
    /// Runs that ended well.
    pub(super) runs: u32,
    /// What the middle one of them took.
    pub(super) usual: Duration,
    /// What the longest of them took.
    pub(super) longest: Duration,
    /// The longest time in which one of them computed and nothing came of it, and how many
    /// tell that.
    pub(super) unmoved: (Duration, u32),
    /// The share of its time that the middle one waited; `None` where too few tell.
    pub(super) waits: Option<Share>,
}

impl Past {
    pub(super) fn of(facts: &Facts<'_>, profiled: &Profiled<'_>) -> Self {
        let mut walls: Vec<_> = well_ended(profiled).map(SeenRun::wall).collect();
        walls.sort_unstable();
        Self {
            runs: many(walls.len()),
            usual: walls.get(walls.len() / 2).copied().unwrap_or_default(),
            longest: walls.last().copied().unwrap_or_default(),
            unmoved: unmoved(profiled),
            waits: waiting::usual(well_ended(profiled), facts.policy.step.history_runs),
        }
    }
}

fn unmoved(profiled: &Profiled<'_>) -> (Duration, u32) {
    let told = well_ended(profiled).filter_map(|run| run.step.usage.detail.unmoved);
    told.fold((Duration::ZERO, 0), |(longest, runs), unmoved| {
        (longest.max(unmoved.longest), runs + 1)
    })
}

/// Runs that ended well, of which a history is made.
pub(super) fn well_ended<'a>(profiled: &'a Profiled<'a>) -> impl Iterator<Item = &'a SeenRun<'a>> {
    let ended = |end| matches!(end, StepEnd::Exited(0) | StepEnd::Unknown);
    let runs = profiled.runs.iter();
    runs.filter(move |run| ended(run.step.usage.end))
}
