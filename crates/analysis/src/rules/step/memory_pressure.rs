//! Memory pressure: a running task has almost filled its memory, and the kernel will kill it next.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::step::MemorySource;
use ebb_telemetry::units::Share;

use crate::facts::Facts;
use crate::rules::step::context::{UnderWay, Wrong};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::MemoryPressure;

pub(crate) fn evaluate(facts: &Facts<'_>, it: &UnderWay<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let run = it.run;
    let held = run.step.usage.peak_memory;
    // The peak of a cgroup and `maxrss` include reclaimable memory.
    let exact = |source| {
        matches!(
            source,
            MemorySource::CgroupSampled | MemorySource::ProcessesSampled
        )
    };
    let held = held.filter(|held| exact(held.source));
    let known = held.zip(run.requested().memory);
    let share = known.and_then(|(held, limit)| Share::from_parts(held.bytes.0, limit.0));
    let shown = share.map_or_else(|| "unknown".to_owned(), |share| share.to_string());
    let bound = Share::from_ppm(facts.policy.step.full_memory_ppm);
    let goes_on = it.ends(facts, q)
        && q.holds(
            "How much of its memory limit has the task used?",
            (shown, format_args!("at least {bound}")),
            share.map(|share| share >= bound),
        );
    let (held, limit) = known.filter(|_| goes_on)?;
    let detail = &run.step.usage.detail;
    let trouble = Trouble::NearLimit {
        held,
        limit,
        major_faults: detail.major_faults,
        limit_hits: detail.reclaim.map(|reclaim| reclaim.limit_hits),
    };
    let advice = format!(
        "Request more than {limit} for the next task. If the kernel kills this task, its work is \
         lost."
    );
    Some(it.make_finding(
        facts,
        Wrong {
            kind: KIND,
            trouble,
            causes: None,
            confidence: Confidence {
                level: Level::Medium,
                reason: "based on memory samples; the task may end before it needs more".into(),
            },
            // No time is lost yet.
            lost: std::time::Duration::ZERO,
            action: Action::Reconfigure,
            advice,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step_world::{peak, run_for, verdict};
    use ebb_telemetry::step::resource_usage::Reclaim;

    #[test]
    fn a_step_is_under_pressure_when_it_holds_all_but_a_little_of_what_it_may() {
        let check = |mib: u64, source: MemorySource, expect: bool| {
            let world = run_for(60, |s| {
                s.peak_memory = Some(peak(mib, source));
                s.detail.reclaim = Some(Reclaim {
                    pages_reclaimed: None,
                    limit_hits: 12,
                });
            });
            let finding = verdict(&world, KIND);
            assert_eq!(finding.is_some(), expect, "{mib} MiB {source:?}");
            if let Some(finding) = finding {
                assert!(finding.evidence.to_string().starts_with(
                    "used 3.9 GiB of its memory limit of 4.0 GiB, reached the limit 12 times"
                ));
                assert_eq!(finding.saving_or_zero().micros(), 0);
            }
        };
        check(4_000, MemorySource::CgroupSampled, true);
        check(3_600, MemorySource::CgroupSampled, false);
        check(4_096, MemorySource::CgroupPeak, false);
        check(4_096, MemorySource::MaxRssUpperBound, false);
    }
}
