//! AWS Batch and the ECS beneath it.

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
    /// Container instances by ARN.
    pub container_instances: ContainerInstances,
    /// ECS tasks by ARN, those of Batch jobs and what else runs in its clusters.
    #[serde(default)]
    pub tasks: BTreeMap<String, Task>,
    /// What Container Insights tells of tasks on Fargate, where it is switched on.
    #[serde(default)]
    pub insights: BTreeMap<TaskFamily, MetricSeries>,
}

impl BatchFleet {
    pub(crate) fn absorb(&mut self, other: Self) {
        self.environments.extend(other.environments);
        self.queues.extend(other.queues);
        self.jobs.extend(other.jobs);
        self.container_instances.extend(other.container_instances);
        self.tasks.extend(other.tasks);
        self.insights.extend(other.insights);
    }

    /// Whose its environments and queues are.
    pub(crate) fn accounts(&mut self) -> impl Iterator<Item = &mut Option<AccountId>> {
        let queues = self.queues.iter_mut().map(|one| &mut one.account);
        let environments = self.environments.iter_mut().map(|one| &mut one.account);
        environments.chain(queues)
    }

    /// The queue of a job; two accounts may each have one of its name.
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

    /// The ECS task of a job; `None` before it has one or when ECS has forgotten it,
    /// which it does an hour after the end.
    pub fn task_of(&self, job: &Job) -> Option<&Task> {
        self.tasks.get(job.task_arn.as_ref()?)
    }

    /// The node that a job's container instance is; `None` before it is placed
    /// or when ECS does not know the container instance.
    pub fn node_of(&self, job: &Job) -> Option<&NodeId> {
        let arn = job.container_instance_arn.as_ref();
        let arn = arn.or_else(|| self.task_of(job)?.container_instance_arn.as_ref())?;
        self.container_instances
            .get(arn)
            .map(|instance| &instance.node)
    }

    /// True for a job whose queue places on Fargate: Batch lets a queue have either that
    /// or machines of the account.
    pub fn is_on_fargate(&self, job: &Job) -> bool {
        let queue = self.queue_of(job).into_iter();
        let mut environments = queue.flat_map(|queue| self.environments_of(queue));
        environments.any(|one| {
            let kind = one.kind.as_deref();
            kind.is_some_and(|kind| kind.starts_with("FARGATE"))
        })
    }

    /// The environment that owns a node, found through its ECS cluster.
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
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: Region,
    /// In whose account; `None` where that is not told.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// Batch's status of it, such as `VALID` or `INVALID`.
    pub status: Option<String>,
    /// The ECS cluster beneath.
    pub cluster_arn: Option<String>,
    /// The vCPUs that it keeps at all times.
    pub min_vcpus: Option<u32>,
    /// The vCPUs that it has or is getting.
    #[serde(default)]
    pub desired_vcpus: Option<u32>,
    /// The vCPUs that it may have at most.
    #[serde(default)]
    pub max_vcpus: Option<u32>,
    /// Batch's word about its status.
    #[serde(default)]
    pub status_reason: Option<String>,
    /// `false` when it is switched off; `None` when Batch did not say.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// What it runs on, such as `EC2`, `SPOT` or `FARGATE`.
    #[serde(default)]
    pub kind: Option<String>,
    /// The types and families that it may start; empty when Batch did not say.
    #[serde(default)]
    pub instance_types: Vec<String>,
    /// How it chooses among them, such as `BEST_FIT_PROGRESSIVE`; `None` when Batch did
    /// not say.
    #[serde(default)]
    pub allocation: Option<String>,
    /// Minutes that an instance is kept after its last job; `None` when not set.
    #[serde(default)]
    pub scale_down_delay_minutes: Option<u32>,
}

impl ComputeEnvironment {
    /// One of which nothing more is known.
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
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: Region,
    /// In whose account; `None` where that is not told.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// Batch's status of it.
    pub status: Option<String>,
    /// Batch's words on its status.
    #[serde(default)]
    pub status_reason: Option<String>,
    /// `false` when it takes no jobs; `None` when Batch did not say.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// The greater, the sooner it is served.
    #[serde(default)]
    pub priority: Option<i32>,
    /// Its compute environments, names in the order in which they are tried.
    #[serde(default)]
    pub environments: Vec<String>,
    /// The RUNNABLE jobs at its front in order, at most 100; `None` when Batch did
    /// not say.
    #[serde(default)]
    pub front: Option<Vec<FrontJob>>,
}

impl JobQueue {
    /// One of which nothing more is known.
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

/// A job near the front of its queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontJob {
    /// Which.
    pub job: JobId,
    /// Since when it has stood at this place.
    pub since: Option<Timestamp>,
}
