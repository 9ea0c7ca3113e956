//! Stuck Batch jobs: one file for each way to be stuck, with its own evidence and default
//! threshold. A job is evaluated by the rules of its status in order, and the first result counts.

pub mod at_head;
pub mod blocked;
pub mod context;
pub mod held_node;
pub mod invalid_queue;
pub mod long_queued;
pub mod lost_agent;
pub mod never_joined;
pub mod no_progress;
pub mod on_fargate;
pub mod orphan_container;
pub mod process_gone;
pub mod starting;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use ebb_model::inventory::batch::job::{Job, JobStatus};
use ebb_model::inventory::instance::Instance;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::batch::context::{KIND, since};
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

type Row = fn(&Facts<'_>, &Job, &mut RuleTrace) -> Option<Verdict>;

/// Evaluates every job, container, worker, queue and environment.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let batch = &facts.inventory.batch;
    let mut verdicts: Vec<Verdict> = batch
        .jobs
        .values()
        .filter_map(|job| evaluate_job(facts, job, &mut RuleTrace::unwritten(KIND)))
        .collect();
    held_node::charge(facts, &mut verdicts);
    verdicts.extend(lost_agent::evaluate(facts));
    verdicts.extend(never_joined::evaluate(facts));
    verdicts.extend(orphan_container::evaluate(facts));
    verdicts.extend(invalid_queue::evaluate(facts));
    verdicts.extend(on_fargate::tasks(facts));
    verdicts
}

/// Questions about one job.
pub(crate) fn explain(facts: &Facts<'_>, job: &Job) -> Vec<Check> {
    RuleTrace::written(KIND, |q| evaluate_job(facts, job, q))
}

/// Questions about ids that are neither jobs nor machines: queues, environments, containers and
/// task families on Fargate.
pub(crate) fn explain_named(facts: &Facts<'_>, id: &str) -> Vec<Check> {
    let mut checks = invalid_queue::explain(facts, id);
    checks.extend(orphan_container::explain(facts, id));
    checks.extend(on_fargate::explain(facts, id));
    checks
}

/// Questions about one worker of an environment; `strangers` never joined their cluster.
pub(crate) fn explain_worker(
    facts: &Facts<'_>,
    instance: &Instance,
    strangers: &BTreeSet<&NodeId>,
) -> Vec<Check> {
    let mut q = RuleTrace::from_rule(KIND);
    let worker = facts.inventory.batch.container_instances.on(&instance.id);
    let is_stranger = strangers.contains(&instance.id);
    if worker.is_none() && !is_stranger {
        return Vec::new();
    }
    let lost = facts.memory.disconnected_since.get(&instance.id);
    let since = lost.and_then(|from| since(facts, *from));
    let patience = facts.policy.batch.agent_disconnected();
    if is_stranger {
        q.holds("Has the instance joined its ECS cluster?", ("no", ""), true);
    } else if q.holds(
        "Is its ECS agent disconnected?",
        (if lost.is_some() { "yes" } else { "no" }, ""),
        lost.is_some(),
    ) {
        let shown = since.map_or_else(|| "unknown".to_owned(), |t| HumanDuration(t).to_string());
        let is_long = since.and_then(|since| (since >= patience).then_some(true));
        q.holds(
            "For how long?",
            (shown, format_args!("at least {}", HumanDuration(patience))),
            is_long,
        );
    }
    if let Some((_, worker)) = worker {
        let mut of_runtime = q.new_list();
        lost_agent::impaired(facts, worker, &mut of_runtime);
        q.also(of_runtime);
    }
    q.checks
}

pub(crate) fn evaluate_job(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    let rows: &[Row] = match job.status {
        JobStatus::Runnable => &[blocked::evaluate, at_head::evaluate],
        JobStatus::Starting => &[starting::evaluate],
        JobStatus::Running if job.array_size.is_some() => &[],
        JobStatus::Running if facts.inventory.batch.is_on_fargate(job) => &[on_fargate::evaluate],
        JobStatus::Running => &[process_gone::evaluate, no_progress::evaluate],
        _ => &[],
    };
    let status = format_args!("{:?}", job.status).to_string().to_uppercase();
    q.holds(
        "What is the job status?",
        (status, "RUNNABLE, STARTING or RUNNING"),
        !rows.is_empty(),
    );
    let mut rows = rows.iter();
    rows.find_map(|row| {
        // Each rule asks its own questions; a decision of the previous rule does not end them.
        let mut own = q.new_list();
        let verdict = row(facts, job, &mut own);
        q.also(own);
        verdict
    })
}
