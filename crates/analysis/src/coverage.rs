//! Coverage of a window: by the minute for the last day, and by the hour for two weeks.

use std::time::Duration;

use ebb_node_state::hourly_activity::FORTNIGHT_HOURS;
use ebb_node_state::node_state::NodeState;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::facts::Facts;

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Part of a window in which a probe observed the node, in nanoseconds.
pub(crate) fn observed_nanos(facts: &Facts<'_>, node: &NodeId, window: Window) -> u128 {
    let hours = facts.hours.nodes.get(node);
    hours.map_or(0, |hours| hours.observed(window).as_nanos())
}

/// Part of a window that the metrics of a node cover, in nanoseconds.
pub(crate) fn metered(facts: &Facts<'_>, node: &NodeId, window: Window) -> u128 {
    let Some(series) = facts.metrics.get(node) else {
        return 0;
    };
    let mut covered = 0;
    let mut last = Timestamp::MIN;
    for point in series.points() {
        let period = Duration::from_secs(point.period_seconds.into());
        let from = point.end.checked_sub(period).unwrap_or(point.end).max(last);
        let to = point.end.max(from);
        covered += overlap(window, Window { from, to });
        last = to;
    }
    covered
}

/// Whether the probe of a node or its metrics cover a window well enough to say that it ran.
pub(crate) fn is_covered(facts: &Facts<'_>, node: &NodeId, window: Window) -> bool {
    let needed = u128::from(facts.policy.idle.min_coverage().ppm());
    let covered = observed_nanos(facts, node, window).max(metered(facts, node, window));
    covered * 1_000_000 >= window.length().as_nanos() * needed
}

pub(crate) fn overlap(a: Window, b: Window) -> u128 {
    common(a, b).length().as_nanos()
}

/// The time in both windows; its end is before its begin if there is none.
pub(crate) fn common(a: Window, b: Window) -> Window {
    Window {
        from: a.from.max(b.from),
        to: a.to.min(b.to),
    }
}

/// The part of a window, in nanoseconds, in windows that do not overlap each other.
pub(crate) fn overlap_with_all(all: &[Window], window: Window) -> u128 {
    all.iter().map(|one| overlap(*one, window)).sum()
}

/// The same time without overlaps, and with the gaps up to a length.
pub(crate) fn union(mut windows: Vec<Window>, gap: Duration) -> Vec<Window> {
    windows.sort_by_key(|window| window.from);
    let mut merged: Vec<Window> = Vec::with_capacity(windows.len());
    for window in windows {
        let reach = window.from.checked_sub(gap).unwrap_or(window.from);
        match merged.last_mut() {
            Some(last) if reach <= last.to => last.to = last.to.max(window.to),
            _ => merged.push(window),
        }
    }
    merged
}

/// A day in UTC; `None` for an invalid date.
pub(crate) fn of_day(day: &str) -> Option<Window> {
    let date: Date = day.parse().ok()?;
    let from = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let to = from.checked_add(DAY).ok()?;
    Some(Window { from, to })
}

/// Whole days before the current one for which hours and tasks are stored.
const WHOLE_DAYS: u32 = 14;

/// Whether the hours and tasks of a day are still stored as a whole. A bill that was read yesterday
/// may contain an earlier day.
pub(crate) fn is_whole(day: &str, now: Timestamp) -> bool {
    let today = now.to_zoned(TimeZone::UTC).date().to_string();
    let oldest = of_day(&today).and_then(|today| today.from.checked_sub(DAY * WHOLE_DAYS).ok());
    let begins = of_day(day).map(|day| day.from);
    begins
        .zip(oldest)
        .is_none_or(|(begins, oldest)| begins >= oldest)
}

/// Minimum number of minutes that a node keeps; see [`ebb_node_state::ticks::Ticks`].
const MINUTES_KEPT: u32 = 24 * 60;

/// The longest end of a window with enough coverage, and that coverage. If the last day lacks
/// coverage, the function returns the whole window with the coverage of that day.
pub(crate) fn observed(
    facts: &Facts<'_>,
    id: &NodeId,
    node: &NodeState,
    window: Window,
) -> (Window, Share) {
    let tick = facts.policy.activity.tick();
    let newest = node.seen.coverage(window.from, window.to, tick);
    let newest = newest.unwrap_or(Share::NONE);
    let day = window.to.checked_sub(tick * MINUTES_KEPT);
    let day = day.unwrap_or(window.from);
    if day <= window.from {
        return (window, newest);
    }
    let least = facts.policy.idle.min_coverage();
    // Count slots, because the window starts within an hour and only a part of that hour counts.
    let coverage_in = |window| facts.hours.nodes.get(id)?.observed_share(window);
    let hours = facts.hours.nodes.get(id);
    let first = hours.and_then(|hours| Some(hours.hours().next()?.0));
    let begins = [
        Some(window.from),
        first.filter(|first| *first > window.from),
    ];
    for from in begins.into_iter().flatten().filter(|from| *from < day) {
        let coverage = coverage_in(Window { from, to: day }).unwrap_or(Share::NONE);
        if coverage >= least {
            let to = window.to;
            return (Window { from, to }, newest.min(coverage));
        }
    }
    (
        Window {
            from: day,
            ..window
        },
        newest,
    )
}

/// Whether a window was cut because earlier hours are no longer stored: it begins with the stored
/// hours of the node, which reach back for almost as long as hours are stored.
pub(crate) fn is_cut_by_storage(
    facts: &Facts<'_>,
    id: &NodeId,
    (whole, window): (Window, Window),
) -> bool {
    let Some(hours) = facts.hours.nodes.get(id) else {
        return false;
    };
    let first = hours.hours().next().map(|(begin, _)| begin);
    window.from > whole.from
        && first == Some(window.from)
        && hours.hours().count() > FORTNIGHT_HOURS - 24
}

/// Coverage of the nodes during their tasks, weighted by duration. `None` if it is no longer known
/// for one of the tasks.
pub(crate) fn of_runs<'r>(
    facts: &Facts<'_>,
    runs: impl Iterator<Item = (&'r NodeId, Window)>,
) -> Option<Share> {
    let (mut covered, mut all) = (0_u64, 0_u64);
    for (id, window) in runs {
        let node = facts.state.nodes.get(id)?;
        let tick = facts.policy.activity.tick();
        let kept = node.latest.as_ref()?.end.checked_sub(tick * MINUTES_KEPT);
        let share = match kept.is_ok_and(|kept| window.from >= kept) {
            true => node.seen.coverage(window.from, window.to, tick),
            false => facts.hours.nodes.get(id)?.observed_share(window),
        };
        let seconds = window.length().as_secs();
        covered = covered.saturating_add(seconds.saturating_mul(share?.ppm().into()));
        all = all.saturating_add(seconds);
    }
    Share::from_parts(covered, all.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance};
    use ebb_telemetry::testing::at;
    use ebb_telemetry::units::CpuTime;

    #[test]
    fn time_of_several_windows_counts_once_and_short_gaps_belong_to_it() {
        let window = |from, to| Window {
            from: at(from),
            to: at(to),
        };
        let all = vec![window(5, 9), window(0, 3), window(2, 4), window(6, 7)];
        let apart = union(all.clone(), Duration::ZERO);
        assert_eq!(apart, [window(0, 4), window(5, 9)]);
        assert_eq!(union(all, Duration::from_secs(1)), [window(0, 9)]);
        assert_eq!(overlap_with_all(&apart, window(3, 6)), 2_000_000_000);
    }

    #[test]
    fn no_time_is_told_that_was_not_seen_however_long_it_is_quiet() {
        let check = |gap_h: std::ops::Range<u64>, hours: u64, expect_h: u64| {
            let mut world = World::with([instance(1)]);
            world.watch(1, 0, gap_h.start * 60, |_, _| {});
            world.watch(1, gap_h.end * 60, hours * 60, |_, _| {});
            world.now = at(hours * 3600);
            let finding = world.verdict().expect("it is idle");
            let length = finding.window.length().as_secs() / 3600;
            assert_eq!(length, expect_h, "{gap_h:?} of {hours}");
            let spent = finding.cost.expect("a price").spent.micros();
            assert_eq!(spent, 192_000 * i64::try_from(expect_h).expect("few"));
        };
        check(0..0, 20, 20);
        check(0..0, 100, 100);
        // Two days without data.
        check(40..88, 120, 24);
        // Three hours of ten days are missing.
        check(40..43, 240, 240);
    }

    #[test]
    fn the_hour_in_which_a_window_begins_does_not_stand_for_an_unseen_one() {
        let mut world = World::with([instance(1)]);
        world.watch(1, 0, 30, |_, h| {
            h.workload.cpu = Some(CpuTime::from_millis(60_000));
        });
        world.watch(1, 30, 10 * 60, |_, _| {});
        world.watch(1, 11 * 60, 50 * 60 + 30, |_, _| {});
        let finding = world.verdict().expect("it is idle");
        assert_eq!(finding.window.length().as_secs(), 50 * 3600);
        // One of the 26 hours before the last day, with a tolerance of one slot.
        let coverage = finding.coverage.expect("a probe saw it");
        assert!((955_000..970_000).contains(&coverage.ppm()), "{coverage}");
    }
}
