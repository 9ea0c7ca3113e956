//! What machines are sold for beside the list price: spot, by zone, and what has been
//! committed to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ebb_catalog::spot_terms::SpotTerms;
use ebb_telemetry::identity::{InstanceType, Region};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inventory::commitments::Commitment;

/// Spot prices, zones and commitments, as far as they are known; by default nothing is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Markets {
    /// Spot by region and type.
    pub spot: BTreeMap<Region, BTreeMap<InstanceType, SpotTerms>>,
    /// The zones that sell each type.
    pub zones: BTreeMap<Region, BTreeMap<InstanceType, BTreeSet<String>>>,
    /// What is paid for whether or not it is used.
    pub commitments: Vec<Commitment>,
    /// When spot prices and bands were asked for.
    pub asked: MarketsAsked,
    /// How likely AWS says that spot machines of several types are to be had.
    pub scores: Vec<SpotScore>,
}

/// Spot machines of several types in a region, so many at once: what AWS scores, and calls
/// a request configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpotWish {
    /// Where.
    pub region: Region,
    /// Of any of these types.
    pub types: BTreeSet<InstanceType>,
    /// How many at once.
    pub machines: u32,
}

/// AWS's spot placement score: a recommendation and no promise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpotScore {
    /// What was asked.
    pub wish: SpotWish,
    /// From 1, not likely at all, to 10, very likely.
    pub score: u8,
    /// When it was told; capacity changes from hour to hour.
    pub at: Timestamp,
}

impl SpotScore {
    /// Whether it is as good as a refusal. A third of the scale, an estimate: AWS says what
    /// its ends mean and not where the middle turns.
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
            "AWS gave {machines} at once of {} {} of 10 on {}{}",
            types.join(", "),
            self.score,
            self.at.strftime("%Y-%m-%d %H:%M UTC"),
            if self.is_low() { ", which is low" } else { "" },
        )
    }
}

/// When what the markets tell was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarketsAsked {
    /// Spot prices, by region.
    pub spot: BTreeMap<Region, Timestamp>,
    /// How often spot machines are taken back, of all regions; `None` where nobody said.
    pub bands: Option<Timestamp>,
}

impl Markets {
    /// Takes in what another region or account answered.
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
