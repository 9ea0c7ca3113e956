//! Tables of hours, and the laws that merging keeps.

use ebb_telemetry::testing::{at, placed};
use ebb_telemetry::units::CpuTime;
use proptest::prelude::*;

use super::*;

/// A minute with CPU time in milliseconds on four cores, `minute` minutes after a full hour.
fn worked(minute: u64, cpu_ms: u64) -> Placed {
    let mut placed = placed(0, minute);
    // The clock of the tests begins 14 minutes after a full hour.
    placed.end = at(minute * 60 + 60 + 46 * 60);
    placed.heartbeat.workload.cpu = Some(CpuTime::from_millis(cpu_ms));
    placed
}

fn hours(of: impl IntoIterator<Item = (u64, u64)>) -> NodeHours {
    let mut hours = NodeHours::default();
    for (minute, cpu_ms) in of {
        hours.fold(&worked(minute, cpu_ms), &ActivityPolicy::default());
    }
    hours
}

fn percent(share: Option<Share>) -> Option<u32> {
    share.map(|share| share.ppm() / 10_000)
}

#[test]
fn an_hour_tells_what_was_seen_what_was_active_and_its_busiest_minute() {
    let check = |minutes: Vec<(u64, u64)>,
                 observed_percent: u32,
                 active: Option<u32>,
                 peak: Option<u32>| {
        let hours = hours(minutes.clone());
        let hour = hours.at(at(46 * 60));
        assert_eq!(
            percent(Some(hour.seen())),
            Some(observed_percent),
            "{minutes:?}"
        );
        assert_eq!(percent(hour.active()), active, "{minutes:?}");
        assert_eq!(percent(hour.peak_cpu()), peak, "{minutes:?}");
    };
    let quiet = || (0..60).map(|minute| (minute, 0));
    check(quiet().collect(), 100, Some(0), Some(1));
    // 30 s of CPU in a minute are an eighth of 4 cores.
    check(
        quiet().chain([(7, 30_000)]).collect(),
        100,
        Some(8),
        Some(15),
    );
    check(
        (0..60).map(|m| (m, 240_000)).collect(),
        100,
        Some(100),
        Some(100),
    );
    check((0..30).map(|m| (m, 0)).collect(), 50, Some(0), Some(1));
    check(vec![(59, 30_000)], 8, Some(100), Some(15));
    check(vec![(60, 30_000)], 0, None, None);
    check(vec![], 0, None, None);
}

#[test]
fn observed_time_counts_once_for_a_machine_that_runs_for_a_part_of_an_hour() {
    // Minutes 20 to 90 of two hours.
    let hours = hours((20..90).map(|minute| (minute, 0)));
    let check = |from: u64, to: u64, minutes: u64| {
        let at_minute = |minute: u64| at((46 + minute) * 60);
        let (from, to) = (at_minute(from), at_minute(to));
        let observed = hours.observed(Window { from, to }).as_secs();
        assert_eq!(observed, minutes * 60, "{from} to {to}");
    };
    check(0, 120, 70);
    check(20, 90, 70);
    check(0, 60, 40);
    check(60, 120, 30);
    check(22, 31, 9);
    check(85, 100, 5);
    check(95, 100, 0);
    check(0, 10, 0);
    let nothing = NodeHours::default();
    let (from, to) = (at(0), at(86_400));
    assert_eq!(nothing.observed(Window { from, to }), Duration::ZERO);
}

#[test]
fn hours_of_version_0_1_stay_readable_and_the_higher_peak_counts() {
    let old = |class: u32| hour::Hour(class << 24 | 0x1001);
    let peaks: Vec<_> = (0..=7)
        .map(|class| percent(old(class).peak_cpu()))
        .collect();
    let expect = [1, 2, 5, 10, 20, 50, 100].map(Some);
    assert_eq!((peaks[0], &peaks[1..]), (None, &expect[..]));
    let new = hour::Hour::new(1, true, hour::Hour::peak_class(Share::from_ppm(290_000)));
    assert_eq!(percent(new.peak_cpu()), Some(30));
    for (class, expect) in [(5, 30), (6, 50), (7, 100)] {
        let joined = [old(class).join(new), new.join(old(class))];
        assert_eq!(
            joined.map(|hour| percent(hour.peak_cpu())),
            [Some(expect); 2]
        );
    }
}

#[test]
fn what_was_not_seen_tells_nothing() {
    let mut blind = worked(3, 0);
    blind.heartbeat.coverage.cpu = Some(Share::from_ppm(500_000));
    let mut hours = NodeHours::default();
    hours.fold(&blind, &ActivityPolicy::default());
    assert_eq!(hours, NodeHours::default());
}

#[test]
fn recurring_use_shows_in_its_hour_of_the_week() {
    let day = 24 * 60;
    // Work in the tenth hour of each of 14 days.
    let minutes = (0..14 * day).map(|m| (m, if m % day / 60 == 9 { 30_000 } else { 0 }));
    let hours = hours(minutes);
    let week = hours.by_hour_of_week();
    let used = week.iter().filter(|hour| hour.weeks_active > 0).count();
    assert_eq!(used, 7);
    assert!(week.iter().all(|hour| hour.weeks_seen == 2));
    let (begin, _) = hours.hours().next().expect("the first hour");
    let ninth = (hour_of_week(begin) + 9) % WEEK_HOURS;
    assert_eq!(percent(week[ninth].active()), Some(100));
}

#[test]
fn the_week_begins_on_monday() {
    let check = |text: &str, expect: usize| {
        let at: Timestamp = text.parse().expect("a time");
        assert_eq!(hour_of_week(at), expect, "{text}");
    };
    check("2026-11-16T00:00:00Z", 0);
    check("2026-11-16T01:59:59Z", 1);
    check("2026-11-22T23:00:00Z", 167);
    check("1969-12-29T00:30:00Z", 0);
}

#[test]
fn fifteen_days_are_kept_and_a_long_silence_forgets_all_before() {
    let quarter = |hours: u64| (0..hours).map(|hour| (hour * 60, 30_000));
    let all = hours(quarter(1_000));
    assert_eq!(all.numbered().len(), KEPT_HOURS);
    assert_eq!(all.hours().count(), FORTNIGHT_HOURS, "for the rules");
    // Data of the last two weeks after a gap begins with an observed hour.
    let resumed = hours(quarter(20).chain([(60 * 60, 30_000), (359 * 60, 30_000)]));
    assert_eq!(resumed.hours().count(), 300);
    let after = hours(quarter(5).chain([(600 * 60, 30_000)]));
    assert_eq!(after.hours().count(), 1);
    let late = hours([(600 * 60, 30_000), (0, 30_000)]);
    assert_eq!(late, after);
}

#[test]
fn nodes_that_are_gone_for_fifteen_days_are_forgotten() {
    let of = |name: &str, hour: u64| {
        let node = NodeId::new(name).expect("a node id");
        let nodes = BTreeMap::from([(node, hours([(hour * 60, 30_000)]))]);
        FleetHours { nodes }
    };
    let mut fleet = of("gone", 0).merge(of("stays", 1)).merge(of("new", 360));
    fleet.forget_old();
    let names: Vec<_> = fleet.nodes.keys().map(NodeId::as_str).collect();
    assert_eq!(names, ["new", "stays"]);
}

type Minutes = Vec<(u64, u64)>;

fn minutes() -> impl Strategy<Value = Minutes> {
    let hour = (0u64..800, 0u64..60).prop_map(|(hour, minute)| hour * 60 + minute);
    proptest::collection::vec((hour, 0u64..240_000), 0..30)
}

#[test]
fn the_fourteen_days_before_today_are_observed_as_a_whole() {
    let day = 24 * 3600;
    for hour in 0..24 {
        // The hours from the first of the first day to this hour of the fifteenth day.
        let end = 14 * 24 + hour;
        let all = hours((0..=end).map(|hour| (hour * 60 + 2, 30_000)));
        let (from, to) = (at(46 * 60), at(46 * 60 + day));
        // One slot of each hour was observed.
        let observed = all.observed(Window { from, to }).as_secs();
        assert_eq!(observed, 24 * 300, "hour {hour} of the fifteenth day");
    }
}

proptest! {
    #[test]
    fn merging_is_commutative_associative_and_idempotent(
        a in minutes(), b in minutes(), c in minutes(),
    ) {
        let [a, b, c] = [a, b, c].map(hours);
        let joined = |mut a: NodeHours, b: &NodeHours| {
            a.absorb(b);
            a
        };
        prop_assert_eq!(joined(a.clone(), &b), joined(b.clone(), &a));
        prop_assert_eq!(
            joined(joined(a.clone(), &b), &c),
            joined(a.clone(), &joined(b, &c))
        );
        prop_assert_eq!(joined(a.clone(), &a), a);
    }

    #[test]
    fn order_and_repeats_change_nothing(arrived in minutes()) {
        let once = hours(arrived.clone());
        let again = arrived.iter().rev().chain(&arrived).copied();
        prop_assert_eq!(hours(again), once);
    }
}
