//! A virtual machine.

use std::collections::BTreeMap;
use std::fmt;

use ebb_telemetry::heartbeat::Hardware;
use ebb_telemetry::identity::{AccountId, InstanceType, NodeId, Region};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InstanceState {
    /// It is starting, and not billed yet.
    Pending,
    /// It runs and is billed.
    Running,
    /// It is being stopped or terminated.
    Stopping,
    /// It is stopped and not billed, but its volumes are.
    Stopped,
    /// It is terminated.
    Terminated,
}

impl fmt::Display for InstanceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Terminated => "terminated",
        })
    }
}

/// The purchase option of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Market {
    /// On demand, at the list price or under a commitment.
    OnDemand,
    /// Spare capacity that the provider can interrupt.
    Spot,
    /// Reserved capacity (an On-Demand Capacity Reservation, a Capacity Block, scheduled
    /// instances). It is paid for, used or not.
    Reserved,
}

impl fmt::Display for Market {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OnDemand => "on demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved capacity",
        })
    }
}

/// The service that starts and stops an instance. Advice is about the controller, and never about
/// terminating a machine that the controller would replace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum Controller {
    /// An EC2 Auto Scaling group.
    AutoScalingGroup(String),
    /// A compute environment of AWS Batch.
    BatchEnvironment(String),
    /// A node group of EKS.
    EksNodegroup(String),
    /// A node pool of Karpenter.
    KarpenterNodePool(String),
    /// A cluster of EMR, by its id.
    EmrCluster(String),
    /// A cluster of AWS ParallelCluster.
    ParallelCluster(String),
    /// A managed instance group of Compute Engine.
    InstanceGroup(String),
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AutoScalingGroup(name) => write!(f, "Auto Scaling group {name}"),
            Self::BatchEnvironment(name) => write!(f, "Batch compute environment {name}"),
            Self::EksNodegroup(name) => write!(f, "EKS node group {name}"),
            Self::KarpenterNodePool(name) => write!(f, "Karpenter node pool {name}"),
            Self::EmrCluster(name) => write!(f, "EMR cluster {name}"),
            Self::ParallelCluster(name) => write!(f, "ParallelCluster {name}"),
            Self::InstanceGroup(name) => write!(f, "managed instance group {name}"),
        }
    }
}

/// The provider of a machine, which determines how the machine is stopped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Amazon EC2.
    #[default]
    Aws,
    /// Google Compute Engine in a project and zone.
    Gcp {
        /// The project.
        project: String,
        /// The zone, such as `europe-west6-a`.
        zone: String,
    },
    /// A machine of the user, or of a cloud provider that Ebb does not read.
    Own,
}

/// One machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Its id.
    pub id: NodeId,
    /// The account; `None` when the response did not contain it.
    pub account: Option<AccountId>,
    /// The region.
    pub region: Region,
    /// The instance type.
    pub instance_type: InstanceType,
    /// The provider.
    #[serde(default)]
    pub provider: Provider,
    /// The hardware, if the provider reports it and the catalogue does not know the type.
    #[serde(default)]
    pub hardware: Option<Hardware>,
    /// The state.
    pub state: InstanceState,
    /// When it was last started; `None` when the response did not contain it.
    pub launched_at: Option<Timestamp>,
    /// The purchase option.
    pub market: Market,
    /// The controller that starts and stops it; `None` without a known controller.
    pub controller: Option<Controller>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The image it was started from.
    #[serde(default)]
    pub image: Option<String>,
    /// When it entered its state; known for stopped and terminated instances only.
    #[serde(default)]
    pub state_since: Option<Timestamp>,
    /// Whether the cloud provider stopped or terminated it to reclaim spot capacity.
    #[serde(default)]
    pub is_taken_back: bool,
}

impl Instance {
    /// Its type; `None` outside the clouds, where machines have none.
    pub fn listed_type(&self) -> Option<InstanceType> {
        Some(self.instance_type.clone()).filter(InstanceType::is_listed)
    }

    /// How its cloud charges it; `None` outside the clouds.
    pub fn billed_market(&self) -> Option<Market> {
        (self.provider != Provider::Own).then_some(self.market)
    }

    /// An instance with only these properties; all others are unknown.
    pub fn new(
        id: NodeId,
        region: Region,
        instance_type: InstanceType,
        state: InstanceState,
        market: Market,
    ) -> Self {
        Self {
            id,
            account: None,
            region,
            instance_type,
            provider: Provider::Aws,
            hardware: None,
            state,
            launched_at: None,
            market,
            controller: None,
            tags: BTreeMap::new(),
            image: None,
            state_since: None,
            is_taken_back: false,
        }
    }

    /// When it was stopped; `None` if it is not stopped, or the time is unknown.
    pub fn stopped_since(&self) -> Option<Timestamp> {
        let since = self.state_since;
        since.filter(|_| self.state == InstanceState::Stopped)
    }

    /// The value of the tag `Name`.
    pub fn name(&self) -> Option<&str> {
        name_of(&self.tags)
    }

    /// The owner: the first of the tags `Owner`, `owner`, `CreatedBy` with a value.
    pub fn owner(&self) -> Option<&str> {
        owner_of(&self.tags)
    }
}

/// The name of a resource by its tags.
pub fn name_of(tags: &BTreeMap<String, String>) -> Option<&str> {
    first_of(tags, &["Name"])
}

/// Tags that name the owner of a resource, the best first.
pub const OWNER_TAGS: [&str; 3] = ["Owner", "owner", "CreatedBy"];

/// The owner of a resource by its tags.
pub fn owner_of(tags: &BTreeMap<String, String>) -> Option<&str> {
    first_of(tags, &OWNER_TAGS)
}

fn first_of<'a>(tags: &'a BTreeMap<String, String>, keys: &[&str]) -> Option<&'a str> {
    let values = keys.iter().filter_map(|key| tags.get(*key));
    values.map(String::as_str).find(|value| !value.is_empty())
}

/// The controller by the tags of an instance. Batch environments are found through ECS instead. The
/// more specific tag is checked first, because a node group is based on an Auto Scaling group.
///
/// Source: "Tag your Auto Scaling groups" (`aws:autoscaling:groupName`), EKS "Managed node groups"
/// (`eks:nodegroup-name`), Karpenter "NodeClasses" (`karpenter.sh/nodepool`), EMR "Tag resources"
/// (`aws:elasticmapreduce:job-flow-id`), ParallelCluster "Tagging"
/// (`parallelcluster:cluster-name`).
pub fn controller_from_tags(tags: &BTreeMap<String, String>) -> Option<Controller> {
    type Named = fn(String) -> Controller;
    const TAGS: [(&str, Named); 5] = [
        ("eks:nodegroup-name", Controller::EksNodegroup),
        ("karpenter.sh/nodepool", Controller::KarpenterNodePool),
        ("aws:elasticmapreduce:job-flow-id", Controller::EmrCluster),
        ("parallelcluster:cluster-name", Controller::ParallelCluster),
        ("aws:autoscaling:groupName", Controller::AutoScalingGroup),
    ];
    TAGS.iter()
        .find_map(|(key, named)| Some(named(tags.get(*key)?.clone())))
}
