//! Machine types and markets to choose from.

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
    /// Where it was seen and what a run did there; at least one.
    pub seen: &'a [Seen<'a>],
    /// The cores it asks for.
    pub cores: MilliCores,
    /// The memory it asks for.
    pub memory: Bytes,
    /// Runs of it that wait for a place at once, so that a machine can be filled.
    pub at_once: u32,
    /// Where its data is.
    pub home: &'a Region,
    /// Bytes a run moves to and from there; `None` when unknown, and then no other
    /// region is offered.
    pub moved: Option<Bytes>,
    /// What is paid for its machine whether or not it is used; `None` without a
    /// commitment.
    pub committed: Option<Committed<'a>>,
}

/// Runs on one machine type.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// What one run does.
    pub work: &'a Work,
    /// The machine type.
    pub on: &'a TypeSpec,
    /// Whether other work kept that machine's other vCPUs busy.
    pub among_others: bool,
    /// How many runs that is the mean of.
    pub runs: u32,
}

/// A commitment that pays for a step's machine.
#[derive(Debug, Clone, Copy)]
pub struct Committed<'a> {
    /// What of it a run takes up.
    pub usd_a_run: f64,
    /// Where it holds; `None` for everywhere.
    pub region: Option<&'a Region>,
    /// The family that it holds for; `None` for all.
    pub family: Option<&'a Family>,
}

impl Committed<'_> {
    /// What is paid in all for something that costs `usd` for itself: what is committed
    /// is paid whether or not it is used.
    pub fn with(&self, usd: f64, offer: &Offer<'_>) -> f64 {
        match self.covers(offer) {
            true => usd.max(self.usd_a_run),
            false => usd + self.usd_a_run,
        }
    }

    /// Whether it pays for an offer too, so that moving there leaves nothing unused.
    /// No commitment pays for spot.
    pub fn covers(&self, offer: &Offer<'_>) -> bool {
        offer.market == Market::OnDemand
            && self.region.is_none_or(|region| region == offer.region)
            && self
                .family
                .is_none_or(|family| *family == Family::of(&offer.spec.name))
    }
}

/// What a machine must and may be. By default nothing may be: what the programs exist
/// for is to be said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// What the step's programs are known to exist for.
    pub architectures: BTreeSet<Architecture>,
    /// Families that may be used; `None` for all.
    pub families: Option<BTreeSet<Family>>,
    /// Regions that may be used; `None` for all.
    pub regions: Option<BTreeSet<Region>>,
    /// Zones of which one must sell it; `None` for any.
    pub zones: Option<BTreeSet<String>>,
    /// Types that a licence of the step holds for; `None` without one.
    pub licensed_for: Option<BTreeSet<InstanceType>>,
    /// Local disk that it must have.
    pub local_disk: Option<Bytes>,
    /// Network that it must sustain, in Mbit/s.
    pub network_mbps: Option<u32>,
    /// EBS bandwidth that it must sustain, in Mbit/s.
    pub ebs_mbps: Option<u32>,
    /// The GPU that it must have, of the model and with as much memory at the least: a part
    /// of one has less. Without it, types with one are left out.
    pub gpu: Option<Devices>,
    /// Whether it may be taken away.
    pub spot: bool,
    /// How often a run keeps what it has done, so that it goes on from there when its
    /// machine is taken away; `None` where that is not declared.
    pub checkpoint: Option<Duration>,
}

/// A machine type at a price.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer<'a> {
    /// What it has.
    pub spec: &'a TypeSpec,
    /// Where.
    pub region: &'a Region,
    /// Whether, and how often, it is taken away.
    pub market: Market,
    /// Its price.
    pub per_hour: UsdPerHour,
    /// The zones that sell it; `None` when unknown.
    pub zones: Option<&'a BTreeSet<String>>,
}

/// How a machine is bought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Market {
    /// It stays.
    OnDemand,
    /// It is taken away now and then.
    Spot(Interruptions),
}

/// What holds a run up most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Cores, or what it waits for.
    Work,
    /// The disk's sustained bandwidth.
    Disk,
    /// The network's sustained bandwidth.
    Network,
}

/// What an estimate of speed rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// The step ran on that very family.
    SameFamily,
    /// Other steps ran on both families.
    Learned,
    /// Published facts only.
    Published,
}

/// An offer with what a run on it is expected to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked<'a> {
    /// The offer.
    pub offer: Offer<'a>,
    /// How long a run takes that is not interrupted.
    pub wall: Duration,
    /// Runs that share a machine.
    pub runs_a_machine: u32,
    /// Expected dollars of a run that ends: its part of the machine for as long as
    /// it takes, interrupted attempts, moving its data and what stays paid for
    /// counted.
    pub usd: f64,
    /// Of that, moving its data.
    pub moving: f64,
    /// Whether a commitment that pays for the step now would be left unused.
    pub leaves_commitment: bool,
    /// What holds it up most.
    pub bound: Bound,
    /// What the time rests on.
    pub basis: Basis,
    /// Runs that it rests on.
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
