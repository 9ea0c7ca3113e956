//! The stored history of one finding.

use ebb_catalog::catalog::Catalogue;
use ebb_telemetry::identity::{AccountId, InstanceType, NodeId};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::Window;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::PriceBasis;
use crate::finding::Finding;
use crate::finding_history::ending::{Ending, Thing};
use crate::finding_history::{Resolved, Saved};
use crate::finding_kind::FindingKind;
use crate::inventory::Inventory;
use crate::inventory::instance::Market;

/// Growth of the price or saving, in percent, from which a finding counts as grown. Smaller changes
/// are noise of prices and windows.
const GROWTH_PERCENT: i64 = 10;

/// The cost of a finding at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Price {
    /// The waste per hour; `None` without a price.
    pub per_hour: Option<Usd>,
    /// The saving in a month; `None` without a price.
    pub saving_a_month: Option<Usd>,
    /// The part of `saving_a_month` that the totals contained; `None` without a price, or if an
    /// earlier release stored the price.
    pub counted_a_month: Option<Usd>,
    /// `per_hour` at the list price; `None` without a list price.
    pub list_per_hour: Option<Usd>,
}

impl Price {
    /// The cost of a finding.
    pub fn from_finding(finding: &Finding) -> Self {
        let cost = finding.cost.as_ref();
        Self {
            per_hour: cost.map(|cost| cost.per_hour.0),
            saving_a_month: cost.map(|cost| cost.saving_a_month),
            counted_a_month: cost.map(|cost| cost.in_totals().saving_a_month),
            list_per_hour: cost.and_then(|cost| Some(cost.list_per_hour?.0)),
        }
    }

    /// True if the price or the saving grew by more than 10 %, or is known for the first time.
    pub fn grew_to(&self, now: &Self) -> bool {
        let grew = |before: Option<Usd>, now: Option<Usd>| match (before, now) {
            (None, Some(_)) => true,
            (Some(before), Some(now)) => {
                let bound = before.micros().saturating_mul(100 + GROWTH_PERCENT);
                now.micros().saturating_mul(100) > bound
            }
            (_, None) => false,
        };
        grew(self.per_hour, now.per_hour) || grew(self.saving_a_month, now.saving_a_month)
    }
}

/// The stored history of one finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The id of the resource.
    pub resource: String,
    /// The name; `None` when it has none.
    pub name: Option<String>,
    /// The owner; `None` when no tag names one.
    pub owner: Option<String>,
    /// The region.
    pub region: String,
    /// The account; `None` when unknown.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// Whether it was measured or made by a generator.
    pub origin: Origin,
    /// The instance type at the last sighting; `None` if it is no machine, or if an earlier release
    /// stored it.
    #[serde(default)]
    pub instance_type: Option<InstanceType>,
    /// The billed resource, which is the resource itself. An earlier release stored the node of a
    /// step here. The end of a node shows nothing about a step that ran on it.
    pub billed: String,
    /// The kind of the billed resource in the inventory.
    pub thing: Thing,
    /// True if a controller may start it again, so that its end is no certain saving.
    pub is_controlled: bool,
    /// When a sweep first found it.
    pub first_seen: Timestamp,
    /// The first of the consecutive sweeps that found it, without those that could not evaluate it.
    /// `None` if an earlier release stored it.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// When a sweep last found it.
    pub last_seen: Timestamp,
    /// The window of the finding. If a part of it is no longer stored, the window is joined with
    /// the overlapping windows of earlier sweeps. `None` if an earlier release stored it.
    #[serde(default)]
    pub observed: Option<Window>,
    /// Its price at the last sighting.
    pub price: Price,
    /// The source of that price; `None` without a price.
    pub basis: Option<PriceBasis>,
    /// Its price when its stage last was another than ongoing. The comparison with this price shows
    /// slow growth too.
    #[serde(rename = "told")]
    pub price_at_stage: Price,
    /// True while a decision suppresses it.
    pub set_aside: bool,
    /// How it ended; `None` while it is not resolved.
    pub resolved: Option<Resolution>,
}

/// How a finding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The first sweep that evaluated the resource and did not find it.
    pub at: Timestamp,
    /// How it ended, as far as the inventory showed.
    pub ending: Ending,
    /// When the resource was billed again without being waste; `None` if it was not.
    pub paid_again_at: Option<Timestamp>,
    /// The saving in a month from the change of a machine's type; `None` without a change, without
    /// a saving, or when a price is unknown.
    #[serde(default)]
    pub change_saves: Option<Usd>,
}

/// A change of a machine's instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedType {
    /// The saving in a month; `None` without a saving, or when a price is unknown.
    pub saves: Option<Usd>,
}

impl Resolution {
    pub(crate) fn new(kind: FindingKind, ending: Ending, now: Timestamp) -> Self {
        let ending = match ending {
            // The volume exists with a newer type, as recommended.
            Ending::StillThere if kind == FindingKind::OldVolumeType => Ending::Changed,
            ending => ending,
        };
        Self {
            at: now,
            ending,
            paid_again_at: None,
            change_saves: None,
        }
    }

    pub(crate) fn changed(&mut self, changed: ChangedType) {
        if self.paid_again_at.is_none() {
            (self.ending, self.change_saves) = (Ending::Changed, changed.saves);
        }
    }

    pub(crate) fn paid_again(&mut self, now: Timestamp) {
        if matches!(self.ending, Ending::Stopped | Ending::Gone) {
            self.paid_again_at.get_or_insert(now);
        }
    }
}

impl Life {
    pub(crate) fn new(finding: &Finding, inventory: &Inventory, now: Timestamp) -> Self {
        let resource = &finding.resource;
        let mut life = Self {
            kind: finding.kind,
            resource: resource.id.clone(),
            name: None,
            owner: None,
            region: resource.region.to_string(),
            account: None,
            origin: resource.origin,
            instance_type: None,
            billed: String::new(),
            thing: Thing::Other,
            is_controlled: false,
            first_seen: now,
            since: Some(now),
            last_seen: now,
            observed: None,
            price: Price::default(),
            basis: None,
            price_at_stage: Price::from_finding(finding),
            set_aside: false,
            resolved: None,
        };
        life.see(finding, inventory, now);
        life
    }

    /// Updates the history from a finding of the present sweep.
    pub(crate) fn see(&mut self, finding: &Finding, inventory: &Inventory, now: Timestamp) {
        let resource = &finding.resource;
        self.name.clone_from(&resource.name);
        self.owner.clone_from(&resource.owner);
        self.account.clone_from(&resource.account);
        self.instance_type.clone_from(&resource.instance_type);
        self.thing = Thing::find(&resource.id, inventory);
        self.billed.clone_from(&resource.id);
        self.is_controlled = resource.controller.is_some();
        self.last_seen = now;
        let window = finding.window;
        let earlier = self.observed.filter(|before| {
            finding.is_longer() && before.from < window.from && window.from <= before.to
        });
        let from = earlier.map_or(window.from, |before| before.from);
        self.observed = Some(Window { from, ..window });
        self.price = Price::from_finding(finding);
        self.basis = finding.cost.as_ref().map(|cost| cost.basis);
    }

    /// Whether the inventory was asked for the resource. Machines, volumes, addresses and snapshots
    /// of other regions and accounts may still exist.
    pub(crate) fn is_in_scope(&self, inventory: &Inventory) -> bool {
        match self.thing {
            Thing::Instance | Thing::Volume | Thing::Address | Thing::Snapshot => {
                let scope = &inventory.scope;
                scope.contains(self.account.as_ref(), &self.region)
            }
            Thing::Host | Thing::Other => true,
        }
    }

    /// How the finding would end now, as far as the inventory shows.
    pub(crate) fn ending(&self, inventory: &Inventory) -> Ending {
        match self.billed == self.resource {
            true => Ending::find(self.thing, &self.billed, inventory),
            false => Ending::Unknown,
        }
    }

    /// The change of the instance type, if the finding recommended one and the machine has another
    /// type now. The saving is the difference of the list prices, scaled by the ratio of the
    /// effective price to the list price.
    pub(crate) fn changed_type(
        &self,
        inventory: &Inventory,
        catalogue: &Catalogue,
    ) -> Option<ChangedType> {
        let advised = [FindingKind::OldGeneration, FindingKind::OverprovisionedNode];
        let before = self.instance_type.as_ref();
        let before = before.filter(|_| advised.contains(&self.kind))?;
        let node = NodeId::new(&self.billed).ok()?;
        let now = inventory.instances.get(&node)?;
        if now.instance_type == *before {
            return None;
        }
        let saves = || {
            let price = |kind| catalogue.on_demand(&now.region, kind);
            let saved = price(before)?.0 - price(&now.instance_type)?.0;
            let paid = self.price.per_hour?.micros().try_into().ok()?;
            let listed = self.price.list_per_hour?.micros().try_into().ok()?;
            let saved = UsdPerHour(saved).part(paid, listed).a_month();
            (now.market == Market::OnDemand && saved > Usd::ZERO).then_some(saved)
        };
        Some(ChangedType { saves: saves() })
    }

    /// The entry of a report for a resolved finding; `None` while it is not resolved.
    pub fn as_resolved(&self, id: &str, now: Timestamp) -> Option<Resolved> {
        let resolution = self.resolved.as_ref()?;
        Some(Resolved {
            id: id.to_owned(),
            kind: self.kind,
            resource: self.resource.clone(),
            name: self.name.clone(),
            owner: self.owner.clone(),
            region: self.region.clone(),
            origin: self.origin,
            first_seen: self.first_seen,
            resolved_at: resolution.at,
            ending: resolution.ending,
            saved: self.saved(resolution, now),
        })
    }

    /// The saving of a resolved finding. `None` unless the inventory shows that the resource is no
    /// longer paid. Also `None` if a controller may have started the resource again elsewhere, or
    /// if only an upper bound of its price is known. The end of a machine is no saving of a step.
    /// A saving that other findings share counts once.
    fn saved(&self, resolution: &Resolution, now: Timestamp) -> Option<Saved> {
        let a_month = match resolution.ending {
            Ending::Stopped | Ending::Gone
                if self.is_controlled || self.billed != self.resource =>
            {
                None
            }
            Ending::Changed if matches!(self.thing, Thing::Instance | Thing::Host) => {
                resolution.change_saves
            }
            Ending::Stopped | Ending::Gone | Ending::Changed => {
                self.price.counted_a_month.or(self.price.saving_a_month)
            }
            Ending::StillThere | Ending::Silent | Ending::Unknown => None,
        }?;
        let basis = self.basis.filter(|basis| !basis.is_bound())?;
        let end = resolution.paid_again_at.unwrap_or(now);
        let seconds = end.duration_since(resolution.at).as_secs().max(0);
        let month = u128::from(UsdPerHour::HOURS_A_MONTH) * 3600;
        Some(Saved {
            a_month,
            basis,
            so_far: a_month.part(u128::try_from(seconds).ok()?, month),
        })
    }
}
