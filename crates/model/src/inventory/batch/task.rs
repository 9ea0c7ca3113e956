//! Tasks of ECS: what a Batch job is on its machine, and what the probe's cgroup is
//! named after.

use ebb_telemetry::identity::{AccountId, Region};
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How something is by its own health check; the names are ECS's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It is well.
    Ok,
    /// It is not.
    Impaired,
    /// It has not said yet.
    Initializing,
}

/// One task of ECS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Task {
    /// Where it is; `None` in what was made by hand.
    pub region: Option<Region>,
    /// The cluster it runs in.
    pub cluster_arn: Option<String>,
    /// The container instance it was placed on; `None` on Fargate and before.
    pub container_instance_arn: Option<String>,
    /// ECS's word for what it runs on, such as `EC2` or `FARGATE`.
    pub launch_type: Option<String>,
    /// What it was started by, such as `FARGATE_SPOT`; `None` when ECS did not say.
    pub capacity_provider: Option<String>,
    /// The cores that it has; `None` when ECS did not say.
    pub cores: Option<MilliCores>,
    /// The memory that it has; `None` when ECS did not say.
    pub memory: Option<Bytes>,
    /// `family:name` or `service:name`; Batch names none.
    pub group: Option<String>,
    /// The family of its task definition; `None` when ECS did not say.
    pub family: Option<String>,
    /// ECS's word for what it should be, such as `RUNNING` or `STOPPED`.
    pub desired_status: Option<String>,
    /// ECS's word for what it is, such as `PENDING` or `DEPROVISIONING`.
    pub last_status: Option<String>,
    /// How its containers are; `None` when they have no health check.
    pub health: Option<Health>,
    /// True while its agent is connected; `None` when ECS did not say.
    pub connected: Option<bool>,
    /// When it was asked for, which is when a Batch job becomes STARTING.
    pub created_at: Option<Timestamp>,
    /// When its images began to be pulled.
    pub pull_started_at: Option<Timestamp>,
    /// When they were there.
    pub pull_stopped_at: Option<Timestamp>,
    /// When its containers started.
    pub started_at: Option<Timestamp>,
    /// When it was told to stop; a task that stays here is stuck.
    pub stopping_at: Option<Timestamp>,
    /// When it had stopped.
    pub stopped_at: Option<Timestamp>,
    /// ECS's word for why it stopped.
    pub stopped_reason: Option<String>,
}

impl Task {
    /// Whether it runs on Fargate.
    pub fn runs_on_fargate(&self) -> bool {
        self.launch_type.as_deref() == Some("FARGATE")
            && self.last_status.as_deref() == Some("RUNNING")
    }

    /// What Container Insights knows it by, where it runs on Fargate.
    pub fn on_fargate(&self) -> Option<TaskFamily> {
        let cluster = self.cluster_arn.as_ref();
        let cluster = cluster.filter(|_| self.runs_on_fargate())?;
        Some(TaskFamily::new(cluster, self.family.as_ref()?))
    }
}

/// All tasks of one definition's family in one cluster, which Container Insights tells of
/// together: `arn:aws:ecs:region:account:cluster/name/family`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskFamily(String);

impl TaskFamily {
    /// Of a family in the cluster of this ARN.
    pub fn new(cluster_arn: &str, family: &str) -> Self {
        Self(format!("{cluster_arn}/{family}"))
    }

    /// All of it, as a report names it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The cluster's name and the family's.
    pub fn names(&self) -> (&str, &str) {
        let (cluster, family) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        let name = cluster.rsplit_once('/').map_or(cluster, |(_, name)| name);
        (name, family)
    }

    /// The account that it is in; `None` where the ARN is none.
    pub fn account(&self) -> Option<AccountId> {
        AccountId::new(self.0.split(':').nth(4)?).ok()
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
