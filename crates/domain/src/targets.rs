//! Advice for more than one step: a pipeline, a Batch compute environment and a node.
//!
//! A pipeline's and an environment's runs are replayed on machines as the platform
//! fills them ([`crate::placement::pack`]): once as they ran, and once for each type
//! that could hold them all, with what they should ask for and for as long as they are
//! expected to take there. What differs between the two is what the bill would show. A
//! node is held to what really ran on it.

mod gather;
mod group;
pub(crate) mod node;
#[cfg(test)]
mod tests;

pub use ebb_telemetry::tags::PIPELINE_TAG;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::catalogue::Architecture;
use crate::finding::{Level, PriceBasis};
use crate::fleet::{Market, SpotScore, SpotWish};
use crate::heartbeat::Origin;
use crate::identity::{AccountId, InstanceType, Region};
use crate::judge::Facts;
use crate::profile::gather::Profiles;
use crate::profile::place::Basis;
use crate::sizing::SizedRequest;
use crate::units::{Bytes, MilliCores, Usd, UsdPerHour};

/// Pipelines, and as many environments, that a report tells of: those that machines
/// were busy with longest.
pub const MAX_GROUPS: usize = 50;

/// Steps of pipelines and environments that offers are looked for: as many as of single
/// ones.
const MAX_STEPS: usize = 1_000;

/// Nodes that a report advises on, the dearest.
pub const MAX_NODES: usize = 1_000;

/// What is advised beside single steps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Targets {
    /// Pipelines, the greatest saving first.
    pub pipelines: Vec<GroupAdvice>,
    /// Batch compute environments, the greatest saving first.
    pub environments: Vec<GroupAdvice>,
    /// Nodes, the greatest saving first.
    pub nodes: Vec<NodeAdvice>,
    /// Those that the report had no room for.
    pub left_out: usize,
}

/// Advice on pipelines, environments and nodes.
pub(crate) fn advise_targets(facts: &Facts<'_>, profiles: &Profiles<'_>) -> Targets {
    let mut room = MAX_STEPS;
    let (pipelines, more) = advised(
        facts,
        profiles,
        gather::pipelines(facts.policy, profiles),
        &mut room,
    );
    let environments = gather::environments(facts, profiles);
    let (environments, others) = advised(facts, profiles, environments, &mut room);
    let (nodes, further) = node::nodes(facts, profiles);
    Targets {
        pipelines,
        environments,
        nodes,
        left_out: more + others + further,
    }
}

/// Those that machines were busy with longest, the greatest saving first; and how many
/// more there are.
fn advised(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    mut groups: Vec<gather::Group<'_, '_>>,
    room: &mut usize,
) -> (Vec<GroupAdvice>, usize) {
    groups.sort_by(|a, b| {
        let key = |one: &gather::Group<'_, '_>| {
            (one.name.clone(), one.region.clone(), one.account.clone())
        };
        (b.wall().cmp(&a.wall())).then_with(|| key(a).cmp(&key(b)))
    });
    let left_out = groups.len().saturating_sub(MAX_GROUPS);
    groups.truncate(MAX_GROUPS);
    let advice = groups
        .iter()
        .filter_map(|one| group::advise(facts, profiles, one, room));
    let mut all: Vec<GroupAdvice> = advice.collect();
    all.sort_by(|a, b| {
        let key = |one: &GroupAdvice| (one.name.clone(), one.region.clone(), one.account.clone());
        (b.saving_a_month.cmp(&a.saving_a_month)).then_with(|| key(a).cmp(&key(b)))
    });
    (all, left_out)
}

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

/// What is advised for one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAdvice {
    /// Its id.
    pub node: String,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// Where it is.
    pub region: Region,
    /// What it is.
    pub instance_type: InstanceType,
    /// How it is bought.
    pub market: Market,
    /// Whom to ask; `None` when no tag tells.
    pub owner: Option<String>,
    /// Whether what is told of it was measured or made by a generator.
    pub origin: Origin,
    /// Hours in which its probe saw it.
    pub hours_seen: u32,
    /// The most that it used at one time.
    pub used: Used,
    /// The same with headroom: what another type must have.
    pub needs: Used,
    /// What an hour of it costs; `None` where no price is known.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: Option<UsdPerHour>,
    /// Where that price comes from.
    pub basis: Option<PriceBasis>,
    /// Its list price, beside what is paid.
    #[serde(rename = "list_per_hour_usd", alias = "list_per_hour")]
    pub list_per_hour: Option<UsdPerHour>,
    /// Of when the list prices of its region are; `None` where that is not known.
    #[serde(default)]
    pub list_as_of: Option<Timestamp>,
    /// On demand at home, the cheapest first, each of another family.
    pub offers: Vec<NodeOffer>,
    /// What the best offer saves a month.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Option<Usd>,
    /// What was taken for granted.
    pub assumed: Vec<String>,
    /// Why nothing more is told.
    pub refused: Option<String>,
}

/// What a machine is used for at one time; `None` where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Used {
    /// Cores, of the machine that it is.
    pub cores: Option<MilliCores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

/// A type that a node could be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOffer {
    /// The type.
    pub instance_type: InstanceType,
    /// Its list price on demand.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: UsdPerHour,
    /// What an hour costs less than now; `None` where what is paid now is not known.
    #[serde(rename = "saves_an_hour_usd", alias = "saves_an_hour")]
    pub saves_an_hour: Option<UsdPerHour>,
}
