//! The billed cost of each resource by day.

use std::collections::BTreeMap;

use ebb_telemetry::identity::{AccountId, InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use serde::{Deserialize, Serialize};

use crate::inventory::instance::Market;

/// Maximum number of billed machines in a report. They take up to 8 MB.
pub const MAX_BILLED: usize = 10_000;

/// The bill by resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Billed {
    /// The most expensive first, then by id, at most [`MAX_BILLED`].
    pub resources: Vec<BilledResource>,
    /// Number of resources beyond those.
    pub left_out: usize,
}

/// One resource of the bill. If only its id is known, it no longer exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BilledResource {
    /// The id as in the bill.
    pub id: String,
    /// The name; `None` when it has none.
    pub name: Option<String>,
    /// The account; `None` when unknown.
    pub account: Option<AccountId>,
    /// The region; `None` when unknown.
    pub region: Option<Region>,
    /// The instance type; `None` when unknown.
    pub instance_type: Option<InstanceType>,
    /// The purchase option; `None` when unknown.
    pub market: Option<Market>,
    /// The owner; `None` when no tag names one.
    pub owner: Option<String>,
    /// Its tags, at most [`Resource::MAX_TAGS`].
    pub tags: BTreeMap<String, String>,
    /// Whether it was measured or made by a generator.
    pub origin: Origin,
    /// The billed price per hour; `None` without a full day on the bill.
    #[serde(rename = "per_hour_usd")]
    pub per_hour: Option<UsdPerHour>,
    /// The list price per hour; `None` when unknown.
    #[serde(rename = "list_per_hour_usd")]
    pub list_per_hour: Option<UsdPerHour>,
    /// Cost by day (`YYYY-MM-DD`, UTC), net and amortized.
    #[serde(rename = "by_day_usd")]
    pub by_day: BTreeMap<String, Usd>,
}

impl BilledResource {
    /// The list price of a billed amount, by the ratio of the list price to the billed price.
    /// `None` when either price is unknown.
    pub fn at_list_price(&self, billed: Usd) -> Option<Usd> {
        let list = i128::from(self.list_per_hour?.0.micros());
        let paid = i128::from(self.per_hour?.0.micros());
        let at_list = (i128::from(billed.micros()) * list).checked_div(paid)?;
        i64::try_from(at_list).ok().map(Usd::from_micros)
    }
}
