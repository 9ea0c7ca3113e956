//! When nodes were at work: the last day, an hour a cell.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::fleet::InstanceState;
use crate::identity::NodeId;
use crate::judge::Facts;
use crate::units::Share;

/// Hours told: the state keeps the ticks of a day.
const HOURS: i64 = 24;

/// Nodes told: more than a person looks through, and a page of bounded size.
const MAX_NODES: usize = 200;

/// When nodes were at work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// The begin of the first hour; `None` without any node.
    pub from: Option<Timestamp>,
    /// Nodes with findings first, the greatest saving first; then others by id.
    pub nodes: Vec<NodeHours>,
    /// Nodes with a probe beyond those.
    pub left_out: usize,
}

/// One node's hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHours {
    /// The node.
    pub node: NodeId,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// The share of each hour's seen ticks in which something worked, in percent;
    /// `None` where nothing of the hour was seen. The last hour is not over.
    pub hours: Vec<Option<u8>>,
}

/// The last day of the nodes with a probe that run.
pub(crate) fn of(facts: &Facts<'_>, findings: &[Finding]) -> Timeline {
    let running = |id: &NodeId| {
        let instance = facts.instance(id);
        instance.is_some_and(|one| one.state == InstanceState::Running)
    };
    let nodes = &facts.state.nodes;
    let is_told = |id: &NodeId| running(id) && nodes.get(id).is_some_and(|n| n.latest.is_some());
    let mut seen = BTreeSet::new();
    let of_findings = findings.iter().filter_map(|finding| {
        let resource = &finding.resource;
        NodeId::new(resource.node.as_ref().unwrap_or(&resource.id).as_str()).ok()
    });
    let order: Vec<NodeId> = of_findings
        .chain(nodes.keys().cloned())
        .filter(|id| is_told(id) && seen.insert(id.clone()))
        .collect();
    if order.is_empty() {
        return Timeline::default();
    }
    let hour = facts.now.as_second().div_euclid(3600) + 1 - HOURS;
    let from = Timestamp::from_second(hour * 3600).ok();
    let told = order.iter().take(MAX_NODES).map(|id| NodeHours {
        node: id.clone(),
        name: facts
            .instance(id)
            .and_then(|one| one.name().map(str::to_owned)),
        hours: hours(facts, id, from),
    });
    Timeline {
        from,
        nodes: told.collect(),
        left_out: order.len().saturating_sub(MAX_NODES),
    }
}

fn hours(facts: &Facts<'_>, id: &NodeId, from: Option<Timestamp>) -> Vec<Option<u8>> {
    let (Some(from), Some(node)) = (from, facts.state.nodes.get(id)) else {
        return Vec::new();
    };
    let tick = facts.policy.activity.tick();
    let cell = |n: i64| {
        let begin = from.checked_add(SignedDuration::from_hours(n)).ok()?;
        let end = begin.checked_add(SignedDuration::from_hours(1)).ok()?;
        let seen = node.seen.coverage(begin, end, tick)?.ppm();
        let active = node
            .active
            .coverage(begin, end, tick)
            .unwrap_or(Share::NONE);
        let percent = (u64::from(active.ppm()) * 100).checked_div(u64::from(seen))?;
        u8::try_from(percent.min(100)).ok()
    };
    (0..HOURS).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use crate::rules::testing::{World, instance};
    use crate::state::testing::node;
    use crate::units::CpuTime;

    #[test]
    fn an_hour_is_the_share_of_what_was_seen_of_it_and_unseen_is_not_quiet() {
        let mut world = World::with([instance(1), instance(2), instance(3)]);
        // The clock's zero is 46 minutes before a full hour.
        let busy = |until: u64| {
            move |minute: u64, h: &mut crate::heartbeat::Heartbeat| {
                if minute < until {
                    h.workload.cpu = Some(CpuTime::from_millis(30_000));
                }
            }
        };
        world.watch(1, 46, 106, busy(76));
        world.watch(1, 166, 196, |_, _| {});
        world.watch(2, 46, 196, busy(196));
        let timeline = world.judge().timeline;
        let told: Vec<_> = timeline
            .nodes
            .iter()
            .map(|one| (&one.node, &one.hours[21..]))
            .collect();
        let expect = [
            (&node(1), [Some(50), None, Some(0)].as_slice()),
            (&node(2), [Some(100), Some(100), Some(100)].as_slice()),
        ];
        assert_eq!(told, expect, "no probe, no line");
        assert!(timeline.nodes[0].hours[..21].iter().all(Option::is_none));
        assert_eq!(timeline.nodes[0].hours.len(), 24);
    }

    #[test]
    fn nodes_with_findings_come_first() {
        let mut world = World::with([instance(1), instance(2)]);
        world.watch(1, 0, 60, |_, h| {
            h.workload.cpu = Some(CpuTime::from_millis(30_000));
        });
        world.watch(2, 0, 60, |_, _| {});
        let report = world.judge();
        assert_eq!(report.findings.len(), 1);
        let order: Vec<_> = report.timeline.nodes.iter().map(|n| &n.node).collect();
        assert_eq!(order, [&node(2), &node(1)]);
    }
}
