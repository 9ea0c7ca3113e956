//! The questions of the Batch rule about one job, in its order.

use super::{BLOCKED, silent_for, step_of};
use crate::finding::FindingKind;
use crate::fleet::{Job, JobStatus};
use crate::judge::Facts;
use crate::rules::{Check, Questions, Speaks};
use crate::units::{Share, Spoken};

/// Asks them of one job.
pub(crate) fn explain(facts: &Facts<'_>, job: &Job) -> Vec<Check> {
    let mut questions = Questions::of(FindingKind::StuckBatchJob);
    let status = format!("{:?}", job.status).to_uppercase();
    let judged = matches!(job.status, JobStatus::Runnable | JobStatus::Running);
    questions.ask(
        "how does it stand?",
        (status, "RUNNABLE or RUNNING"),
        Speaks::for_waste_if(judged),
    );
    match job.status {
        JobStatus::Runnable => {
            let reason = job.status_reason.as_deref();
            let blocked = reason.is_some_and(|r| BLOCKED.iter().any(|b| r.starts_with(b)));
            questions.ask(
                "does Batch say that it cannot start?",
                (reason.unwrap_or("no reason given"), BLOCKED.join("… or ")),
                Speaks::for_waste_if(blocked),
            );
        }
        JobStatus::Running => running(facts, job, &mut questions),
        _ => {}
    }
    questions.asked
}

fn running(facts: &Facts<'_>, job: &Job, questions: &mut Questions) {
    let node = facts.inventory.batch.node_of(job);
    let known = |holds: bool| {
        if holds {
            Speaks::ForWaste
        } else {
            Speaks::Unknown
        }
    };
    let place = node.map_or_else(|| "not known".to_owned(), ToString::to_string);
    questions.ask(
        "on which machine does it run?",
        (place, ""),
        known(node.is_some()),
    );
    let state = node.and_then(|node| facts.state.nodes.get(node));
    let age = state.and_then(|state| silent_for(facts, state));
    let patience = facts.policy.batch.no_progress();
    let heard = age.map_or_else(|| "never".to_owned(), |age| format!("{} ago", Spoken(age)));
    questions.ask(
        "is the probe there heard of?",
        (heard, format!("at most {} ago", Spoken(patience))),
        known(age.is_some_and(|age| age <= patience)),
    );
    let step = state
        .zip(job.task_id())
        .and_then(|(state, task)| step_of(state, task));
    questions.ask(
        "does the probe see its task?",
        (if step.is_some() { "yes" } else { "no" }, ""),
        known(step.is_some()),
    );
    let (Some(step), Some(state)) = (step, state) else {
        return;
    };
    let quiet = step.observed_at.duration_since(step.last_progress_at);
    let quiet: std::time::Duration = quiet.try_into().unwrap_or_default();
    questions.ask(
        "for how long did it use no CPU, move no byte and start nothing?",
        (Spoken(quiet), format!("at least {}", Spoken(patience))),
        Speaks::for_waste_if(quiet >= patience),
    );
    let tick = facts.policy.activity.tick();
    let seen = state
        .seen
        .coverage(step.last_progress_at, step.observed_at, tick);
    let seen = seen.unwrap_or(Share::NONE);
    let bound = facts.policy.idle.min_coverage();
    questions.ask(
        "how much of that time was seen?",
        (seen, format!("at least {bound}")),
        known(seen >= bound),
    );
}
