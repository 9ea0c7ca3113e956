//! Spinning step: a task computes for far longer than any earlier task without progress that the
//! kernel can observe. Outside observation cannot distinguish endless work from long work, so the
//! finding states only a possibility.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::step::context::{UnderWay, Wrong};
use crate::rules::step::earlier_runs::Past;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::SpinningStep;

pub(crate) fn evaluate(facts: &Facts<'_>, it: &UnderWay<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let (detail, policy) = (&it.run.step.usage.detail, &facts.policy.step);
    let Past {
        unmoved: (longest, runs),
        ..
    } = it.step.past;
    let least = Duration::from_secs(policy.spinning_seconds);
    let bound = (longest.mul_f64(f64::from(policy.slow_ppm) / 1e6)).max(least);
    let unmoved_for = detail.cpu_without_progress.map(|unmoved| unmoved.now);
    let spins = it.ends(facts, q)
        && q.holds(
            "How many earlier tasks succeeded and reported their activity?",
            (runs, format_args!("at least {}", policy.history_runs)),
            (runs >= policy.history_runs).then_some(true),
        )
        && q.holds(
            "How long has the task used CPU without any other activity?",
            (
                unmoved_for
                    .map_or_else(|| "unknown".into(), |time| HumanDuration(time).to_string()),
                format_args!("at least {}", HumanDuration(bound)),
            ),
            unmoved_for.map(|time| time >= bound),
        );
    let unmoved_for = unmoved_for.filter(|_| spins)?;
    let mostly_kernel = detail.user_cpu < detail.system_cpu;
    let hint = match mostly_kernel {
        true => {
            "Most of its CPU time is kernel time, as in a polling loop. Check which call the task \
             repeats."
        }
        false => "Check its log and stack for an endless loop.",
    };
    Some(it.make_finding(
        facts,
        Wrong {
            kind: KIND,
            trouble: Trouble::Spinning {
                unmoved_for,
                longest,
                runs,
            },
            causes: None,
            confidence: Confidence {
                level: Level::Low,
                reason: format!(
                    "compared with {runs} earlier tasks; long computation in memory looks the same"
                ),
            },
            lost: unmoved_for,
            action: Action::Investigate,
            advice: format!("{hint} Do not stop the task if it computes correctly."),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step_world::{ended, run_of, verdict};
    use ebb_telemetry::step::resource_usage::CpuWithoutProgress;
    use ebb_telemetry::step::{StepKind, StepUsage};

    fn unmoved(usage: &mut StepUsage, now: u64, longest: u64) {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        usage.detail.cpu_without_progress = Some(CpuWithoutProgress {
            now: minutes(now),
            longest: minutes(longest),
        });
    }

    #[test]
    fn a_step_may_spin_when_nothing_came_of_it_for_an_hour_and_twice_as_long_as_ever() {
        let check = |kind: StepKind, now: u64, earlier: &[u64], expect: Option<&str>| {
            let mut world = run_of(kind, 150, |s| unmoved(s, now, now));
            for (n, longest) in (1..).zip(earlier) {
                ended(&mut world, n, 140, |s| unmoved(s, 0, *longest));
            }
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(evidence.as_deref(), expect, "{kind:?} {now} {earlier:?}");
        };
        let spins = "used CPU for 90 min without I/O, memory growth or a new process; the longest \
                     such time in 5 earlier tasks is 40 min (most CPU in an earlier task: bwa with 20 min of CPU)";
        let past = [1, 0, 40, 5, 2];
        check(StepKind::SlurmJob, 90, &past, Some(spins));
        check(StepKind::SlurmJob, 79, &past, None);
        // The minimum is an hour.
        check(StepKind::SlurmJob, 59, &[1, 1, 1, 1, 1], None);
        check(StepKind::SlurmJob, 90, &past[1..], None);
        // A service is not expected to end.
        check(StepKind::Service, 90, &past, None);
    }

    #[test]
    fn where_a_probe_does_not_tell_nothing_is_said() {
        let mut world = run_of(StepKind::SlurmJob, 150, |s| unmoved(s, 90, 90));
        for n in 1..=5 {
            ended(&mut world, n, 140, |_| {});
        }
        assert_eq!(verdict(&world, KIND), None);
    }
}
