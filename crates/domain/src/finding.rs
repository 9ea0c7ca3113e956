//! A finding: waste that was observed, with its evidence and money. Values only;
//! the words for people are in `Display` here and in the renderers.

mod evidence;
mod kind;

pub use evidence::{
    Bought, Cause, Causes, Ended, Evidence, IdleNode, KeptAliveBy, Larger, LowDuty, MetricSize,
    Newer, OffHours, Overprovisioned, Queued, QuietGpu, Roomy, SeenBy, ShortOfCores, ShortOfMemory,
    SizeFit, StepTrouble, Stuck, StuckJob, Tight, Tool, Tools, Trouble, Unused,
};
pub use kind::FindingKind;

pub use ebb_telemetry::time::Window;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fleet::{Controller, Instance, Job, Market, Provider};
use crate::heartbeat::Origin;
use crate::identity::{AccountId, InstanceType, Region};
use crate::profile::place::Offers;
use crate::savings::Counted;
use crate::sizing::{Risk, SizedRequest};
use crate::step::{PlacedStep, StepId};
use crate::units::{Share, Usd, UsdPerHour};

/// What the waste is about, and whom to ask.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resource {
    /// The instance id, job id, or job definition.
    pub id: String,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// Where it is.
    pub region: Region,
    /// In whose account; `None` where that is not told.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The node it is or runs on, when that is not `id` itself.
    pub node: Option<String>,
    /// Whom to ask; `None` when no tag tells.
    pub owner: Option<String>,
    /// What it runs on, or is.
    pub instance_type: Option<InstanceType>,
    /// How that is bought.
    pub market: Option<Market>,
    /// What starts and stops it.
    pub controller: Option<Controller>,
    /// Whether its evidence was measured or made by a generator.
    pub origin: Origin,
    /// Its tags and those of its machine, at most [`Resource::MAX_TAGS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

impl Resource {
    /// Tags kept of a resource: as many as AWS allows.
    pub const MAX_TAGS: usize = 50;

    /// One of which nothing but a name is known.
    pub(crate) fn named(id: String, name: &str, region: &Region) -> Self {
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
    pub(crate) fn of_instance(
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
            instance_type: Some(instance.instance_type.clone()).filter(InstanceType::is_listed),
            market: (instance.provider != Provider::Own).then_some(instance.market),
            controller,
            origin,
            tags: BTreeMap::new(),
        }
    }
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Look before you act.
    Low,
    /// Likely.
    Medium,
    /// Seen by a probe or said by the cloud itself.
    High,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// How sure a finding is, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confidence {
    /// How sure.
    pub level: Level,
    /// Why.
    pub reason: String,
}

/// Where a price comes from, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceBasis {
    /// Net amortized cost of this very resource on its last closed full day.
    Bill,
    /// What its user states in the policy.
    Stated,
    /// The list price of the catalogue built in.
    ListPrice,
    /// What the type costs on the spot market now, in the cheapest zone of its region.
    SpotPrice,
    /// The list price stands in for a spot price that is not known: an upper
    /// bound.
    ListPriceAsUpperBound,
}

impl PriceBasis {
    /// Whether it is the list price itself.
    pub fn is_of_the_list(self) -> bool {
        matches!(self, Self::ListPrice | Self::ListPriceAsUpperBound)
    }

    /// Whether it only bounds what is paid: a bound is none to save from.
    pub fn is_bound(self) -> bool {
        self == Self::ListPriceAsUpperBound
    }
}

impl fmt::Display for PriceBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bill => "effective cost from the bill",
            Self::Stated => "price that you state",
            Self::ListPrice => "list price",
            Self::SpotPrice => "spot price in the cheapest zone",
            Self::ListPriceAsUpperBound => "on-demand price of spot machines",
        })
    }
}

/// What the waste costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// What is wasted an hour.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: UsdPerHour,
    /// Where that price comes from.
    pub basis: PriceBasis,
    /// The same at the list price; `None` when the catalogue has none.
    #[serde(rename = "list_per_hour_usd", alias = "list_per_hour")]
    pub list_per_hour: Option<UsdPerHour>,
    /// What was wasted within the window.
    #[serde(rename = "spent_usd", alias = "spent")]
    pub spent: Usd,
    /// What a month of it costs, and so what mending it saves.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Usd,
    /// The part of it that the totals contain: less where another finding counts the same
    /// dollars. `None` for all of it, as in `ebb.report/1.0`.
    #[serde(default)]
    pub counted: Option<Counted>,
    /// Of when the price is: the billed day, the day of the list, or the time of the spot
    /// price; `None` where that is not known.
    #[serde(default)]
    pub price_as_of: Option<Timestamp>,
    /// Of when the list price is; `None` where there is none, or its day is not known.
    #[serde(default)]
    pub list_as_of: Option<Timestamp>,
}

/// What to do, as an action of Cost Optimization Hub with its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// The action.
    pub action: Action,
    /// One sentence to the person who would do it.
    pub advice: String,
    /// A command or console link to start from; `None` when there is no single
    /// one.
    pub command: Option<String>,
}

/// `actionType` of AWS Cost Optimization Hub, and two that it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Stop the machine.
    Stop,
    /// Delete or release it.
    Delete,
    /// Change it to what replaced it.
    Upgrade,
    /// Ask for less.
    Rightsize,
    /// Lower a group's or environment's size.
    ScaleIn,
    /// Find out why it hangs.
    Investigate,
    /// Change a setting so that it can go on.
    Reconfigure,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stop => "Stop",
            Self::Delete => "Delete",
            Self::Upgrade => "Upgrade",
            Self::Rightsize => "Rightsize",
            Self::ScaleIn => "ScaleIn",
            Self::Investigate => "Investigate",
            Self::Reconfigure => "Reconfigure",
        })
    }
}

/// What to ask for and run on instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// What it asks for now.
    pub current: SizedRequest,
    /// What to ask for.
    pub recommended: SizedRequest,
    /// Steps observed.
    pub samples: u32,
    /// The cheapest fitting machine type in the same region; `None` when the
    /// catalogue knows none.
    pub placement: Option<crate::placement::Placement>,
    /// How the memory recommended may fail.
    #[serde(default)]
    pub risk: Risk,
    /// What it would cost where, the placement first.
    #[serde(default)]
    pub offers: Offers,
    /// What an hour of the step costs now, by its share of the machine.
    #[serde(rename = "current_per_hour_usd", alias = "current_per_hour")]
    pub current_per_hour: Option<UsdPerHour>,
    /// What it would cost.
    #[serde(rename = "recommended_per_hour_usd", alias = "recommended_per_hour")]
    pub recommended_per_hour: Option<UsdPerHour>,
    /// What was taken for granted.
    pub assumptions: Vec<String>,
}

/// Waste that was observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The same for the same waste from sweep to sweep: `kind/region/resource`, and for
    /// what has but a name `kind/account/region/name`.
    pub id: String,
    /// What kind of waste.
    pub kind: FindingKind,
    /// What it is about.
    pub resource: Resource,
    /// The time observed.
    pub window: Window,
    /// The share of the window that was seen, of runs that ended the share of their time;
    /// `None` when the cloud itself said it and nothing had to be watched, or where what
    /// was seen while such runs lasted is not known any more, which the reason says.
    pub coverage: Option<Share>,
    /// What shows it.
    pub evidence: Evidence,
    /// How sure it is.
    pub confidence: Confidence,
    /// What it costs; `None` when no price is known, which is not nothing.
    pub cost: Option<Cost>,
    /// What to do.
    pub remedy: Remedy,
    /// What to run on instead, where that is the remedy.
    pub recommendation: Option<Recommendation>,
    /// The steps concerned, at most [`Finding::MAX_STEPS`]; empty where none is.
    #[serde(default)]
    pub steps: Vec<StepLink>,
}

/// Where to find a step: its name in the report's steps, its run in the lake's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepLink {
    /// What a person calls it.
    pub name: String,
    /// Its kind and key, which the lake's `steps` hold too.
    pub id: StepId,
    /// Where it ran.
    pub node: String,
    /// The Batch job that it was; `None` when it was none.
    #[serde(default)]
    pub job: Option<String>,
}

impl StepLink {
    /// To a run of the step of a name.
    pub(crate) fn of(step: &PlacedStep, name: &str, job: Option<&Job>) -> Self {
        Self {
            name: name.to_owned(),
            id: step.usage.id.clone(),
            node: step.node.to_string(),
            job: job.map(|job| job.id.as_str().to_owned()),
        }
    }
}

impl Finding {
    /// Steps linked at most: enough to begin with.
    pub const MAX_STEPS: usize = 10;

    /// The id that this waste has from sweep to sweep.
    pub fn id_of(kind: FindingKind, region: &Region, resource: &str) -> String {
        format!("{}/{region}/{resource}", kind.slug())
    }

    /// The id of waste about what has but a name, such as a step or a queue: two accounts
    /// may both have given it. Where the account is not told, as [`Self::id_of`].
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

    /// Takes what sweeps saw for the window of what nothing dates: that the cloud says that
    /// something is so, and not since when.
    pub(crate) fn seen_by_sweeps_since(&mut self, since: Timestamp) {
        if self.window.from < self.window.to {
            return;
        }
        self.window.from = since.min(self.window.to);
        let length = self.window.length();
        if let Some(cost) = &mut self.cost {
            cost.spent = cost.per_hour.over(length);
        }
    }

    /// What fixing it saves a month; `None` where no price is known, or only a bound of it.
    pub fn known_saving(&self) -> Option<Usd> {
        let cost = self.cost.as_ref()?;
        (!cost.basis.is_bound()).then_some(cost.saving_a_month)
    }

    /// What mending it saves a month; nothing where no price is known, for
    /// sorting only.
    pub fn saving_or_zero(&self) -> Usd {
        self.cost
            .as_ref()
            .map_or(Usd::ZERO, |cost| cost.saving_a_month)
    }
}
