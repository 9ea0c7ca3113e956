//! Tasks of ECS: what a Batch job is on its machine, and what the probe's cgroup is
//! named after.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identity::Region;

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
    /// `family:name` or `service:name`; Batch names none.
    pub group: Option<String>,
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

/// The task id at the end of an ECS task's ARN.
///
/// Source: ECS "Account settings", long ARN format
/// `arn:aws:ecs:region:account:task/cluster-name/task-id`.
pub fn task_id(arn: &str) -> Option<&str> {
    let (head, id) = arn.rsplit_once('/')?;
    (head.contains(":task") && !id.is_empty()).then_some(id)
}
