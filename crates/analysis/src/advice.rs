//! Advice for more than one step: a pipeline, a Batch compute environment and a node.
//!
//! The tasks of a pipeline or an environment are replayed on machines as the platform fills them
//! ([`crate::placement::pack`]). One replay uses the original requests and types. Further replays
//! use the recommended requests and expected durations, one for each type that fits all tasks. The
//! difference between the replays is the change in the bill. The advice for a node uses only what
//! ran on that node.

pub mod group;
pub mod node;
pub mod placement;
pub mod step;
#[cfg(test)]
mod tests;

use ebb_model::advice::Targets;
use ebb_model::advice::group::{GroupAdvice, MAX_GROUPS};

use crate::advice::group::members;
use crate::facts::Facts;
use crate::step_history::by_step::Profiles;

/// Limit on the steps of pipelines and environments for which offers are computed; the limit for
/// single steps has the same value.
const MAX_STEPS: usize = 1_000;

/// Returns advice on pipelines, environments and nodes.
pub(crate) fn advise_targets(facts: &Facts<'_>, profiles: &Profiles<'_>) -> Targets {
    let mut room = MAX_STEPS;
    let (pipelines, more) = advised(
        facts,
        profiles,
        members::pipelines(facts.policy, profiles),
        &mut room,
    );
    let environments = members::environments(facts, profiles);
    let (environments, others) = advised(facts, profiles, environments, &mut room);
    let (nodes, further) = node::nodes(facts, profiles);
    Targets {
        pipelines,
        environments,
        nodes,
        left_out: more + others + further,
    }
}

/// Returns the groups with the longest total run time, the greatest saving first, and the number of
/// groups left out.
fn advised(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    mut groups: Vec<members::Group<'_, '_>>,
    room: &mut usize,
) -> (Vec<GroupAdvice>, usize) {
    groups.sort_by(|a, b| {
        let key = |one: &members::Group<'_, '_>| {
            (one.name.clone(), one.region.clone(), one.account.clone())
        };
        (b.wall().cmp(&a.wall())).then_with(|| key(a).cmp(&key(b)))
    });
    let left_out = groups.len().saturating_sub(MAX_GROUPS);
    groups.truncate(MAX_GROUPS);
    let advice = groups
        .iter()
        .filter_map(|one| group::advise(facts, profiles, one, room));
    let mut all: Vec<GroupAdvice> = advice.collect();
    all.sort_by(|a, b| {
        let key = |one: &GroupAdvice| (one.name.clone(), one.region.clone(), one.account.clone());
        (b.saving_a_month.cmp(&a.saving_a_month)).then_with(|| key(a).cmp(&key(b)))
    });
    (all, left_out)
}
