//! Hourly activity of nodes for up to 14 days.

use std::collections::BTreeSet;

use ebb_model::finding::Finding;
use ebb_model::inventory::instance::InstanceState;
use ebb_model::report::timeline::{NodeHours, Timeline};
use ebb_node_state::hourly_activity::FORTNIGHT_HOURS;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::units::Share;
use jiff::{SignedDuration, Timestamp};

use crate::facts::Facts;

/// Number of reported days, including the current one.
const DAYS: i64 = FORTNIGHT_HOURS as i64 / DAY;

/// Hours in a day.
const DAY: i64 = 24;

/// Limit on reported nodes, which bounds the size of the page.
const MAX_NODES: usize = 100;

/// Hourly activity of the running nodes with a probe.
pub(crate) fn build_timeline(facts: &Facts<'_>, findings: &[Finding]) -> Timeline {
    let running = |id: &NodeId| {
        let instance = facts.instance(id);
        instance.is_some_and(|one| one.state == InstanceState::Running)
    };
    let nodes = &facts.state.nodes;
    let is_shown = |id: &NodeId| running(id) && nodes.get(id).is_some_and(|n| n.latest.is_some());
    let mut seen = BTreeSet::new();
    let of_findings = findings.iter().filter_map(|finding| {
        let resource = &finding.resource;
        NodeId::new(resource.node.as_ref().unwrap_or(&resource.id).as_str()).ok()
    });
    let order: Vec<NodeId> = of_findings
        .chain(nodes.keys().cloned())
        .filter(|id| is_shown(id) && seen.insert(id.clone()))
        .collect();
    if order.is_empty() {
        return Timeline::default();
    }
    let newest = facts.now.as_second().div_euclid(3600);
    let first = (newest.div_euclid(DAY) + 1 - DAYS) * DAY;
    let mut rows: Vec<NodeHours> = order
        .iter()
        .take(MAX_NODES)
        .map(|id| NodeHours {
            node: id.clone(),
            name: facts
                .instance(id)
                .and_then(|one| one.name().map(str::to_owned)),
            hours: (first..=newest)
                .map(|hour| percent(facts, id, hour))
                .collect(),
        })
        .collect();
    let first_known = rows
        .iter()
        .filter_map(|node| node.hours.iter().position(Option::is_some));
    // Days before the first observation are removed, because they are empty in each line.
    let day = usize::try_from(DAY).unwrap_or(1);
    let before = first_known.min().unwrap_or(0) / day * day;
    for node in &mut rows {
        node.hours.drain(..before);
    }
    let from = first + i64::try_from(before).unwrap_or(0);
    Timeline {
        from: Timestamp::from_second(from * 3600).ok(),
        nodes: rows,
        left_out: order.len().saturating_sub(MAX_NODES),
    }
}

/// The state has ticks for the last day; earlier days have hourly slots.
fn percent(facts: &Facts<'_>, id: &NodeId, hour: i64) -> Option<u8> {
    let begin = Timestamp::from_second(hour * 3600).ok()?;
    let end = begin.checked_add(SignedDuration::from_hours(1)).ok()?;
    let by_slot = || facts.hours.nodes.get(id)?.at(begin).active();
    let active = by_tick(facts, id, (begin, end)).or_else(by_slot)?;
    // Rounded up, so that any activity differs from idle.
    u8::try_from(active.ppm().div_ceil(10_000).min(100)).ok()
}

fn by_tick(facts: &Facts<'_>, id: &NodeId, (begin, end): (Timestamp, Timestamp)) -> Option<Share> {
    let node = facts.state.nodes.get(id)?;
    let tick = facts.policy.activity.tick();
    let coverage = node.seen.coverage(begin, end, tick)?;
    let active = node.active.coverage(begin, end, tick);
    Share::from_parts(
        active.unwrap_or(Share::NONE).ppm().into(),
        coverage.ppm().into(),
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::{World, instance};
    use ebb_telemetry::testing::node;
    use ebb_telemetry::units::CpuTime;

    #[test]
    fn an_hour_is_the_share_of_what_was_seen_of_it_and_unseen_is_not_quiet() {
        let mut world = World::with([instance(1), instance(2), instance(3)]);
        // The zero of the clock is 46 minutes before a full hour.
        let busy = |until: u64| {
            move |minute: u64, h: &mut ebb_telemetry::heartbeat::Heartbeat| {
                if minute < until {
                    h.workload.cpu = Some(CpuTime::from_millis(30_000));
                }
            }
        };
        world.watch(1, 46, 106, busy(76));
        world.watch(1, 166, 196, |_, _| {});
        world.watch(2, 46, 196, busy(196));
        let timeline = world.evaluate().timeline;
        let lines: Vec<_> = timeline
            .nodes
            .iter()
            .map(|one| (&one.node, &one.hours[one.hours.len() - 3..]))
            .collect();
        let expect = [
            (&node(1), [Some(50), None, Some(0)].as_slice()),
            (&node(2), [Some(100), Some(100), Some(100)].as_slice()),
        ];
        assert_eq!(lines, expect, "no probe, no line");
        let first = &timeline.nodes[0].hours;
        assert!(first[..first.len() - 3].iter().all(Option::is_none));
        let from = timeline.from.expect("there are nodes").as_second();
        assert_eq!(from % 86_400, 0, "it begins with a day");
        let hours = (world.now.as_second() - from) / 3600 + 1;
        assert_eq!(first.len() as i64, hours, "and ends with the hour of now");
        assert!(first.len() <= 24, "with the day that was seen first");
    }

    #[test]
    fn what_the_state_forgot_is_told_by_the_hours_for_a_fortnight() {
        let mut world = World::with([instance(1)]);
        let minutes = |day: u64| day * 24 * 60;
        let busy = |_: u64, h: &mut ebb_telemetry::heartbeat::Heartbeat| {
            h.workload.cpu = Some(CpuTime::from_millis(30_000));
        };
        let watch = |world: &mut World, day: u64| {
            world.watch(1, minutes(day) + 46, minutes(day) + 106, busy);
            world.watch(1, minutes(day) + 106, minutes(day) + 166, |_, _| {});
        };
        for day in [0, 9, 20] {
            watch(&mut world, day);
        }
        let timeline = world.evaluate().timeline;
        let hours = &timeline.nodes[0].hours;
        let is_known = |n: usize| hours[n].is_some();
        let known_hours: Vec<_> = (0..hours.len()).filter(|n| is_known(*n)).collect();
        let [early, rest, then @ ..] = &known_hours[..] else {
            panic!("{known_hours:?}")
        };
        assert_eq!((hours[*early], hours[*rest]), (Some(100), Some(0)));
        assert_eq!(then, [early + 11 * 24, rest + 11 * 24]);
        assert!(*early < 24, "days before were dropped: {known_hours:?}");
    }

    #[test]
    fn nodes_with_findings_come_first() {
        let mut world = World::with([instance(1), instance(2)]);
        world.watch(1, 0, 60, |_, h| {
            h.workload.cpu = Some(CpuTime::from_millis(30_000));
        });
        world.watch(2, 0, 60, |_, _| {});
        let report = world.evaluate();
        assert_eq!(report.findings.len(), 1);
        let order: Vec<_> = report.timeline.nodes.iter().map(|n| &n.node).collect();
        assert_eq!(order, [&node(2), &node(1)]);
    }
}
