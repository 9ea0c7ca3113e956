//! Slow step: a task takes far longer than earlier tasks; the finding shows the difference and the
//! cause.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::causes::Causes;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_model::policy::step::StepPolicy;
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::step::context::{UnderWay, Wrong};
use crate::rules::step::earlier_runs::Past;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::step_history::observed_task::ObservedTask;

const KIND: FindingKind = FindingKind::SlowStep;

pub(crate) fn evaluate(facts: &Facts<'_>, it: &UnderWay<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let (run, policy) = (it.run, &facts.policy.step);
    let Past {
        runs,
        usual,
        longest,
        ..
    } = it.step.past;
    let bound = slow_after(policy, usual, longest);
    let goes_on = it.ends(facts, q)
        && q.holds(
            "How many earlier tasks succeeded?",
            (runs, format_args!("at least {}", policy.history_runs)),
            (runs >= policy.history_runs).then_some(true),
        )
        && q.holds(
            "How long has the task run?",
            (
                HumanDuration(run.wall()),
                format_args!("at least {}", HumanDuration(bound)),
            ),
            run.wall() >= bound,
        );
    if !goes_on {
        return None;
    }
    let causes = Causes::beyond(
        &run.step.usage.detail.states,
        &usual_states(it.step.history()),
    );
    let advice = advice(causes);
    let enough = runs >= policy.history_runs.saturating_mul(2);
    Some(it.make_finding(
        facts,
        Wrong {
            kind: KIND,
            trouble: Trouble::Slow {
                ran: run.wall(),
                usual,
                longest,
                runs,
            },
            causes,
            confidence: Confidence {
                level: if enough { Level::Medium } else { Level::Low },
                reason: format!(
                    "compared with {runs} earlier tasks; the size of the input is unknown"
                ),
            },
            lost: run.wall().saturating_sub(usual),
            action: Action::Investigate,
            advice: advice.to_owned(),
        },
    ))
}

/// Advice for the state with the most additional time.
pub(crate) fn advice(causes: Option<Causes>) -> &'static str {
    match causes.map(|causes| causes.main.state) {
        None => "Compare the input and machine of this task with those of earlier tasks.",
        Some(TaskState::Running) => {
            "The task uses CPU all the time. Compare its input, arguments and instance type with \
             those of earlier tasks."
        }
        Some(TaskState::Runnable) => {
            "The task waits for CPU. Check the other tasks on the same node."
        }
        Some(_) => "Check why the task waits longer than earlier tasks.",
    }
}

/// The duration from which a task is slow.
pub(crate) fn slow_after(policy: &StepPolicy, usual: Duration, longest: Duration) -> Duration {
    let times = u64::from(policy.slow_ppm);
    let millis = u64::try_from(usual.as_millis()).unwrap_or(u64::MAX);
    let bound = Duration::from_millis(millis.saturating_mul(times) / 1_000_000);
    bound.max(longest + Duration::from_secs(policy.slow_by_seconds))
}

/// Average time of earlier tasks in each state.
pub(crate) fn usual_states<'a>(
    history: impl Iterator<Item = &'a ObservedTask<'a>>,
) -> BTreeMap<TaskState, Duration> {
    let (mut runs, mut sums) = (0, BTreeMap::<TaskState, Duration>::new());
    for run in history {
        let states = &run.step.usage.detail.states;
        runs += u32::from(!states.is_empty());
        for (state, totals) in states {
            *sums.entry(*state).or_default() += totals.time;
        }
    }
    sums.values_mut().for_each(|sum| *sum /= runs.max(1));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step_world::{ended, run_of, states, verdict};
    use ebb_telemetry::step::StepKind;

    #[test]
    fn a_step_is_slow_when_it_takes_twice_its_usual_time_and_more_than_it_ever_did() {
        let check = |minutes: u64, earlier: &[u64], expect: Option<&str>| {
            let mut world = run_of(StepKind::SlurmJob, minutes, |s| {
                s.detail.states = states(&[
                    (TaskState::Disk, minutes * 3, minutes / 2),
                    (TaskState::Running, minutes * 3, minutes / 2),
                ]);
            });
            for (n, wall) in (1..).zip(earlier) {
                ended(&mut world, n, *wall, |s| {
                    s.detail.states = states(&[(TaskState::Running, wall * 6, *wall)]);
                });
            }
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(evidence.as_deref(), expect, "{minutes} {earlier:?}");
        };
        let slow = "running for 100 min, 2.5 times the median of 40 min (5 earlier tasks, the \
                    longest 50 min): 50 min waiting for disk (300 samples) and 11 min \
                    running (300 samples); most CPU in an earlier task: bwa with 20 min of CPU";
        check(100, &[30, 40, 40, 35, 50], Some(slow));
        check(70, &[30, 40, 40, 35, 50], None);
        // One earlier task took as long.
        check(100, &[30, 40, 40, 35, 95], None);
        check(100, &[30, 40, 40, 35], None);
    }

    #[test]
    fn runs_that_failed_are_no_history() {
        let mut world = run_of(StepKind::SlurmJob, 100, |_| {});
        for n in 1..=5 {
            ended(&mut world, n, 40, |s| {
                s.end = ebb_telemetry::step::StepEnd::Exited(1)
            });
        }
        assert_eq!(verdict(&world, KIND), None);
    }
}
