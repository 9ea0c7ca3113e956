//! AWS Batch and its ECS clusters.

pub mod container_instances;
pub mod job;
pub mod queue_time;
pub mod task;

use std::collections::BTreeMap;

use ebb_telemetry::identity::{AccountId, NodeId, Region};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inventory::batch::container_instances::ContainerInstances;
use crate::inventory::batch::job::{Job, JobId};
use crate::inventory::batch::task::{Task, TaskFamily};
use crate::inventory::instance::Controller;
use crate::metric_series::MetricSeries;

/// Compute environments, queues, jobs and container instances.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchFleet {
    /// Compute environments.
    pub environments: Vec<ComputeEnvironment>,
    /// Job queues.
    pub queues: Vec<JobQueue>,
    /// Jobs by id.
    pub jobs: BTreeMap<JobId, Job>,
    /// Jobs of earlier sweeps that are not among `jobs` any more. They name their tasks, whose cost
    /// changes until a bill is complete. Their status is the last known one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_jobs: Vec<Job>,
    /// Container instances by ARN.
    pub container_instances: ContainerInstances,
    /// ECS tasks by ARN: those of Batch jobs, and other tasks in the clusters of Batch.
    #[serde(default)]
    pub tasks: BTreeMap<String, Task>,
    /// Container Insights metrics of Fargate tasks, if Container Insights is enabled.
    #[serde(default)]
    pub insights: BTreeMap<TaskFamily, MetricSeries>,
}

impl BatchFleet {
    pub(crate) fn absorb(&mut self, other: Self) {
        self.environments.extend(other.environments);
        self.queues.extend(other.queues);
        self.jobs.extend(other.jobs);
        self.earlier_jobs.extend(other.earlier_jobs);
        self.container_instances.extend(other.container_instances);
        self.tasks.extend(other.tasks);
        self.insights.extend(other.insights);
    }

    /// Adds the jobs that earlier sweeps remembered, except those that are listed.
    pub fn add_earlier(&mut self, mut earlier: Vec<Job>) {
        earlier.retain(|job| !self.jobs.contains_key(&job.id));
        self.earlier_jobs.extend(earlier);
    }

    /// All jobs that may name tasks, the listed ones last.
    pub fn known_jobs(&self) -> impl Iterator<Item = &Job> {
        self.earlier_jobs.iter().chain(self.jobs.values())
    }

    /// The accounts of the environments and queues.
    pub(crate) fn accounts(&mut self) -> impl Iterator<Item = &mut Option<AccountId>> {
        let queues = self.queues.iter_mut().map(|one| &mut one.account);
        let environments = self.environments.iter_mut().map(|one| &mut one.account);
        environments.chain(queues)
    }

    /// The queue of a job. Two accounts may each have a queue of the same name.
    pub fn queue_of(&self, job: &Job) -> Option<&JobQueue> {
        let of = job.account();
        self.queues.iter().find(|queue| {
            (&queue.region, queue.name.as_str()) == (&job.region, job.queue_name())
                && AccountId::may_be_one(of.as_ref(), queue.account.as_ref())
        })
    }

    /// The environments of a queue.
    pub fn environments_of(&self, queue: &JobQueue) -> impl Iterator<Item = &ComputeEnvironment> {
        self.environments.iter().filter(|one| {
            one.region == queue.region
                && queue.environments.contains(&one.name)
                && AccountId::may_be_one(one.account.as_ref(), queue.account.as_ref())
        })
    }

    /// The ECS task of a job; `None` before it has one, or from an hour after its end, when ECS
    /// deletes it.
    pub fn task_of(&self, job: &Job) -> Option<&Task> {
        self.tasks.get(job.task_arn.as_ref()?)
    }

    /// The node of a job's container instance; `None` before the job is placed, or when ECS does
    /// not know the container instance.
    pub fn node_of(&self, job: &Job) -> Option<&NodeId> {
        let arn = job.container_instance_arn.as_ref();
        let arn = arn.or_else(|| self.task_of(job)?.container_instance_arn.as_ref())?;
        self.container_instances
            .get(arn)
            .map(|instance| &instance.node)
    }

    /// True if the queue of a job uses Fargate. A queue of Batch uses either Fargate or machines of
    /// the account.
    pub fn is_on_fargate(&self, job: &Job) -> bool {
        let queue = self.queue_of(job).into_iter();
        let mut environments = queue.flat_map(|queue| self.environments_of(queue));
        environments.any(|one| {
            let kind = one.kind.as_deref();
            kind.is_some_and(|kind| kind.starts_with("FARGATE"))
        })
    }

    /// The environment that owns a node, found by the ECS cluster of the node.
    pub fn controller_of(&self, node: &NodeId) -> Option<Controller> {
        let (_, instance) = self.container_instances.on(node)?;
        let owner = self
            .environments
            .iter()
            .find(|e| e.cluster_arn.as_deref() == Some(instance.cluster_arn.as_str()))?;
        Some(Controller::BatchEnvironment(owner.name.clone()))
    }
}

/// One compute environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeEnvironment {
    /// The name.
    pub name: String,
    /// The region.
    pub region: Region,
    /// The account; `None` when unknown.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The Batch status, such as `VALID` or `INVALID`.
    pub status: Option<String>,
    /// The ARN of its ECS cluster.
    pub cluster_arn: Option<String>,
    /// The minimum number of vCPUs, which it always keeps.
    pub min_vcpus: Option<u32>,
    /// The vCPUs that it has or is starting.
    #[serde(default)]
    pub desired_vcpus: Option<u32>,
    /// The maximum number of vCPUs.
    #[serde(default)]
    pub max_vcpus: Option<u32>,
    /// The reason for the status as Batch reports it.
    #[serde(default)]
    pub status_reason: Option<String>,
    /// `false` when it is disabled; `None` when Batch did not report it.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// The compute type, such as `EC2`, `SPOT` or `FARGATE`.
    #[serde(default)]
    pub kind: Option<String>,
    /// The instance types and families that it may start; empty when Batch did not report them.
    #[serde(default)]
    pub instance_types: Vec<String>,
    /// The allocation strategy, such as `BEST_FIT_PROGRESSIVE`; `None` when Batch did not report
    /// it.
    #[serde(default)]
    pub allocation: Option<String>,
    /// Minutes for which an instance is kept after its last job; `None` when not set.
    #[serde(default)]
    pub scale_down_delay_minutes: Option<u32>,
}

impl ComputeEnvironment {
    /// An environment of which only the name and region are known.
    pub fn new(name: impl Into<String>, region: Region) -> Self {
        Self {
            name: name.into(),
            region,
            account: None,
            status: None,
            cluster_arn: None,
            min_vcpus: None,
            desired_vcpus: None,
            max_vcpus: None,
            status_reason: None,
            enabled: None,
            kind: None,
            instance_types: Vec::new(),
            allocation: None,
            scale_down_delay_minutes: None,
        }
    }
}

/// One job queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobQueue {
    /// The name.
    pub name: String,
    /// The region.
    pub region: Region,
    /// The account; `None` when unknown.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The Batch status.
    pub status: Option<String>,
    /// The reason for the status as Batch reports it.
    #[serde(default)]
    pub status_reason: Option<String>,
    /// `false` when it takes no jobs; `None` when Batch did not report it.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// The priority; queues with a larger number are served first.
    #[serde(default)]
    pub priority: Option<i32>,
    /// The names of its compute environments, in the order in which Batch tries them.
    #[serde(default)]
    pub environments: Vec<String>,
    /// The RUNNABLE jobs at its head in order, at most 100; `None` when Batch did not report them.
    #[serde(default)]
    pub front: Option<Vec<FrontJob>>,
}

impl JobQueue {
    /// A queue of which only the name and region are known.
    pub fn new(name: impl Into<String>, region: Region) -> Self {
        Self {
            name: name.into(),
            region,
            account: None,
            status: None,
            status_reason: None,
            enabled: None,
            priority: None,
            environments: Vec::new(),
            front: None,
        }
    }
}

/// A job near the head of its queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontJob {
    /// The job id.
    pub job: JobId,
    /// When it reached this position.
    pub since: Option<Timestamp>,
}
