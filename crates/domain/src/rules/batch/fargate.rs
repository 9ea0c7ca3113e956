//! What runs on Fargate, where no probe can run: it is listed as not judged, so that
//! nobody takes silence for a good word.

use super::{KIND, Questions, Verdict};
use crate::finding::FindingKind;
use crate::fleet::Job;
use crate::judge::Facts;

const REASON: &str = "it runs on Fargate, where no probe can run: what it does is not known";

/// A job that is RUNNING there.
pub(super) fn judge(_: &Facts<'_>, job: &Job, q: &mut Questions) -> Option<Verdict> {
    q.holds("on which machine does it run?", ("Fargate", ""), None);
    let (id, name) = (job.id.as_str(), Some(job.name.as_str()));
    Some(Verdict::undetermined(KIND, id, name, REASON))
}

/// Tasks of ECS that run there and are no Batch job.
pub(super) fn tasks(facts: &Facts<'_>) -> Vec<Verdict> {
    let batch = &facts.inventory.batch;
    let of_jobs: std::collections::BTreeSet<&str> = batch
        .jobs
        .values()
        .filter_map(|job| job.task_arn.as_deref())
        .collect();
    let running = batch.tasks.iter().filter(|(arn, task)| {
        task.launch_type.as_deref() == Some("FARGATE")
            && task.last_status.as_deref() == Some("RUNNING")
            && !of_jobs.contains(arn.as_str())
    });
    running
        .map(|(arn, task)| {
            let group = task.group.as_deref();
            Verdict::undetermined(FindingKind::IdleNode, arn, group, REASON)
        })
        .collect()
}
