//! Rows of the table `node_hours` of the lake: activity, tasks and price of each node by hour.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::node_hour::{HourBatch, NodeHourRecord};
use ebb_node_state::hourly_activity::NodeHours;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::{Origin, labelled};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::coverage::{of_day, overlap, union};
use crate::facts::Facts;
use crate::step_history::by_step::Profiles;

const HOUR: Duration = Duration::from_secs(3_600);

/// A whole machine in parts per million.
const WHOLE: u128 = 1_000_000;

/// Time after the end of a day until it is written. Heartbeats that arrive later are in the table of
/// heartbeats only.
const WAIT: Duration = Duration::from_secs(6 * 3_600);

/// The next batch of the table, with its rows; `None` if the table has all days that are over.
pub(crate) fn next_batch(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
) -> Option<(HourBatch, Vec<NodeHourRecord>)> {
    let through = newest_day(facts.now)?;
    let nodes = &facts.hours.nodes;
    let batch = HourBatch::next(facts.memory.node_hours, through, nodes.len())?;
    let day = of_day(&batch.day.to_string())?;
    let is_part = |node: &NodeId| batch.part.holds(node);
    let mut tasks: BTreeMap<&NodeId, Vec<Window>> = BTreeMap::new();
    for task in profiles.by_step.values().flat_map(|step| &step.runs) {
        let window = Window {
            from: task.step.started_at,
            to: task.step.observed_at,
        };
        if overlap(day, window) > 0 && is_part(&task.step.node) {
            tasks.entry(&task.step.node).or_default().push(window);
        }
    }
    let nodes = nodes.iter().filter(|(node, _)| is_part(node));
    let rows = nodes.flat_map(|(node, hours)| {
        let busy = union(tasks.remove(node).unwrap_or_default(), Duration::ZERO);
        rows_of_node(facts, (node, hours), day, &busy)
    });
    Some((batch, rows.collect()))
}

/// The newest day that has been over for long enough.
fn newest_day(now: Timestamp) -> Option<Date> {
    let complete = now.checked_sub(WAIT).ok()?;
    complete.to_zoned(TimeZone::UTC).date().yesterday().ok()
}

fn rows_of_node(
    facts: &Facts<'_>,
    (node, hours): (&NodeId, &NodeHours),
    day: Window,
    busy: &[Window],
) -> Vec<NodeHourRecord> {
    let instance = facts.inventory.instances.get(node);
    let latest = facts.state.nodes.get(node);
    let latest = latest.and_then(|node| node.latest.as_ref());
    let sources = [
        latest.map(|latest| latest.origin),
        instance.map(|instance| labelled(&instance.tags)),
    ];
    let origin = sources.into_iter().flatten().max();
    let price = instance.and_then(|instance| facts.price_of(instance));
    let begins = (0..24_u32).filter_map(|hour| day.from.checked_add(HOUR * hour).ok());
    let observed = begins.filter_map(|from| {
        let hour = hours.at(from);
        let active = hour.active()?;
        let to = from.checked_add(HOUR).ok()?;
        let tasks = busy.iter().map(|busy| overlap(Window { from, to }, *busy));
        let tasks = tasks.sum::<u128>() * WHOLE / HOUR.as_nanos();
        Some(NodeHourRecord {
            node: node.clone(),
            hour: from,
            origin: origin.unwrap_or(Origin::Measured),
            account: instance.and_then(|instance| instance.account.clone()),
            instance_type: instance.map(|instance| instance.instance_type.to_string()),
            observed: hour.seen(),
            active,
            with_tasks: Share::from_ppm(u32::try_from(tasks).unwrap_or(0)),
            price: price.as_ref().map(|price| price.per_hour),
            price_basis: price.as_ref().map(|price| price.basis),
        })
    });
    observed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance, requested};
    use ebb_model::inventory::batch::job::JobStatus;
    use ebb_telemetry::shard::Shard;
    use ebb_telemetry::testing::{at, node, placed_step};

    fn next(world: &World) -> Option<(HourBatch, Vec<NodeHourRecord>)> {
        crate::evaluate::evaluate_in_detail(&world.facts())
            .1
            .node_hours
    }

    #[test]
    fn an_hour_has_its_observed_and_active_time_its_tasks_and_the_price() {
        let mut world = World::with([instance(1)]).with_job(JobStatus::Running, requested(2, 8));
        world.watch(1, 0, 120, |_, _| {});
        let mut run = placed_step(1, 10);
        run.usage.id.key = format!("{:032x}", 1);
        (run.started_at, run.observed_at) = (at(0), at(1_800));
        world.finished.push(run);
        assert_eq!(
            next(&world).map(|(_, rows)| rows.len()),
            Some(0),
            "yesterday"
        );
        let begin = at(0).to_zoned(TimeZone::UTC).date();
        world.now = at(36 * 3_600);
        let (batch, rows) = next(&world).expect("a day is over");
        assert_eq!((batch.day, batch.part), (begin, Shard::ONLY));
        let half: u32 = rows.iter().map(|row| row.with_tasks.ppm()).sum();
        assert!((499_000..=501_000).contains(&half), "{half}");
        assert!(rows.len() >= 2, "{rows:?}");
        for row in &rows {
            assert_eq!(row.node, node(1));
            assert!(row.price.is_some() && row.observed > Share::from_ppm(0));
        }
        world.memory.node_hours = Some(batch.number());
        assert_eq!(next(&world), None, "it is written once");
    }

    #[test]
    fn a_day_is_written_some_hours_after_its_end() {
        let check = |now: &str, expect: &str| {
            let day = newest_day(now.parse().expect("a time")).expect("a day");
            assert_eq!(day.to_string(), expect, "{now}");
        };
        check("2026-11-21T05:59:59Z", "2026-11-19");
        check("2026-11-21T06:00:00Z", "2026-11-20");
    }
}
