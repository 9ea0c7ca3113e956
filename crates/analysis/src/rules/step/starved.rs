//! Starved of CPU: a task is runnable and waits for cores that its neighbours on the machine use.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::causes::Causes;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::units::{HumanDuration, MilliCores, Share};

use crate::facts::Facts;
use crate::rules::step::context::{UnderWay, Wrong};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::step_history::observed_task::ObservedTask;

const KIND: FindingKind = FindingKind::StarvedStep;

pub(crate) fn evaluate(facts: &Facts<'_>, it: &UnderWay<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let (run, policy) = (it.run, &facts.policy.step);
    let watched = it.watched(facts);
    let cpu = run.step.usage.cpu;
    let waited = run.step.usage.detail.run_queue;
    let share = waited.and_then(|waited| cpu.share_waited(waited));
    // A task that mostly waits for a disk or a server loses little time to its neighbours.
    let of_run = waited.and_then(|waited| Share::of_time(waited, run.wall()));
    let shown = |share: Option<Share>| share.map_or_else(|| "unknown".into(), |s| s.to_string());
    let bound = Share::from_ppm(policy.starved_ppm);
    let waits = q.holds(
        "How long was the task observed?",
        (
            HumanDuration(watched),
            format_args!("at least {}", HumanDuration(policy.min_run())),
        ),
        watched >= policy.min_run(),
    ) && q.holds(
        "Which share of its runnable time did the task wait for a core?",
        (shown(share), format_args!("at least {bound}")),
        share.map(|share| share >= bound),
    ) && q.holds(
        "Which share of its run time did the task wait for a core?",
        (shown(of_run), format_args!("at least {bound}")),
        of_run.map(|share| share >= bound),
    );
    let (share, waited) = share.zip(waited).filter(|_| waits)?;
    // The search for neighbours is last, because it reads all tasks of the node.
    let neighbours = neighbours(facts, run);
    let theirs = neighbours.and_then(|(used, of)| Share::from_parts(used.0, of.0));
    let blamed = Share::from_ppm(policy.neighbours_ppm);
    let is_theirs = q.holds(
        "Which share of the machine do other tasks use?",
        (shown(theirs), format_args!("at least {blamed}")),
        theirs.map(|share| share >= blamed),
    );
    let (neighbours, _) = neighbours.filter(|_| is_theirs)?;
    let lost = Duration::from_secs_f64(watched.as_secs_f64() * share.as_f64()).min(waited);
    let advice = "Request as many vCPUs as this task and the other tasks on the node use, so that \
                  fewer share a machine. Or use a machine with more cores.";
    Some(it.make_finding(
        facts,
        Wrong {
            kind: KIND,
            trouble: Trouble::Starved {
                waited,
                cpu,
                neighbours,
            },
            causes: Causes::of_waiting(&run.step.usage.detail.states),
            confidence: Confidence {
                level: Level::High,
                reason: "the kernel counts the time that runnable threads wait for a core".into(),
            },
            lost,
            action: Action::Reconfigure,
            advice: advice.to_owned(),
        },
    ))
}

/// Cores that other tasks of the node use on average, and the cores of the node.
fn neighbours(facts: &Facts<'_>, run: &ObservedTask<'_>) -> Option<(MilliCores, MilliCores)> {
    let state = facts.state.nodes.get(&run.step.node)?;
    let others = state
        .running(&run.step.node)
        .filter(|other| other.usage.id != run.step.usage.id);
    let busy = others.filter_map(|other| {
        let wall = other.usage.observed.since(other.usage.started)?;
        other.usage.cpu.cores_over(wall)
    });
    let busy = MilliCores(busy.map(|cores| cores.0).fold(0, u64::saturating_add));
    Some((busy, state.latest.as_ref()?.hardware.cores))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::testing::requested;
    use crate::testing::step_world::{run_next_to, verdict};
    use ebb_telemetry::units::CpuTime;

    #[test]
    fn a_step_is_starved_when_it_waits_for_cores_that_its_neighbours_have() {
        let check = |minutes: u64, waited_min: Option<u64>, theirs: u64, expect: Option<&str>| {
            // An hour of CPU time on one core, next to a neighbour with `theirs` busy cores.
            let world = run_next_to(minutes, theirs, |s| {
                s.cpu = CpuTime::from_millis(3_600_000);
                s.detail.run_queue = waited_min.map(|min| Duration::from_secs(min * 60));
            });
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(
                evidence.as_deref(),
                expect,
                "{minutes} {waited_min:?} {theirs}"
            );
        };
        let starved = "runnable threads waited 30 min for a core and used 60 min of CPU, while \
                       other tasks kept 3.0 cores busy";
        check(60, Some(30), 3, Some(starved));
        check(60, Some(10), 3, None);
        check(60, None, 3, None);
        // The task competes only with its own threads.
        check(60, Some(30), 0, None);
        check(20, Some(30), 3, None);
    }

    #[test]
    fn a_step_that_mostly_waits_for_something_else_is_not_starved() {
        let check = |waited_min: u64, spent: Option<i64>| {
            let world = run_next_to(60, 3, |s| {
                s.requested = requested(1, 3);
                s.cpu = CpuTime::from_millis(60_000);
                s.detail.run_queue = Some(Duration::from_secs(waited_min * 60));
            });
            let cost = verdict(&world, KIND).map(|f| f.cost.expect("a price"));
            assert_eq!(cost.map(|cost| cost.spent.micros()), spent, "{waited_min}");
        };
        check(11, None);
        check(15, Some(12_000));
    }

    #[test]
    fn what_was_waited_before_the_probe_came_is_not_evaluated() {
        let check = |watched_min: i64, is_found: bool| {
            let mut world = run_next_to(60, 3, |s| {
                s.cpu = CpuTime::from_millis(3_600_000);
                s.detail.run_queue = Some(Duration::from_secs(1_800));
            });
            for node in world.state.nodes.values_mut() {
                let newest = node.latest.as_ref().map(|latest| latest.end);
                node.first_seen = newest.map(|end| end - SignedDuration::from_mins(watched_min));
            }
            let window = verdict(&world, KIND).map(|finding| finding.window.length());
            let watched = Duration::from_secs(watched_min.unsigned_abs() * 60);
            assert_eq!(window, is_found.then_some(watched));
        };
        check(59, true);
        check(1, false);
    }

    #[test]
    fn a_third_of_its_time_waited_for_is_a_third_lost() {
        let world = run_next_to(60, 3, |s| {
            s.requested = requested(1, 3);
            s.cpu = CpuTime::from_millis(3_600_000);
            s.detail.run_queue = Some(Duration::from_secs(1_800));
        });
        let cost = verdict(&world, KIND).and_then(|f| f.cost).expect("a price");
        assert_eq!(cost.spent.micros(), 16_000);
    }
}
