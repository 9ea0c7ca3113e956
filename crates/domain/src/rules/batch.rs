//! Stuck in Batch: one file a row of the table of ways to be stuck, each with its own
//! evidence and start value. A job is judged by the rows of its status in order, and
//! the first that speaks is heard.

mod at_head;
mod blocked;
pub(crate) mod fargate;
mod invalid;
mod lost;
mod never_joined;
mod no_progress;
mod orphan;
mod process_gone;
mod starting;
#[cfg(test)]
mod tests;

pub(super) use never_joined::nodes as never_joined;
pub(crate) use orphan::jobless;

use std::time::Duration;

use jiff::Timestamp;

use super::{Check, Questions, Verdict};
use crate::finding::{
    Confidence, Evidence, Finding, FindingKind, Remedy, Resource, StepLink, Stuck, StuckJob, Window,
};
use crate::fleet::{Instance, Job, JobStatus, WaitCause};
use crate::heartbeat::Origin;
use crate::identity::{NodeId, Region};
use crate::judge::{Facts, Price, labelled};
use crate::placement::share_of_price;
use crate::shell;
use crate::sizing::SizedRequest;
use crate::state::NodeState;
use crate::step::{PlacedStep, StepId, StepKind};
use crate::units::{Share, Spoken};

const KIND: FindingKind = FindingKind::StuckBatchJob;

type Row = fn(&Facts<'_>, &Job, &mut Questions) -> Option<Verdict>;

/// Judges every job, container, worker, queue and environment.
pub fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let batch = &facts.inventory.batch;
    let mut verdicts: Vec<Verdict> = batch
        .jobs
        .values()
        .filter_map(|job| judge_job(facts, job, &mut Questions::unwritten(KIND)))
        .collect();
    verdicts.extend(lost::judge(facts));
    verdicts.extend(never_joined::judge(facts));
    verdicts.extend(orphan::judge(facts));
    verdicts.extend(invalid::judge(facts));
    verdicts.extend(fargate::tasks(facts));
    verdicts
}

/// The questions about one job.
pub(crate) fn explain(facts: &Facts<'_>, job: &Job) -> Vec<Check> {
    Questions::written(KIND, |q| judge_job(facts, job, q))
}

/// The questions about what has neither a job's nor a machine's id: queues, environments,
/// containers and families of tasks on Fargate.
pub(crate) fn explain_named(facts: &Facts<'_>, id: &str) -> Vec<Check> {
    let mut checks = invalid::explain(facts, id);
    checks.extend(orphan::explain(facts, id));
    checks.extend(fargate::explain(facts, id));
    checks
}

/// The questions about one worker of an environment.
pub(crate) fn explain_worker(facts: &Facts<'_>, instance: &Instance) -> Vec<Check> {
    let mut q = Questions::of(KIND);
    let worker = facts.inventory.batch.container_instances.on(&instance.id);
    let stranger = never_joined(facts).any(|other| other.id == instance.id);
    if worker.is_none() && !stranger {
        return Vec::new();
    }
    let lost = facts.memory.disconnected_since.get(&instance.id);
    let since = lost.and_then(|from| since(facts, *from));
    let patience = facts.policy.batch.agent_disconnected();
    if stranger {
        q.holds("has it joined its cluster?", ("no", ""), true);
    } else if q.holds(
        "has ECS lost its agent?",
        (if lost.is_some() { "yes" } else { "no" }, ""),
        lost.is_some(),
    ) {
        let shown = since.map_or_else(|| "not known".to_owned(), |t| Spoken(t).to_string());
        let is_long = since.and_then(|since| (since >= patience).then_some(true));
        q.holds("for how long?", (shown, Spoken(patience)), is_long);
    }
    if let Some((_, worker)) = worker {
        let mut of_runtime = q.anew();
        lost::impaired(facts, worker, &mut of_runtime);
        q.also(of_runtime);
    }
    q.asked
}

pub(super) fn judge_job(facts: &Facts<'_>, job: &Job, q: &mut Questions) -> Option<Verdict> {
    let rows: &[Row] = match job.status {
        JobStatus::Runnable => &[blocked::judge, at_head::judge],
        JobStatus::Starting => &[starting::judge],
        JobStatus::Running if facts.inventory.batch.is_on_fargate(job) => &[fargate::judge],
        JobStatus::Running => &[process_gone::judge, no_progress::judge],
        _ => &[],
    };
    let status = format_args!("{:?}", job.status).to_string().to_uppercase();
    q.holds(
        "how does it stand?",
        (status, "RUNNABLE, STARTING or RUNNING"),
        !rows.is_empty(),
    );
    let mut rows = rows.iter();
    rows.find_map(|row| {
        // Each row asks its own questions; what the one before it decided is not
        // the end of them.
        let mut own = q.anew();
        let verdict = row(facts, job, &mut own);
        q.also(own);
        verdict
    })
}

/// What was seen of something stuck.
pub(super) struct Seen {
    pub(super) window: Window,
    pub(super) coverage: Option<Share>,
    pub(super) stuck: Stuck,
    pub(super) confidence: Confidence,
    pub(super) remedy: Remedy,
}

/// A job that holds its part of a machine; without a machine it costs nothing.
fn found_job(facts: &Facts<'_>, job: &Job, origin: Option<Origin>, seen: Seen) -> Verdict {
    let node = facts.inventory.batch.node_of(job);
    let instance = node.and_then(|node| facts.instance(node));
    let step = node
        .zip(job.task_id())
        .and_then(|(node, task)| step_of(facts, node, task));
    let seen_gpus = step.map_or(0, |step| gpus_of(&step));
    let gpus = job.gpus.unwrap_or(0).max(seen_gpus);
    let price = instance.and_then(|instance| part_of(facts, instance, job.requested.into(), gpus));
    let link = job.task_id().zip(node).map(|(task, node)| StepLink {
        name: job.definition.clone().unwrap_or_else(|| job.name.clone()),
        id: StepId {
            kind: StepKind::EcsTask,
            key: task.to_owned(),
        },
        node: node.to_string(),
        job: Some(job.id.as_str().to_owned()),
    });
    let resource = Resource {
        tags: Default::default(),
        id: job.id.as_str().to_owned(),
        name: Some(job.name.clone()),
        region: job.region.clone(),
        account: None,
        node: node.map(ToString::to_string),
        owner: job.owner().map(str::to_owned).or_else(|| owner(instance)),
        instance_type: instance.map(|instance| instance.instance_type.clone()),
        market: instance.map(|instance| instance.market),
        controller: instance.and_then(|instance| facts.controller(instance)),
        origin: origin.unwrap_or_else(|| labelled(&job.tags)),
    };
    let finding = found(resource, Some(job), seen);
    let cost = price.map(|price| price.wasted_over(finding.window));
    Verdict::Waste(Box::new(Finding {
        cost,
        steps: link.into_iter().collect(),
        ..finding
    }))
}

/// What so much of a machine costs.
fn part_of(
    facts: &Facts<'_>,
    instance: &Instance,
    request: SizedRequest,
    gpus: u32,
) -> Option<Price> {
    let whole = facts.price_of(instance)?;
    let spec = facts.catalogue.spec(&instance.instance_type)?;
    let part = share_of_price(spec, whole.per_hour, request, gpus)?;
    Some(whole.scaled(part, whole.per_hour))
}

/// GPUs that a step is seen to use; none where nobody looked, so that what it holds is
/// never overstated.
fn gpus_of(step: &PlacedStep) -> u32 {
    step.usage.detail.gpu.map_or(0, |gpu| gpu.devices)
}

/// A worker, all of which is wasted.
fn found_worker(facts: &Facts<'_>, instance: &Instance, seen: Seen) -> Verdict {
    let controller = facts.controller(instance);
    let resource = Resource::of_instance(instance, controller, labelled(&instance.tags));
    let finding = found(resource, None, seen);
    let price = facts.price_of(instance);
    let cost = price.map(|price| price.wasted_over(finding.window));
    Verdict::Waste(Box::new(Finding { cost, ..finding }))
}

fn found(resource: Resource, job: Option<&Job>, seen: Seen) -> Finding {
    Finding {
        id: Finding::id_of(KIND, &resource.region, &resource.id),
        kind: KIND,
        window: seen.window,
        coverage: seen.coverage,
        evidence: Evidence::StuckJob(StuckJob {
            job: job.map(|job| job.name.clone()),
            status: job.map(|job| job.status),
            stuck_for: Some(seen.window.length()),
            stuck: seen.stuck,
        }),
        confidence: seen.confidence,
        cost: None,
        remedy: seen.remedy,
        recommendation: None,
        steps: Vec::new(),
        resource,
    }
}

fn owner(instance: Option<&Instance>) -> Option<String> {
    instance.and_then(Instance::owner).map(str::to_owned)
}

fn describe(job: &Job) -> String {
    let (region, id) = (&job.region, job.id.as_str());
    let jobs = shell::option("--jobs", id);
    format!("aws batch describe-jobs --region {region} {jobs}")
}

fn terminate(job: &Job, why: &str) -> String {
    let (region, id) = (&job.region, job.id.as_str());
    let (job, reason) = (
        shell::option("--job-id", id),
        shell::option("--reason", why),
    );
    format!("aws batch terminate-job --region {region} {job} {reason}")
}

/// The time since `from`; `None` when that lies ahead.
fn since(facts: &Facts<'_>, from: Timestamp) -> Option<Duration> {
    facts.now.duration_since(from).try_into().ok()
}

fn silent_for(facts: &Facts<'_>, state: &NodeState) -> Option<Duration> {
    since(facts, state.latest.as_ref()?.end)
}

/// The step of an ECS task that its node tells of, ended or not.
fn step_of(facts: &Facts<'_>, node: &NodeId, task: &str) -> Option<PlacedStep> {
    let is_task = |id: &StepId| id.kind == StepKind::EcsTask && id.key == task;
    let mut steps = facts.state.nodes.get(node)?.steps(node);
    steps.find(|step| is_task(&step.usage.id))
}

/// True when all of what ECS or Batch says of a region could be read: what is missing
/// is then really not there.
fn is_whole(facts: &Facts<'_>, region: &Region) -> bool {
    let gaps = &facts.inventory.gaps;
    !gaps.iter().any(|gap| {
        gap.in_region(region.as_str()).is_some_and(|s| {
            ["batch", "ecs", "inventory"]
                .iter()
                .any(|p| s.starts_with(p))
        })
    })
}

/// What a job waits for, in words.
pub(super) fn lacks(cause: Option<&WaitCause>) -> String {
    match cause {
        None => "nothing tells why".to_owned(),
        Some(WaitCause::Dependencies { jobs }) => format!("{} other jobs must end", jobs.len()),
        Some(WaitCause::Blocked { reason }) => reason.clone(),
        Some(WaitCause::QueueDisabled) => "its queue is switched off".to_owned(),
        Some(WaitCause::NoEnvironment) => {
            "no environment of its queue is switched on and valid".to_owned()
        }
        Some(WaitCause::AtMaximum) => {
            "every environment of its queue has all the vCPUs that it may have".to_owned()
        }
        Some(WaitCause::Behind { jobs: 1 }) => "1 job stands before it".to_owned(),
        Some(WaitCause::Behind { jobs }) => format!("{jobs} jobs stand before it"),
        Some(WaitCause::Capacity) => "no machine with room for it has come".to_owned(),
        Some(WaitCause::ImagePull) => "its image is being pulled".to_owned(),
        Some(WaitCause::ContainerStart) => "its container is being made".to_owned(),
        Some(WaitCause::Retry { attempts }) => format!("{attempts} attempts failed"),
    }
}
