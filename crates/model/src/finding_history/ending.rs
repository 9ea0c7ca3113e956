//! How a finding ended, as far as the inventory shows.

use std::fmt;

use ebb_telemetry::identity::NodeId;
use serde::{Deserialize, Serialize};

use crate::inventory::Inventory;
use crate::inventory::instance::{InstanceState, Provider};
use crate::visibility_gap::ENDED_JOBS;

/// The kind of a billed resource in the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thing {
    /// A machine.
    Instance,
    /// A machine that no inventory of a cloud lists.
    Host,
    /// A volume.
    Volume,
    /// An address.
    Address,
    /// A snapshot.
    Snapshot,
    /// A job or step, which is billed through its machines, or a commitment.
    Other,
}

/// The calls that list machines.
const MACHINES: [&str; 1] = ["ec2:DescribeInstances"];

/// The calls that list machines, jobs and ECS tasks.
const MACHINES_AND_JOBS: [&str; 11] = [
    "batch:DescribeComputeEnvironments",
    "batch:DescribeJobQueues",
    "batch:DescribeJobs",
    "batch:ListJobs",
    ENDED_JOBS,
    "ec2:DescribeInstances",
    "ecs:DescribeContainerInstances",
    "ecs:DescribeTasks",
    "ecs:ListClusters",
    "ecs:ListContainerInstances",
    "ecs:ListTasks",
];

impl Thing {
    /// The calls that list the resource.
    pub(crate) const fn listed_by(self) -> &'static [&'static str] {
        match self {
            Self::Instance | Self::Host => &MACHINES,
            Self::Volume => &["ec2:DescribeVolumes"],
            Self::Address => &["ec2:DescribeAddresses"],
            Self::Snapshot => &["ec2:DescribeSnapshots"],
            Self::Other => &MACHINES_AND_JOBS,
        }
    }

    /// The calls that list the resource and the resources that use it. If one of these calls failed,
    /// a rule may not find waste that still exists.
    pub(crate) const fn evaluated_by(self) -> &'static [&'static str] {
        match self {
            Self::Instance | Self::Host | Self::Other => &MACHINES_AND_JOBS,
            Self::Volume => &["ec2:DescribeInstances", "ec2:DescribeVolumes"],
            Self::Address => &["ec2:DescribeAddresses", "ec2:DescribeInstances"],
            Self::Snapshot => &[
                "ec2:DescribeImages",
                "ec2:DescribeSnapshots",
                "ec2:DescribeVolumes",
            ],
        }
    }

    pub(crate) fn find(id: &str, inventory: &Inventory) -> Self {
        let instance = || inventory.instances.get(&NodeId::new(id).ok()?);
        match id {
            _ if inventory.storage.volumes.contains_key(id) => Self::Volume,
            _ if inventory.storage.addresses.contains_key(id) => Self::Address,
            _ if inventory.storage.snapshots.contains_key(id) => Self::Snapshot,
            _ => match instance().map(|instance| &instance.provider) {
                Some(Provider::Own) => Self::Host,
                Some(Provider::Aws | Provider::Gcp { .. }) => Self::Instance,
                None => Self::Other,
            },
        }
    }
}

/// How a finding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The machine is stopped; its volumes are still billed.
    Stopped,
    /// The inventory no longer contains it.
    Gone,
    /// It exists and was changed as recommended.
    Changed,
    /// It exists and is billed, but is no longer waste.
    StillThere,
    /// Its probe sends nothing any more; whether the machine still runs is unknown.
    Silent,
    /// The inventory does not show how it ended.
    Unknown,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stopped => "stopped",
            Self::Gone => "gone",
            Self::Changed => "changed",
            Self::StillThere => "exists and is billed, but is no longer waste",
            Self::Silent => "its probe is silent, so its state is unknown",
            Self::Unknown => "no longer waste",
        })
    }
}

impl Ending {
    /// Whether the inventory shows that the resource is no longer billed.
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Gone)
    }

    pub(crate) fn find(thing: Thing, billed: &str, inventory: &Inventory) -> Self {
        let there = |is_there: bool| match is_there {
            true => Self::StillThere,
            false => Self::Gone,
        };
        let node = NodeId::new(billed).ok();
        let instance = node.and_then(|node| inventory.instances.get(&node));
        match thing {
            Thing::Volume => there(inventory.storage.volumes.contains_key(billed)),
            Thing::Address => there(inventory.storage.addresses.contains_key(billed)),
            Thing::Snapshot => there(inventory.storage.snapshots.contains_key(billed)),
            Thing::Other => Self::Unknown,
            Thing::Host if instance.is_none() => Self::Silent,
            Thing::Instance | Thing::Host => match instance.map(|instance| instance.state) {
                None | Some(InstanceState::Terminated) => Self::Gone,
                Some(InstanceState::Stopping | InstanceState::Stopped) => Self::Stopped,
                Some(InstanceState::Pending | InstanceState::Running) => Self::StillThere,
            },
        }
    }
}
