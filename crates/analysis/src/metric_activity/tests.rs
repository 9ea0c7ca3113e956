//! Tests of machines without a probe: their rhythms and the results at any hour.

use std::time::Duration;

use ebb_model::confidence::Level;
use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_node_state::hourly_activity::hour_of_week;
use ebb_telemetry::money::Usd;
use ebb_telemetry::testing::{at, node};
use ebb_telemetry::units::Share;
use jiff::SignedDuration;

use crate::testing::{World, instance};

const A_DAY: u64 = 288;

/// A sample of five minutes of a system without work.
fn idle(n: u64) -> MetricPoint {
    MetricPoint {
        cpu_max: Some(Share::from_ppm(12_000)),
        network_bytes: Some(10_000),
        disk_bytes: Some(500_000),
        memory: Some(Share::from_ppm(220_000)),
        ..MetricPoint::new(at((n + 1) * 300), 300)
    }
}

fn work(n: u64) -> MetricPoint {
    MetricPoint {
        cpu_max: Some(Share::from_ppm(430_000)),
        network_bytes: Some(30_000_000),
        ..idle(n)
    }
}

/// A machine with `samples` samples; the clock is at the end of the last.
fn world(samples: u64, sample: impl Fn(u64) -> MetricPoint) -> World {
    let mut world = World::with([instance(1)]);
    let series: MetricSeries = (0..samples).map(sample).collect();
    world.metrics.insert(node(1), series);
    world.now = at(samples * 300);
    world
}

/// A machine that works if `works` is true. The arguments are the hour of the week in UTC and the
/// day of its metrics.
fn working(samples: u64, works: impl Fn(usize, u64) -> bool) -> World {
    world(samples, |n| {
        let begin = at(n * 300);
        match works(hour_of_week(begin), n / A_DAY) {
            true => work(n),
            false => idle(n),
        }
    })
}

fn is_office(hour: usize, _: u64) -> bool {
    hour / 24 < 5 && (8..18).contains(&(hour % 24))
}

fn find_finding(world: &World, kind: FindingKind) -> Option<Finding> {
    let mut findings = world.evaluate().findings.into_iter();
    findings.find(|finding| finding.kind == kind)
}

fn kinds(world: &World) -> Vec<FindingKind> {
    world.evaluate().findings.iter().map(|f| f.kind).collect()
}

/// Reason why the idle rule did not evaluate the machine.
fn undetermined(world: &World) -> Option<String> {
    let not_evaluated = world.evaluate().not_evaluated;
    let mut of_rule = not_evaluated.into_iter().filter(|n| n.rule == "idle_node");
    of_rule.next().map(|not| not.reason)
}

#[test]
fn a_rhythm_is_use_at_every_hour_of_a_fortnight() {
    type Works = fn(usize, u64) -> bool;
    let check = |name: &str, works: Works, expect: Option<FindingKind>| {
        for back in 0..24 {
            let world = working(14 * A_DAY - back * 12, works);
            let kinds = kinds(&world);
            assert!(!kinds.contains(&FindingKind::IdleNode), "{name}, {back} h");
            assert_eq!(kinds.first().copied(), expect, "{name}, {back} h");
        }
    };
    let off = Some(FindingKind::OffHoursNode);
    check("office", is_office, off);
    check("nightly", |hour, _| (1..4).contains(&(hour % 24)), off);
    check("weekly", |hour, _| (30..36).contains(&hour), off);
    check("always", |_, _| true, None);
    let shifts: Works = |hour, _| (hour % 24).is_multiple_of(4);
    check("every four hours", shifts, None);
    let holiday: Works = |hour, day| is_office(hour, day) && day != 9;
    check("a day off", holiday, off);
}

#[test]
fn a_machine_that_never_worked_or_was_left_is_idle_at_every_hour_of_a_fortnight() {
    type Works = fn(usize, u64) -> bool;
    let check = |name: &str, works: Works| {
        for back in 0..24 {
            let world = working(14 * A_DAY - back * 12, works);
            assert_eq!(kinds(&world), [FindingKind::IdleNode], "{name}, {back} h");
        }
    };
    check("never used", |_, _| false);
    check("left after ten days of work", |_, day| day < 10);
    check("an office left after nine days", |hour, day| {
        is_office(hour, day) && day < 9
    });
    check("a nightly job until a week ago", |hour, day| {
        (1..4).contains(&(hour % 24)) && day < 7
    });
}

#[test]
fn one_missed_day_is_a_holiday_and_two_are_not() {
    let office_until = |days: u64, samples: u64| {
        let world = working(samples, |hour, day| is_office(hour, day) && day < days);
        find_finding(&world, FindingKind::IdleNode).is_some()
    };
    let weekday = |day: u64| hour_of_week(at(day * 86_400)) / 24;
    let monday = (0..7).find(|day| weekday(*day) == 0).expect("a Monday");
    let day = monday + 7 + 3;
    // The machine has no work on Thursday and Friday. The three times are the end of Thursday, noon
    // and the end of Friday.
    assert!(!office_until(day, (day + 1) * A_DAY));
    assert!(!office_until(day, (day + 1) * A_DAY + 12 * 12));
    assert!(office_until(day, (day + 2) * A_DAY + 3 * 12));
}

#[test]
fn what_metrics_are_too_short_for_is_undetermined_and_saves_no_more_than_was_seen() {
    let check = |name: &str, world: World, expect: &str| {
        let reason = undetermined(&world).unwrap_or_else(|| "nothing".to_owned());
        assert!(
            reason.contains(expect),
            "{name}: '{reason}' should say '{expect}'"
        );
        assert_eq!(find_finding(&world, FindingKind::IdleNode), None, "{name}");
    };
    let left_after = |hours: u64| move |n: u64| if n < hours * 12 { work(n) } else { idle(n) };
    check(
        "two days, at work until ten hours ago",
        world(2 * A_DAY, left_after(38)),
        "last active 10 h 00 min ago, and 2 d 0 h of metrics are too short to show the usual pause",
    );
    check(
        "three hours",
        world(36, idle),
        "metrics cover only 3 h 00 min",
    );
    let mut stale = world(14 * A_DAY, idle);
    stale.now = at(14 * 86_400 + 8 * 3600);
    check("they end", stale, "its metrics end 8 h 00 min ago");
    let early = working(5 * A_DAY, |hour, _| is_office(hour, 0));
    assert_eq!(
        find_finding(&early, FindingKind::IdleNode),
        None,
        "a first week"
    );

    let saving = |samples: u64| {
        let finding = find_finding(&world(samples, idle), FindingKind::IdleNode);
        let cost = finding.expect("it is idle").cost.expect("a price");
        (cost.saving_a_month, cost.spent)
    };
    let (half_a_day, spent) = saving(A_DAY / 2);
    assert_eq!(half_a_day, spent, "12 hours seen, 12 hours saved");
    let (month, _) = saving(7 * A_DAY);
    assert_eq!(month, Usd::from_micros(192_000 * 730));
}

#[test]
fn confidence_follows_what_was_seen() {
    let check = |name: &str, world: World, level: Level, reason: &str| {
        let finding = find_finding(&world, FindingKind::IdleNode).expect(name);
        assert_eq!(finding.confidence.level, level, "{name}");
        let explanation = finding.confidence.reason;
        assert!(explanation.contains(reason), "{name}: {explanation}");
    };
    let fortnight = 14 * A_DAY;
    check(
        "a fortnight",
        world(fortnight, idle),
        Level::Medium,
        "no probe",
    );
    let covers = "metrics cover only 8 d 0 h";
    check("eight days", world(8 * A_DAY, idle), Level::Low, covers);
    let held = |n| MetricPoint {
        memory: Some(Share::from_ppm(700_000)),
        ..idle(n)
    };
    let memory = "memory usage is at most 70 %";
    check("memory in use", world(fortnight, held), Level::Low, memory);
    let updates = |n: u64| match n % A_DAY {
        70 | 71 => MetricPoint {
            cpu_max: Some(Share::from_ppm(90_000)),
            ..idle(n)
        },
        _ => idle(n),
    };
    let housekeeping = "14 short bursts of at most 9 % CPU are treated as system maintenance";
    check(
        "updates",
        world(fortnight, updates),
        Level::Low,
        housekeeping,
    );
    let scans = |n: u64| MetricPoint {
        network_bytes: Some(if n.is_multiple_of(72) { 900_000 } else { 2_000 }),
        ..idle(n)
    };
    check(
        "a trickle",
        world(fortnight, scans),
        Level::Medium,
        "no probe",
    );
}

#[test]
fn short_bursts_are_work_if_they_are_strong_or_many_or_move_data() {
    let check = |name: &str, every: u64, cpu_percent: u32, network: u64| {
        let world = world(14 * A_DAY, |n| match n % every {
            0 => MetricPoint {
                cpu_max: Some(Share::from_ppm(cpu_percent * 10_000)),
                network_bytes: Some(network),
                ..idle(n)
            },
            _ => idle(n),
        });
        find_finding(&world, FindingKind::IdleNode).is_some() == (name == "few and weak")
    };
    assert!(check("few and weak", A_DAY, 8, 10_000));
    assert!(check("strong", A_DAY, 40, 10_000));
    assert!(check("many", 24, 8, 10_000));
    assert!(check("a transfer", A_DAY, 8, 90_000_000));
}

/// The definition of idle by Compute Optimizer: peak CPU below 5 % and less than 5 MB a day over
/// the network.
#[test]
fn what_compute_optimizer_calls_idle_is_idle_however_disks_and_network_are_spread() {
    for seed in 1..20_u64 {
        // Knuth's linear congruential generator; its high bits are random enough.
        let mut state = seed;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let points = (0..14 * A_DAY).map(|n| MetricPoint {
            cpu_max: Some(Share::from_ppm(random(49_999) as u32)),
            // 3.5 MB a day on average, in amounts of a megabyte and more.
            network_bytes: Some(if random(100) == 0 {
                random(2_400_000)
            } else {
                0
            }),
            disk_bytes: Some(if random(10) == 0 {
                random(500_000_000)
            } else {
                0
            }),
            memory: Some(Share::from_ppm(300_000 + random(600_000) as u32)),
            ..idle(n)
        });
        let points: Vec<MetricPoint> = points.collect();
        let bytes: u64 = points.iter().filter_map(|p| p.network_bytes).sum();
        assert!(bytes < 14 * 5_000_000, "seed {seed}");
        let world = world(14 * A_DAY, |n| points[n as usize]);
        assert_eq!(kinds(&world), [FindingKind::IdleNode], "seed {seed}");
    }
}

#[test]
fn work_at_the_end_of_a_month_may_come_again() {
    let turn = |month: i8| {
        let day = jiff::civil::date(2026, month, 1);
        let zoned = day.to_zoned(jiff::tz::TimeZone::UTC).expect("a day");
        zoned.timestamp()
    };
    let check = |days_before: i64, works_from: i64, expect: bool| {
        let begin = turn(10) - SignedDuration::from_hours(24 * days_before);
        let mut world = World::with([instance(1)]);
        let until = turn(10);
        let from = until - SignedDuration::from_hours(24 * works_from);
        let points = (0..14 * A_DAY).map(|n| {
            let end = begin + Duration::from_secs((n + 1) * 300);
            let sample = if end > from && end <= until {
                work(n)
            } else {
                idle(n)
            };
            MetricPoint { end, ..sample }
        });
        let series: MetricSeries = points.collect();
        world.now = series.points().next_back().expect("it has some").end;
        world.metrics.insert(node(1), series);
        for machine in world.inventory.instances.values_mut() {
            machine.launched_at = Some(begin);
        }
        let is_idle = find_finding(&world, FindingKind::IdleNode).is_some();
        let reason = undetermined(&world).unwrap_or_default();
        assert_eq!(is_idle, expect, "{days_before} days before: {reason}");
        assert_eq!(reason.contains("only around the end of a month"), !expect);
    };
    // Three days of work before the end of the month.
    check(4, 3, false);
    // The machine worked from the first sample on, so its work did not start at the end of the
    // month.
    check(3, 3, true);
}
