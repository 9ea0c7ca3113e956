//! Instance types and markets to choose from.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_catalog::machine_type::{Architecture, Devices, TypeSpec};
use ebb_model::advice::offer;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{Bytes, MilliCores};

use crate::core_speed::Family;
use crate::spot_risk::Interruptions;
use crate::work::Work;

/// A step to place.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The observed tasks by instance type; at least one entry.
    pub seen: &'a [ObservedTasks<'a>],
    /// The requested cores.
    pub cores: MilliCores,
    /// The requested memory.
    pub memory: Bytes,
    /// Number of its tasks that run at the same time and can fill a machine.
    pub at_once: u32,
    /// The region of its data.
    pub home: &'a Region,
    /// Bytes that a task transfers to and from that region. `None` when unknown; then no other
    /// region is offered.
    pub moved: Option<Bytes>,
    /// The commitment that pays for its machine whether used or not; `None` without a commitment.
    pub committed: Option<Committed<'a>>,
}

/// Tasks on one instance type.
#[derive(Debug, Clone, Copy)]
pub struct ObservedTasks<'a> {
    /// The mean work of one task.
    pub work: &'a Work,
    /// The instance type.
    pub on: &'a TypeSpec,
    /// Whether other work kept the other vCPUs of that machine busy.
    pub among_others: bool,
    /// Number of tasks of which the work is the mean.
    pub runs: u32,
}

/// A commitment that pays for a step's machine.
#[derive(Debug, Clone, Copy)]
pub struct Committed<'a> {
    /// The part of the commitment that a task uses, in dollars.
    pub usd_a_run: f64,
    /// The region that it applies to; `None` for all regions.
    pub region: Option<&'a Region>,
    /// The family that it applies to; `None` for all.
    pub family: Option<&'a Family>,
}

impl Committed<'_> {
    /// The total cost with an offer that costs `usd` by itself. The commitment is paid whether used
    /// or not.
    pub fn with(&self, usd: f64, offer: &Offer<'_>) -> f64 {
        match self.covers(offer) {
            true => usd.max(self.usd_a_run),
            false => usd + self.usd_a_run,
        }
    }

    /// Whether the commitment pays for an offer too, so that a change leaves nothing unused. No
    /// commitment pays for spot.
    pub fn covers(&self, offer: &Offer<'_>) -> bool {
        offer.market == Market::OnDemand
            && self.region.is_none_or(|region| region == offer.region)
            && self
                .family
                .is_none_or(|family| *family == Family::from_name(&offer.spec.name))
    }
}

/// Requirements on a machine. The default allows no machine, because the architectures must be set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// The architectures for which the step's programs are known to exist.
    pub architectures: BTreeSet<Architecture>,
    /// Allowed families; `None` for all.
    pub families: Option<BTreeSet<Family>>,
    /// Allowed regions; `None` for all.
    pub regions: Option<BTreeSet<Region>>,
    /// Allowed zones, of which at least one must offer the type; `None` for all.
    pub zones: Option<BTreeSet<String>>,
    /// Types that a licence of the step allows; `None` without a licence.
    pub licensed_for: Option<BTreeSet<InstanceType>>,
    /// Minimum local disk.
    pub local_disk: Option<Bytes>,
    /// Minimum sustained network bandwidth, in Mbit/s.
    pub network_mbps: Option<u32>,
    /// Minimum sustained EBS bandwidth, in Mbit/s.
    pub ebs_mbps: Option<u32>,
    /// The required GPU model with its minimum memory; fractions of a GPU have less memory. `None`
    /// excludes types with a GPU.
    pub gpu: Option<Devices>,
    /// Whether spot is allowed.
    pub spot: bool,
    /// The interval of checkpoints, from which a task continues after an interruption; `None` when
    /// not declared.
    pub checkpoint: Option<Duration>,
}

/// An instance type at a price.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer<'a> {
    /// The hardware of the type.
    pub spec: &'a TypeSpec,
    /// The region.
    pub region: &'a Region,
    /// The market, with the interruption rate of spot.
    pub market: Market,
    /// The price.
    pub per_hour: UsdPerHour,
    /// The zones that offer it; `None` when unknown.
    pub zones: Option<&'a BTreeSet<String>>,
}

/// How a machine is bought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Market {
    /// Without interruptions.
    OnDemand,
    /// With occasional interruptions.
    Spot(Interruptions),
}

/// The resource that limits a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Cores, or waiting.
    Work,
    /// The sustained bandwidth of the disk.
    Disk,
    /// The sustained bandwidth of the network.
    Network,
}

/// The basis of a speed estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// The step ran on the same family.
    SameFamily,
    /// Other steps ran on both families.
    Learned,
    /// Published data only.
    Published,
}

/// An offer with the expected time and cost of a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked<'a> {
    /// The offer.
    pub offer: Offer<'a>,
    /// The expected run time of a task without interruptions.
    pub wall: Duration,
    /// Number of tasks that share a machine.
    pub runs_a_machine: u32,
    /// The expected cost of a completed task in dollars: its share of the machine time, interrupted
    /// attempts, data transfer, and commitments that stay paid for.
    pub usd: f64,
    /// The part of that cost that is data transfer, in dollars.
    pub moving: f64,
    /// Whether the offer would leave a commitment unused that pays for the step now.
    pub leaves_commitment: bool,
    /// The resource that limits the task.
    pub bound: Bound,
    /// The basis of the expected run time.
    pub basis: Basis,
    /// Number of tasks that it is based on.
    pub samples: u32,
}

impl From<Basis> for offer::Basis {
    fn from(basis: Basis) -> Self {
        match basis {
            Basis::SameFamily => Self::Observed,
            Basis::Learned => Self::Learned,
            Basis::Published => Self::Published,
        }
    }
}
