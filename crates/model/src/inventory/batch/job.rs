//! Jobs of AWS Batch.

use std::collections::BTreeMap;

use ebb_catalog::machine_type::Architecture;
use ebb_telemetry::identity::{AccountId, IdentityError, NodeId, Region};
use ebb_telemetry::step::Requested;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inventory::batch::task::task_id;
use crate::inventory::instance::owner_of;

/// The id of a job: a UUID, with `:index` for a child of an array.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// Checks an id by the same rule as a node id. A node of a multi-node parallel job is
    /// `ID#INDEX`.
    pub fn new(id: impl AsRef<str>) -> Result<Self, IdentityError> {
        let id = id.as_ref();
        let (job, index) = id.split_once('#').unwrap_or((id, "0"));
        NodeId::new(job)?;
        NodeId::new(index)?;
        Ok(Self(id.to_owned()))
    }

    /// The id as text.
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

/// The status of a job; the names are those of AWS Batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobStatus {
    /// Accepted, not yet evaluated by the scheduler.
    Submitted,
    /// Waits for another job.
    Pending,
    /// Waits for a machine.
    Runnable,
    /// Its container is being created.
    Starting,
    /// Its container runs.
    Running,
    /// It ended successfully.
    Succeeded,
    /// It failed.
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
    /// The name of its job definition without the revision; `None` when unknown.
    pub definition: Option<String>,
    /// The ARN or name of its queue.
    pub queue: String,
    /// The region.
    pub region: Region,
    /// The status.
    pub status: JobStatus,
    /// The reason for the status as Batch reports it.
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
    /// The request.
    pub requested: Requested,
    /// Requested GPUs, which no other job uses meanwhile; `None` when it requested none.
    #[serde(default)]
    pub gpus: Option<u32>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Jobs that must succeed before it may start.
    #[serde(default)]
    pub depends_on: Vec<JobId>,
    /// The attempts so far, the oldest first.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    /// Seconds after which Batch terminates an attempt; `None` without a timeout.
    #[serde(default)]
    pub timeout_seconds: Option<u32>,
    /// Number of children, if it is the parent of an array or a multi-node parallel job. Its
    /// children run, not the job itself.
    #[serde(default)]
    pub array_size: Option<u32>,
    /// The exit code of its container; `None` while it runs, or when unknown.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The platform of its container; `None` when its definition does not state one.
    #[serde(default)]
    pub platform: Option<Platform>,
}

/// The platform of a container on Fargate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Platform {
    /// Linux on a CPU architecture.
    Linux(Architecture),
    /// Another operating system, which has other prices.
    Other,
}

/// An ended attempt at a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Attempt {
    /// When its container started; `None` if it never started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub stopped_at: Option<Timestamp>,
    /// The exit code; `None` when it had none.
    pub exit_code: Option<i32>,
    /// The reason as Batch or ECS reports it, such as `OutOfMemoryError: …` or `Host EC2 …
    /// terminated.`
    pub reason: Option<String>,
    /// The container instance it was placed on.
    pub container_instance_arn: Option<String>,
    /// Its ECS task.
    pub task_arn: Option<String>,
}

impl Job {
    /// A job with only these properties; all others are unknown.
    pub fn new(
        id: JobId,
        name: impl Into<String>,
        queue: impl Into<String>,
        region: Region,
        status: JobStatus,
    ) -> Self {
        Self {
            id,
            name: name.into(),
            definition: None,
            queue: queue.into(),
            region,
            status,
            status_reason: None,
            created_at: None,
            started_at: None,
            stopped_at: None,
            container_instance_arn: None,
            task_arn: None,
            requested: Requested::default(),
            gpus: None,
            tags: BTreeMap::new(),
            depends_on: Vec::new(),
            attempts: Vec::new(),
            timeout_seconds: None,
            array_size: None,
            exit_code: None,
            platform: None,
        }
    }

    /// The owner, by the same tags as for a machine.
    pub fn owner(&self) -> Option<&str> {
        owner_of(&self.tags)
    }

    /// The account, by the ARN of its queue or task; `None` if neither contains one.
    pub fn account(&self) -> Option<AccountId> {
        let of_task = || AccountId::of_arn(self.task_arn.as_deref()?);
        AccountId::of_arn(&self.queue).or_else(of_task)
    }

    /// The name of its queue, whether Batch reported a name or an ARN.
    pub fn queue_name(&self) -> &str {
        self.queue.rsplit('/').next().unwrap_or(&self.queue)
    }

    /// The id of its ECS task, which the probe reads from the cgroup.
    pub fn task_id(&self) -> Option<&str> {
        self.task_arn.as_deref().and_then(task_id)
    }
}

/// The ids of the ECS tasks of all attempts, each with the job.
pub fn tasks(job: &Job) -> impl Iterator<Item = (&str, &Job)> {
    let attempts = job.attempts.iter().map(|tried| tried.task_arn.as_deref());
    let arns = attempts.chain([job.task_arn.as_deref()]).flatten();
    arns.filter_map(move |arn| Some((task_id(arn)?, job)))
}
