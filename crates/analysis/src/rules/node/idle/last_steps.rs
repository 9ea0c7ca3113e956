//! The last tasks on an idle node. They show the purpose of the node and the task that hangs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::idle::KeptAliveBy;
use ebb_model::finding::{Finding, StepLink};
use ebb_telemetry::step::StepEnd;

use crate::step_history::by_step::Profiles;
use crate::step_history::observed_task::ObservedTask;

/// Limit on linked tasks; the last ones are linked.
const LAST: usize = 3;

/// Links idle nodes to their last tasks; the task that keeps the node alive is first. Sessions and
/// services are no steps of a report.
pub(crate) fn link(findings: &mut [Finding], profiles: &Profiles<'_>) {
    let mut last: BTreeMap<&str, Vec<(&str, &ObservedTask<'_>)>> = findings
        .iter()
        .filter(|finding| idle(finding).is_some())
        .map(|finding| (finding.resource.id.as_str(), Vec::new()))
        .collect();
    if last.is_empty() {
        return;
    }
    for (key, profiled) in &profiles.by_step {
        for run in &profiled.runs {
            if let Some(runs) = last.get_mut(run.step.node.as_str()) {
                runs.push((&key.name, run));
            }
        }
    }
    let links: Vec<Vec<StepLink>> = findings
        .iter()
        .map(|finding| {
            let runs = last.remove(finding.resource.id.as_str());
            newest(runs.unwrap_or_default(), idle(finding).flatten())
        })
        .collect();
    for (finding, links) in findings.iter_mut().zip(links) {
        finding.steps.extend(links);
    }
}

/// For an idle node, the cause that keeps it alive.
fn idle(finding: &Finding) -> Option<Option<&KeptAliveBy>> {
    match &finding.evidence {
        Evidence::IdleNode(idle) => Some(idle.kept_alive_by.as_ref()),
        _ => None,
    }
}

fn newest(mut runs: Vec<(&str, &ObservedTask<'_>)>, keeper: Option<&KeptAliveBy>) -> Vec<StepLink> {
    let keeps = |run: &ObservedTask<'_>| match keeper {
        Some(KeptAliveBy::QuietStep(name)) => run.step.usage.name == *name,
        _ => false,
    };
    runs.sort_by_key(|(_, run)| {
        let observed_at = run.step.observed_at;
        Reverse((
            keeps(run) && run.step.usage.end == StepEnd::Running,
            observed_at,
        ))
    });
    let runs = runs.into_iter().take(LAST);
    runs.map(|(name, run)| run.link(name)).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{World, instance};
    use ebb_telemetry::step::StepKind;
    use ebb_telemetry::testing::{at, clock, placed_step, usage};

    #[test]
    fn an_idle_node_points_to_the_steps_that_ran_on_it_last_and_to_what_keeps_it() {
        let check = |hangs: bool, expect: &[&str]| {
            let mut world = World::with([instance(1)]);
            world.watch(1, 0, 60, |minute, h| {
                let mut it = usage(90, clock(minute * 60 + 60));
                it.id.kind = StepKind::SlurmJob;
                it.name = "hangs".into();
                it.last_progress = clock(60);
                h.steps.extend(hangs.then_some(it));
            });
            for n in 1..=4_u64 {
                let mut step = placed_step(1, n);
                step.usage.id.key = format!("run-{n}");
                step.usage.name = format!("step-{n}");
                step.observed_at = at(n * 60);
                world.finished.push(step);
            }
            let finding = world.verdict().expect("it is idle");
            let names: Vec<&str> = finding.steps.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names, expect, "{hangs}");
        };
        check(false, &["step-4", "step-3", "step-2"]);
        check(true, &["hangs", "step-4", "step-3"]);
    }
}
