//! The cost of pipelines and cost centres on closed days of the bill, for longer than the bill itself
//! goes back.

use std::collections::BTreeMap;
use std::fmt;

use ebb_telemetry::money::Usd;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::policy::costs::{AllocationMethod, CostsPolicy, RestOfMachine};
use crate::report::cost_shares::CostDimension;

/// A pipeline or a cost centre.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpendSubject {
    /// [`CostDimension::Pipeline`] or [`CostDimension::CostCentre`].
    pub dimension: CostDimension,
    /// Its name.
    pub name: String,
}

impl SpendSubject {
    /// The dimensions that have subjects.
    pub const DIMENSIONS: [CostDimension; 2] = [CostDimension::Pipeline, CostDimension::CostCentre];

    /// The id of the resource in findings, such as `pipeline/rnaseq`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.dimension.slug(), self.name)
    }

    /// The subject with this id; `None` if the id is not one of a subject.
    pub fn of_id(id: &str) -> Option<Self> {
        let (slug, name) = id.split_once('/')?;
        let mut dimensions = Self::DIMENSIONS.into_iter();
        let dimension = dimensions.find(|dimension| dimension.slug() == slug)?;
        Some(Self {
            dimension,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for SpendSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dimension, self.name)
    }
}

/// The costs of one closed day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpendDay {
    /// The bill of the whole day. The costs of a day stay the same until its bill changes.
    pub billed: Usd,
    /// The cost of each subject. `None` if a part of it is not known, because a machine had no price.
    /// A name that is not there cost nothing, unless names are left out.
    pub by: BTreeMap<CostDimension, BTreeMap<String, Option<Usd>>>,
    /// Number of names that the maximum left out, by dimension.
    pub left_out: BTreeMap<CostDimension, usize>,
}

impl SpendDay {
    /// The cost of a subject; `None` if it is not known.
    pub fn cost(&self, subject: &SpendSubject) -> Option<Usd> {
        let names = self.by.get(&subject.dimension);
        match names.and_then(|names| names.get(&subject.name)) {
            Some(cost) => *cost,
            None if self.left_out.contains_key(&subject.dimension) => None,
            None => Some(Usd::ZERO),
        }
    }

    /// Whether the subject had a cost, even if it is not known.
    pub fn has_cost(&self, subject: &SpendSubject) -> bool {
        let names = self.by.get(&subject.dimension);
        let cost = names.and_then(|names| names.get(&subject.name));
        cost.is_some_and(|cost| *cost != Some(Usd::ZERO))
    }
}

/// The costs of closed days. Costs by another method or another tag are not comparable, so a history
/// has one of each.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpendHistory {
    /// The method of the allocation.
    pub method: AllocationMethod,
    /// Whether tasks pay for what no task occupies.
    pub rest: RestOfMachine,
    /// The tag of cost centres.
    pub cost_centre_tag: Option<String>,
    /// The closed days.
    pub days: BTreeMap<Date, SpendDay>,
}

impl SpendHistory {
    /// Maximum number of days: a month, and the 28 days before each of the 7 newest closed days.
    pub const MAX_DAYS: usize = 45;

    /// Maximum number of names of each dimension on a day, without those that have a budget.
    pub const MAX_NAMES: usize = 200;

    /// A history without days.
    pub fn empty(policy: &CostsPolicy) -> Self {
        Self {
            method: policy.method,
            rest: policy.rest,
            cost_centre_tag: policy.cost_centre_tag.clone(),
            days: BTreeMap::new(),
        }
    }

    /// Whether the costs are allocated as the policy says.
    pub fn is_of(&self, policy: &CostsPolicy) -> bool {
        (self.method, self.rest) == (policy.method, policy.rest)
            && self.cost_centre_tag == policy.cost_centre_tag
    }

    /// The cost of a subject on each closed day since its first cost; `None` for days on which it is
    /// not known.
    pub fn since_first_cost(&self, subject: &SpendSubject) -> BTreeMap<Date, Option<Usd>> {
        let days = self.days.iter();
        let days = days.skip_while(|(_, day)| !day.has_cost(subject));
        days.map(|(date, day)| (*date, day.cost(subject))).collect()
    }

    /// All subjects with a cost.
    pub fn subjects(&self) -> std::collections::BTreeSet<SpendSubject> {
        let names = self.days.values().flat_map(|day| &day.by);
        let subjects = names.flat_map(|(dimension, names)| {
            names.keys().map(|name| SpendSubject {
                dimension: *dimension,
                name: name.clone(),
            })
        });
        subjects.collect()
    }
}
