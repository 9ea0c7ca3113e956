//! A RUNNING job whose task makes no progress; AWS reports nothing about this state.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::evidence::causes::Causes;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::job::Job;
use ebb_telemetry::step::StepEnd;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{HumanDuration, Share};

use crate::facts::Facts;
use crate::rules::batch::context::{
    KIND, StuckObservation, found_job, silent_for, step_of, terminate,
};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

pub(crate) fn judge(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    let undetermined = |reason: String| {
        let (id, name) = (job.id.as_str(), Some(job.name.as_str()));
        Some(Verdict::undetermined(KIND, id, name, reason))
    };
    let known = |holds: bool| holds.then_some(true);
    let node = facts.inventory.batch.node_of(job);
    let place = node.map_or_else(|| "unknown".to_owned(), ToString::to_string);
    q.holds(
        "On which machine does the job run?",
        (place, ""),
        known(node.is_some()),
    );
    let Some(node) = node else {
        return undetermined("the machine of the job is unknown".into());
    };
    let state = facts.state.nodes.get(node);
    let state = state.filter(|state| state.latest.is_some());
    let age = state.and_then(|state| silent_for(facts, state));
    let patience = facts.policy.batch.no_progress();
    let heard = age.map_or_else(
        || "never".to_owned(),
        |age| format!("{} ago", HumanDuration(age)),
    );
    let is_fresh = q.holds(
        "When did the probe on this machine last send a heartbeat?",
        (
            heard,
            format_args!("at most {} ago", HumanDuration(patience)),
        ),
        known(age.is_some_and(|age| age <= patience)),
    );
    let (Some(state), Some(age)) = (state, age) else {
        return undetermined(format!("no probe runs on its machine {node}"));
    };
    if !is_fresh {
        return undetermined(format!(
            "the probe on {node} sent its last heartbeat {} ago",
            HumanDuration(age)
        ));
    }
    let step = job.task_id().and_then(|task| step_of(facts, node, task));
    let step = step.filter(|step| step.usage.end == StepEnd::Running);
    let shown = if step.is_some() { "yes" } else { "no" };
    q.holds(
        "Does the probe observe the ECS task?",
        (shown, ""),
        known(step.is_some()),
    );
    let Some(step) = step else {
        return undetermined(format!(
            "the probe on {node} does not observe the ECS task of the job"
        ));
    };
    let window = Window {
        from: step.last_progress_at,
        to: step.observed_at,
    };
    if !q.holds(
        "How long was it without CPU usage, I/O and new processes?",
        (
            HumanDuration(window.length()),
            format_args!("at least {}", HumanDuration(patience)),
        ),
        window.length() >= patience,
    ) {
        return None;
    }
    let tick = facts.policy.activity.tick();
    let coverage = state.seen.coverage(window.from, window.to, tick);
    let (coverage, bound) = (
        coverage.unwrap_or(Share::NONE),
        facts.policy.idle.min_coverage(),
    );
    let shown = coverage.compared_with(bound);
    if !q.holds(
        "Which share of that time did the probe observe?",
        (&shown, format_args!("at least {bound}")),
        known(coverage >= bound),
    ) {
        return undetermined(format!(
            "the probe observed only {shown} of the last {}",
            HumanDuration(window.length())
        ));
    }
    let causes = Causes::of_waiting(&step.usage.detail.states);
    let busiest = step.usage.busiest_tool();
    let seen = StuckObservation {
        window,
        coverage: Some(coverage),
        stuck: Stuck::NoProgress {
            cpu: step.usage.cpu,
            processes: step.usage.processes,
            causes,
            tool: busiest.map(|tool| tool.name.clone()),
        },
        confidence: Confidence {
            level: Level::High,
            reason: "the probe observed its processes, and none was active".into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: crate::rules::step::stalled::advice(causes),
            command: Some(terminate(job, "no progress")),
        },
    };
    Some(found_job(facts, job, Some(step.origin), seen))
}
