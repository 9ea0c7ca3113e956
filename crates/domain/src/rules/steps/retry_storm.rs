//! Retry storm: a step fails again and again, and each time its machine is paid for.

use super::{Step, Verdict, Wrong, many};
use crate::finding::{Action, Confidence, FindingKind, Level, Trouble};
use crate::judge::Facts;
use crate::profile::gather::SeenRun;
use crate::rules::Questions;
use crate::step::StepEnd;
use crate::units::Spoken;

const KIND: FindingKind = FindingKind::RetryStorm;

pub(super) fn judge(facts: &Facts<'_>, step: &Step<'_>, q: &mut Questions) -> Option<Verdict> {
    let policy = &facts.policy.step;
    let from = facts.now.checked_sub(policy.failed_within()).ok()?;
    let ended: Vec<&SeenRun<'_>> = step
        .profiled
        .runs
        .iter()
        .filter(|run| run.step.usage.end != StepEnd::Running && run.step.observed_at >= from)
        .collect();
    let bad = |run: &&&SeenRun<'_>| run.step.usage.end.is_bad();
    let failed: Vec<&SeenRun<'_>> = ended.iter().filter(bad).copied().collect();
    let goes_on = q.holds(
        "how many of its runs failed?",
        (
            failed.len(),
            format_args!(
                "{} within {}",
                policy.storm_runs,
                Spoken(policy.failed_within())
            ),
        ),
        many(failed.len()) >= policy.storm_runs,
    ) && q.holds(
        "are those half of the runs that ended?",
        (format_args!("{} of {}", failed.len(), ended.len()), ""),
        failed.len() * 2 >= ended.len(),
    );
    if !goes_on {
        return None;
    }
    let newest = *failed.iter().max_by_key(|run| run.step.observed_at)?;
    let lost = failed.iter().map(|run| run.wall()).sum();
    let advice = "Mend the cause before it is tried again, and let its retry strategy give up on \
                  exit codes that no retry heals.";
    let wrong = Wrong {
        kind: KIND,
        trouble: Trouble::Retries {
            failed: many(failed.len()),
            runs: many(ended.len()),
            lost,
            newest: newest.step.usage.end.to_string(),
        },
        causes: None,
        confidence: Confidence {
            level: Level::High,
            reason: "a probe saw how each of them ended".into(),
        },
        lost,
        action: Action::Investigate,
        advice: advice.to_owned(),
    };
    step.found(facts, failed, wrong)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, no_run, verdict};
    use super::*;

    #[test]
    fn a_step_storms_when_it_fails_often_and_mostly() {
        let check = |bad: u8, well: u8, expect: Option<&str>| {
            let mut world = no_run();
            for n in 0..bad + well {
                ended(&mut world, n.into(), 10, |s| {
                    s.end = StepEnd::Exited(u8::from(n < bad));
                });
            }
            let said = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(said.as_deref(), expect, "{bad} {well}");
        };
        let storm = "5 of 7 runs failed, 50 min of work lost; the newest exited with status 1 \
                     (mostly bwa)";
        check(5, 2, Some(storm));
        check(4, 0, None);
        check(5, 6, None);
    }
}
