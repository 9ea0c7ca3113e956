//! Prices of machines other than the list price: spot prices by zone, and commitments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ebb_catalog::spot_terms::SpotTerms;
use ebb_telemetry::identity::{InstanceType, Region};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inventory::commitments::Commitment;

/// Spot prices, zones and commitments as far as they are known; empty by default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Markets {
    /// Spot prices and interruption bands by region and type.
    pub spot: BTreeMap<Region, BTreeMap<InstanceType, SpotTerms>>,
    /// The zones that offer each type.
    pub zones: BTreeMap<Region, BTreeMap<InstanceType, BTreeSet<String>>>,
    /// Commitments, which are paid for whether used or not.
    pub commitments: Vec<Commitment>,
    /// When spot prices and interruption bands were requested.
    pub asked: MarketRequestTimes,
    /// AWS spot placement scores.
    pub scores: Vec<SpotScore>,
}

/// A request for a spot placement score: a number of spot machines of several types in a region.
/// AWS calls it a request configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SpotWish {
    /// The region.
    pub region: Region,
    /// The types; any mix of them is acceptable.
    pub types: BTreeSet<InstanceType>,
    /// Number of machines at once.
    pub machines: u32,
}

/// A spot placement score of AWS, which is a recommendation and not a guarantee.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SpotScore {
    /// The request.
    pub wish: SpotWish,
    /// From 1 (not likely) to 10 (very likely).
    pub score: u8,
    /// When AWS reported it; spot capacity changes from hour to hour.
    pub at: Timestamp,
}

impl SpotScore {
    /// Whether the score is too low to recommend spot: the lowest third of the scale. The limit is
    /// an estimate, because AWS documents only the two ends of the scale.
    pub fn is_low(&self) -> bool {
        self.score <= 3
    }
}

impl fmt::Display for SpotScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machines = match self.wish.machines {
            1 => "1 machine".to_owned(),
            many => format!("{many} machines"),
        };
        let types: Vec<&str> = self.wish.types.iter().map(InstanceType::as_str).collect();
        write!(
            f,
            "AWS gives {machines} of {} a spot placement score of {} of 10 ({}){}",
            types.join(", "),
            self.score,
            self.at.strftime("%Y-%m-%d %H:%M UTC"),
            if self.is_low() { ", which is low" } else { "" },
        )
    }
}

/// When the market data was requested.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarketRequestTimes {
    /// Spot prices, by region.
    pub spot: BTreeMap<Region, Timestamp>,
    /// Interruption bands of all regions; `None` if they were not reported.
    pub bands: Option<Timestamp>,
}

impl Markets {
    /// Adds the market data of another region or account.
    pub fn absorb(&mut self, other: Self) {
        for (region, types) in other.spot {
            self.spot.entry(region).or_default().extend(types);
        }
        for (region, types) in other.zones {
            self.zones.entry(region).or_default().extend(types);
        }
        self.commitments.extend(other.commitments);
        self.asked.spot.extend(other.asked.spot);
        self.scores.extend(other.scores);
        self.asked.bands = self.asked.bands.max(other.asked.bands);
    }
}
