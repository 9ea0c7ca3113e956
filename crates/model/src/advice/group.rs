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

/// Maximum number of pipelines in a report, and of environments. Those with the most machine time
/// are kept.
pub const MAX_GROUPS: usize = 50;

/// Advice for the steps of one pipeline or compute environment together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupAdvice {
    /// The name of the pipeline or environment.
    pub name: String,
    /// The region.
    pub region: Region,
    /// The account; `None` when unknown.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The owner; `None` when no tag names one.
    pub owner: Option<String>,
    /// Simulated if at least one task is simulated.
    pub origin: Origin,
    /// When the first of the tasks began.
    pub from: Timestamp,
    /// When the last of the tasks was observed.
    pub to: Timestamp,
    /// Number of tasks that the advice is based on: the newest, at most 300.
    pub runs: u32,
    /// The steps, the longest total run time first.
    pub steps: Vec<Member>,
    /// Instance types that the environment may start now; empty for a pipeline, or when unknown.
    pub allowed: Vec<String>,
    /// The current allocation strategy of the environment; `None` for a pipeline, or when unknown.
    pub allocation: Option<String>,
    /// The machines that the tasks ran on, for as long as they used them.
    pub now: Option<Fleet>,
    /// The same instance type with the recommended requests: the saving of better packing alone.
    pub resized: Option<Fleet>,
    /// On-demand offers, the cheapest first, each of a different instance family.
    pub offers: Vec<Fleet>,
    /// Spot offers, present if the group runs on spot now or if spot is cheaper than the best
    /// on-demand offer. Either empty, or at least three types that are to be used together.
    pub spot: Vec<Fleet>,
    /// The AWS spot placement score for the largest number of machines at once, or for a wish that
    /// shares most of these types. `None` if AWS was not asked or refused.
    #[serde(default)]
    pub spot_score: Option<SpotScore>,
    /// The saving in a month with the best offer, from a window of at least one day; `None` when
    /// unknown.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Option<Usd>,
    /// Observed cost divided by the cost of a replay of the same tasks, in parts per million. The
    /// ratio shows how accurate the replay is. The offers are multiplied by it.
    pub seen_by_replayed_ppm: Option<u32>,
    /// The date of the list prices of the region; `None` when unknown.
    #[serde(default)]
    pub list_as_of: Option<Timestamp>,
    /// The confidence in this advice.
    pub confidence: Level,
    /// The assumptions of this advice.
    pub assumed: Vec<String>,
    /// Why the advice is incomplete; `None` when it is complete.
    pub refused: Option<String>,
}

impl GroupAdvice {
    /// The offered spot machines as a request for a spot placement score; `None` when no spot
    /// machines are offered.
    pub fn spot_wish(&self) -> Option<SpotWish> {
        let types = self.spot.iter().map(|fleet| fleet.instance_type.clone());
        let machines = self.spot.iter().map(|fleet| fleet.machines).max()?;
        SpotWish::new(&self.region, types, machines)
    }

    /// The assumption of a present cost that is an upper bound.
    pub const BOUND: &str = "spot machines without a known price cost the on-demand price, so the present cost is an \
         upper bound";

    /// Whether the present cost is only an upper bound.
    pub fn is_bound(&self) -> bool {
        self.assumed.iter().any(|assumed| assumed == Self::BOUND)
    }

    /// Whether most of the machine time is on spot now.
    pub fn is_on_spot(&self) -> bool {
        let now = self.now.as_ref();
        now.is_some_and(|now| now.market == Market::Spot)
    }

    /// The recommended machines: spot types together if the group is on spot now or spot is
    /// cheaper; otherwise the on-demand offers, the best first. A group on spot stays on spot, so
    /// the result may be empty.
    pub fn offered(&self) -> &[Fleet] {
        match self.is_on_spot() || !self.spot.is_empty() {
            true => &self.spot,
            false => &self.offers,
        }
    }
}

/// A step of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Member {
    /// The name of the step.
    pub step: String,
    /// Number of its tasks in the group.
    pub runs: u32,
    /// Total run time of these tasks.
    pub wall: Duration,
    /// Tasks still missing for an estimate of the chance of an OOM kill.
    pub samples_needed: u32,
    /// The present request.
    pub asks: SizedRequest,
    /// The recommended request.
    pub should_ask: SizedRequest,
}

/// Machines of one type and the tasks that they hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fleet {
    /// The instance type.
    pub instance_type: InstanceType,
    /// The CPU architecture; `None` in advice of earlier releases.
    #[serde(default)]
    pub architecture: Option<Architecture>,
    /// The purchase option.
    pub market: Market,
    /// The price of one machine per hour.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: UsdPerHour,
    /// The total time of all machines.
    pub machine_time: Duration,
    /// The largest number of machines at the same time.
    pub machines: u32,
    /// The cost of the machines in the window.
    pub usd: Usd,
    /// The basis of the expected task durations; `None` for the observed fleet.
    pub basis: Option<Basis>,
    /// Number of tasks by step on the fullest machine.
    pub together: Vec<Together>,
}

/// Tasks of one step that share a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Together {
    /// The name of the step.
    pub step: String,
    /// The number of tasks.
    pub runs: u32,
}
