//! Whether the idle time of a node matches its usual pattern. A node that works and pauses
//! repeatedly is in use. An abandoned node is reported once its pause exceeds all earlier ones.

use ebb_model::inventory::instance::Instance;
use ebb_model::policy::gpu_and_hours::HoursPolicy;
use ebb_node_state::hourly_activity::idle_periods::IdlePeriod;
use jiff::{SignedDuration, Timestamp};

use crate::activity_history::ActivityHistory;
use crate::facts::Facts;
use crate::rules::node::weekly_pattern;

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Two slots of the hourly activity: the resolution at each end of an idle time.
const GRAIN: SignedDuration = SignedDuration::from_mins(10);

/// The pattern that the current idle time matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdlePattern {
    /// The node was idle for as long, and worked again, three times within a day.
    Pauses,
    /// The node was idle at these hours of each of the last three days.
    Daily,
    /// The node is idle at these hours of the week.
    Weekly,
}

impl IdlePattern {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Pauses => "yes: three pauses of this length within one day",
            Self::Daily => "yes: idle at these hours on each of the last three days",
            Self::Weekly => "yes: idle at these hours of the previous week",
        }
    }
}

/// The pattern that the current idle time of a node matches. `None` if it matches none, or too
/// little of the past is known.
pub(crate) fn find_idle_pattern(
    facts: &Facts<'_>,
    instance: &Instance,
    history: &ActivityHistory<'_>,
) -> Option<IdlePattern> {
    let (since, until) = (history.active_until?, history.seen_until);
    // Most nodes are active and have no idle time to compare.
    let quiet = SignedDuration::try_from(facts.policy.idle.after()).ok()?;
    if until.duration_since(since) < quiet {
        return None;
    }
    let bound = facts.policy.idle.min_coverage();
    // Activity before the launch belongs to another machine with the same id.
    let is_known =
        |period: &IdlePeriod| Some(period.from) >= instance.launched_at && period.seen >= bound;
    let periods: Vec<IdlePeriod> = history.hours.idle_periods().filter(is_known).collect();
    let policy = &facts.policy.hours;
    if pauses(policy, &periods, (since, until)) {
        Some(IdlePattern::Pauses)
    } else if daily(policy, &periods, (since, until)) {
        Some(IdlePattern::Daily)
    } else {
        weekly_pattern::is_resting(facts, instance, history, since).then_some(IdlePattern::Weekly)
    }
}

fn pauses(
    policy: &HoursPolicy,
    periods: &[IdlePeriod],
    (since, until): (Timestamp, Timestamp),
) -> bool {
    let long = (until - GRAIN).as_second() - since.as_second();
    let recent = periods.iter().filter(|period| period.from >= since - DAY);
    let alike = recent.filter(|period| period.seconds() >= long).count();
    u32::try_from(alike).is_ok_and(|alike| alike >= policy.times_alike)
}

/// Whether the node was idle at this time on each of the previous days, for about as long. An idle
/// time of a few minutes is no evidence for one of hours. An earlier pause either lasted until the
/// present one began, or began and ended at most the tolerance before it.
fn daily(
    policy: &HoursPolicy,
    periods: &[IdlePeriod],
    (since, until): (Timestamp, Timestamp),
) -> bool {
    let tolerance = SignedDuration::from_secs(policy.early_or_late_seconds.into());
    let quiet = until.as_second() - since.as_second();
    let was_alike = |days: u32| {
        let ago = DAY * i32::try_from(days).unwrap_or(i32::MAX);
        let (begun, end) = (since - ago, until - ago - tolerance);
        let is_near = |period: &IdlePeriod| period.to >= begun || period.from >= begun - tolerance;
        let covers = |period: &IdlePeriod| {
            period.from <= begun + tolerance
                && period.to >= end
                && is_near(period)
                && period.seconds() >= quiet / 4 * 3
        };
        periods.iter().any(covers)
    };
    until.duration_since(since) < DAY && (1..=policy.times_alike).all(was_alike)
}

#[cfg(test)]
mod tests {
    use crate::testing::{World, instance};
    use ebb_model::finding_kind::FindingKind;
    use ebb_telemetry::units::CpuTime;

    /// Kinds of findings for a node that is observed for `hours` hours and works in the minutes of
    /// `works`.
    fn find_kinds(hours: u64, works: impl Fn(u64) -> bool) -> Vec<FindingKind> {
        let mut world = World::with([instance(1)]);
        world.watch(1, 0, hours * 60, |minute, h| {
            if works(minute) {
                h.workload.cpu = Some(CpuTime::from_millis(30_000));
            }
        });
        world.evaluate().findings.iter().map(|f| f.kind).collect()
    }

    #[test]
    fn a_node_that_pauses_again_and_again_is_idle_only_past_its_pauses() {
        use ebb_model::finding_kind::FindingKind::{IdleNode, UnderutilizedNode};
        let check = |name: &str, kinds: Vec<FindingKind>, expect: &[FindingKind]| {
            assert_eq!(kinds, expect, "{name}");
        };
        let hourly = |m: u64| m % 60 < 2;
        // At the end of an hour the node was idle for 58 minutes.
        check("one pause", find_kinds(2, hourly), &[IdleNode]);
        check("three pauses", find_kinds(5, hourly), &[]);
        check(
            "a day of them",
            find_kinds(25, hourly),
            &[UnderutilizedNode],
        );
        check(
            "and then none came",
            find_kinds(27, |m| hourly(m) && m < 25 * 60),
            &[IdleNode],
        );
        let longer = |m: u64| m % 60 < 12;
        check("a fifth of the time", find_kinds(25, longer), &[]);
        // Three pauses of 50 minutes, more than a day ago.
        let once = |m: u64| longer(m) || (240..30 * 60).contains(&m);
        check(
            "long ago",
            find_kinds(31, |m| once(m) && m < 30 * 60),
            &[IdleNode],
        );
    }

    #[test]
    fn a_night_is_usual_after_three_alike_and_a_day_away_is_not() {
        let kind = FindingKind::IdleNode;
        let office = |m: u64| (9 * 60..18 * 60).contains(&(m % 1_440));
        let check = |name: &str, hours: u64, works: &dyn Fn(u64) -> bool, is_idle: bool| {
            assert_eq!(find_kinds(hours, works).contains(&kind), is_idle, "{name}");
        };
        check("the third night", 2 * 24 + 23, &office, true);
        check("the fifth night", 4 * 24 + 23, &office, false);
        check("just before work", 5 * 24 + 9, &office, false);
        let left = |m: u64| office(m) && m < 4 * 1_440;
        check("late in the morning", 4 * 24 + 11, &left, false);
        check("nobody came", 4 * 24 + 13, &left, true);
        let early = |m: u64| office(m) && m % 1_440 < if m > 4 * 1_440 { 960 } else { 1_080 };
        check("home two hours early", 4 * 24 + 17, &early, false);
        let noon = |m: u64| office(m) && m % 1_440 < if m > 4 * 1_440 { 660 } else { 1_080 };
        check("gone by eleven", 4 * 24 + 12, &noon, true);
        let batch = |m: u64| m % 16 < 4 && m < 4 * 1_440;
        check("short pauses at all hours", 4 * 24 + 2, &batch, true);
    }

    #[test]
    fn a_daily_pause_of_two_hours_is_usual_until_it_is_longer_than_before() {
        let kind = FindingKind::IdleNode;
        // The pause begins at noon, and `late` minutes later on the fifth day.
        let check = |name: &str, late: u64, lasts: u64, now: u64, is_idle: bool| {
            let works = |m: u64| {
                let (day, minute) = (m / 1_440, m % 1_440);
                let (from, length) = match day {
                    4 => (720 + late - 240, lasts),
                    _ => (720, 120),
                };
                !(from..from + length).contains(&minute)
            };
            let mut world = World::with([instance(1)]);
            world.watch(1, 0, 4 * 1_440 + now, |minute, h| {
                if works(minute) {
                    h.workload.cpu = Some(CpuTime::from_millis(30_000));
                }
            });
            let report = world.evaluate();
            let kinds: Vec<_> = report.findings.iter().map(|f| f.kind).collect();
            assert_eq!(kinds.contains(&kind), is_idle, "{name}: {kinds:?}");
        };
        let day = 24 * 60;
        // At the usual time (240 minutes after the earliest).
        check("after half an hour", 240, 120, 12 * 60 + 40, false);
        check("at its end", 240, 120, 14 * 60, false);
        check("half an hour longer", 240, day, 14 * 60 + 30, false);
        check("an hour longer", 240, day, 15 * 60, true);
        check("all day", 240, day, 20 * 60, true);
        // Up to three hours before and after the usual time.
        check("two hours early", 120, 120, 11 * 60 + 50, false);
        check("three and a half hours early", 30, 120, 10 * 60, true);
        check("an hour late", 300, 120, 14 * 60, false);
        check("almost three hours late", 410, 120, 15 * 60 + 40, false);
        check(
            "almost three hours late, goes on",
            410,
            day,
            17 * 60 + 30,
            true,
        );
        check("three and a half hours late", 450, 120, 16 * 60 + 10, true);
    }
}
