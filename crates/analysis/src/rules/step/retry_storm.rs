//! Retry storm: a step fails repeatedly, and each attempt costs machine time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::causes::Ended;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_model::step_profile::attempts::{self, NamedAttempt};
use ebb_telemetry::step::StepEnd;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::step::context::{Step, Wrong};
use crate::rules::step::earlier_runs::many;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::step_history::nextflow_task;
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
    // A retry that succeeds is the retry strategy at work.
    let recovered = recovered(&ended);
    let failed = ended.iter().enumerate().filter(|(index, run)| {
        let is_bad = run.step.usage.end.is_bad();
        is_bad && !recovered.contains(index)
    });
    let failed: Vec<&ObservedTask<'_>> = failed.map(|(_, run)| *run).collect();
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

/// The run and the name of a task in its engine, or its job, and the number of the attempt. All
/// attempts have the same name; `None` if it is not known.
fn task_of<'a>(run: &ObservedTask<'a>) -> Option<((&'a str, &'a str), u32)> {
    let names = run.recorded.names().unwrap_or_default();
    let launched = run.step.usage.detail.run.as_ref();
    let launched = launched.map(|launched| launched.key.as_str());
    let run_name = label_of(run.step, "run").or(names.run).or(launched);
    let name = label_of(run.step, "task").or(names.name);
    // Snakemake gives all its jobs of Slurm the id of the run as their name.
    let name = name.filter(|name| run_name != Some(*name));
    let Some(job) = run.job else {
        return Some(((run_name?, name?), names.attempt.unwrap_or(0)));
    };
    // Batch retries within a job, and Nextflow with a new job of the same name.
    match nextflow_task::attempt_of(job).or(names.attempt) {
        Some(attempt) => {
            let name = name.unwrap_or(job.name.as_str());
            Some(((run_name.unwrap_or_default(), name), attempt))
        }
        None => Some((("", job.id.as_str()), 0)),
    }
}

/// The attempts of tasks that succeeded in the end, as indices of `ended`.
fn recovered(ended: &[&ObservedTask<'_>]) -> BTreeSet<usize> {
    let mut by_name: BTreeMap<(&str, &str), Vec<(usize, NamedAttempt)>> = BTreeMap::new();
    for (index, run) in ended.iter().enumerate() {
        if let Some((name, number)) = task_of(run) {
            let attempt = NamedAttempt {
                number,
                started: run.step.started_at,
                ended: run.step.observed_at,
                failed: run.step.usage.end.is_bad(),
            };
            by_name.entry(name).or_default().push((index, attempt));
        }
    }
    let mut recovered = BTreeSet::new();
    for of_name in by_name.into_values() {
        let (indices, named): (Vec<usize>, Vec<NamedAttempt>) = of_name.into_iter().unzip();
        for task in attempts::by_task(&named) {
            if task.last().is_some_and(|last| !named[*last].failed) {
                recovered.extend(task.into_iter().map(|index| indices[index]));
            }
        }
    }
    recovered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step_world::{ended, no_run, verdict};
    use ebb_telemetry::step::SchedulerLabels;
    use ebb_telemetry::testing::at;

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

    /// A step with these tasks, as name, start in minutes, and whether it failed. Each takes ten minutes.
    fn storms(tasks: &[(String, u64, bool)]) -> bool {
        let mut world = no_run();
        for (n, (name, start, failed)) in (0..).zip(tasks) {
            ended(&mut world, n, start + 10, |s| {
                s.end = StepEnd::Exited(u8::from(*failed));
                let labels = [("run", "r1"), ("task", name.as_str())];
                let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
                s.detail.scheduler_labels = Some(Box::new(SchedulerLabels {
                    labels: labels.into(),
                    ..SchedulerLabels::default()
                }));
            });
            let placed = world.finished.last_mut().expect("it was added");
            placed.started_at = at(start * 60);
        }
        verdict(&world, KIND).is_some()
    }

    #[test]
    fn an_attempt_before_a_successful_one_is_no_storm() {
        let tasks = |name: fn(u64) -> u64| {
            let task = |n| (format!("s={}", name(n)), n * 20, n % 2 == 0);
            (0..12).map(task).collect::<Vec<_>>()
        };
        assert!(storms(&tasks(|n| n)));
        assert!(!storms(&tasks(|n| n / 2)));
    }

    #[test]
    fn a_success_recovers_one_failure_of_its_name() {
        let failed = (0..6).map(|_| ("HC (S1)".to_owned(), 0, true));
        let retried = |count: u64| (0..count).map(|n| ("HC (S1)".to_owned(), 20 + n, false));
        let tasks = |count| failed.clone().chain(retried(count)).collect::<Vec<_>>();
        assert!(storms(&tasks(1)));
        assert!(!storms(&tasks(6)));
        // The name of the run names no task.
        let of_run = failed.clone().chain(retried(6));
        let of_run: Vec<_> = of_run
            .map(|(_, start, failed)| ("r1".to_owned(), start, failed))
            .collect();
        assert!(storms(&of_run));
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
