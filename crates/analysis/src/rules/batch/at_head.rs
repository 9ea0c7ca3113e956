//! A job that is RUNNABLE at the head of its queue for a long time without a reason from Batch.
//! Often a running machine cannot join the cluster, or the environment is at its limit.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::FrontJob;
use ebb_model::inventory::batch::job::Job;
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
    let is_of_queue = |machine: &&Instance| {
        let of = machine.tags.get(ENVIRONMENT);
        let mut its = queue
            .into_iter()
            .flat_map(|queue| batch.environments_of(queue));
        its.any(|one| {
            Some(&one.name) == of
                && one.region == machine.region
                && AccountId::may_be_one(one.account.as_ref(), machine.account.as_ref())
        })
    };
    let strangers = never_joined::nodes(facts).filter(is_of_queue).count();
    let mut lacks = lacks(cause.as_ref());
    if strangers > 0 {
        lacks =
            format!("{lacks}; instances that started but never joined their cluster: {strangers}");
    }
    let ill = queue.filter(|queue| queue.status.as_deref().is_some_and(|s| s != "VALID"));
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
