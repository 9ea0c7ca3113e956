//! A virtual machine.

use std::collections::BTreeMap;
use std::fmt;

use ebb_telemetry::heartbeat::Hardware;
use ebb_telemetry::identity::{AccountId, InstanceType, NodeId, Region};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceState {
    /// It is starting; billing has not begun.
    Pending,
    /// It runs and is billed.
    Running,
    /// It is on its way to stopped or terminated.
    Stopping,
    /// It is stopped: its volumes are billed, it is not.
    Stopped,
    /// It is gone.
    Terminated,
}

/// How an instance is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Market {
    /// By the hour at the list price, or under a commitment.
    OnDemand,
    /// Spare capacity that can be taken back.
    Spot,
    /// Capacity that was reserved ahead (an On-Demand Capacity Reservation, a
    /// Capacity Block, scheduled instances) and is paid for, used or not.
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

/// What starts and stops an instance, so that advice goes there and never says
/// "terminate" about a machine that would come back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// Whose a machine is, and so how it is stopped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Amazon EC2.
    #[default]
    Aws,
    /// Google Compute Engine, in this project and zone.
    Gcp {
        /// The project.
        project: String,
        /// The zone, such as `europe-west6-a`.
        zone: String,
    },
    /// The user's own, or a cloud's that Ebb does not read.
    Own,
}

/// One machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Its id.
    pub id: NodeId,
    /// Whose it is; `None` when the answer did not say.
    pub account: Option<AccountId>,
    /// Where it is.
    pub region: Region,
    /// What it is.
    pub instance_type: InstanceType,
    /// Whose it is.
    #[serde(default)]
    pub provider: Provider,
    /// What it has, where its cloud tells and the catalogue does not know its type.
    #[serde(default)]
    pub hardware: Option<Hardware>,
    /// How it stands.
    pub state: InstanceState,
    /// When it was last started; `None` when the answer did not say.
    pub launched_at: Option<Timestamp>,
    /// How it is bought.
    pub market: Market,
    /// What starts and stops it; `None` when nothing known does.
    pub controller: Option<Controller>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The image it was started from.
    #[serde(default)]
    pub image: Option<String>,
    /// Since when it stands as it does; told for stopped and terminated ones only.
    #[serde(default)]
    pub state_since: Option<Timestamp>,
    /// Whether its cloud stopped or ended it to have its spot capacity back.
    #[serde(default)]
    pub is_taken_back: bool,
}

impl Instance {
    /// One of which nothing more is known.
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

    /// Since when it has been stopped; `None` where it is not, or nobody tells.
    pub fn stopped_since(&self) -> Option<Timestamp> {
        let since = self.state_since;
        since.filter(|_| self.state == InstanceState::Stopped)
    }

    /// The tag `Name`.
    pub fn name(&self) -> Option<&str> {
        name_of(&self.tags)
    }

    /// Whom to ask: the first of the tags `Owner`, `owner`, `CreatedBy`.
    pub fn owner(&self) -> Option<&str> {
        owner_of(&self.tags)
    }
}

/// What the tags of a resource call it.
pub fn name_of(tags: &BTreeMap<String, String>) -> Option<&str> {
    first_of(tags, &["Name"])
}

/// Whom the tags of a resource name to ask.
pub fn owner_of(tags: &BTreeMap<String, String>) -> Option<&str> {
    first_of(tags, &["Owner", "owner", "CreatedBy"])
}

fn first_of<'a>(tags: &'a BTreeMap<String, String>, keys: &[&str]) -> Option<&'a str> {
    let said = keys.iter().filter_map(|key| tags.get(*key));
    said.map(String::as_str).find(|value| !value.is_empty())
}

/// The controller that tags name; Batch is found by joining ECS. The more specific is
/// asked first: a node group is an Auto Scaling group underneath.
///
/// Source: "Tag your Auto Scaling groups" (`aws:autoscaling:groupName`), EKS "Managed
/// node groups" (`eks:nodegroup-name`), Karpenter "NodeClasses" (`karpenter.sh/nodepool`),
/// EMR "Tag resources" (`aws:elasticmapreduce:job-flow-id`), ParallelCluster "Tagging"
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
