//! A finding: waste or failure that was observed, with its evidence and cost. This module contains
//! values only; the text is in the `Display` implementations and in the renderers.

pub mod evidence;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ebb_telemetry::identity::{AccountId, InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{PlacedStep, StepId};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::advice::offer::Offers;
use crate::advice::sized_request::{Risk, SizedRequest};
use crate::confidence::Confidence;
use crate::cost::Cost;
use crate::finding::evidence::Evidence;
use crate::finding_kind::{self, FindingKind};
use crate::inventory::batch::job::Job;
use crate::inventory::instance::{Controller, Instance, Market};

/// The resource that a finding is about, and its owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resource {
    /// The id, such as that of an instance, job or volume, or the name of a step, queue or pipeline.
    pub id: String,
    /// The name; `None` when it has none.
    pub name: Option<String>,
    /// The region.
    pub region: Region,
    /// The account; `None` when unknown.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The node that the resource is or runs on, if that is not `id` itself.
    pub node: Option<String>,
    /// The owner; `None` when no tag names one.
    pub owner: Option<String>,
    /// The instance type that it has or runs on; `None` when unknown.
    pub instance_type: Option<InstanceType>,
    /// The purchase option of the machine; `None` when unknown.
    pub market: Option<Market>,
    /// The controller that starts and stops it; `None` when there is none.
    pub controller: Option<Controller>,
    /// Whether the evidence was measured or made by a generator.
    pub origin: Origin,
    /// The tags of the resource and of its machine, at most [`Resource::MAX_TAGS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

impl Resource {
    /// Maximum number of tags of a resource; AWS has the same limit.
    pub const MAX_TAGS: usize = 50;

    /// A resource of which only the id, name and region are known.
    pub fn named(id: String, name: &str, region: &Region) -> Self {
        Self {
            id,
            name: Some(name.to_owned()),
            region: region.clone(),
            account: None,
            node: None,
            owner: None,
            instance_type: None,
            market: None,
            controller: None,
            origin: Origin::Measured,
            tags: BTreeMap::new(),
        }
    }

    /// An instance.
    pub fn of_instance(
        instance: &Instance,
        controller: Option<Controller>,
        origin: Origin,
    ) -> Self {
        Self {
            id: instance.id.to_string(),
            name: instance.name().map(str::to_owned),
            region: instance.region.clone(),
            account: instance.account.clone(),
            node: None,
            owner: instance.owner().map(str::to_owned),
            instance_type: instance.listed_type(),
            market: instance.billed_market(),
            controller,
            origin,
            tags: BTreeMap::new(),
        }
    }
}

/// The remedy: an action of AWS Cost Optimization Hub and a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// The action.
    pub action: Action,
    /// One sentence for the person who does it.
    pub advice: String,
    /// A command or console link to start from; `None` when there is no single one.
    pub command: Option<String>,
}

/// `actionType` of AWS Cost Optimization Hub, with two additional values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Action {
    /// Stop the machine.
    Stop,
    /// Delete or release the resource.
    Delete,
    /// Change to the newer type.
    Upgrade,
    /// Request less.
    Rightsize,
    /// Reduce the size of a group or environment.
    ScaleIn,
    /// Find out why it hangs.
    Investigate,
    /// Change a setting so that it can continue.
    Reconfigure,
}

impl Action {
    /// The name for people; `Display` writes the name of the API.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Stop => "Stop",
            Self::Delete => "Delete",
            Self::Upgrade => "Upgrade",
            Self::Rightsize => "Rightsize",
            Self::ScaleIn => "Scale in",
            Self::Investigate => "Investigate",
            Self::Reconfigure => "Reconfigure",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ScaleIn => "ScaleIn",
            other => other.label(),
        })
    }
}

/// The recommended request and machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommendation {
    /// The present request.
    pub current: SizedRequest,
    /// The recommended request.
    pub recommended: SizedRequest,
    /// Number of observed tasks.
    pub samples: u32,
    /// The cheapest instance type of the same region that fits; `None` when the catalogue knows
    /// none.
    pub placement: Option<crate::advice::placement::Placement>,
    /// The risk of the recommended memory.
    #[serde(default)]
    pub risk: Risk,
    /// Offers of instance types with their cost, the placement first.
    #[serde(default)]
    pub offers: Offers,
    /// The present cost of the step per hour, by its share of the machine.
    #[serde(rename = "current_per_hour_usd", alias = "current_per_hour")]
    pub current_per_hour: Option<UsdPerHour>,
    /// The cost per hour with the recommendation.
    #[serde(rename = "recommended_per_hour_usd", alias = "recommended_per_hour")]
    pub recommended_per_hour: Option<UsdPerHour>,
    /// The assumptions of the recommendation.
    pub assumptions: Vec<String>,
}

/// Waste or failure that was observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable from sweep to sweep: `kind/region/resource`. For resources with only a name it is
    /// `kind/account/region/name`.
    #[serde(deserialize_with = "finding_kind::read_id")]
    pub id: String,
    /// The kind of finding.
    pub kind: FindingKind,
    /// The resource.
    pub resource: Resource,
    /// The observed time.
    pub window: Window,
    /// The share of the window that was observed; for ended tasks, the share of their run time.
    /// `None` if the cloud provider reports the fact, so that no observation is needed. Also `None`
    /// if the coverage of ended tasks is no longer known, which the reason states.
    pub coverage: Option<Share>,
    /// The evidence.
    pub evidence: Evidence,
    /// The confidence.
    pub confidence: Confidence,
    /// The cost; `None` when no price is known, which is not the same as zero.
    pub cost: Option<Cost>,
    /// The remedy.
    pub remedy: Remedy,
    /// The recommended request and machine; `None` if the remedy is another.
    pub recommendation: Option<Recommendation>,
    /// The tasks concerned, at most [`Finding::MAX_STEPS`]; empty without tasks.
    #[serde(default)]
    pub steps: Vec<StepLink>,
}

/// A link to a task: the name of its step in the report, and the task in the lake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepLink {
    /// The name of the step.
    pub name: String,
    /// The kind and key, which the table `steps` of the lake contains too.
    pub id: StepId,
    /// The node that it ran on.
    pub node: String,
    /// The id of its Batch job; `None` when it was no Batch job.
    #[serde(default)]
    pub job: Option<String>,
}

impl StepLink {
    /// A link to a task of the step `name`.
    pub fn from_step(step: &PlacedStep, name: &str, job: Option<&Job>) -> Self {
        Self {
            name: name.to_owned(),
            id: step.usage.id.clone(),
            node: step.node.to_string(),
            job: job.map(|job| job.id.as_str().to_owned()),
        }
    }
}

impl Finding {
    /// Maximum number of linked tasks.
    pub const MAX_STEPS: usize = 10;

    /// The id of a finding, stable from sweep to sweep.
    pub fn id_of(kind: FindingKind, region: &Region, resource: &str) -> String {
        format!("{}/{region}/{resource}", kind.slug())
    }

    /// The id of a finding about a resource with only a name, such as a step or a queue. Two
    /// accounts may use the same name. The result equals [`Self::id_of`] when the account is
    /// unknown.
    pub fn id_in(
        kind: FindingKind,
        account: Option<&AccountId>,
        region: &Region,
        name: &str,
    ) -> String {
        match account {
            Some(account) => format!("{}/{account}/{region}/{name}", kind.slug()),
            None => Self::id_of(kind, region, name),
        }
    }

    /// The kind in words. A stuck worker, queue or environment is not called a job.
    pub fn label(&self) -> String {
        match &self.evidence {
            Evidence::StuckJob(stuck) if self.kind == FindingKind::StuckBatchJob => {
                stuck.stuck.label().to_owned()
            }
            _ => self.kind.to_string(),
        }
    }

    /// Whether the waste began before the window, because earlier data is no longer stored. The
    /// waste so far is then a lower bound.
    pub fn is_longer(&self) -> bool {
        matches!(&self.evidence, Evidence::IdleNode(idle) if idle.is_longer)
    }

    /// Extends an empty window to begin at the first sweep that found the waste. The window is
    /// empty if the cloud reports a state without its start time.
    pub(crate) fn extend_to_first_sweep(&mut self, since: Timestamp) {
        if self.window.from >= self.window.to {
            self.begin_at(since.min(self.window.to));
        }
    }

    /// Extends a window to what this and earlier sweeps observed, if a part of the window is no
    /// longer stored.
    pub(crate) fn extend_to_observed(&mut self, observed: Window) {
        if self.is_longer() && observed.from < self.window.from {
            self.begin_at(observed.from);
        }
    }

    fn begin_at(&mut self, from: Timestamp) {
        self.window.from = from;
        let length = self.window.length();
        if let Evidence::IdleNode(idle) = &mut self.evidence {
            idle.idle_for = length;
        }
        if let Some(cost) = &mut self.cost {
            cost.spent = cost.per_hour.over(length);
        }
    }

    /// The saving in a month; `None` when no price is known, or only an upper bound.
    pub fn known_saving(&self) -> Option<Usd> {
        let cost = self.cost.as_ref()?;
        (!cost.basis.is_bound()).then_some(cost.saving_a_month)
    }

    /// An upper bound of the saving in a month; `None` when the saving is known, or no price is.
    pub fn saving_bound(&self) -> Option<Usd> {
        let cost = self.cost.as_ref()?;
        cost.basis.is_bound().then_some(cost.saving_a_month)
    }

    /// The time that the saving covers instead of a month: less than a week of metrics gives no
    /// monthly forecast. `None` for a month, or without a saving.
    pub fn saving_covers(&self) -> Option<Duration> {
        const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
        let length = self.window.length();
        let is_of_window = |cost: &Cost| {
            let saving = cost.saving_a_month;
            saving > Usd::ZERO && saving == cost.spent && length < WEEK
        };
        self.cost
            .as_ref()
            .is_some_and(is_of_window)
            .then_some(length)
    }

    /// The saving in a month, or zero when no price is known; use it only for sorting.
    pub fn saving_or_zero(&self) -> Usd {
        self.cost
            .as_ref()
            .map_or(Usd::ZERO, |cost| cost.saving_a_month)
    }
}
