//! The machines that cost money: those of the inventory, and those that are gone but sent
//! heartbeats. The bill of a day is complete only a day later, when many machines are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::time::Window;
use jiff::Timestamp;

use crate::cost_allocation::machine_split::Claim;
use crate::coverage::{common, is_covered, of_day, union};
use crate::facts::Facts;

/// A machine also ran in gaps up to this length between observations: its probe was updated, or the
/// machine started again at once.
const SHORT_GAP: Duration = Duration::from_secs(3_600);

/// Machines of the bill that only the state of the probes still contains. Their type and region are
/// unknown, and their size is known from their probe.
pub(crate) fn gone_machines(facts: &Facts<'_>) -> BTreeMap<NodeId, Instance> {
    let billed = facts.bill.keys();
    let gone = billed.filter(|id| !facts.inventory.instances.contains_key(*id));
    let known = gone.filter(|id| {
        let node = facts.state.nodes.get(*id);
        node.is_some_and(|node| node.latest.is_some())
    });
    let host = |id: &NodeId| (id.clone(), Instance::host(id.clone()));
    known.map(host).collect()
}

/// The parts of a billed day in which a machine ran; `None` if it is not known.
pub(crate) fn life(
    facts: &Facts<'_>,
    id: &NodeId,
    claims: &[Claim],
    day: &str,
) -> Option<Vec<Window>> {
    match facts.inventory.instances.get(id) {
        Some(instance) => life_of_known(facts, instance, claims, day),
        None => Some(vec![life_of_gone(facts, id, day)?]),
    }
}

/// The same for a machine of the inventory. EC2 reports only its last start, so the probe and the
/// tasks show when it ran before. Without any of these, it may have run all day.
fn life_of_known(
    facts: &Facts<'_>,
    instance: &Instance,
    claims: &[Claim],
    day: &str,
) -> Option<Vec<Window>> {
    let day = of_day(day)?;
    let day = Window {
        to: day.to.min(facts.now),
        ..day
    };
    let last = last_run(facts, instance);
    let earlier = Window {
        to: last.map_or(day.to, |run| day.to.min(run.from)),
        ..day
    };
    let hours = facts.hours.nodes.get(&instance.id).into_iter();
    let observed = hours.flat_map(|hours| hours.observed_slots(earlier));
    let tasks = claims.iter().map(|claim| claim.window);
    let earlier = observed.chain(tasks).map(|ran| common(ran, earlier));
    let last = last.map(|run| common(run, day));
    let ran = earlier.chain(last).filter(|ran| ran.from < ran.to);
    let ran = union(ran.collect(), SHORT_GAP);
    Some(if ran.is_empty() { vec![day] } else { ran })
}

/// From the last start of a machine until it stopped, or until now. `None` if it stopped at an
/// unknown time.
fn last_run(facts: &Facts<'_>, instance: &Instance) -> Option<Window> {
    let to = match instance.state {
        InstanceState::Stopped | InstanceState::Terminated => instance.state_since?,
        InstanceState::Pending | InstanceState::Running | InstanceState::Stopping => facts.now,
    };
    let from = instance.launched_at.unwrap_or(Timestamp::MIN);
    Some(Window { from, to })
}

/// The part of a day in which a machine that is gone sent heartbeats. It existed a little longer.
fn life_of_gone(facts: &Facts<'_>, id: &NodeId, day: &str) -> Option<Window> {
    let node = facts.state.nodes.get(id)?;
    part_of_day(day, node.first_seen?, node.latest.as_ref()?.end)
}

/// The part of a day in which a machine of the inventory ran and so has a price. `None` if it did
/// not run, or it is unknown whether it ran. Without a launch time and a probe, its metrics decide.
pub(crate) fn priced_life(facts: &Facts<'_>, instance: &Instance, day: &str) -> Option<Window> {
    let node = facts.state.nodes.get(&instance.id);
    let first_seen = node.and_then(|node| node.first_seen);
    let Some(from) = instance.launched_at.or(first_seen) else {
        return metered_life(facts, &instance.id, day);
    };
    let to = match instance.state {
        InstanceState::Running => facts.now,
        _ => instance.state_since?,
    };
    part_of_day(day, from, to).filter(|lived| lived.from < lived.to)
}

/// The part of a day between the first and the last metrics of a machine. `None` if they cover too
/// little of it.
fn metered_life(facts: &Facts<'_>, id: &NodeId, day: &str) -> Option<Window> {
    let mut points = facts.metrics.get(id)?.points();
    let first = points.next()?;
    let last = points.next_back().unwrap_or(first);
    let period = Duration::from_secs(first.period_seconds.into());
    let from = first.end.checked_sub(period).unwrap_or(first.end);
    let lived = part_of_day(day, from, last.end)?;
    (lived.from < lived.to && is_covered(facts, id, lived)).then_some(lived)
}

fn part_of_day(day: &str, from: Timestamp, to: Timestamp) -> Option<Window> {
    let day = of_day(day)?;
    Some(Window {
        from: day.from.max(from),
        to: day.to.min(to).max(from),
    })
}
