//! A RUNNING job whose task makes no progress; AWS reports nothing about this state.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::evidence::causes::{Causes, Waiter};
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::job::Job;
use ebb_node_state::node_state::NodeState;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::step::{PlacedStep, StepEnd};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{HumanDuration, Share};

use crate::facts::Facts;
use crate::rules::batch::context::{
    KIND, StuckObservation, make_job_finding, silent_for, step_of, terminate,
};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

pub(crate) fn evaluate(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    let stuck = match stuck_task(facts, job, q) {
        Ok(stuck) => stuck?,
        Err(reason) => {
            let (id, name) = (job.id.as_str(), Some(job.name.as_str()));
            return Some(Verdict::undetermined(KIND, id, name, reason));
        }
    };
    let usage = &stuck.step.usage;
    let causes = Causes::since_progress(&usage.detail.states, stuck.window.length());
    let observation = StuckObservation {
        window: stuck.window,
        coverage: Some(stuck.coverage),
        stuck: Stuck::NoProgress {
            cpu: usage.cpu,
            processes: usage.processes,
            causes,
            tool: usage.busiest_tool().map(|tool| tool.name.clone()),
            waiter: Waiter::from_detail(&usage.detail, causes),
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
    Some(make_job_finding(
        facts,
        job,
        Some(stuck.step.origin),
        observation,
    ))
}

/// A task without progress, as the probe observed it.
struct StuckTask {
    step: PlacedStep,
    window: Window,
    coverage: Share,
}

/// The task of a job, if it makes no progress. The error is the reason why this is unknown.
fn stuck_task(
    facts: &Facts<'_>,
    job: &Job,
    q: &mut RuleTrace,
) -> Result<Option<StuckTask>, String> {
    let node = facts.inventory.batch.node_of(job);
    q.holds(
        "On which machine does the job run?",
        (
            node.map_or_else(|| "unknown".to_owned(), ToString::to_string),
            "",
        ),
        node.map(|_| true),
    );
    let node = node.ok_or("the machine of the job is unknown")?;
    let state = probed_state(facts, node, q)?;
    let step = job.task_id().and_then(|task| step_of(facts, node, task));
    let step = step.filter(|step| step.usage.end == StepEnd::Running);
    q.holds(
        "Does the probe observe the ECS task?",
        (if step.is_some() { "yes" } else { "no" }, ""),
        step.as_ref().map(|_| true),
    );
    let step = step
        .ok_or_else(|| format!("the probe on {node} does not observe the ECS task of the job"))?;
    let window = Window {
        from: step.last_progress_at,
        to: step.observed_at,
    };
    let patience = facts.policy.batch.no_progress();
    if !q.holds(
        "How long was it without CPU usage, I/O and new processes?",
        (
            HumanDuration(window.length()),
            format_args!("at least {}", HumanDuration(patience)),
        ),
        window.length() >= patience,
    ) {
        return Ok(None);
    }
    let coverage = enough_coverage(facts, state, window, q)?;
    Ok(Some(StuckTask {
        step,
        window,
        coverage,
    }))
}

/// The state of a node with a recent heartbeat. The error is the reason why there is none.
fn probed_state<'a>(
    facts: &Facts<'a>,
    node: &NodeId,
    q: &mut RuleTrace,
) -> Result<&'a NodeState, String> {
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
        age.is_some_and(|age| age <= patience).then_some(true),
    );
    match state.zip(age) {
        None => Err(format!("no probe runs on its machine {node}")),
        Some((state, _)) if is_fresh => Ok(state),
        Some((_, age)) => Err(format!(
            "the probe on {node} sent its last heartbeat {} ago",
            HumanDuration(age)
        )),
    }
}

/// The share of the window that the probe observed. The error is a text about too small a share.
fn enough_coverage(
    facts: &Facts<'_>,
    state: &NodeState,
    window: Window,
    q: &mut RuleTrace,
) -> Result<Share, String> {
    let tick = facts.policy.activity.tick();
    let coverage = state.seen.coverage(window.from, window.to, tick);
    let coverage = coverage.unwrap_or(Share::NONE);
    let bound = facts.policy.idle.min_coverage();
    let shown = coverage.compared_with(bound);
    let is_enough = q.holds(
        "Which share of that time did the probe observe?",
        (&shown, format_args!("at least {bound}")),
        (coverage >= bound).then_some(true),
    );
    match is_enough {
        true => Ok(coverage),
        false => Err(format!(
            "the probe observed only {shown} of the last {}",
            HumanDuration(window.length())
        )),
    }
}
