//! A job that is RUNNABLE at the head of its queue for a long time without a reason from Batch.
//! Often a running machine cannot join the cluster. The head of a queue whose environments are at
//! their maximum waits for running jobs; the rule about long queue times evaluates it.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::job::{Job, JobStatus};
use ebb_model::inventory::batch::queue_time::WaitCause;
use ebb_model::inventory::batch::{BatchFleet, FrontJob, JobQueue};
use ebb_model::inventory::instance::Instance;
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::batch::context::{StuckObservation, describe, lacks, make_job_finding, since};
use crate::rules::batch::never_joined;
use crate::rules::batch::never_joined::ENVIRONMENT;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

pub(crate) fn evaluate(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    let batch = &facts.inventory.batch;
    let queue = batch.queue_of(job);
    let head = queue.and_then(|queue| queue.front.as_ref()?.first());
    let mine = head.filter(|head: &&FrontJob| head.job == job.id);
    let waited = mine.and_then(|head| since(facts, head.since?));
    let patience = Duration::from_secs(facts.policy.batch.at_head_seconds);
    let stands = waited.map_or_else(|| "unknown".to_owned(), |t| HumanDuration(t).to_string());
    let goes_on = q.holds(
        "Is the job at the head of its queue?",
        (if mine.is_some() { "yes" } else { "no" }, ""),
        head.map(|_| mine.is_some()),
    ) && q.holds(
        "For how long?",
        (stands, format_args!("at least {}", HumanDuration(patience))),
        waited.map(|waited| waited >= patience),
    );
    let from = mine.filter(|_| goes_on)?.since?;
    let cause = batch.queue_time(job).cause;
    let strangers = queue.map_or(0, |queue| strangers(facts, queue));
    let ill = queue.filter(|queue| queue.status.as_deref().is_some_and(|s| s != "VALID"));
    let well = queue.filter(|_| strangers == 0 && ill.is_none());
    let is_in_use = well.is_some_and(|queue| is_in_use(batch, queue, cause.as_ref()));
    if !q.holds(
        "Do jobs use all vCPUs that the environments of its queue may have?",
        (if is_in_use { "yes" } else { "no" }, ""),
        !is_in_use,
    ) {
        return None;
    }
    let mut lacks = lacks(cause.as_ref());
    if strangers > 0 {
        lacks =
            format!("{lacks}; instances that started but never joined their cluster: {strangers}");
    }
    if let Some(reason) = ill.and_then(|queue| queue.status_reason.as_ref()) {
        lacks = format!("{lacks}; status reason of the queue: {reason}");
    }
    let observation = StuckObservation {
        window: Window {
            from,
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::AtHead { lacks },
        confidence: Confidence {
            level: Level::Medium,
            reason: "AWS Batch reports the queue position and its time, but no reason".into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: "Check the maximum vCPUs of the compute environment, and the AMI, instance \
                     role and network of its instances."
                .into(),
            command: Some(describe(job)),
        },
    };
    Some(make_job_finding(facts, job, None, observation))
}

/// Number of machines of the environments of a queue that never joined their cluster.
fn strangers(facts: &Facts<'_>, queue: &JobQueue) -> usize {
    let is_of_queue = |machine: &&Instance| {
        let of = machine.tags.get(ENVIRONMENT);
        let mut its = facts.inventory.batch.environments_of(queue);
        its.any(|one| {
            Some(&one.name) == of
                && one.region == machine.region
                && AccountId::may_be_one(one.account.as_ref(), machine.account.as_ref())
        })
    };
    never_joined::nodes(facts).filter(is_of_queue).count()
}

/// Whether the environments of a queue are at their maximum, and a job runs in one of them. Queues
/// may share an environment.
fn is_in_use(batch: &BatchFleet, queue: &JobQueue, cause: Option<&WaitCause>) -> bool {
    // Batch may report a reason that does not name the cause.
    let may_wait = matches!(
        cause,
        Some(WaitCause::AtMaximum | WaitCause::Blocked { .. })
    );
    let jobs = batch.jobs.values();
    let running = jobs.filter(|job| job.status == JobStatus::Running);
    let mut queues = running.filter_map(|job| batch.queue_of(job));
    may_wait
        && batch.is_at_maximum(queue)
        && queues.any(|other| {
            let mut its = batch.environments_of(other);
            its.any(|one| batch.environments_of(queue).any(|own| own == one))
        })
}
