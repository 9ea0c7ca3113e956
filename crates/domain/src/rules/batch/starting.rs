//! STARTING for long: its image is pulled for ever, or its container is never made.

use std::time::Duration;

use super::{Questions, Seen, Verdict, describe, found_job, lacks, silent_for, since, step_of};
use crate::finding::{Action, Confidence, Level, Remedy, Stuck, Window};
use crate::fleet::{Job, WaitCause};
use crate::judge::Facts;
use crate::units::{Bytes, Spoken};

pub(super) fn judge(facts: &Facts<'_>, job: &Job, q: &mut Questions) -> Option<Verdict> {
    let time = facts.inventory.batch.queue_time(job);
    let waited = time.starting_at.and_then(|at| since(facts, at));
    let patience = Duration::from_secs(facts.policy.batch.starting_seconds);
    let shown = waited.map_or_else(|| "not known".to_owned(), |t| Spoken(t).to_string());
    let goes_on = q.holds(
        "for how long has its container been in the making?",
        (shown, Spoken(patience)),
        waited.map(|waited| waited >= patience),
    );
    let from = time.starting_at.filter(|_| goes_on)?;
    let pulls = time.cause == Some(WaitCause::ImagePull);
    let advice = match pulls {
        true => {
            "Look at the registry's limits, the image's size and the disk of its machine; a pull \
             through cache or an image on the machine's own disk helps."
        }
        false => "Look at the ECS agent's log, the volumes and the log driver of its container.",
    };
    let seen = Seen {
        window: Window {
            from,
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::Starting {
            at: match on_disk(facts, job) {
                Some(moved) => format!("{}; {moved}", lacks(time.cause.as_ref())),
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

/// What the probe of its machine adds: whether its container's processes have begun, and
/// what background, to which the container runtime belongs, moves to and from the disk.
fn on_disk(facts: &Facts<'_>, job: &Job) -> Option<String> {
    let node = facts.inventory.batch.node_of(job)?;
    let state = facts.state.nodes.get(node)?;
    let age = silent_for(facts, state)?;
    let latest = state.latest.as_ref()?;
    let moved = latest.background.disk?;
    let seconds = latest.length.as_secs().max(1);
    let has_begun = step_of(facts, node, job.task_id()?).is_some();
    (age <= facts.policy.idle.after() && !has_begun).then(|| {
        let rate = Bytes(moved.0 / seconds);
        format!("no process of it has begun, and its machine's background moves {rate}/s on disk")
    })
}
