//! Retry storm: a step fails repeatedly, and each attempt costs machine time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::causes::Ended;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::step::StepEnd;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::step::context::{Step, Wrong};
use crate::rules::step::earlier_runs::many;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::step_history::observed_task::ObservedTask;
use crate::workflow_runs::label_of;

const KIND: FindingKind = FindingKind::RetryStorm;

pub(crate) fn evaluate(facts: &Facts<'_>, step: &Step<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let policy = &facts.policy.step;
    let from = facts.now.checked_sub(policy.failed_within()).ok()?;
    let ended: Vec<&ObservedTask<'_>> = step
        .profiled
        .runs
        .iter()
        .filter(|run| run.step.usage.end != StepEnd::Running && run.step.observed_at >= from)
        .collect();
    let finished = finished_tasks(&ended);
    // A retry that succeeds is the retry strategy at work.
    let failed = ended.iter().filter(|run| {
        let recovered = task_of(run).is_some_and(|task| finished.contains(&task));
        run.step.usage.end.is_bad() && !recovered
    });
    let failed: Vec<&ObservedTask<'_>> = failed.copied().collect();
    let goes_on = q.holds(
        "How many of its tasks failed, without a later attempt that succeeded?",
        (
            failed.len(),
            format_args!(
                "at least {} within {}",
                policy.storm_runs,
                HumanDuration(policy.failed_within())
            ),
        ),
        many(failed.len()) >= policy.storm_runs,
    ) && q.holds(
        "Are these at least half of the tasks that ended?",
        (format_args!("{} of {}", failed.len(), ended.len()), ""),
        failed.len() * 2 >= ended.len(),
    );
    if !goes_on {
        return None;
    }
    let newest = *failed.iter().max_by_key(|run| run.step.observed_at)?;
    let lost = failed.iter().map(|run| run.wall()).sum();
    let advice = "Fix the cause before the next attempt. Configure the retry strategy not to retry \
                  exit codes that fail every time.";
    let ends = count_ends(&failed);
    let wrong = Wrong {
        kind: KIND,
        trouble: Trouble::Retries {
            failed: many(failed.len()),
            runs: many(ended.len()),
            lost,
            newest: newest.step.usage.end.to_string(),
            main: ends.first().copied(),
            runner_up: ends.get(1).copied(),
        },
        causes: None,
        confidence: Confidence {
            level: Level::High,
            reason: "the probe observed how each task ended".into(),
        },
        lost,
        action: Action::Investigate,
        advice: advice.to_owned(),
    };
    step.make_finding(facts, failed, wrong)
}

/// How the tasks ended, the most frequent first.
fn count_ends(runs: &[&ObservedTask<'_>]) -> Vec<Ended> {
    let mut ends: BTreeMap<StepEnd, u32> = BTreeMap::new();
    for run in runs {
        *ends.entry(run.step.usage.end).or_default() += 1;
    }
    let ends = ends.into_iter().map(|(end, runs)| Ended { end, runs });
    let mut ends: Vec<Ended> = ends.collect();
    ends.sort_by_key(|ended| Reverse(ended.runs));
    ends
}

/// The run and the name of a task in its engine, or its job. All attempts have the same; `None` if
/// they are not known.
fn task_of<'a>(run: &ObservedTask<'a>) -> Option<(&'a str, &'a str)> {
    if let Some(job) = run.job {
        return Some(("", job.id.as_str()));
    }
    let names = run.recorded.names().unwrap_or_default();
    let launched = run.step.usage.detail.run.as_ref();
    let launched = launched.map(|launched| launched.key.as_str());
    let run_name = label_of(run.step, "run").or(names.run).or(launched)?;
    Some((run_name, label_of(run.step, "task").or(names.name)?))
}

/// The tasks of which an attempt succeeded.
fn finished_tasks<'a>(ended: &[&ObservedTask<'a>]) -> BTreeSet<(&'a str, &'a str)> {
    let good = ended.iter().filter(|run| !run.step.usage.end.is_bad());
    good.filter_map(|run| task_of(run)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step_world::{ended, no_run, verdict};
    use ebb_telemetry::step::SchedulerLabels;

    #[test]
    fn a_step_storms_when_it_fails_often_and_mostly() {
        let check = |bad: u8, well: u8, expect: Option<&str>| {
            let mut world = no_run();
            for n in 0..bad + well {
                ended(&mut world, n.into(), 10, |s| {
                    s.end = StepEnd::Exited(u8::from(n < bad));
                });
            }
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(evidence.as_deref(), expect, "{bad} {well}");
        };
        let storm = "5 of 7 tasks failed (50 min of work lost); the newest exited with status \
                     1 (most CPU: bwa with 20 min of CPU)";
        check(5, 2, Some(storm));
        check(4, 0, None);
        check(5, 6, None);
    }

    #[test]
    fn an_attempt_before_a_successful_one_is_no_storm() {
        let storms = |recovers: bool| {
            let mut world = no_run();
            for n in 0..12 {
                ended(&mut world, n, 10, |s| {
                    s.end = StepEnd::Exited(u8::from(n % 2 == 0));
                    let task = if recovers { n / 2 } else { n };
                    let labels = [("run", "r1".to_owned()), ("task", format!("s={task}"))];
                    s.detail.scheduler_labels = Some(Box::new(SchedulerLabels {
                        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
                        ..SchedulerLabels::default()
                    }));
                });
            }
            verdict(&world, KIND).is_some()
        };
        assert!(storms(false));
        assert!(!storms(true));
    }

    #[test]
    fn how_most_of_them_ended_is_told_with_the_next_way() {
        let mut world = no_run();
        for n in 0..6 {
            ended(&mut world, n, 10, |s| {
                s.end = match n {
                    0 | 5 => StepEnd::Signalled(9),
                    _ => StepEnd::Exited(3),
                };
            });
        }
        let finding = verdict(&world, KIND).expect("it storms");
        let evidence = finding.evidence.to_string();
        let ends = "(60 min of work lost): 4 tasks exited with status 3 and 2 tasks were ended by \
                    signal 9; the newest was ended by signal 9";
        assert!(evidence.contains(ends), "{evidence}");
    }
}
