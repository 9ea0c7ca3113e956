//! AWS Batch and the ECS container instances beneath it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Controller;
use crate::identity::{IdentityError, NodeId, Region};
use crate::step::Requested;

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
    pub container_instances: BTreeMap<String, ContainerInstance>,
}

impl BatchFleet {
    pub(super) fn absorb(&mut self, other: Self) {
        self.environments.extend(other.environments);
        self.queues.extend(other.queues);
        self.jobs.extend(other.jobs);
        self.container_instances.extend(other.container_instances);
    }

    /// The node that a job's container instance is; `None` before it is placed
    /// or when ECS does not know the container instance.
    pub fn node_of(&self, job: &Job) -> Option<&NodeId> {
        let arn = job.container_instance_arn.as_ref()?;
        self.container_instances
            .get(arn)
            .map(|instance| &instance.node)
    }

    /// The environment that owns a node, found through its ECS cluster.
    pub fn controller_of(&self, node: &NodeId) -> Option<Controller> {
        let instance = self
            .container_instances
            .values()
            .find(|i| &i.node == node)?;
        let owner = self
            .environments
            .iter()
            .find(|e| e.cluster_arn.as_deref() == Some(instance.cluster_arn.as_str()))?;
        Some(Controller::BatchEnvironment(owner.name.clone()))
    }
}

/// A job's id: a UUID, with `:index` for a child of an array.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// Takes an id under the same rule as a node's.
    pub fn new(id: impl Into<String>) -> Result<Self, IdentityError> {
        NodeId::new(id).map(|checked| Self(String::from(checked)))
    }

    /// The id itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for JobId {
    type Error = IdentityError;

    fn try_from(id: String) -> Result<Self, IdentityError> {
        Self::new(id)
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0
    }
}

/// How a job stands; the names are AWS Batch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobStatus {
    /// Accepted, not yet looked at.
    Submitted,
    /// Waits for another job.
    Pending,
    /// Waits for a machine.
    Runnable,
    /// Its container is being made.
    Starting,
    /// Its container runs.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// The name of its definition, revision left out; `None` when unknown.
    pub definition: Option<String>,
    /// Its queue's ARN or name.
    pub queue: String,
    /// Where it is.
    pub region: Region,
    /// How it stands.
    pub status: JobStatus,
    /// Batch's word about that.
    pub status_reason: Option<String>,
    /// When it was submitted.
    pub created_at: Option<Timestamp>,
    /// When its container started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub stopped_at: Option<Timestamp>,
    /// The container instance it was placed on.
    pub container_instance_arn: Option<String>,
    /// Its ECS task.
    pub task_arn: Option<String>,
    /// What it asked for.
    pub requested: Requested,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl Job {
    /// The id of its ECS task, which is what the probe sees in the cgroup.
    pub fn task_id(&self) -> Option<&str> {
        self.task_arn.as_deref().and_then(task_id)
    }
}

/// The task id at the end of an ECS task's ARN.
///
/// Source: ECS "Account settings", long ARN format
/// `arn:aws:ecs:region:account:task/cluster-name/task-id`.
pub fn task_id(arn: &str) -> Option<&str> {
    let (head, id) = arn.rsplit_once('/')?;
    (head.contains(":task") && !id.is_empty()).then_some(id)
}

/// One container instance of ECS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerInstance {
    /// The node beneath.
    pub node: NodeId,
    /// The cluster it joined.
    pub cluster_arn: String,
    /// Where it is.
    pub region: Region,
    /// True while its agent is connected; `None` when ECS did not say.
    pub agent_connected: Option<bool>,
    /// Tasks that run on it; `None` when ECS did not say.
    pub running_tasks: Option<u32>,
}

/// One compute environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeEnvironment {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: Region,
    /// Batch's status of it, such as `VALID` or `INVALID`.
    pub status: Option<String>,
    /// The ECS cluster beneath.
    pub cluster_arn: Option<String>,
    /// The vCPUs that it keeps at all times.
    pub min_vcpus: Option<u32>,
}

/// One job queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobQueue {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: Region,
    /// Batch's status of it.
    pub status: Option<String>,
}
