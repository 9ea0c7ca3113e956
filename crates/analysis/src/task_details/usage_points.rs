//! The use of a task over time. Each sweep adds the totals of the task at that time to the points in
//! the previous document.

use std::collections::BTreeMap;

use ebb_model::report::task_detail::{TaskDetail, UsagePoint};
use ebb_telemetry::step::{PlacedStep, StepEnd};
use jiff::Timestamp;

/// Limit on the points of a task. With a sweep in ten minutes, these are the first 20 hours; after
/// that, every second point stays.
pub const MAX_POINTS: usize = 120;

/// The totals of a task at its last observation.
pub(crate) fn latest(step: &PlacedStep) -> UsagePoint {
    let (usage, detail) = (&step.usage, &step.usage.detail);
    // The memory of an ended task is that of an earlier sample.
    let memory = detail.memory_now.filter(|_| usage.end == StepEnd::Running);
    let disk = usage.disk_read.zip(usage.disk_written);
    let network = detail.network.as_ref();
    UsagePoint {
        at: step.observed_at,
        cpu_seconds: usage.cpu.as_secs_f64(),
        memory_bytes: memory.map(|bytes| bytes.0),
        disk_bytes: disk.map(|(read, written)| read.0.saturating_add(written.0)),
        network_bytes: network.map(|all| all.received.0.saturating_add(all.sent.0)),
        gpu_busy_seconds: (detail.gpu.as_ref()).and_then(|gpu| Some(gpu.busy?.as_secs_f64())),
    }
}

/// Adds the points of the previous tasks of the same run. A task that ended before any sweep
/// observed it gets no point, because one point shows no change.
pub fn continue_points(tasks: &mut [TaskDetail], previous: &[TaskDetail]) {
    // Slurm runs a requeued job again under its id.
    let earlier: BTreeMap<(&str, Timestamp), &[UsagePoint]> = previous
        .iter()
        .map(|task| ((task.id.as_str(), task.started_at), &*task.points))
        .collect();
    for task in tasks {
        let known = earlier.get(&(task.id.as_str(), task.started_at));
        let known = known.copied().unwrap_or_default();
        task.points = match (known, task.end) {
            ([], end) if end != StepEnd::Running => Vec::new(),
            _ => merge(known, &task.points),
        };
    }
}

/// Merges points in order of time; of two points at the same time, the later one of `new` stays.
fn merge(known: &[UsagePoint], new: &[UsagePoint]) -> Vec<UsagePoint> {
    let all = known.iter().chain(new);
    let by_time: BTreeMap<Timestamp, &UsagePoint> = all.map(|point| (point.at, point)).collect();
    let mut points: Vec<UsagePoint> = by_time.into_values().cloned().collect();
    while points.len() > MAX_POINTS {
        thin_out(&mut points);
    }
    points
}

/// Drops every second point; the first and the last stay.
pub fn thin_out(points: &mut Vec<UsagePoint>) {
    let last = points.len().saturating_sub(1);
    let mut at = 0;
    points.retain(|_| {
        let stays = at % 2 == 0 || at == last;
        at += 1;
        stays
    });
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::testing::at;

    use super::*;

    fn point(minute: u64) -> UsagePoint {
        UsagePoint {
            at: at(minute * 60),
            cpu_seconds: 1.0,
            memory_bytes: None,
            disk_bytes: None,
            network_bytes: None,
            gpu_busy_seconds: None,
        }
    }

    #[test]
    fn a_full_list_keeps_the_first_and_the_last_point_and_every_second_between() {
        let mut points = Vec::new();
        for minute in 0..MAX_POINTS as u64 {
            points = merge(&points, &[point(minute)]);
        }
        assert_eq!(points.len(), MAX_POINTS);
        points = merge(&points, &[point(120)]);
        let minutes: Vec<Timestamp> = points.iter().map(|point| point.at).collect();
        let even: Vec<Timestamp> = (0..=60).map(|n| at(n * 2 * 60)).collect();
        assert_eq!(minutes, even);
        for minute in 121..10_000 {
            points = merge(&points, &[point(minute)]);
            assert!(points.len() <= MAX_POINTS);
            assert_eq!((points[0].at, points.last()), (at(0), Some(&point(minute))));
        }
    }

    #[test]
    fn a_point_of_the_same_time_is_replaced_and_late_points_are_sorted_in() {
        let newer = UsagePoint {
            cpu_seconds: 7.0,
            ..point(2)
        };
        let points = merge(&[point(3), point(2)], std::slice::from_ref(&newer));
        assert_eq!(points, [newer.clone(), point(3)]);
        assert_eq!(merge(&points, std::slice::from_ref(&newer)), points);
    }

    #[test]
    fn thinning_shortens_every_list_of_more_than_two() {
        let check = |count: u64, expect: &[u64]| {
            let mut points: Vec<UsagePoint> = (0..count).map(point).collect();
            thin_out(&mut points);
            let expect: Vec<UsagePoint> = expect.iter().map(|n| point(*n)).collect();
            assert_eq!(points, expect);
        };
        check(0, &[]);
        check(1, &[0]);
        check(2, &[0, 1]);
        check(3, &[0, 2]);
        check(4, &[0, 2, 3]);
    }
}
