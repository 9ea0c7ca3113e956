//! The age of prices, and the age from which prices are stale.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use ebb_telemetry::identity::Region;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a user gets current prices.
pub const GET_PRICES: &str = "run `ebb catalog refresh --file prices.json`, then `ebb scan --catalog prices.json`; in a \
     deployment, run `ebb catalog refresh --bucket NAME`";

/// The source of prices or of interruption bands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PricedBy {
    /// List prices that are built into the program.
    BuiltIn,
    /// List prices from the AWS Price List, requested later.
    PriceList,
    /// Spot prices.
    SpotPrices,
    /// Interruption bands of the Spot Instance Advisor.
    SpotAdvisor,
}

const DAY: u64 = 24 * 3600;

impl PricedBy {
    /// The age from which data of this source is stale. List prices: 90 days, because AWS seldom
    /// changes a price (an estimate). Other sources: twice the interval between requests, so that
    /// one failed request does not make the data stale.
    pub const fn stale_after(self) -> Duration {
        Duration::from_secs(match self {
            Self::BuiltIn | Self::PriceList => 90 * DAY,
            Self::SpotPrices => 2 * 3600,
            Self::SpotAdvisor => 2 * DAY,
        })
    }
}

impl fmt::Display for PricedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BuiltIn => "built-in list prices",
            Self::PriceList => "list prices from the AWS Price List",
            Self::SpotPrices => "spot prices",
            Self::SpotAdvisor => "interruption bands of the Spot Instance Advisor",
        })
    }
}

/// The age of the prices of one source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PriceAge {
    /// The source.
    pub by: PricedBy,
    /// The regions with prices from this source that contain a resource of the cloud provider.
    pub regions: BTreeSet<Region>,
    /// When the prices were requested or published; the oldest of several regions. `None` when
    /// unknown.
    pub at: Option<Timestamp>,
    /// Whether the prices are stale.
    pub is_stale: bool,
}

impl PriceAge {
    /// The age of prices from `at`. Prices of unknown age are stale.
    pub fn new(
        by: PricedBy,
        regions: BTreeSet<Region>,
        at: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let until = at.and_then(|at| at.checked_add(by.stale_after()).ok());
        Self {
            by,
            regions,
            at,
            is_stale: until.is_none_or(|until| until <= now),
        }
    }
}
