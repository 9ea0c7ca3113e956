//! Queues and environments with the status INVALID, in which no job starts.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::inventory::batch::{ComputeEnvironment, JobQueue};
use ebb_model::inventory::instance::Controller;
use ebb_telemetry::time::Window;

use crate::facts::Facts;
use crate::rules::batch::context::{KIND, StuckObservation, make_finding};
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;

const INVALID: &str = "INVALID";

/// Evaluates every environment and queue.
pub(crate) fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    all(facts)
        .filter_map(|one| evaluate_resource(facts, one, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about the queues or environments with an id.
pub(crate) fn explain(facts: &Facts<'_>, id: &str) -> Vec<Check> {
    all(facts)
        .filter(|one| one.resource.id == id)
        .flat_map(|one| RuleTrace::written(KIND, |q| evaluate_resource(facts, one, q)))
        .collect()
}

/// A queue or environment as Batch describes it.
struct BatchResource<'a> {
    resource: Resource,
    status: Option<&'a str>,
    reason: Option<&'a str>,
    command: String,
}

fn all<'a>(facts: &Facts<'a>) -> impl Iterator<Item = BatchResource<'a>> {
    let batch = &facts.inventory.batch;
    let environments = batch.environments.iter().map(environment);
    environments.chain(batch.queues.iter().map(queue))
}

fn environment(environment: &ComputeEnvironment) -> BatchResource<'_> {
    let (name, region) = (&environment.name, &environment.region);
    BatchResource {
        resource: Resource {
            account: environment.account.clone(),
            controller: Some(Controller::BatchEnvironment(name.clone())),
            ..Resource::named(format!("environment/{name}"), name, region)
        },
        status: environment.status.as_deref(),
        reason: environment.status_reason.as_deref(),
        command: format!(
            "aws batch describe-compute-environments --region {region} {}",
            shell::option("--compute-environments", name)
        ),
    }
}

fn queue(queue: &JobQueue) -> BatchResource<'_> {
    let (name, region) = (&queue.name, &queue.region);
    BatchResource {
        resource: Resource {
            account: queue.account.clone(),
            ..Resource::named(format!("queue/{name}"), name, region)
        },
        status: queue.status.as_deref(),
        reason: queue.status_reason.as_deref(),
        command: format!(
            "aws batch describe-job-queues --region {region} {}",
            shell::option("--job-queues", name)
        ),
    }
}

fn evaluate_resource(
    facts: &Facts<'_>,
    batch_resource: BatchResource<'_>,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    if !q.holds(
        "Which status does AWS Batch report?",
        (batch_resource.status.unwrap_or("nothing"), INVALID),
        batch_resource.status.map(|status| status == INVALID),
    ) {
        return None;
    }
    let observation = StuckObservation {
        // Batch does not report the start of the status.
        window: Window {
            from: facts.now,
            to: facts.now,
        },
        coverage: None,
        stuck: Stuck::Invalid {
            reason: batch_resource
                .reason
                .unwrap_or("AWS Batch gives no reason")
                .to_owned(),
        },
        confidence: Confidence {
            level: Level::High,
            reason: "AWS Batch reports this status".into(),
        },
        remedy: Remedy {
            action: Action::Reconfigure,
            advice: "Fix the service role, instance profile or launch template that the reason \
                     names. Until then, AWS Batch starts no job there and terminates no instance."
                .into(),
            command: Some(batch_resource.command),
        },
    };
    let resource = batch_resource.resource;
    let id = Finding::id_in(
        KIND,
        resource.account.as_ref(),
        &resource.region,
        &resource.id,
    );
    let mut finding = make_finding(resource, None, observation);
    if let Evidence::StuckJob(evidence) = &mut finding.evidence {
        evidence.stuck_for = None;
    }
    Some(Verdict::Waste(Box::new(Finding { id, ..finding })))
}
