//! Off hours: a node that is used in the same hours of each week, but always runs. The rule gives
//! one finding with a schedule instead of an idle node each night. The hours come from the probe,
//! otherwise from metrics.

#[cfg(test)]
mod tests;

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::idle::SeenBy;
use ebb_model::finding::evidence::node::OffHours;
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{Controller, Instance, InstanceState, Provider};
use ebb_node_state::hourly_activity::{NodeHours, WEEK_HOURS};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;

use crate::activity_history::ActivityHistory;
use crate::facts::Facts;
use crate::rules::node::idle::by_metrics;
use crate::rules::node::weekly_pattern::{Schedule, find_pattern, is_a_fortnight, many};
use crate::rules::node::{idle, recurring_idle};
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;

const KIND: FindingKind = FindingKind::OffHoursNode;

/// Evaluates every running instance with a history of 14 days.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let instances = facts.inventory.instances.values();
    instances
        .filter_map(|i| evaluate_instance(facts, i, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about one machine.
pub(crate) fn explain(facts: &Facts<'_>, instance: &Instance) -> Vec<Check> {
    RuleTrace::written(KIND, |q| evaluate_instance(facts, instance, q))
}

fn evaluate_instance(facts: &Facts<'_>, instance: &Instance, q: &mut RuleTrace) -> Option<Verdict> {
    let history = ActivityHistory::new(facts, instance)?;
    if !is_a_fortnight(facts, instance, &history) {
        return None;
    }
    let schedule = find_pattern(facts, instance, &history);
    let spared = schedule.as_ref().map_or(0, Schedule::hours);
    let goes_on = q.holds(
        "Is the instance running?",
        (instance.state, "running"),
        instance.state == InstanceState::Running,
    ) && idle::sees_everything(facts, instance, q)
        && idle::check_standby(facts, instance, q).is_none()
        && q.holds(
            "How many hours a week could the node be off, based on two weeks?",
            (
                spared,
                format_args!("at least {}", facts.policy.hours.least_off_a_week),
            ),
            schedule.is_some(),
        )
        && rests_as_usual(facts, instance, &history, q);
    let schedule = schedule.filter(|_| goes_on)?;
    Some(make_finding(facts, instance, &history, &schedule))
}

/// Asks whether the idle time of the node is within its usual pattern; otherwise the idle rule
/// reports it.
fn rests_as_usual(
    facts: &Facts<'_>,
    instance: &Instance,
    history: &ActivityHistory<'_>,
    q: &mut RuleTrace,
) -> bool {
    let is_usual = match history.seen_by {
        SeenBy::Probe => {
            let rests = history.active_until.is_none_or(|until| {
                let quiet = facts.now.duration_since(until);
                quiet >= facts.policy.idle.after().try_into().unwrap_or(quiet)
            });
            !rests || recurring_idle::find_idle_pattern(facts, instance, history).is_some()
        }
        SeenBy::Metrics => !by_metrics::is_idle(facts, instance),
    };
    q.holds(
        "Is the present idle time within the usual pattern?",
        (
            if is_usual {
                "yes"
            } else {
                "no: the idle node rule applies"
            },
            "",
        ),
        is_usual,
    )
}

fn make_finding(
    facts: &Facts<'_>,
    instance: &Instance,
    history: &ActivityHistory<'_>,
    schedule: &Schedule,
) -> Verdict {
    let (off, used) = (schedule.hours(), schedule.used());
    let window = window(facts, &history.hours);
    let hours = history.hours.hours();
    let observed_ppm = hours.map(|(_, hour)| u64::from(hour.seen().ppm())).sum();
    let coverage = Share::from_parts(
        observed_ppm,
        1_000_000 * many(history.hours.hours().count()),
    );
    let controller = facts.controller(instance);
    let cost = facts.price_of(instance).map(|price| {
        let (off, week) = (i64::from(off), WEEK_HOURS as i64);
        let [part, whole] = [off, week].map(UsdPerHour::from_micros);
        price.scaled(part, whole).wasted_over(window)
    });
    let node = facts.state.nodes.get(&instance.id);
    let latest = node.and_then(|node| node.latest.as_ref());
    let origin = latest.map_or_else(
        || ebb_telemetry::origin::labelled(&instance.tags),
        |l| l.origin,
    );
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

/// From the first observed hour to the last.
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

fn confidence(facts: &Facts<'_>, observed_by: SeenBy, coverage: Option<Share>) -> Confidence {
    let alike = "two weeks had the same pattern; holidays or the end of a quarter may differ";
    let is_covered = coverage >= Some(facts.policy.idle.min_coverage());
    match observed_by {
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
                "no probe; metrics show the usage of the whole machine, but not its processes; \
                 {alike}"
            ),
        },
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn remedy(instance: &Instance, controller: Option<&Controller>, used: &str) -> Remedy {
    let region = &instance.region;
    let (advice, command) = match controller {
        None => match &instance.provider {
            Provider::Aws => (
                format!(
                    "Start and stop the instance with EventBridge Scheduler, so that it runs on \
                     {used} UTC only."
                ),
                Some(format!(
                    "https://{region}.console.aws.amazon.com/scheduler/home?region={region}#schedules"
                )),
            ),
            Provider::Gcp { project, .. } => (
                format!(
                    "Start and stop the instance with an instance schedule, so that it runs on \
                     {used} UTC only."
                ),
                Some(format!(
                    "gcloud compute resource-policies list {}",
                    shell::option("--project", project)
                )),
            ),
            Provider::Own => (
                format!(
                    "Switch the host off outside {used} UTC, or let other users work on it in that \
                     time."
                ),
                None,
            ),
        },
        Some(Controller::AutoScalingGroup(name)) => (
            format!(
                "Add scheduled actions to the Auto Scaling group: its present size on {used} UTC, \
                 and 0 in the other hours."
            ),
            Some(format!(
                "aws autoscaling describe-scheduled-actions --region {region} {}",
                shell::option("--auto-scaling-group-name", name)
            )),
        ),
        Some(controller) => (
            format!("Configure {controller} to run this node on {used} UTC only."),
            Some(format!(
                "https://{region}.console.aws.amazon.com/ec2/home?region={region}#Instances:"
            )),
        ),
    };
    Remedy {
        action: Action::Reconfigure,
        advice,
        command,
    }
}
