//! Hours of the week in which a node is idle.

use std::collections::BTreeSet;

use ebb_model::finding::evidence::idle::SeenBy;
use ebb_model::inventory::instance::{Controller, Instance};
use ebb_model::policy::gpu_and_hours::HoursPolicy;
use ebb_node_state::hourly_activity::{WEEK_HOURS, WeekHour};
use ebb_telemetry::units::Share;
use jiff::Timestamp;

use crate::activity_history::ActivityHistory;
use crate::facts::Facts;

/// Whether almost 14 days of the life of the node were observed.
pub(crate) fn is_a_fortnight(
    facts: &Facts<'_>,
    instance: &Instance,
    history: &ActivityHistory<'_>,
) -> bool {
    let Some((first, _)) = history.hours.hours().next() else {
        return false;
    };
    // Activity before the last start belongs to another life of the node.
    let is_its_own = match (instance.launched_at, history.seen_by) {
        (Some(at), _) => at <= first,
        // An exporter of metrics identifies the machine itself.
        (None, SeenBy::Metrics) => true,
        (None, SeenBy::Probe) => false,
    };
    is_its_own && facts.now.duration_since(first) >= ALMOST_A_FORTNIGHT
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A shorter history contains too few hours of the week twice.
pub(crate) const ALMOST_A_FORTNIGHT: jiff::SignedDuration =
    jiff::SignedDuration::from_hours(13 * 24);

pub(crate) fn many(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Hours of the week in which a node could be off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    off: BTreeSet<usize>,
}

/// Schedule of a recurring use; `None` if too little was observed, the use does not recur, or the
/// schedule saves too little.
pub(crate) fn schedule(week: &[WeekHour; WEEK_HOURS], policy: &HoursPolicy) -> Option<Schedule> {
    let at = |hour: usize| week[hour % WEEK_HOURS];
    // An hour that was observed in only one week cannot show whether its use recurs.
    let observed: Vec<usize> = (0..WEEK_HOURS).filter(|h| at(*h).weeks_seen >= 2).collect();
    let is_used = |hour: &&usize| at(**hour).weeks_active > 0;
    // Start and end of use vary, so an hour next to a recurring hour recurs too.
    let is_near = |hour: usize| {
        let near = [hour, hour + 1, hour + WEEK_HOURS - 1];
        near.into_iter().any(|hour| at(hour).weeks_active >= 2)
    };
    // An hour of a day that was missed once also recurs, if other days contain it.
    let other_days = |hour: usize| (1..7).filter(move |day| is_near(hour + day * 24)).count();
    let recurs = |hour: &&usize| is_near(**hour) || other_days(**hour) >= 2;
    let used = observed.iter().filter(is_used).count();
    let again = observed.iter().filter(is_used).filter(recurs).count();
    let enough = Share::from_parts(many(observed.len()), many(WEEK_HOURS))?
        >= Share::from_ppm(policy.seen_ppm);
    let recurs =
        Share::from_parts(many(again), many(used))? >= Share::from_ppm(policy.recurring_ppm);
    if !enough || !recurs {
        return None;
    }
    // An unobserved hour counts as used.
    let is_off = |hour: usize| at(hour).weeks_active == 0 && at(hour).weeks_seen > 0;
    let first_used = (0..WEEK_HOURS).find(|hour| !is_off(*hour))?;
    let (mut off, mut stretch) = (BTreeSet::new(), Vec::new());
    for hour in first_used..=first_used + WEEK_HOURS {
        if is_off(hour) {
            stretch.push(hour % WEEK_HOURS);
            continue;
        }
        // The node starts in the hour before its use.
        stretch.pop();
        if many(stretch.len()) >= policy.least_off.into() {
            off.extend(stretch.drain(..));
        }
        stretch.clear();
    }
    (many(off.len()) >= policy.least_off_a_week.into()).then_some(Schedule { off })
}

impl Schedule {
    /// The hours of use; days with the same hours are combined: `Mon-Fri 7-18`.
    pub(crate) fn used(&self) -> String {
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

    pub(crate) fn hours(&self) -> u32 {
        u32::try_from(self.off.len()).unwrap_or(u32::MAX)
    }
}

/// The schedule of a node with recurring use; `None` for machines of Batch, which starts and stops
/// them itself.
pub(crate) fn find_pattern(
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

/// Whether an idle time since `since` matches the schedule, and is no longer than the longest off
/// time.
pub(crate) fn is_resting(
    facts: &Facts<'_>,
    instance: &Instance,
    history: &ActivityHistory<'_>,
    since: Timestamp,
) -> bool {
    let Some(schedule) = find_pattern(facts, instance, history) else {
        return false;
    };
    // All hours since the last activity must be off hours. The exceptions are the hour of that
    // activity and the hour of the start.
    let mut at = since.as_second() + 3600;
    let mut misses = 0;
    while at < facts.now.as_second() {
        let hour = Timestamp::from_second(at).map(ebb_node_state::hourly_activity::hour_of_week);
        misses += u32::from(hour.is_ok_and(|hour| !schedule.off.contains(&hour)));
        at += 3600;
    }
    misses <= 1
}
