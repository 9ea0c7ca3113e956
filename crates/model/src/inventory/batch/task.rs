//! Tasks of ECS. A Batch job runs as an ECS task on its machine, and the probe sees the task id in
//! the name of the cgroup.

use ebb_telemetry::identity::{AccountId, Region};
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The result of a health check; the names are those of ECS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Healthy.
    Ok,
    /// Not healthy.
    Impaired,
    /// Not reported yet.
    Initializing,
}

/// One task of ECS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Task {
    /// The region; `None` in test data.
    pub region: Option<Region>,
    /// The cluster it runs in.
    pub cluster_arn: Option<String>,
    /// The container instance that it was placed on; `None` on Fargate and before the placement.
    pub container_instance_arn: Option<String>,
    /// The launch type as ECS names it, such as `EC2` or `FARGATE`.
    pub launch_type: Option<String>,
    /// The capacity provider, such as `FARGATE_SPOT`; `None` when ECS did not report it.
    pub capacity_provider: Option<String>,
    /// The cores of the task; `None` when ECS did not report them.
    pub cores: Option<MilliCores>,
    /// The memory of the task; `None` when ECS did not report it.
    pub memory: Option<Bytes>,
    /// `family:name` or `service:name`; Batch sets none.
    pub group: Option<String>,
    /// The family of its task definition; `None` when ECS did not report it.
    pub family: Option<String>,
    /// The desired status of ECS, such as `RUNNING` or `STOPPED`.
    pub desired_status: Option<String>,
    /// The last status of ECS, such as `PENDING` or `DEPROVISIONING`.
    pub last_status: Option<String>,
    /// The health of its containers; `None` when they have no health check.
    pub health: Option<Health>,
    /// True while its agent is connected; `None` when ECS did not report it.
    pub connected: Option<bool>,
    /// When it was created, which is when a Batch job becomes STARTING.
    pub created_at: Option<Timestamp>,
    /// When the image pull began.
    pub pull_started_at: Option<Timestamp>,
    /// When the image pull ended.
    pub pull_stopped_at: Option<Timestamp>,
    /// When its containers started.
    pub started_at: Option<Timestamp>,
    /// When it was requested to stop. A task without `stopped_at` long after this time is stuck.
    pub stopping_at: Option<Timestamp>,
    /// When it had stopped.
    pub stopped_at: Option<Timestamp>,
    /// The reason of the stop as ECS reports it.
    pub stopped_reason: Option<String>,
}

impl Task {
    /// Whether it runs on Fargate now.
    pub fn runs_on_fargate(&self) -> bool {
        self.launch_type.as_deref() == Some("FARGATE")
            && self.last_status.as_deref() == Some("RUNNING")
    }

    /// Its name in Container Insights, if it runs on Fargate now.
    pub fn on_fargate(&self) -> Option<TaskFamily> {
        let cluster = self.cluster_arn.as_ref();
        let cluster = cluster.filter(|_| self.runs_on_fargate())?;
        Some(TaskFamily::new(cluster, self.family.as_ref()?))
    }
}

/// All tasks of one task definition family in one cluster, which Container Insights reports
/// together: `arn:aws:ecs:region:account:cluster/name/family`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskFamily(String);

impl TaskFamily {
    /// A family in the cluster with this ARN.
    pub fn new(cluster_arn: &str, family: &str) -> Self {
        Self(format!("{cluster_arn}/{family}"))
    }

    /// The full name, as in a report.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names of the cluster and of the family.
    pub fn names(&self) -> (&str, &str) {
        let (cluster, family) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        let name = cluster.rsplit_once('/').map_or(cluster, |(_, name)| name);
        (name, family)
    }

    /// The account; `None` if the text is not an ARN.
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
