//! Queues and environments that Batch calls INVALID: nothing starts in them.

use super::{Seen, Verdict, found};
use crate::finding::{Action, Confidence, Level, Remedy, Resource, Stuck, Window};
use crate::fleet::Controller;
use crate::identity::Region;
use crate::judge::Facts;

const INVALID: &str = "INVALID";

/// Judges every environment and queue.
pub(super) fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let batch = &facts.inventory.batch;
    let environments = batch.environments.iter().map(|environment| {
        let reason = environment.status_reason.as_deref();
        let command = format!(
            "aws batch describe-compute-environments --region {} --compute-environments '{}'",
            environment.region, environment.name
        );
        let controller = Some(Controller::BatchEnvironment(environment.name.clone()));
        let status = environment.status.as_deref();
        (
            &environment.name,
            &environment.region,
            status,
            reason,
            command,
            controller,
        )
    });
    let queues = batch.queues.iter().map(|queue| {
        let command = format!(
            "aws batch describe-job-queues --region {} --job-queues '{}'",
            queue.region, queue.name
        );
        (
            &queue.name,
            &queue.region,
            queue.status.as_deref(),
            queue.status_reason.as_deref(),
            command,
            None,
        )
    });
    let invalid = environments.chain(queues);
    let invalid = invalid.filter(|(_, _, status, ..)| *status == Some(INVALID));
    invalid
        .map(|(name, region, _, reason, command, controller)| {
            let resource = resource(name, region, controller);
            one(facts, resource, reason, command)
        })
        .collect()
}

fn resource(name: &str, region: &Region, controller: Option<Controller>) -> Resource {
    let word = if controller.is_some() {
        "environment"
    } else {
        "queue"
    };
    Resource {
        controller,
        ..Resource::named(format!("{word}/{name}"), name, region)
    }
}

fn one(facts: &Facts<'_>, resource: Resource, reason: Option<&str>, command: String) -> Verdict {
    let seen = Seen {
        // Batch does not say since when.
        window: Window {
            from: facts.now,
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::Invalid {
            reason: reason.unwrap_or("Batch gives no reason").to_owned(),
        },
        confidence: Confidence {
            level: Level::High,
            reason: "Batch itself says so".into(),
        },
        remedy: Remedy {
            action: Action::Reconfigure,
            advice: "Mend its service role, instance profile or launch template, as the reason \
                     says; until then no job of it starts and no machine of it is ended."
                .into(),
            command: Some(command),
        },
    };
    let mut finding = found(resource, None, seen);
    if let crate::finding::Evidence::StuckJob(evidence) = &mut finding.evidence {
        evidence.stuck_for = None;
    }
    Verdict::Waste(Box::new(finding))
}
