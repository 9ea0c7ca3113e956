//! Of when prices are, and when that is too long ago to be believed without a word.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use ebb_telemetry::identity::Region;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where prices, or what else spot is judged by, come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PricedBy {
    /// List prices that are built into the program.
    BuiltIn,
    /// List prices of AWS's Price List, asked for later.
    PriceList,
    /// Spot prices.
    SpotPrices,
    /// How often spot machines are taken back, by the Spot Instance Advisor.
    SpotAdvisor,
}

const DAY: u64 = 24 * 3600;

impl PricedBy {
    /// The age from which it is called stale. List prices: a quarter of a year, within which
    /// AWS seldom changes one (an estimate). The rest: twice as long as a sweep waits before
    /// it asks anew, so that one refusal is not told and two are.
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
            Self::BuiltIn => "list prices built into the program",
            Self::PriceList => "list prices from AWS's Price List",
            Self::SpotPrices => "spot prices",
            Self::SpotAdvisor => "interruption bands of the Spot Instance Advisor",
        })
    }
}

/// Of when one source's prices are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceAge {
    /// The source.
    pub by: PricedBy,
    /// The regions that it priced, where something of the cloud's is.
    pub regions: BTreeSet<Region>,
    /// When it was asked, or made; of several regions the longest ago. `None` where it
    /// does not say.
    pub at: Option<Timestamp>,
    /// Whether that is too long ago to be believed without a word.
    pub is_stale: bool,
}

impl PriceAge {
    /// What was told `at`, as it is `now`. What does not say when it was made is stale.
    pub fn of(
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
