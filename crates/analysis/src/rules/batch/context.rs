//! Code that the rules about AWS Batch share.

use std::time::Duration;

use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::confidence::Confidence;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::batch::{Stuck, StuckJob};
use ebb_model::finding::{Finding, Remedy, Resource, StepLink};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::ComputeEnvironment;
use ebb_model::inventory::batch::job::Job;
use ebb_model::inventory::batch::queue_time::WaitCause;
use ebb_model::inventory::instance::Instance;
use ebb_model::visibility_gap::WHOLE_INVENTORY;
use ebb_node_state::node_state::NodeState;
use ebb_sizing::cheapest_type::MachineSize;
use ebb_telemetry::identity::{AccountId, NodeId, Region};
use ebb_telemetry::origin::{Origin, labelled};
use ebb_telemetry::step::{PlacedStep, StepId, StepKind};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::hourly_price::Price;
use crate::rules::verdict::Verdict;
use crate::shell;

pub(crate) const KIND: FindingKind = FindingKind::StuckBatchJob;

/// Observation of a stuck resource.
pub(crate) struct StuckObservation {
    pub(crate) window: Window,
    pub(crate) coverage: Option<Share>,
    pub(crate) stuck: Stuck,
    pub(crate) confidence: Confidence,
    pub(crate) remedy: Remedy,
}

/// Creates a finding about a job that occupies a part of a machine. A job without a machine costs
/// nothing.
pub(crate) fn make_job_finding(
    facts: &Facts<'_>,
    job: &Job,
    origin: Option<Origin>,
    observation: StuckObservation,
) -> Verdict {
    let node = facts.inventory.batch.node_of(job);
    let instance = node.and_then(|node| facts.instance(node));
    let step = node
        .zip(job.task_id())
        .and_then(|(node, task)| step_of(facts, node, task));
    let observed_gpus = step.map_or(0, |step| gpus_of(&step));
    let gpus = job.gpus.unwrap_or(0).max(observed_gpus);
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
    let finding = make_finding(resource, Some(job), observation);
    let cost = price.map(|price| price.wasted_over(finding.window));
    Verdict::Waste(Box::new(Finding {
        cost,
        steps: link.into_iter().collect(),
        ..finding
    }))
}

/// Price of a part of a machine.
pub(crate) fn part_of(
    facts: &Facts<'_>,
    instance: &Instance,
    request: SizedRequest,
    gpus: u32,
) -> Option<Price> {
    let whole = facts.price_of(instance)?;
    let spec = facts.catalogue.spec(&instance.instance_type)?;
    let part = MachineSize::from_spec(spec).share_of_price(whole.per_hour, request, gpus)?;
    Some(whole.scaled(part, whole.per_hour))
}

/// Number of GPUs that a task was observed to use. It is 0 without GPU observation, so that the
/// cost is never overstated.
pub(crate) fn gpus_of(step: &PlacedStep) -> u32 {
    step.usage.detail.gpu.map_or(0, |gpu| gpu.devices)
}

/// The environment of this name in the region and account of a machine.
pub(crate) fn environment_named<'a>(
    facts: &Facts<'a>,
    instance: &Instance,
    name: &str,
) -> Option<&'a ComputeEnvironment> {
    let environments = &facts.inventory.batch.environments;
    environments.iter().find(|one| {
        one.name == name
            && one.region == instance.region
            && AccountId::may_be_one(one.account.as_ref(), instance.account.as_ref())
    })
}

/// Creates a finding about a worker, without a cost.
pub(crate) fn worker_without_cost(
    facts: &Facts<'_>,
    instance: &Instance,
    observation: StuckObservation,
) -> Finding {
    let controller = facts.controller(instance);
    let resource = Resource::of_instance(instance, controller, labelled(&instance.tags));
    make_finding(resource, None, observation)
}

/// Creates a finding about a worker; the whole machine is wasted.
pub(crate) fn make_worker_finding(
    facts: &Facts<'_>,
    instance: &Instance,
    observation: StuckObservation,
) -> Verdict {
    let finding = worker_without_cost(facts, instance, observation);
    let price = facts.price_of(instance);
    let cost = price.map(|price| price.wasted_over(finding.window));
    Verdict::Waste(Box::new(Finding { cost, ..finding }))
}

pub(crate) fn make_finding(
    resource: Resource,
    job: Option<&Job>,
    observation: StuckObservation,
) -> Finding {
    Finding {
        id: Finding::id_of(KIND, &resource.region, &resource.id),
        kind: KIND,
        window: observation.window,
        coverage: observation.coverage,
        evidence: Evidence::StuckJob(StuckJob {
            job: job.map(|job| job.name.clone()),
            status: job.map(|job| job.status),
            stuck_for: Some(observation.window.length()),
            stuck: observation.stuck,
        }),
        confidence: observation.confidence,
        cost: None,
        remedy: observation.remedy,
        recommendation: None,
        steps: Vec::new(),
        resource,
    }
}

fn owner(instance: Option<&Instance>) -> Option<String> {
    instance.and_then(Instance::owner).map(str::to_owned)
}

pub(crate) fn describe(job: &Job) -> String {
    let (region, id) = (&job.region, job.id.as_str());
    let jobs = shell::option("--jobs", id);
    format!("aws batch describe-jobs --region {region} {jobs}")
}

pub(crate) fn terminate(job: &Job, why: &str) -> String {
    let (region, id) = (&job.region, job.id.as_str());
    let (job, reason) = (
        shell::option("--job-id", id),
        shell::option("--reason", why),
    );
    format!("aws batch terminate-job --region {region} {job} {reason}")
}

/// The time since `from`; `None` if `from` is in the future.
pub(crate) fn since(facts: &Facts<'_>, from: Timestamp) -> Option<Duration> {
    facts.now.duration_since(from).try_into().ok()
}

pub(crate) fn silent_for(facts: &Facts<'_>, state: &NodeState) -> Option<Duration> {
    since(facts, state.latest.as_ref()?.end)
}

/// The task that the probe of a node reported for an ECS task, ended or not.
pub(crate) fn step_of(facts: &Facts<'_>, node: &NodeId, task: &str) -> Option<PlacedStep> {
    let is_task = |id: &StepId| id.kind == StepKind::EcsTask && id.key == task;
    let mut steps = facts.state.nodes.get(node)?.steps(node);
    steps.find(|step| is_task(&step.usage.id))
}

/// Whether the data of ECS and Batch about a region is complete. Then a missing resource does not
/// exist.
pub(crate) fn is_whole(facts: &Facts<'_>, region: &Region) -> bool {
    let gaps = &facts.inventory.gaps;
    !gaps.iter().any(|gap| {
        gap.in_region(region.as_str()).is_some_and(|s| {
            ["batch", "ecs", WHOLE_INVENTORY]
                .iter()
                .any(|p| s.starts_with(p))
        })
    })
}

/// Reason why a job waits, in words.
pub(crate) fn lacks(cause: Option<&WaitCause>) -> String {
    match cause {
        None => "the reason is unknown".to_owned(),
        Some(WaitCause::Dependencies { jobs }) => {
            format!("the job depends on {} other jobs", jobs.len())
        }
        Some(WaitCause::Blocked { reason }) => reason.clone(),
        Some(WaitCause::QueueDisabled) => "its job queue is disabled".to_owned(),
        Some(WaitCause::NoEnvironment) => {
            "its job queue has no enabled and valid compute environment".to_owned()
        }
        Some(WaitCause::AtMaximum) => {
            "every compute environment of its queue is at its maximum vCPUs".to_owned()
        }
        Some(WaitCause::Behind { jobs: 1 }) => "1 job is ahead of it in the queue".to_owned(),
        Some(WaitCause::Behind { jobs }) => format!("{jobs} jobs are ahead of it in the queue"),
        Some(WaitCause::Capacity) => "no instance with enough free capacity has started".to_owned(),
        Some(WaitCause::ImagePull) => "its container image is being pulled".to_owned(),
        Some(WaitCause::ContainerStart) => "its container is being created".to_owned(),
        Some(WaitCause::Retry { attempts }) => format!("{attempts} attempts failed"),
    }
}
