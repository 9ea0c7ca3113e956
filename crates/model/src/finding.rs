//! A finding: waste that was observed, with its evidence and money. Values only;
//! the words for people are in `Display` here and in the renderers.

pub mod evidence;

use std::collections::BTreeMap;
use std::fmt;

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
use crate::finding_kind::FindingKind;
use crate::inventory::batch::job::Job;
use crate::inventory::instance::{Controller, Instance, Market, Provider};

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
            instance_type: Some(instance.instance_type.clone()).filter(InstanceType::is_listed),
            market: (instance.provider != Provider::Own).then_some(instance.market),
            controller,
            origin,
            tags: BTreeMap::new(),
        }
    }
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
    pub placement: Option<crate::advice::placement::Placement>,
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
    pub fn of(step: &PlacedStep, name: &str, job: Option<&Job>) -> Self {
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
