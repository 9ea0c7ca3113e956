//! A RUNNABLE job that cannot start according to Batch.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::job::Job;
use ebb_telemetry::time::Window;

use crate::facts::Facts;
use crate::rules::batch::context::{StuckObservation, describe, found_job};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

/// Prefixes of the status reasons of jobs that cannot start.
///
/// Source: AWS Batch "Job states", reasons of jobs that block a queue.
const BLOCKED: [&str; 2] = ["MISCONFIGURATION:", "CAPACITY:"];

pub(crate) fn judge(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    let reason = job.status_reason.as_deref();
    let blocked = reason.filter(|r| BLOCKED.iter().any(|prefix| r.starts_with(prefix)));
    q.holds(
        "Does AWS Batch report that the job cannot start?",
        (reason.unwrap_or("no reason given"), BLOCKED.join("… or ")),
        blocked.is_some(),
    );
    let reason = blocked?;
    let advice = match reason.starts_with("CAPACITY:") {
        true => {
            "Allow more instance types or Availability Zones, or add a second compute environment \
             to the job queue."
        }
        false => {
            "Change the request of the job or the compute environment. The job cannot start with \
             the present configuration."
        }
    };
    // The job was not RUNNABLE while it waited for other jobs.
    let runnable = facts.inventory.batch.queue_time(job).runnable_at;
    let seen = StuckObservation {
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
    Some(found_job(facts, job, None, seen))
}
