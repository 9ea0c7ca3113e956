//! Stuck in Batch: a job that Batch says can never start, a job that is RUNNING
//! and gets nowhere, a worker whose agent has lost touch.

mod explain;
#[cfg(test)]
mod tests;

pub(crate) use explain::explain;

use jiff::Timestamp;

use super::Verdict;
use crate::finding::{
    Action, Confidence, Evidence, Finding, FindingKind, Level, Remedy, Resource, Stuck, StuckJob,
    Window,
};
use crate::fleet::{ContainerInstance, Instance, Job, JobStatus};
use crate::heartbeat::Origin;
use crate::judge::{Facts, labelled};
use crate::state::NodeState;
use crate::step::{PlacedStep, StepKind};
use crate::units::{Share, Spoken};

const KIND: FindingKind = FindingKind::StuckBatchJob;

/// Judges every job and every container instance.
pub fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let batch = &facts.inventory.batch;
    let jobs = batch.jobs.values().filter_map(|job| match job.status {
        JobStatus::Runnable => blocked(facts, job),
        JobStatus::Running => no_progress(facts, job),
        _ => None,
    });
    let workers = batch
        .container_instances
        .values()
        .filter_map(|i| agent_lost(facts, i));
    jobs.chain(workers).collect()
}

/// Batch's own words for a job that cannot start as things are.
///
/// Source: AWS Batch "Job states", reasons of jobs that block a queue.
const BLOCKED: [&str; 2] = ["MISCONFIGURATION:", "CAPACITY:"];

fn blocked(facts: &Facts<'_>, job: &Job) -> Option<Verdict> {
    let reason = job.status_reason.as_deref()?;
    if !BLOCKED.iter().any(|prefix| reason.starts_with(prefix)) {
        return None;
    }
    let window = Window {
        from: job.created_at.unwrap_or(facts.now),
        to: facts.now,
    };
    let stuck = Stuck::Blocked {
        reason: reason.to_owned(),
    };
    let remedy = match reason.starts_with("CAPACITY:") {
        true => Remedy {
            action: Action::Reconfigure,
            advice: "Allow more instance types, zones or a second environment in its queue.".into(),
            command: None,
        },
        false => Remedy {
            action: Action::Reconfigure,
            advice: "Change what the job asks for or what its environment offers; it will never \
                     start as it is."
                .into(),
            command: Some(format!(
                "aws batch describe-jobs --region {} --jobs {}",
                job.region,
                job.id.as_str()
            )),
        },
    };
    let sure = Confidence {
        level: Level::High,
        reason: "Batch itself says so".into(),
    };
    // No machine is held, so there is no price to put on it.
    let finding = found_job(
        facts,
        job,
        Seen {
            window,
            coverage: None,
            stuck,
            origin: None,
        },
    );
    Some(Verdict::Waste(Box::new(Finding {
        remedy,
        confidence: sure,
        cost: None,
        ..finding
    })))
}

fn no_progress(facts: &Facts<'_>, job: &Job) -> Option<Verdict> {
    let undetermined = |reason: String| {
        Some(Verdict::undetermined(
            KIND,
            job.id.as_str(),
            Some(&job.name),
            reason,
        ))
    };
    let Some(node) = facts.inventory.batch.node_of(job) else {
        return undetermined("the machine it runs on is not known".into());
    };
    let Some(state) = facts
        .state
        .nodes
        .get(node)
        .filter(|state| state.latest.is_some())
    else {
        return undetermined(format!("no probe on its machine {node}"));
    };
    let patience = facts.policy.batch.no_progress();
    if let Some(age) = silent_for(facts, state).filter(|age| *age > patience) {
        return undetermined(format!(
            "the probe on {node} fell silent {} ago",
            Spoken(age)
        ));
    }
    let Some(step) = job.task_id().and_then(|task| step_of(state, task)) else {
        return undetermined(format!("its task was not seen among the steps of {node}"));
    };
    let window = Window {
        from: step.last_progress_at,
        to: step.observed_at,
    };
    if window.length() < patience {
        return None;
    }
    let tick = facts.policy.activity.tick();
    let coverage = state
        .seen
        .coverage(window.from, window.to, tick)
        .unwrap_or(Share::NONE);
    if coverage < facts.policy.idle.min_coverage() {
        return undetermined(format!(
            "undetermined: only {coverage} of the last {} was seen",
            Spoken(window.length())
        ));
    }
    let stuck = Stuck::NoProgress {
        cpu: step.usage.cpu,
        processes: step.usage.processes,
    };
    let seen = Seen {
        window,
        coverage: Some(coverage),
        stuck,
        origin: Some(step.origin),
    };
    Some(Verdict::Waste(Box::new(found_job(facts, job, seen))))
}

fn step_of<'a>(state: &'a NodeState, task: &str) -> Option<&'a PlacedStep> {
    state
        .running()
        .find(|s| s.usage.id.kind == StepKind::EcsTask && s.usage.id.key == task)
}

fn silent_for(facts: &Facts<'_>, state: &NodeState) -> Option<std::time::Duration> {
    facts
        .now
        .duration_since(state.latest.as_ref()?.end)
        .try_into()
        .ok()
}

fn agent_lost(facts: &Facts<'_>, worker: &ContainerInstance) -> Option<Verdict> {
    let since: Timestamp = *facts.disconnected_since.get(&worker.node)?;
    let instance = facts.instance(&worker.node)?;
    let undetermined = |reason: String| {
        Some(Verdict::undetermined(
            KIND,
            worker.node.as_str(),
            instance.name(),
            reason,
        ))
    };
    let window = Window {
        from: since,
        to: facts.now,
    };
    let patience = facts.policy.batch.agent_disconnected();
    if window.length() < patience {
        return undetermined(format!(
            "its ECS agent was first seen disconnected {} ago; a verdict takes {}",
            Spoken(window.length()),
            Spoken(patience)
        ));
    }
    let fresh = facts
        .state
        .nodes
        .get(&worker.node)
        .and_then(|state| silent_for(facts, state))
        .is_some_and(|age| age <= facts.policy.idle.after());
    if !fresh {
        return undetermined(
            "its ECS agent is disconnected, and no probe tells whether it lives".into(),
        );
    }
    Some(Verdict::Waste(Box::new(found_worker(
        facts, worker, instance, window,
    ))))
}

/// What was seen of a stuck job.
struct Seen {
    window: Window,
    coverage: Option<Share>,
    stuck: Stuck,
    origin: Option<Origin>,
}

fn found_job(facts: &Facts<'_>, job: &Job, seen: Seen) -> Finding {
    let node = facts.inventory.batch.node_of(job);
    let instance = node.and_then(|node| facts.instance(node));
    let price = instance.and_then(|instance| {
        let whole = facts.price_of(instance)?;
        let spec = facts.catalogue.spec(&instance.instance_type)?;
        let part = crate::placement::share_of_price(spec, whole.per_hour, job.requested.into())?;
        Some(whole.scaled(part, whole.per_hour))
    });
    Finding {
        id: Finding::id_of(KIND, &job.region, job.id.as_str()),
        kind: KIND,
        window: seen.window,
        coverage: seen.coverage,
        evidence: Evidence::StuckJob(StuckJob {
            job: Some(job.name.clone()),
            status: Some(job.status),
            stuck_for: Some(seen.window.length()),
            stuck: seen.stuck,
        }),
        confidence: Confidence {
            level: Level::High,
            reason: "a probe watched its processes and none did anything".into(),
        },
        cost: price.map(|price| price.wasted_over(seen.window)),
        remedy: Remedy {
            action: Action::Investigate,
            advice: "Look at what it waits for; if nothing answers, end the job so that its \
                     machine is freed."
                .into(),
            command: Some(format!(
                "aws batch terminate-job --region {} --job-id {} --reason 'no progress'",
                job.region,
                job.id.as_str()
            )),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource {
            id: job.id.as_str().to_owned(),
            name: Some(job.name.clone()),
            region: job.region.clone(),
            node: node.map(ToString::to_string),
            owner: job.tags.get("Owner").cloned().or_else(|| owner(instance)),
            instance_type: instance.map(|instance| instance.instance_type.clone()),
            market: instance.map(|instance| instance.market),
            controller: instance.and_then(|instance| facts.controller(instance)),
            origin: seen.origin.unwrap_or_else(|| labelled(&job.tags)),
        },
    }
}

fn found_worker(
    facts: &Facts<'_>,
    worker: &ContainerInstance,
    instance: &Instance,
    window: Window,
) -> Finding {
    Finding {
        id: Finding::id_of(KIND, &instance.region, instance.id.as_str()),
        kind: KIND,
        window,
        coverage: None,
        evidence: Evidence::StuckJob(StuckJob {
            job: None,
            status: None,
            stuck_for: Some(window.length()),
            stuck: Stuck::AgentDisconnected,
        }),
        confidence: Confidence {
            level: Level::High,
            reason: "ECS says disconnected at every sweep, and the probe shows the host alive"
                .into(),
        },
        cost: facts
            .price_of(instance)
            .map(|price| price.wasted_over(window)),
        remedy: Remedy {
            action: Action::Investigate,
            advice: "Restart the ECS agent, or let the compute environment replace the instance; \
                     no job can be placed on it."
                .into(),
            command: Some(format!(
                "aws ecs list-container-instances --region {} --cluster {}",
                worker.region, worker.cluster_arn
            )),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::of_instance(
            instance,
            facts.controller(instance),
            labelled(&instance.tags),
        ),
    }
}

fn owner(instance: Option<&Instance>) -> Option<String> {
    instance.and_then(Instance::owner).map(str::to_owned)
}
