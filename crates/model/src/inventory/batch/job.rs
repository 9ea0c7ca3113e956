//! Jobs of AWS Batch.

use std::collections::BTreeMap;

use ebb_catalog::machine_type::Architecture;
use ebb_telemetry::identity::{AccountId, IdentityError, NodeId, Region};
use ebb_telemetry::step::Requested;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inventory::batch::task::task_id;
use crate::inventory::instance::owner_of;

/// A job's id: a UUID, with `:index` for a child of an array.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// Takes an id under the same rule as a node's.
    pub fn new(id: impl AsRef<str>) -> Result<Self, IdentityError> {
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
    /// GPUs that it asked for, which are its own while it runs; `None` when it asked for
    /// none.
    #[serde(default)]
    pub gpus: Option<u32>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Jobs that must succeed before it may start.
    #[serde(default)]
    pub depends_on: Vec<JobId>,
    /// What was tried so far, the first first.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    /// Seconds after which Batch ends an attempt; `None` when nothing ends it.
    #[serde(default)]
    pub timeout_seconds: Option<u32>,
    /// How many children it has, when it is the parent of an array.
    #[serde(default)]
    pub array_size: Option<u32>,
    /// The exit code of its container; `None` while it runs or when unknown.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// What its container is for; `None` where its definition does not say.
    #[serde(default)]
    pub platform: Option<Platform>,
}

/// What a container on Fargate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Platform {
    /// Linux on processors of a kind.
    Linux(Architecture),
    /// Another system, which is paid for otherwise.
    Other,
}

/// One attempt at a job that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Attempt {
    /// When its container started; `None` when it never did.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub stopped_at: Option<Timestamp>,
    /// Its exit code; `None` when it had none.
    pub exit_code: Option<i32>,
    /// Batch's or ECS's word, such as `OutOfMemoryError: …` or `Host EC2 … terminated.`
    pub reason: Option<String>,
    /// The container instance it was placed on.
    pub container_instance_arn: Option<String>,
    /// Its ECS task.
    pub task_arn: Option<String>,
}

impl Job {
    /// One of which nothing more is known.
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

    /// Whom to ask, by the same tags as a machine's.
    pub fn owner(&self) -> Option<&str> {
        owner_of(&self.tags)
    }

    /// In whose account it is, by the ARN of its queue or task; `None` where neither tells.
    pub fn account(&self) -> Option<AccountId> {
        let of_task = || AccountId::of_arn(self.task_arn.as_deref()?);
        AccountId::of_arn(&self.queue).or_else(of_task)
    }

    /// The name of its queue, whether Batch told a name or an ARN.
    pub fn queue_name(&self) -> &str {
        self.queue.rsplit('/').next().unwrap_or(&self.queue)
    }

    /// The id of its ECS task, which is what the probe sees in the cgroup.
    pub fn task_id(&self) -> Option<&str> {
        self.task_arn.as_deref().and_then(task_id)
    }
}

/// A job by the tasks of all its attempts.
pub fn tasks(job: &Job) -> impl Iterator<Item = (&str, &Job)> {
    let attempts = job.attempts.iter().map(|tried| tried.task_arn.as_deref());
    let arns = attempts.chain([job.task_arn.as_deref()]).flatten();
    arns.filter_map(move |arn| Some((task_id(arn)?, job)))
}
