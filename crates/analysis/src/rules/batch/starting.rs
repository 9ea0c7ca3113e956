//! A job that is STARTING for a long time: its image pull never ends, or its container is never
//! created.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::batch::job::Job;
use ebb_model::inventory::batch::queue_time::WaitCause;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, Share, HumanDuration};

use crate::facts::Facts;
use crate::rules::batch::context::{
    StuckObservation, describe, found_job, lacks, silent_for, since, step_of,
};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

pub(crate) fn judge(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    let time = facts.inventory.batch.queue_time(job);
    let waited = time.starting_at.and_then(|at| since(facts, at));
    let patience = Duration::from_secs(facts.policy.batch.starting_seconds);
    let shown = waited.map_or_else(|| "not known".to_owned(), |t| HumanDuration(t).to_string());
    let goes_on = q.holds(
        "for how long has its container been in the making?",
        (shown, HumanDuration(patience)),
        waited.map(|waited| waited >= patience),
    );
    let from = time.starting_at.filter(|_| goes_on)?;
    let pulls = time.cause == Some(WaitCause::ImagePull);
    let disk = disk(facts, job);
    let is_saturated = disk.as_ref().is_some_and(|disk| disk.is_saturated(facts));
    let advice = match pulls {
        _ if is_saturated => {
            "Its machine's disk is what it waits for: give the volume of its launch template more \
             throughput, put images on the machine's own disk, or make the image smaller."
        }
        true => {
            "Look at the registry's limits, the image's size and the disk of its machine; a pull \
             through cache or an image on the machine's own disk helps."
        }
        false => "Look at the ECS agent's log, the volumes and the log driver of its container.",
    };
    let seen = StuckObservation {
        window: Window {
            from,
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::Starting {
            at: match disk {
                Some(disk) => format!("{}; {}", lacks(time.cause.as_ref()), disk.told(facts)),
                None => lacks(time.cause.as_ref()),
            },
        },
        confidence: Confidence {
            level: Level::High,
            reason: "ECS tells when its task was made and what it does".into(),
        },
        remedy: Remedy {
            action: Action::Investigate,
            advice: advice.into(),
            command: Some(describe(job)),
        },
    };
    Some(found_job(facts, job, None, seen))
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

    fn told(&self, facts: &Facts<'_>) -> String {
        let moved = self.moved;
        let told = format!(
            "no process of it has begun, and its machine's background moves {moved}/s on disk"
        );
        match self.waited {
            Some(waited) if self.is_saturated(facts) => {
                format!("{told}, which is saturated: tasks waited for it {waited} of the time")
            }
            Some(waited) => format!("{told}; tasks waited for it {waited} of the time"),
            None => told,
        }
    }
}

fn disk(facts: &Facts<'_>, job: &Job) -> Option<Disk> {
    let node = facts.inventory.batch.node_of(job)?;
    let state = facts.state.nodes.get(node)?;
    let age = silent_for(facts, state)?;
    let latest = state.latest.as_ref()?;
    let moved = latest.background.disk?;
    let has_begun = step_of(facts, node, job.task_id()?).is_some();
    (age <= facts.policy.idle.after() && !has_begun).then(|| Disk {
        moved: Bytes(moved.0 / latest.length.as_secs().max(1)),
        waited: latest.disk_waited,
    })
}
