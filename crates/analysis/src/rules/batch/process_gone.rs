//! A job that is RUNNING for Batch after the probe saw its last process end; the agent lost the
//! event.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::job::Job;
use ebb_telemetry::step::{PlacedStep, StepEnd, StepKind};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::batch::context::{
    StuckObservation, make_job_finding, silent_for, since, step_of, terminate,
};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

pub(crate) fn evaluate(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    let node = facts.inventory.batch.node_of(job)?;
    let state = facts.state.nodes.get(node)?;
    let patience = Duration::from_secs(facts.policy.batch.process_gone_seconds);
    let is_fresh = silent_for(facts, state).is_some_and(|age| age <= facts.policy.idle.after());
    let task = job.task_id()?;
    // The state drops ended tasks after a quarter of an hour; the lake keeps them.
    let in_lake = || {
        let mut ended = facts.finished.iter();
        ended.find(|step| {
            let id = &step.usage.id;
            step.node == *node && id.kind == StepKind::EcsTask && id.key == task
        })
    };
    let kept = step_of(facts, node, task);
    let step: Option<&PlacedStep> = kept.as_ref().or_else(in_lake);
    let ended = step.filter(|step| step.usage.end != StepEnd::Running);
    let gone = ended.and_then(|step| since(facts, step.observed_at));
    let shown = match (step, gone) {
        (_, Some(gone)) => format!("{} ago", HumanDuration(gone)),
        (Some(_), None) => "no: the process runs".to_owned(),
        (None, _) => "not observed".to_owned(),
    };
    let goes_on = is_fresh
        && q.holds(
            "Did the last process of the job end?",
            (
                shown,
                format_args!("at least {} ago", HumanDuration(patience)),
            ),
            step.map(|_| gone.is_some_and(|gone| gone >= patience)),
        );
    let step = ended.filter(|_| goes_on)?;
    let observation = StuckObservation {
        window: Window {
            from: step.observed_at,
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::ProcessGone {
            end: step.usage.end,
        },
        confidence: Confidence {
            level: Level::High,
            reason: "the probe observed the end of the last process and still sends heartbeats"
                .into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice:
                "Restart the ECS agent and the container runtime of its machine. Terminate the job \
                 so that AWS Batch retries it on another instance."
                    .into(),
            command: Some(terminate(job, "its processes are gone")),
        },
    };
    Some(make_job_finding(facts, job, Some(step.origin), observation))
}
