//! An offer as it is told: what a run would take and cost there, why it is named, what
//! was taken for granted and how far it is to be trusted.

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

/// What an expected time rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The step was seen on that very family.
    Observed,
    /// Other steps were seen on both families.
    Learned,
    /// Published facts only.
    Published,
}

/// What holds a run up most there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldUpBy {
    /// Cores, or what it waits for.
    Work,
    /// The disk's sustained bandwidth.
    Disk,
    /// The network's sustained bandwidth.
    Network,
}

/// Why an offer is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A run costs less.
    Cheaper,
    /// A run ends sooner.
    Faster,
    /// A run takes longer, and still costs no more.
    Slower,
    /// More runs share a machine.
    SharesMachine,
    /// It is of another architecture, for which its programs are known to exist.
    OtherArchitecture,
    /// It may be taken away, and costs less in expectation all the same.
    Spot,
    /// It is in another region, and moving the data is paid for by the difference.
    OtherRegion,
    /// It would leave a commitment unused that pays for the step now.
    LeavesCommitment,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cheaper => "a run costs less",
            Self::Faster => "a run ends sooner",
            Self::Slower => "a run takes longer",
            Self::SharesMachine => "more runs share a machine",
            Self::OtherArchitecture => "its programs exist for that architecture too",
            Self::Spot => "cheaper even with the interruptions expected",
            Self::OtherRegion => "cheaper even with its data moved",
            Self::LeavesCommitment => "it leaves a paid commitment unused",
        })
    }
}

/// What was taken for granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assumed {
    /// The price is the list price.
    ListPrice,
    /// As many runs share a machine as were seen at once.
    RunsAtOnce,
    /// Cores are as fast as their maker publishes.
    PublishedSpeed,
    /// A GPU that the step was seen beside is one that it needs.
    GpuNeeded,
    /// An interruption begins a run anew: no checkpoint is declared, and what a probe sees
    /// of writes does not show one.
    RestartsFromBegin,
    /// A run goes on from its last checkpoint, as often as its tag says.
    GoesOnFromCheckpoint,
    /// Interruptions come as often as the advisor's band or the account's own past say.
    InterruptionsAsBefore,
    /// All bytes moved pay the dearer direction's price.
    TransferAtDearerPrice,
    /// What the type sustains to disks is not known, and does not hold the step up.
    DiskNoBound,
}

impl fmt::Display for Assumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ListPrice => "the list price is paid",
            Self::RunsAtOnce => "as many runs share a machine as were seen at once",
            Self::PublishedSpeed => "cores are as fast as published",
            Self::GpuNeeded => "it needs the GPU that it was seen beside",
            Self::RestartsFromBegin => {
                "an interruption begins a run anew, for no checkpoint is declared"
            }
            Self::GoesOnFromCheckpoint => "a run goes on from its last checkpoint",
            Self::InterruptionsAsBefore => "interruptions come as often as before",
            Self::TransferAtDearerPrice => "all bytes moved pay the dearer direction's price",
            Self::DiskNoBound => "the type's disk bandwidth, which is not known, is enough",
        })
    }
}

/// What is to be known of an offer that may be taken away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpotRisk {
    /// The chance that a run is interrupted.
    pub interrupted: Share,
    /// What is expected to be done again, in dollars a run; it is in the run's cost.
    pub redo_usd_a_run: Usd,
    /// The length of run from which the same type costs less on demand; `None` where
    /// that is never, or it goes on from checkpoints.
    pub break_even: Option<Duration>,
}

/// A machine type to run on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Offered {
    /// The type.
    pub instance_type: InstanceType,
    /// What it runs programs for; `None` in advice of before this was told.
    #[serde(default)]
    pub architecture: Option<Architecture>,
    /// Its vCPUs; `None` in advice of before this was told.
    #[serde(default)]
    pub vcpus: Option<u32>,
    /// Its memory; `None` in advice of before this was told.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// Where.
    pub region: Region,
    /// Its price: the list price on demand, or the spot price.
    pub per_hour: UsdPerHour,
    /// How long a run is expected to take.
    pub wall: Duration,
    /// What a run is expected to cost: its part of the machine, interruptions, moved
    /// data and what stays paid for counted.
    pub usd_a_run: Usd,
    /// Runs that share the machine.
    pub runs_a_machine: u32,
    /// What holds it up most.
    pub held_up_by: HeldUpBy,
    /// What the time rests on.
    pub basis: Basis,
    /// How it is bought.
    #[serde(default = "on_demand")]
    pub market: Market,
    /// What a run costs less than where it runs now, less than nothing where more;
    /// `None` where that is not known.
    #[serde(default)]
    pub saves_a_run: Option<Usd>,
    /// Of the cost, moving the data.
    #[serde(default)]
    pub moving_usd_a_run: Usd,
    /// For spot, the risk of it.
    #[serde(default)]
    pub spot: Option<SpotRisk>,
    /// Why it is named.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// What was taken for granted.
    #[serde(default)]
    pub assumed: Vec<Assumed>,
    /// How far it is to be trusted.
    #[serde(default = "low")]
    pub confidence: Level,
    /// Runs that the time rests on.
    #[serde(default)]
    pub samples: u32,
    /// Of what it runs on now, where the price comes from; `None` for an offer.
    #[serde(default)]
    pub paid: Option<PaidPrice>,
}

/// Where the price of what runs now comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PaidPrice {
    /// What it rests on.
    pub basis: PriceBasis,
    /// The list price, beside what is paid; `None` when there is none.
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
pub struct Offers {
    /// On demand in its own region, the cheapest run first, each of another family.
    pub best: Vec<Offered>,
    /// What it runs on now, by the same reckoning; `None` where that is not known.
    #[serde(default)]
    pub now: Option<Offered>,
    /// On the spot market of its own region, where the step runs on spot now or where that
    /// is cheaper than the best on demand: none, or at least three types, to be used
    /// together.
    #[serde(default)]
    pub spot: Vec<Offered>,
    /// How many of those machines it takes at once, in powers of two; none where it is not
    /// offered spot.
    #[serde(default)]
    pub spot_machines: u32,
    /// What AWS says of the chance to get so many of these types, or most of them; `None`
    /// where it was not asked or refused.
    #[serde(default)]
    pub spot_score: Option<SpotScore>,
    /// In other regions, where that is cheaper than the best at home.
    #[serde(default)]
    pub elsewhere: Vec<Offered>,
    /// A type that the step was never seen on and that would pay for a trial of a few
    /// runs within a month.
    #[serde(default)]
    pub try_next: Option<Offered>,
    /// What keeps Arm from being offered: executables that were not seen there, and
    /// the image. Empty where Arm is offered or nothing is known of the step.
    #[serde(default)]
    pub in_the_way_of_arm: Vec<String>,
    /// How many offers were left out, by the code of the reason.
    pub left_out: BTreeMap<String, u32>,
}

impl Offers {
    /// Whether the step runs on spot now.
    pub fn is_on_spot(&self) -> bool {
        let now = self.now.as_ref();
        now.is_some_and(|now| now.market == Market::Spot)
    }

    /// What to use: spot types together where the step runs on spot now or where they are
    /// cheaper, else the best on demand and what stands in for it. A step on spot stays
    /// there, so that it may have none.
    pub fn offered(&self) -> &[Offered] {
        match self.is_on_spot() || !self.spot.is_empty() {
            true => &self.spot,
            false => &self.best,
        }
    }
}
