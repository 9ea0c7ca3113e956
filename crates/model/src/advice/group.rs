//! Advice for all steps of a pipeline or a compute environment together.

use std::time::Duration;

use ebb_catalog::machine_type::Architecture;
use ebb_telemetry::identity::{AccountId, InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::advice::offer::Basis;
use crate::advice::sized_request::SizedRequest;
use crate::confidence::Level;
use crate::inventory::instance::Market;
use crate::inventory::spot_market::{SpotScore, SpotWish};

/// Pipelines, and as many environments, that a report tells of: those that machines
/// were busy with longest.
pub const MAX_GROUPS: usize = 50;

/// What is advised for the steps of one pipeline or compute environment together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAdvice {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub region: Region,
    /// In whose account; `None` where that is not told.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// Whom to ask; `None` when no tag tells.
    pub owner: Option<String>,
    /// Simulated as soon as one of its runs is.
    pub origin: Origin,
    /// When the first run that is told of began.
    pub from: Timestamp,
    /// When the last was seen.
    pub to: Timestamp,
    /// Runs that are told of, the newest, at most 300.
    pub runs: u32,
    /// Its steps, those that ran longest first.
    pub steps: Vec<Member>,
    /// What an environment may start now, as it is set; empty for a pipeline, or where
    /// that is not told.
    pub allowed: Vec<String>,
    /// How an environment chooses among them now; `None` for a pipeline, or where that is
    /// not told.
    pub allocation: Option<String>,
    /// What its runs had, for as long as they had it.
    pub now: Option<Fleet>,
    /// On the same type, with what its steps should ask for: what packing alone saves.
    pub resized: Option<Fleet>,
    /// On demand, the cheapest first, each of another family.
    pub offers: Vec<Fleet>,
    /// On spot, where its machines are spot now or where that is cheaper than the best on
    /// demand: none, or at least three types, to be used together.
    pub spot: Vec<Fleet>,
    /// What AWS says of the chance to get the most of them at one time, or so many of most
    /// of these types; `None` where it was not asked or refused.
    #[serde(default)]
    pub spot_score: Option<SpotScore>,
    /// What the best offer saves a month, of such windows of a day at least; `None` where
    /// that is not known.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Option<Usd>,
    /// What was seen by what a replay of the very same gives, in parts per million: how
    /// far the replay is to be trusted, and what offers are multiplied by.
    pub seen_by_replayed_ppm: Option<u32>,
    /// Of when the list prices of its region are; `None` where that is not known.
    #[serde(default)]
    pub list_as_of: Option<Timestamp>,
    /// How far it is to be trusted.
    pub confidence: Level,
    /// What was taken for granted.
    pub assumed: Vec<String>,
    /// Why less is told than could be.
    pub refused: Option<String>,
}

impl GroupAdvice {
    /// The spot machines that are offered, as AWS may be asked about them; `None` where
    /// none are.
    pub fn spot_wish(&self) -> Option<SpotWish> {
        let types = self.spot.iter().map(|fleet| fleet.instance_type.clone());
        let machines = self.spot.iter().map(|fleet| fleet.machines).max()?;
        SpotWish::of(&self.region, types, machines)
    }

    /// Whether most of its machine time is on spot now.
    pub fn is_on_spot(&self) -> bool {
        let now = self.now.as_ref();
        now.is_some_and(|now| now.market == Market::Spot)
    }

    /// What to use: spot types together where its machines are spot now or where they are
    /// cheaper, else the best on demand and what stands in for it. A group on spot stays
    /// there, so that it may have none.
    pub fn offered(&self) -> &[Fleet] {
        match self.is_on_spot() || !self.spot.is_empty() {
            true => &self.spot,
            false => &self.offers,
        }
    }
}

/// A step of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub step: String,
    /// Its runs in the group.
    pub runs: u32,
    /// How long they took together.
    pub wall: Duration,
    /// Runs that are still needed before its chance of an OOM kill can be told.
    pub samples_needed: u32,
    /// What it asks for.
    pub asks: SizedRequest,
    /// What it should ask for.
    pub should_ask: SizedRequest,
}

/// Machines of one type, and what they hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// The type.
    pub instance_type: InstanceType,
    /// What it runs programs for; `None` in advice of before this was told.
    #[serde(default)]
    pub architecture: Option<Architecture>,
    /// How it is bought.
    pub market: Market,
    /// What an hour of one costs.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: UsdPerHour,
    /// The time of all machines together.
    pub machine_time: Duration,
    /// The most of them at one time.
    pub machines: u32,
    /// What they cost in the window.
    pub usd: Usd,
    /// What the lengths of runs rest on; `None` for what was seen.
    pub basis: Option<Basis>,
    /// How many runs of which steps the fullest machine held.
    pub together: Vec<Together>,
}

/// Runs that share a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Together {
    /// Of which step.
    pub step: String,
    /// How many.
    pub runs: u32,
}
