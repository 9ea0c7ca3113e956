//! A RUNNABLE job that cannot start according to Batch.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::job::Job;
use ebb_telemetry::time::Window;

use crate::facts::Facts;
use crate::rules::batch::context::{StuckObservation, describe, make_job_finding};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

/// Prefixes of the status reasons of jobs that cannot start.
///
/// Source: AWS Batch "Job states", reasons of jobs that block a queue.
const BLOCKED: [&str; 2] = ["MISCONFIGURATION:", "CAPACITY:"];

/// The advice that removes the cause.
///
/// Source: AWS Batch "Job states", reasons of jobs that block a queue.
fn remedy(reason: &str) -> &'static str {
    let is = |prefix: &str| reason.starts_with(prefix);
    if is("CAPACITY:") {
        "Allow more instance types or Availability Zones, or add a second compute environment to \
         the job queue."
    } else if is("MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS") {
        "Add the missing permissions to the service role of the compute environment. AWS Batch \
         cannot start instances without them."
    } else if is("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE") {
        "Increase the maximum vCPUs of the compute environment, or request less for the job."
    } else if is("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT") {
        "Request less for the job, or allow larger instance types in the compute environment. No \
         allowed type has as much."
    } else {
        "Change the configuration that the status reason names. The job cannot start with it."
    }
}

pub(crate) fn evaluate(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    let reason = job.status_reason.as_deref();
    let blocked = reason.filter(|r| BLOCKED.iter().any(|prefix| r.starts_with(prefix)));
    q.holds(
        "Does AWS Batch report that the job cannot start?",
        (reason.unwrap_or("no reason given"), BLOCKED.join("… or ")),
        blocked.is_some(),
    );
    let reason = blocked?;
    let advice = remedy(reason);
    // The job was not RUNNABLE while it waited for other jobs.
    let runnable = facts.inventory.batch.queue_time(job).runnable_at;
    let observation = StuckObservation {
        window: Window {
            from: runnable.or(job.created_at).unwrap_or(facts.now),
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::Blocked {
            reason: reason.to_owned(),
        },
        confidence: Confidence {
            level: Level::High,
            reason: "AWS Batch reports this status".into(),
        },
        remedy: Remedy {
            action: Action::Reconfigure,
            advice: advice.into(),
            command: Some(describe(job)),
        },
    };
    Some(make_job_finding(facts, job, None, observation))
}
