//! Off hours: a node that is used in the same hours of each week, and runs in all of
//! them. It is one finding with a schedule, instead of an idle node each night. Its hours
//! come from its probe, else from its metrics.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::activity_history::ActivityHistory;
use super::{Check, Questions, Verdict, idle, rest};
use crate::finding::{
    Action, Confidence, Evidence, Finding, FindingKind, Level, OffHours, Remedy, Resource, SeenBy,
    Window,
};
use crate::fleet::{Controller, Instance, InstanceState};
use crate::hours::{NodeHours, WEEK_HOURS, WeekHour};
use crate::judge::Facts;
use crate::policy::HoursPolicy;
use crate::shell;
use crate::units::{Share, UsdPerHour};

const KIND: FindingKind = FindingKind::OffHoursNode;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A history that is shorter has no hour of the week twice in nearly all of them.
const ALMOST_A_FORTNIGHT: jiff::SignedDuration = jiff::SignedDuration::from_hours(13 * 24);

fn many(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The hours of the week in which a node could be off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schedule {
    off: BTreeSet<usize>,
}

/// A schedule for what recurs; `None` where too little was seen, or its use does not
/// recur, or it spares too little.
pub(super) fn schedule(week: &[WeekHour; WEEK_HOURS], policy: &HoursPolicy) -> Option<Schedule> {
    let at = |hour: usize| week[hour % WEEK_HOURS];
    // An hour that was seen in one week only cannot show whether its use recurs.
    let seen: Vec<usize> = (0..WEEK_HOURS).filter(|h| at(*h).weeks_seen >= 2).collect();
    let is_used = |hour: &&usize| at(**hour).weeks_active > 0;
    // Nobody comes and goes by the minute: an hour next to one that recurs recurs too.
    let is_near = |hour: usize| {
        let near = [hour, hour + 1, hour + WEEK_HOURS - 1];
        near.into_iter().any(|hour| at(hour).weeks_active >= 2)
    };
    // So does that of a day that was missed once, if other days have it.
    let other_days = |hour: usize| (1..7).filter(move |day| is_near(hour + day * 24)).count();
    let recurs = |hour: &&usize| is_near(**hour) || other_days(**hour) >= 2;
    let used = seen.iter().filter(is_used).count();
    let again = seen.iter().filter(is_used).filter(recurs).count();
    let enough = Share::of(many(seen.len()), many(WEEK_HOURS))? >= Share::from_ppm(policy.seen_ppm);
    let recurs = Share::of(many(again), many(used))? >= Share::from_ppm(policy.recurring_ppm);
    if !enough || !recurs {
        return None;
    }
    // What was not seen may be used.
    let is_off = |hour: usize| at(hour).weeks_active == 0 && at(hour).weeks_seen > 0;
    let first_used = (0..WEEK_HOURS).find(|hour| !is_off(*hour))?;
    let (mut off, mut stretch) = (BTreeSet::new(), Vec::new());
    for hour in first_used..=first_used + WEEK_HOURS {
        if is_off(hour) {
            stretch.push(hour % WEEK_HOURS);
            continue;
        }
        // The hour before it is used it starts.
        stretch.pop();
        if many(stretch.len()) >= policy.least_off.into() {
            off.extend(stretch.drain(..));
        }
        stretch.clear();
    }
    (many(off.len()) >= policy.least_off_a_week.into()).then_some(Schedule { off })
}

impl Schedule {
    /// When it is on, days with the same hours together: `Mon-Fri 7-18`.
    fn used(&self) -> String {
        let of_day = |day: usize| -> String {
            let on: Vec<usize> = (0..24)
                .filter(|h| !self.off.contains(&(day * 24 + h)))
                .collect();
            let stretches = on.chunk_by(|a, b| a + 1 == *b);
            let words = stretches.filter_map(|s| Some(format!("{}-{}", s.first()?, s.last()? + 1)));
            words.collect::<Vec<_>>().join(" and ")
        };
        let days: Vec<(usize, String)> = (0..7).map(|day| (day, of_day(day))).collect();
        let same = days.chunk_by(|(_, a), (_, b)| a == b);
        let words = same.filter(|days| !days[0].1.is_empty()).map(|days| {
            let (first, last) = (days[0].0, days[days.len() - 1].0);
            match first == last {
                true => format!("{} {}", DAYS[first], days[0].1),
                false => format!("{}-{} {}", DAYS[first], DAYS[last], days[0].1),
            }
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn hours(&self) -> u32 {
        u32::try_from(self.off.len()).unwrap_or(u32::MAX)
    }
}

/// The schedule of a node whose use recurs. Batch starts and stops its machines by
/// itself.
pub(super) fn of(
    facts: &Facts<'_>,
    instance: &Instance,
    history: &ActivityHistory<'_>,
) -> Option<Schedule> {
    if !is_a_fortnight(facts, instance, history) {
        return None;
    }
    let schedule = schedule(&history.hours.by_hour_of_week(), &facts.policy.hours)?;
    let is_batchs = matches!(
        facts.controller(instance),
        Some(Controller::BatchEnvironment(_))
    );
    (!is_batchs).then_some(schedule)
}

/// Whether almost a fortnight of the node's own life was seen.
fn is_a_fortnight(facts: &Facts<'_>, instance: &Instance, history: &ActivityHistory<'_>) -> bool {
    let Some((first, _)) = history.hours.hours().next() else {
        return false;
    };
    // What ran before it was started anew, or under its id before, is not its own.
    let is_its_own = match (instance.launched_at, history.seen_by) {
        (Some(at), _) => at <= first,
        // Whoever exports metrics of a machine knows which one it is.
        (None, SeenBy::Metrics) => true,
        (None, SeenBy::Probe) => false,
    };
    is_its_own && facts.now.duration_since(first) >= ALMOST_A_FORTNIGHT
}

/// True when a node that rests since then does so as its schedule says: for no longer
/// than it was ever off.
pub(super) fn is_resting(
    facts: &Facts<'_>,
    instance: &Instance,
    history: &ActivityHistory<'_>,
    since: Timestamp,
) -> bool {
    let Some(schedule) = of(facts, instance, history) else {
        return false;
    };
    // Every hour since its last activity must be one of those off, but for the hour of
    // that activity and the one in which it would start.
    let mut at = since.as_second() + 3600;
    let mut misses = 0;
    while at < facts.now.as_second() {
        let hour = Timestamp::from_second(at).map(crate::hours::hour_of_week);
        misses += u32::from(hour.is_ok_and(|hour| !schedule.off.contains(&hour)));
        at += 3600;
    }
    misses <= 1
}

/// Judges every running instance with a fortnight's history.
pub fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let instances = facts.inventory.instances.values();
    instances
        .filter_map(|i| judge_one(facts, i, &mut Questions::unwritten(KIND)))
        .collect()
}

/// The questions about one machine.
pub(crate) fn explain(facts: &Facts<'_>, instance: &Instance) -> Vec<Check> {
    Questions::written(KIND, |q| judge_one(facts, instance, q))
}

fn judge_one(facts: &Facts<'_>, instance: &Instance, q: &mut Questions) -> Option<Verdict> {
    let history = ActivityHistory::of(facts, instance)?;
    if !is_a_fortnight(facts, instance, &history) {
        return None;
    }
    let schedule = of(facts, instance, &history);
    let spared = schedule.as_ref().map_or(0, Schedule::hours);
    let goes_on = q.holds(
        "does it run?",
        (format_args!("{:?}", instance.state), "Running"),
        instance.state == InstanceState::Running,
    ) && idle::sees_everything(facts, instance, q)
        && idle::stands_by(facts, instance, q).is_none()
        && q.holds(
            "how many hours of each week could it be off, by two weeks?",
            (spared, facts.policy.hours.least_off_a_week),
            schedule.is_some(),
        )
        && rests_as_usual(facts, instance, &history, q);
    let schedule = schedule.filter(|_| goes_on)?;
    Some(found(facts, instance, &history, &schedule))
}

/// Asks whether the node rests no longer than it is used to; past that the idle rule
/// speaks.
fn rests_as_usual(
    facts: &Facts<'_>,
    instance: &Instance,
    history: &ActivityHistory<'_>,
    q: &mut Questions,
) -> bool {
    let is_usual = match history.seen_by {
        SeenBy::Probe => {
            let rests = history.active_until.is_none_or(|until| {
                let quiet = facts.now.duration_since(until);
                quiet >= facts.policy.idle.after().try_into().unwrap_or(quiet)
            });
            !rests || rest::usual(facts, instance, history).is_some()
        }
        SeenBy::Metrics => !idle::metrics::is_idle(facts, instance),
    };
    q.holds(
        "does it rest no longer than it is used to?",
        (
            if is_usual {
                "yes"
            } else {
                "no: the idle rule judges it"
            },
            "",
        ),
        is_usual,
    )
}

fn found(
    facts: &Facts<'_>,
    instance: &Instance,
    history: &ActivityHistory<'_>,
    schedule: &Schedule,
) -> Verdict {
    let (off, used) = (schedule.hours(), schedule.used());
    let window = window(facts, &history.hours);
    let hours = history.hours.hours();
    let seen = hours.map(|(_, hour)| u64::from(hour.seen().ppm())).sum();
    let coverage = Share::of(seen, 1_000_000 * many(history.hours.hours().count()));
    let controller = facts.controller(instance);
    let cost = facts.price_of(instance).map(|price| {
        let (off, week) = (i64::from(off), WEEK_HOURS as i64);
        let [part, whole] = [off, week].map(UsdPerHour::from_micros);
        price.scaled(part, whole).wasted_over(window)
    });
    let node = facts.state.nodes.get(&instance.id);
    let latest = node.and_then(|node| node.latest.as_ref());
    let origin = latest.map_or_else(|| crate::judge::labelled(&instance.tags), |l| l.origin);
    Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(KIND, &instance.region, instance.id.as_str()),
        kind: KIND,
        window,
        coverage,
        evidence: Evidence::OffHours(OffHours {
            used: used.clone(),
            off_hours: off,
            weeks: 2,
            seen_by: history.seen_by,
        }),
        confidence: confidence(facts, history.seen_by, coverage),
        cost,
        remedy: remedy(instance, controller.as_ref(), &used),
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::of_instance(instance, controller, origin),
    }))
}

/// From the first hour that was seen to the last.
fn window(facts: &Facts<'_>, hours: &NodeHours) -> Window {
    let from = hours.hours().next().map(|(begin, _)| begin);
    let to = hours.hours().next_back().map(|(begin, _)| begin);
    Window {
        from: from.unwrap_or(facts.now),
        to: to
            .and_then(|at| at.checked_add(HOUR).ok())
            .unwrap_or(facts.now)
            .min(facts.now),
    }
}

fn confidence(facts: &Facts<'_>, seen_by: SeenBy, coverage: Option<Share>) -> Confidence {
    let alike = "two weeks were alike; a holiday or a quarter's end may not be";
    let is_covered = coverage >= Some(facts.policy.idle.min_coverage());
    match seen_by {
        SeenBy::Probe => Confidence {
            level: Level::Medium,
            reason: alike.to_owned(),
        },
        SeenBy::Metrics => Confidence {
            level: if is_covered {
                Level::Medium
            } else {
                Level::Low
            },
            reason: format!(
                "no probe: metrics show the use of the whole machine, not what used it; {alike}"
            ),
        },
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn remedy(instance: &Instance, controller: Option<&Controller>, used: &str) -> Remedy {
    let region = &instance.region;
    let (advice, command) = match controller {
        None => (
            format!("Start and stop it by a schedule, on {used} UTC (EventBridge Scheduler)."),
            format!(
                "https://{region}.console.aws.amazon.com/scheduler/home?region={region}#schedules"
            ),
        ),
        Some(Controller::AutoScalingGroup(name)) => (
            format!("Give the group scheduled actions: its size on {used} UTC, and 0 else."),
            format!(
                "aws autoscaling describe-scheduled-actions --region {region} {}",
                shell::option("--auto-scaling-group-name", name)
            ),
        ),
        Some(controller) => (
            format!("Let {controller} have it on {used} UTC only."),
            format!("https://{region}.console.aws.amazon.com/ec2/home?region={region}#Instances:"),
        ),
    };
    Remedy {
        action: Action::Reconfigure,
        advice,
        command: Some(command),
    }
}

#[cfg(test)]
mod tests;
