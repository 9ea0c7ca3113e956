//! The billed cost of each resource by day.

use std::collections::BTreeMap;

use ebb_telemetry::identity::{AccountId, InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use serde::{Deserialize, Serialize};

use crate::inventory::instance::Market;

/// Machines of the bill that a report tells of one by one: 8 MB of it.
pub const MAX_BILLED: usize = 10_000;

/// The bill by resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Billed {
    /// The dearest first, then by id, at most [`MAX_BILLED`].
    pub resources: Vec<BilledResource>,
    /// Resources beyond those.
    pub left_out: usize,
}

/// One resource of the bill, which is there no more where only its id is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BilledResource {
    /// As the bill names it.
    pub id: String,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// In whose account; `None` where that is not told.
    pub account: Option<AccountId>,
    /// Where it is.
    pub region: Option<Region>,
    /// What it is.
    pub instance_type: Option<InstanceType>,
    /// How it is bought.
    pub market: Option<Market>,
    /// Whom to ask.
    pub owner: Option<String>,
    /// Its tags, at most [`Resource::MAX_TAGS`].
    pub tags: BTreeMap<String, String>,
    /// Whether it was measured or made by a generator.
    pub origin: Origin,
    /// What an hour of it costs by the bill; `None` where no day of it is whole.
    #[serde(rename = "per_hour_usd")]
    pub per_hour: Option<UsdPerHour>,
    /// What it is at the list price.
    #[serde(rename = "list_per_hour_usd")]
    pub list_per_hour: Option<UsdPerHour>,
    /// Net and amortized, by day (`YYYY-MM-DD`, UTC).
    #[serde(rename = "by_day_usd")]
    pub by_day: BTreeMap<String, Usd>,
}

impl BilledResource {
    /// What an amount of its bill is at the list price, which relates to it as the two prices
    /// do; `None` where either is not known.
    pub fn at_list_price(&self, billed: Usd) -> Option<Usd> {
        let list = i128::from(self.list_per_hour?.0.micros());
        let paid = i128::from(self.per_hour?.0.micros());
        let at_list = (i128::from(billed.micros()) * list).checked_div(paid)?;
        i64::try_from(at_list).ok().map(Usd::from_micros)
    }
}
