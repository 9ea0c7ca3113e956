//! A job that is STARTING for a long time: its image pull never ends, or its container is never
//! created.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::job::Job;
use ebb_model::inventory::batch::queue_time::WaitCause;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, HumanDuration, Share};

use crate::facts::Facts;
use crate::rules::batch::context::{
    StuckObservation, describe, lacks, make_job_finding, silent_for, since, step_of,
};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

pub(crate) fn evaluate(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    let time = facts.inventory.batch.queue_time(job);
    let waited = time.starting_at.and_then(|at| since(facts, at));
    let patience = Duration::from_secs(facts.policy.batch.starting_seconds);
    let shown = waited.map_or_else(|| "unknown".to_owned(), |t| HumanDuration(t).to_string());
    let goes_on = q.holds(
        "How long has the creation of its container taken?",
        (shown, format_args!("at least {}", HumanDuration(patience))),
        waited.map(|waited| waited >= patience),
    );
    let from = time.starting_at.filter(|_| goes_on)?;
    let pulls = time.cause == Some(WaitCause::ImagePull);
    let disk = disk(facts, job);
    let is_saturated = disk.as_ref().is_some_and(|disk| disk.is_saturated(facts));
    let advice = match pulls {
        _ if is_saturated => {
            "The container waits for the disk of its machine. Increase the volume throughput in \
             the launch template, store images on instance storage, or reduce the image size."
        }
        true => {
            "Check the registry limits, the image size and the disk of its machine. Use a \
             pull-through cache or an AMI that contains the image."
        }
        false => "Check the ECS agent log, and the volumes and log driver of the container.",
    };
    let observation = StuckObservation {
        window: Window {
            from,
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::Starting {
            at: match disk {
                Some(disk) => format!("{}; {}", lacks(time.cause.as_ref()), disk.describe(facts)),
                None => lacks(time.cause.as_ref()),
            },
        },
        confidence: Confidence {
            level: Level::High,
            reason: "ECS reports the creation time and state of its task".into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: advice.into(),
            command: Some(describe(job)),
        },
    };
    Some(make_job_finding(facts, job, None, observation))
}

/// Disk activity from the probe, before the first process of the container starts.
struct Disk {
    /// Bytes per second that system processes read and write, including the container runtime.
    moved: Bytes,
    /// Share of the time in which a task waited for the disk; `None` if the kernel does not report
    /// it.
    waited: Option<Share>,
}

impl Disk {
    fn is_saturated(&self, facts: &Facts<'_>) -> bool {
        let least = Share::from_ppm(facts.policy.batch.saturated_disk_ppm);
        self.waited.is_some_and(|waited| waited >= least)
    }

    fn describe(&self, facts: &Facts<'_>) -> String {
        let moved = self.moved;
        let transfer = format!(
            "no process of the task has started, and system processes on its machine transfer \
             {moved}/s to and from disk"
        );
        match self.waited {
            Some(waited) if self.is_saturated(facts) => {
                format!(
                    "{transfer}; the disk is saturated: processes waited for it in {waited} of the time"
                )
            }
            Some(waited) => {
                format!("{transfer}; processes waited for the disk in {waited} of the time")
            }
            None => transfer,
        }
    }
}

fn disk(facts: &Facts<'_>, job: &Job) -> Option<Disk> {
    let node = facts.inventory.batch.node_of(job)?;
    let state = facts.state.nodes.get(node)?;
    let age = silent_for(facts, state)?;
    let latest = state.latest.as_ref()?;
    let detail = latest.detail();
    let moved = detail.background_disk?;
    let has_begun = step_of(facts, node, job.task_id()?).is_some();
    (age <= facts.policy.idle.after() && !has_begun).then(|| Disk {
        moved: Bytes(moved.0 / latest.length.as_secs().max(1)),
        waited: detail.disk_waited,
    })
}
