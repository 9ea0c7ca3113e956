//! Offers of instance types for a step: the expected time and cost of a task, the reasons, the
//! assumptions and the confidence.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ebb_catalog::machine_type::Architecture;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::units::{Bytes, Share};
use serde::{Deserialize, Serialize};

use crate::confidence::Level;
use crate::cost::PriceBasis;
use crate::inventory::instance::Market;
use crate::inventory::spot_market::SpotScore;

/// The basis of an expected task duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The step was observed on the same instance family.
    Observed,
    /// Other steps were observed on both families.
    Learned,
    /// Published data only.
    Published,
}

/// The resource that limits a task on the offered type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HeldUpBy {
    /// Cores, or waiting.
    Work,
    /// The sustained bandwidth of the disk.
    Disk,
    /// The sustained bandwidth of the network.
    Network,
}

/// Why an offer is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A task costs less.
    Cheaper,
    /// A task ends sooner.
    Faster,
    /// A task takes longer, and does not cost more.
    Slower,
    /// More tasks share a machine.
    SharesMachine,
    /// The type has another CPU architecture, and the programs of the step exist for that
    /// architecture.
    OtherArchitecture,
    /// The capacity can be interrupted; the expected cost is lower nevertheless.
    Spot,
    /// The type is in another region; the saving exceeds the cost of the data transfer.
    OtherRegion,
    /// The offer would leave a commitment unused that pays for the step now.
    LeavesCommitment,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cheaper => "a task costs less",
            Self::Faster => "a task ends sooner",
            Self::Slower => "a task takes longer",
            Self::SharesMachine => "more tasks share a machine",
            Self::OtherArchitecture => "its programs also exist for that architecture",
            Self::Spot => "cheaper even with expected interruptions",
            Self::OtherRegion => "cheaper even with the transfer of its data",
            Self::LeavesCommitment => "leaves a commitment unused",
        })
    }
}

/// An assumption that an offer rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Assumed {
    /// The account pays the list price.
    ListPrice,
    /// As many tasks share a machine as were observed at once.
    RunsAtOnce,
    /// The cost is the part of the machine that the request takes, because tasks of other steps ran
    /// on it at the same time.
    RequestShare,
    /// Cores are as fast as their vendor publishes.
    PublishedSpeed,
    /// The step needs a GPU, because its machine had one.
    GpuNeeded,
    /// A task restarts from the beginning after an interruption. No checkpoint is declared, and the
    /// probe cannot detect checkpoints from writes.
    RestartsFromBegin,
    /// A task continues from its last checkpoint; a tag declares the interval of the checkpoints.
    GoesOnFromCheckpoint,
    /// Interruptions stay as frequent as in the band of the Spot Instance Advisor or in the history
    /// of the account.
    InterruptionsAsBefore,
    /// All transferred bytes are charged at the price of the more expensive direction.
    TransferAtDearerPrice,
    /// The disk bandwidth of the type is unknown, and does not limit the step.
    DiskNoBound,
}

impl fmt::Display for Assumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ListPrice => "the list price applies",
            Self::RunsAtOnce => "as many tasks share a machine as were observed at the same time",
            Self::RequestShare => {
                "the cost is the request's part of the machine, because other steps use the rest"
            }
            Self::PublishedSpeed => "cores are as fast as published benchmarks show",
            Self::GpuNeeded => "the task needs the GPU of its machine",
            Self::RestartsFromBegin => {
                "an interrupted task restarts from the beginning, because no checkpoint is declared"
            }
            Self::GoesOnFromCheckpoint => "an interrupted task continues from its last checkpoint",
            Self::InterruptionsAsBefore => "the interruption rate stays the same",
            Self::TransferAtDearerPrice => {
                "all transferred bytes cost the price of the more expensive direction"
            }
            Self::DiskNoBound => {
                "the disk bandwidth of the type is unknown and assumed to be enough"
            }
        })
    }
}

/// The interruption risk of a spot offer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpotRisk {
    /// The chance that a task is interrupted.
    pub interrupted: Share,
    /// The expected cost of repeated work per task. The cost of the task includes it.
    pub redo_usd_a_run: Usd,
    /// Spot costs more than on demand for tasks of at least this length. `None` if spot is always
    /// cheaper, or if the task continues from checkpoints.
    pub break_even: Option<Duration>,
}

/// An instance type to run on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Offered {
    /// The instance type.
    pub instance_type: InstanceType,
    /// The CPU architecture; `None` in advice of earlier releases.
    #[serde(default)]
    pub architecture: Option<Architecture>,
    /// The number of vCPUs; `None` in advice of earlier releases.
    #[serde(default)]
    pub vcpus: Option<u32>,
    /// The memory; `None` in advice of earlier releases.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// The region.
    pub region: Region,
    /// The on-demand list price, or the spot price.
    pub per_hour: UsdPerHour,
    /// The expected duration of a task.
    pub wall: Duration,
    /// The expected cost of a task: its share of the machine, interruptions, data transfer, and
    /// commitments that stay paid for.
    pub usd_a_run: Usd,
    /// Number of tasks that share the machine.
    pub runs_a_machine: u32,
    /// The resource that limits the task.
    pub held_up_by: HeldUpBy,
    /// The basis of the expected duration.
    pub basis: Basis,
    /// The purchase option.
    #[serde(default = "on_demand")]
    pub market: Market,
    /// The saving per task compared with the present machine; negative if a task costs more. `None`
    /// when unknown.
    #[serde(default)]
    pub saves_a_run: Option<Usd>,
    /// The part of the cost that is data transfer.
    #[serde(default)]
    pub moving_usd_a_run: Usd,
    /// The interruption risk; `None` if the offer is not spot.
    #[serde(default)]
    pub spot: Option<SpotRisk>,
    /// Why the offer is made.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// The assumptions of the offer.
    #[serde(default)]
    pub assumed: Vec<Assumed>,
    /// The confidence in the offer.
    #[serde(default = "low")]
    pub confidence: Level,
    /// Number of tasks that the expected duration is based on.
    #[serde(default)]
    pub samples: u32,
    /// The source of the price of the present machine; `None` for an offer.
    #[serde(default)]
    pub paid: Option<PaidPrice>,
}

/// The source of the price of the present machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PaidPrice {
    /// The source.
    pub basis: PriceBasis,
    /// The list price, in addition to the effective price; `None` when unknown.
    pub list_per_hour: Option<UsdPerHour>,
}

fn on_demand() -> Market {
    Market::OnDemand
}

fn low() -> Level {
    Level::Low
}

/// Where a step should run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Offers {
    /// On-demand offers in the region of the step, the cheapest task first, each of a different
    /// instance family.
    pub best: Vec<Offered>,
    /// The present machine, evaluated in the same way; `None` when unknown.
    #[serde(default)]
    pub now: Option<Offered>,
    /// Spot offers in the region of the step. Present if the step runs on spot now, or if spot is
    /// cheaper than the best on-demand offer. Either empty, or at least three types that are to be
    /// used together.
    #[serde(default)]
    pub spot: Vec<Offered>,
    /// Number of these machines needed at once, rounded up to a power of two; 0 without a spot
    /// offer.
    #[serde(default)]
    pub spot_machines: u32,
    /// The AWS spot placement score for these types, or for a wish that shares most of them; `None`
    /// if AWS was not asked or refused.
    #[serde(default)]
    pub spot_score: Option<SpotScore>,
    /// Offers in other regions that are cheaper than the best offer in the region of the step.
    #[serde(default)]
    pub elsewhere: Vec<Offered>,
    /// A type on which the step was never observed. A trial of a few tasks on it would pay for
    /// itself within a month.
    #[serde(default)]
    pub try_next: Option<Offered>,
    /// Obstacles to an Arm offer: executables that were not observed on Arm, and the image. Empty
    /// if Arm is offered or nothing is known about the step.
    #[serde(default)]
    pub in_the_way_of_arm: Vec<String>,
    /// Number of offers that were left out, by the code of the reason.
    pub left_out: BTreeMap<String, u32>,
}

impl Offers {
    /// Whether the step runs on spot now.
    pub fn is_on_spot(&self) -> bool {
        let now = self.now.as_ref();
        now.is_some_and(|now| now.market == Market::Spot)
    }

    /// The recommended machines: spot types together if the step is on spot now or spot is cheaper;
    /// otherwise the on-demand offers, the best first. A step on spot stays on spot, so the result
    /// may be empty.
    pub fn offered(&self) -> &[Offered] {
        match self.is_on_spot() || !self.spot.is_empty() {
            true => &self.spot,
            false => &self.best,
        }
    }
}
