//! Underprovisioned step: it requests less memory than its tasks need, so they run at the limit.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::step::{MemorySource, PeakMemory};
use ebb_telemetry::units::Bytes;

use crate::facts::Facts;
use crate::rules::step::context::{Step, Wrong};
use crate::rules::step::earlier_runs::many;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::step_history::observed_task::ObservedTask;

const KIND: FindingKind = FindingKind::UnderprovisionedStep;

pub(crate) fn evaluate(facts: &Facts<'_>, step: &Step<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let policy = facts.policy;
    let newest = step
        .profiled
        .runs
        .iter()
        .max_by_key(|run| run.step.observed_at)?;
    let limit = newest.requested().memory;
    let same = step.history().filter(|run| run.requested().memory == limit);
    let runs: Vec<(&ObservedTask<'_>, PeakMemory)> =
        same.filter_map(|run| Some((run, sampled(run)?))).collect();
    let is_full = |held: Bytes| limit.is_some_and(|l| policy.step.is_full(held.0, l.0));
    let full: Vec<&ObservedTask<'_>> = runs
        .iter()
        .filter(|(_, held)| is_full(held.bytes))
        .map(|(run, _)| *run)
        .collect();
    let goes_on = q.holds(
        "How many successful tasks with this request have a sampled peak of their cgroup?",
        (
            runs.len(),
            format_args!("at least {}", policy.sizing.min_runs),
        ),
        (many(runs.len()) >= policy.sizing.min_runs).then_some(true),
    ) && q.holds(
        "Did at least half of them reach the memory limit?",
        (format_args!("{} of {}", full.len(), runs.len()), ""),
        !full.is_empty() && full.len() * 2 >= runs.len(),
    );
    let limit = limit.filter(|_| goes_on)?;
    let held = runs
        .iter()
        .map(|(_, held)| *held)
        .max_by_key(|held| held.bytes)?;
    let need = step.profiled.need.memory.filter(|need| *need > limit);
    let need = need.unwrap_or(Bytes(limit.0.saturating_add(limit.0 / 5)));
    let advice = format!(
        "Request {need}. At its limit, the kernel first reclaims caches of the task and then kills \
         it."
    );
    let wrong = Wrong {
        kind: KIND,
        trouble: Trouble::Short {
            full: many(full.len()),
            runs: many(runs.len()),
            held,
            limit,
        },
        causes: None,
        confidence: Confidence {
            level: Level::Medium,
            reason: "based on memory samples of each task; no task was killed so far".into(),
        },
        // The fix increases the cost, so no time counts as lost; the benefit is fewer OOM kills.
        lost: Duration::ZERO,
        action: Action::Rightsize,
        advice,
    };
    step.make_finding(facts, full, wrong)
}

fn sampled(run: &ObservedTask<'_>) -> Option<PeakMemory> {
    let exact = |peak: &PeakMemory| peak.source == MemorySource::CgroupSampled;
    run.step.usage.peak_memory.filter(exact)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step_world::{ended, no_run, peak, verdict};

    #[test]
    fn a_step_is_short_when_half_of_its_runs_come_to_their_limit() {
        let check = |peaks: &[u64], expect: Option<&str>| {
            let mut world = no_run();
            for (n, mib) in (1..).zip(peaks) {
                ended(&mut world, n, 30, |s| {
                    s.peak_memory = Some(peak(*mib, MemorySource::CgroupSampled));
                });
            }
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(evidence.as_deref(), expect, "{peaks:?}");
        };
        let short = "2 of 3 tasks reached the memory limit; peak of 3.9 GiB at a limit of 4.0 GiB \
                     (most CPU: bwa with 20 min of CPU)";
        check(&[4_000, 3_950, 2_000], Some(short));
        check(&[4_000, 2_000, 2_000], None);
        check(&[4_000, 4_000], None);
        // Peaks of a step with a suitable request.
        check(&[3_600, 3_700, 3_500], None);
    }
}
