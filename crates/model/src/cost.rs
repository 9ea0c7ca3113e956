//! The cost of a finding.

use std::fmt;

use ebb_telemetry::money::{Usd, UsdPerHour};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::savings::Counted;

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
