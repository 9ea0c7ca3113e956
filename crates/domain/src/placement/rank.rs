//! All offers that a step could run on, the cheapest run first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use super::speed::{Family, Speeds};
use super::spot::Interruptions;
use super::usable;
use super::work::Work;
use crate::catalogue::{Architecture, TypeSpec};
use crate::identity::{InstanceType, Region};
use crate::units::{Bytes, MilliCores, UsdPerHour};

/// A step to place.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// What one run does.
    pub work: &'a Work,
    /// The machine type that it was seen on.
    pub seen_on: &'a TypeSpec,
    /// Whether other work kept that machine's other vCPUs busy.
    pub among_others: bool,
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
}

/// What a machine must and may be.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// What the step's programs are known to exist for.
    pub architectures: BTreeSet<Architecture>,
    /// Families that may be used; `None` for all.
    pub families: Option<BTreeSet<Family>>,
    /// Regions that may be used; `None` for all.
    pub regions: Option<BTreeSet<Region>>,
    /// Local disk that it must have.
    pub local_disk: Option<Bytes>,
    /// The GPU's model that it must have; without it, types with one are left out.
    pub gpu: Option<String>,
    /// Whether it may be taken away.
    pub spot: bool,
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
}

/// How a machine is bought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Market {
    /// It stays.
    OnDemand,
    /// It is taken away now and then.
    Spot(Interruptions),
}

/// Why an offer is not ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Misfit {
    /// Fewer vCPUs than the step asks for.
    Cores,
    /// Too little memory beside what the system keeps.
    Memory,
    /// A program of the step is not known to exist for it.
    Architecture,
    /// Not the GPU that is needed, or one where none is.
    Gpu,
    /// Too little local disk.
    LocalDisk,
    /// The policy leaves it out: family, region or market.
    Policy,
    /// Its vCPUs are whole only while it mostly idles.
    Burstable,
    /// Bare metal, or an accelerator that no step here uses.
    Special,
    /// Nothing is known of how fast it is.
    SpeedUnknown,
    /// What moving the data there would cost is not known.
    TransferUnknown,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cores => "too few vCPUs",
            Self::Memory => "too little memory",
            Self::Architecture => "its programs are not known to exist for it",
            Self::Gpu => "not the GPU that is needed",
            Self::LocalDisk => "too little local disk",
            Self::Policy => "left out by policy",
            Self::Burstable => "burstable",
            Self::Special => "bare metal or special hardware",
            Self::SpeedUnknown => "nothing is known of its speed",
            Self::TransferUnknown => "the cost of moving its data there is not known",
        })
    }
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
    /// it takes, interrupted attempts and moving its data counted.
    pub usd: f64,
    /// What holds it up most.
    pub bound: Bound,
    /// What the time rests on.
    pub basis: Basis,
}

/// What came of all offers.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking<'a> {
    /// The cheapest first; equal ones by type, region and market.
    pub ranked: Vec<Ranked<'a>>,
    /// How many were left out, and why.
    pub left_out: BTreeMap<Misfit, usize>,
}

/// Ranks offers by the expected dollars of a run.
pub fn rank<'a>(
    step: &Step<'_>,
    offers: impl IntoIterator<Item = Offer<'a>>,
    limits: &Limits,
    speeds: &Speeds,
) -> Ranking<'a> {
    let mut estimates: HashMap<&InstanceType, Result<Estimate, Misfit>> = HashMap::new();
    let mut ranking = Ranking {
        ranked: Vec::new(),
        left_out: BTreeMap::new(),
    };
    for offer in offers {
        let estimate = estimates
            .entry(&offer.spec.name)
            .or_insert_with(|| Estimate::of(step, offer.spec, limits, speeds));
        let placed = estimate.and_then(|estimate| place(step, offer, limits, estimate));
        match placed {
            Ok(ranked) => ranking.ranked.push(ranked),
            Err(misfit) => *ranking.left_out.entry(misfit).or_default() += 1,
        }
    }
    ranking.ranked.sort_by(|a, b| {
        let (a_key, b_key) = (&a.offer.spec.name, &b.offer.spec.name);
        let by_name = || (a_key, a.offer.region).cmp(&(b_key, b.offer.region));
        a.usd.total_cmp(&b.usd).then_with(by_name)
    });
    ranking
}

/// What does not depend on where and how a machine is bought.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    seconds: f64,
    runs: u32,
    bound: Bound,
    basis: Basis,
}

impl Estimate {
    fn of(
        step: &Step<'_>,
        spec: &TypeSpec,
        limits: &Limits,
        speeds: &Speeds,
    ) -> Result<Self, Misfit> {
        fits(step, spec, limits)?;
        let unknown = Misfit::SpeedUnknown;
        let from = speeds.cores(step.seen_on).ok_or(unknown)?;
        let cores = speeds.cores(spec).ok_or(unknown)?;
        let from = match step.among_others {
            true => from.all_loaded(),
            false => from,
        };
        let runs = runs_a_machine(step, spec);
        let share = f64::from(spec.vcpus) / f64::from(runs);
        let work = step.work.replayed(&from, |busy| match runs {
            1 => cores.rate(busy),
            _ => cores.rate_among_others(busy, share),
        });
        let moved = |bytes: Option<Bytes>, mbps: Option<u32>| -> f64 {
            match (bytes, mbps) {
                (Some(bytes), Some(mbps)) if mbps > 0 => {
                    bytes.0 as f64 * 8.0 * f64::from(runs) / (f64::from(mbps) * 1e6)
                }
                _ => 0.0,
            }
        };
        let parts = [
            (Bound::Work, work),
            (Bound::Disk, moved(step.work.disk, spec.ebs_baseline_mbps)),
            (
                Bound::Network,
                moved(step.work.network, spec.network_baseline_mbps),
            ),
        ];
        let (bound, seconds) = parts
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((Bound::Work, work));
        Ok(Self {
            seconds,
            runs,
            bound,
            basis: basis(step, spec, speeds),
        })
    }
}

fn basis(step: &Step<'_>, spec: &TypeSpec, speeds: &Speeds) -> Basis {
    let (from, to) = (Family::of(&step.seen_on.name), Family::of(&spec.name));
    match from == to {
        true => Basis::SameFamily,
        false if speeds.is_learned(&from) && speeds.is_learned(&to) => Basis::Learned,
        false => Basis::Published,
    }
}

fn runs_a_machine(step: &Step<'_>, spec: &TypeSpec) -> u32 {
    let by_cores = u64::from(spec.vcpus) * 1000 / step.cores.0.max(1);
    let by_memory = usable(spec.memory).0 / step.memory.0.max(1);
    let runs = by_cores.min(by_memory).min(u64::from(step.at_once));
    u32::try_from(runs).unwrap_or(u32::MAX).max(1)
}

fn fits(step: &Step<'_>, spec: &TypeSpec, limits: &Limits) -> Result<(), Misfit> {
    let has_gpu = |wanted: &str| {
        let gpus = spec.gpus.as_ref();
        gpus.is_some_and(|gpus| gpus.name.eq_ignore_ascii_case(wanted))
    };
    let gpu = limits.gpu.as_deref().map_or(spec.gpus.is_none(), has_gpu);
    let family = Family::of(&spec.name);
    let checks = [
        (
            Misfit::Architecture,
            limits.architectures.contains(&spec.architecture),
        ),
        (Misfit::Special, !spec.metal && spec.accelerators.is_none()),
        (Misfit::Burstable, !spec.burstable),
        (Misfit::Gpu, gpu),
        (
            Misfit::Policy,
            limits
                .families
                .as_ref()
                .is_none_or(|all| all.contains(&family)),
        ),
        (Misfit::Cores, u64::from(spec.vcpus) * 1000 >= step.cores.0),
        (Misfit::Memory, usable(spec.memory) >= step.memory),
        (Misfit::LocalDisk, spec.local_disk >= limits.local_disk),
    ];
    match checks.into_iter().find(|(_, holds)| !holds) {
        Some((misfit, _)) => Err(misfit),
        None => Ok(()),
    }
}

fn place<'a>(
    step: &Step<'_>,
    offer: Offer<'a>,
    limits: &Limits,
    estimate: Estimate,
) -> Result<Ranked<'a>, Misfit> {
    let regions = limits.regions.as_ref();
    if !regions.is_none_or(|all| all.contains(offer.region)) {
        return Err(Misfit::Policy);
    }
    let hours = estimate.seconds / 3600.0;
    let machine_hours = match offer.market {
        Market::OnDemand => hours,
        Market::Spot(_) if !limits.spot => return Err(Misfit::Policy),
        Market::Spot(interruptions) => interruptions.hours_to_end(hours),
    };
    let moving = match offer.region == step.home {
        true => 0.0,
        false => transfer(step.home, offer.region, step.moved).ok_or(Misfit::TransferUnknown)?,
    };
    let per_hour = offer.per_hour.0.micros() as f64 / 1e6;
    Ok(Ranked {
        offer,
        wall: Duration::from_secs_f64(estimate.seconds),
        runs_a_machine: estimate.runs,
        usd: per_hour * machine_hours / f64::from(estimate.runs) + moving,
        bound: estimate.bound,
        basis: estimate.basis,
    })
}

/// What moving a run's data between two regions costs, at the dearer one's price
/// for data that leaves it, because how much goes which way is not told apart.
/// `None` where bytes or price are not known.
///
/// Source: "Amazon EC2 On-Demand Pricing", data transfer out to other regions:
/// 0.02 USD a GB from the United States, Canada and Europe.
fn transfer(home: &Region, other: &Region, moved: Option<Bytes>) -> Option<f64> {
    const USD_PER_GB: f64 = 0.02;
    let known = |region: &Region| {
        let name = region.as_str();
        ["us-east", "us-west", "ca-", "eu-"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    let moved = moved?;
    (known(home) && known(other)).then(|| moved.0 as f64 / 1e9 * USD_PER_GB)
}

#[cfg(test)]
mod tests;
