//! Slow step, for tasks that have ended: some tasks of the last day took far longer than the tasks
//! before them. One finding names all of them for a day, as with failed tasks.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::causes::Causes;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_model::policy::step::StepPolicy;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::step::context::{Step, Wrong};
use crate::rules::step::earlier_runs::many;
use crate::rules::step::slow::{advice, slow_after, usual_states};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::step_history::observed_task::ObservedTask;

const KIND: FindingKind = FindingKind::SlowStep;

pub(crate) fn evaluate(facts: &Facts<'_>, step: &Step<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let policy = &facts.policy.step;
    let within = policy.failed_within();
    let from = facts.now.checked_sub(within).ok()?;
    let mut ended: Vec<&ObservedTask<'_>> = step.history().collect();
    ended.sort_by_key(|run| run.step.observed_at);
    let recent = ended
        .iter()
        .filter(|run| run.step.observed_at >= from)
        .count();
    let mut slow = slow_tasks(policy, &ended, ended.len() - recent);
    let is_due = |one: &SlowTask<'_>| step.expected_end(facts, one.run).holds() == Some(true);
    slow.retain(is_due);
    let goes_on = q.holds(
        "How many of its tasks succeeded?",
        (
            ended.len(),
            format_args!("at least {}", policy.history_runs.saturating_add(1)),
        ),
        (many(ended.len()) > policy.history_runs).then_some(true),
    ) && q.holds(
        "How many of its tasks took far longer than the tasks before them?",
        (
            slow.len(),
            format_args!("at least 1 within {}", HumanDuration(within)),
        ),
        !slow.is_empty(),
    );
    let worst = slow
        .iter()
        .max_by_key(|one| one.lost())
        .filter(|_| goes_on)?;
    let before = || ended.iter().take(worst.place).copied();
    let causes = Causes::beyond(&worst.run.step.usage.detail.states, &usual_states(before()));
    let enough = worst.runs >= policy.history_runs.saturating_mul(2);
    let wrong = Wrong {
        kind: KIND,
        trouble: Trouble::WasSlow {
            slow: many(slow.len()),
            ended: many(recent),
            ran: worst.run.wall(),
            usual: worst.usual,
            longest: worst.longest,
            runs: worst.runs,
        },
        causes,
        confidence: Confidence {
            level: if enough { Level::Medium } else { Level::Low },
            reason: format!(
                "compared with {} earlier tasks; the size of the input is unknown",
                worst.runs
            ),
        },
        lost: slow.iter().map(SlowTask::lost).sum(),
        action: Action::Investigate,
        advice: advice(causes).to_owned(),
    };
    let about = worst.run;
    let runs = slow.iter().map(|one| one.run).collect();
    step.make_finding_about(facts, about, runs, wrong)
}

/// A task that ended and took far longer than the tasks before it.
#[derive(Clone, Copy)]
struct SlowTask<'a> {
    run: &'a ObservedTask<'a>,
    /// Number of tasks that ended before it, which is its place in their order.
    place: usize,
    runs: u32,
    /// Median duration of these tasks.
    usual: Duration,
    /// Longest duration of these tasks.
    longest: Duration,
}

impl SlowTask<'_> {
    fn lost(&self) -> Duration {
        self.run.wall().saturating_sub(self.usual)
    }
}

/// The slow tasks from place `first` of all tasks, which are in the order of their ends. A slow task
/// raises the longest duration for the tasks after it. So a step with larger input is reported only
/// at its first tasks.
fn slow_tasks<'a>(
    policy: &StepPolicy,
    ended: &[&'a ObservedTask<'a>],
    first: usize,
) -> Vec<SlowTask<'a>> {
    let mut walls: Vec<Duration> = Vec::with_capacity(ended.len());
    let mut slow = Vec::new();
    for (place, run) in ended.iter().enumerate() {
        let wall = run.wall();
        let runs = many(walls.len());
        let known = walls
            .get(walls.len() / 2)
            .copied()
            .zip(walls.last().copied());
        if let Some((usual, longest)) = known.filter(|_| runs >= policy.history_runs)
            && place >= first
            && wall >= slow_after(policy, usual, longest)
        {
            slow.push(SlowTask {
                run,
                place,
                runs,
                usual,
                longest,
            });
        }
        let at = walls.partition_point(|known| *known <= wall);
        walls.insert(at, wall);
    }
    slow
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::testing::World;
    use crate::testing::requested;
    use crate::testing::step_world::{ended, no_run, states, verdict};
    use ebb_telemetry::step::resource_usage::TaskState;
    use ebb_telemetry::step::{StepEnd, StepKind};

    /// Tasks that ended one after the other and took these minutes.
    fn world(kind: StepKind, minutes: &[u64]) -> World {
        let mut world = no_run();
        for (n, wall) in (1..).zip(minutes) {
            ended(&mut world, n, *wall, |s| {
                s.id.kind = kind;
                s.requested = requested(1, 3);
                s.detail.states = states(&[(TaskState::Running, wall * 6, *wall)]);
            });
        }
        // One task starts every four hours.
        for (n, step) in (0_i64..).zip(&mut world.finished) {
            let later = SignedDuration::from_hours(4 * n);
            step.started_at += later;
            step.observed_at += later;
            world.now = world.now.max(step.observed_at);
        }
        world
    }

    #[test]
    fn tasks_that_ended_slow_are_reported_for_a_day() {
        let check = |kind: StepKind, minutes: &[u64], hours_later: i64, expect: Option<&str>| {
            let mut world = world(kind, minutes);
            world.now += SignedDuration::from_hours(hours_later);
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(
                evidence.as_deref(),
                expect,
                "{kind:?} {minutes:?} {hours_later}"
            );
        };
        let one = "1 of 6 tasks took far longer than usual; one took 100 min, 2.5 times the median \
                   of 40 min (5 earlier tasks, the longest 50 min): 61 min running (600 samples); \
                   most CPU: bwa with 20 min of CPU";
        let minutes = [30, 40, 40, 35, 50, 100];
        check(StepKind::SlurmJob, &minutes, 0, Some(one));
        check(StepKind::Container, &minutes, 0, Some(one));
        check(StepKind::SlurmJob, &minutes, 25, None);
        check(StepKind::SlurmJob, &minutes[1..], 0, None);
        check(StepKind::SlurmJob, &[30, 40, 40, 35, 95, 100], 0, None);
        // Restarts of a service: the next one starts when one ends.
        check(
            StepKind::Container,
            &[240, 240, 240, 240, 240, 600],
            0,
            None,
        );
    }

    #[test]
    fn it_costs_the_time_beyond_the_usual_time() {
        let world = world(StepKind::SlurmJob, &[40, 40, 40, 40, 40, 100]);
        let cost = verdict(&world, KIND).and_then(|f| f.cost).expect("a price");
        // One core of the four of an m5.xlarge at 0.192 USD, for an hour.
        assert_eq!(cost.spent.micros(), 48_000);
    }

    #[test]
    fn a_failed_task_is_not_slow() {
        let mut world = world(StepKind::SlurmJob, &[40, 40, 40, 40, 40, 100]);
        if let Some(newest) = world.finished.last_mut() {
            newest.usage.end = StepEnd::Exited(1);
        }
        assert_eq!(verdict(&world, KIND), None);
    }
}
