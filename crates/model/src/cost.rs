//! The cost of a finding.

use std::fmt;

use ebb_telemetry::money::{Usd, UsdPerHour};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::savings::Counted;

/// The source of a price, the most accurate first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PriceBasis {
    /// Net amortized cost of this resource on its last closed full day.
    Bill,
    /// The price that the policy states.
    Stated,
    /// The price of the option `--price-per-hour`.
    CommandLine,
    /// The list price of the built-in catalogue.
    ListPrice,
    /// The current spot price of the type in the cheapest zone of its region.
    SpotPrice,
    /// The list price in place of an unknown spot price: an upper bound.
    ListPriceAsUpperBound,
}

impl PriceBasis {
    /// Whether it is the list price.
    pub fn is_of_the_list(self) -> bool {
        matches!(self, Self::ListPrice | Self::ListPriceAsUpperBound)
    }

    /// Whether it is only an upper bound of the effective price. A saving cannot be computed from a
    /// bound.
    pub fn is_bound(self) -> bool {
        self == Self::ListPriceAsUpperBound
    }
}

impl fmt::Display for PriceBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bill => "effective cost from the bill",
            Self::Stated => "price stated in the policy",
            Self::CommandLine => "price of --price-per-hour",
            Self::ListPrice => "list price",
            Self::SpotPrice => "spot price in the cheapest zone",
            Self::ListPriceAsUpperBound => "on-demand price of spot machines",
        })
    }
}

/// The cost of the waste.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// The waste per hour.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: UsdPerHour,
    /// The source of that price.
    pub basis: PriceBasis,
    /// The waste per hour at the list price; `None` when the catalogue has no price.
    #[serde(rename = "list_per_hour_usd", alias = "list_per_hour")]
    pub list_per_hour: Option<UsdPerHour>,
    /// The waste within the window.
    #[serde(rename = "spent_usd", alias = "spent")]
    pub spent: Usd,
    /// The waste in a month, which is the saving after the fix.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Usd,
    /// The part of this cost that the totals contain; smaller if another finding counts the same
    /// dollars. `None` for the whole cost, as in `ebb.report/1.0`.
    #[serde(default)]
    pub counted: Option<Counted>,
    /// The date of the price: the billed day, the day of the price list, or the time of the spot
    /// price. `None` when unknown.
    #[serde(default)]
    pub price_as_of: Option<Timestamp>,
    /// The date of the list price; `None` without a list price, or when the date is unknown.
    #[serde(default)]
    pub list_as_of: Option<Timestamp>,
}
