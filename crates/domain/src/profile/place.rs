//! Where a profiled step should run: offers of its own region, ranked by the
//! expected dollars of a run. On demand only; where no price and no band of
//! interruptions is known, spot is not guessed at.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Run, StepProfile};
use crate::catalogue::{Catalogue, TypeSpec};
use crate::identity::{InstanceType, Region};
use crate::placement::rank::{self, Limits, Market, Offer, Ranked};
pub(crate) use crate::placement::speed::Speeds;
use crate::placement::speed::{Family, Observed};
use crate::placement::work::Work;
use crate::policy::Policy;
use crate::sizing::SizedRequest;
use crate::units::{Bytes, CpuTime, MilliCores, Usd, UsdPerHour};

/// Offers that are told, each of another family: the best, and what to take where
/// that one has no capacity.
const TOLD: usize = 3;

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

/// A machine type to run on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Offered {
    /// The type.
    pub instance_type: InstanceType,
    /// Where.
    pub region: Region,
    /// Its list price on demand.
    pub per_hour: UsdPerHour,
    /// How long a run is expected to take.
    pub wall: Duration,
    /// What a run is expected to cost: its part of the machine.
    pub usd_a_run: Usd,
    /// Runs that share the machine.
    pub runs_a_machine: u32,
    /// What holds it up most.
    pub held_up_by: HeldUpBy,
    /// What the time rests on.
    pub basis: Basis,
}

/// Where a step should run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Offers {
    /// The cheapest run first, each of another family.
    pub best: Vec<Offered>,
    /// How many types were left out, by the code of the reason.
    pub left_out: BTreeMap<String, u32>,
}

/// What a run of a step does on average, and the newest machine that it was seen on;
/// `None` where that machine or its CPU time is unknown.
fn work<'a>(runs: &[&Run], catalogue: &'a Catalogue) -> Option<(Work, &'a TypeSpec)> {
    let machine = runs.iter().rev().find_map(|run| run.machine.as_ref())?;
    let on_it = || {
        runs.iter()
            .filter(|run| run.machine.as_ref() == Some(machine))
    };
    let many = u32::try_from(on_it().count()).ok()?;
    let wall: Duration = on_it().map(|run| run.wall).sum();
    let cpu = on_it().map(|run| Some(run.cpu?.0)).sum::<Option<u64>>()?;
    let peak = on_it().map(|run| run.peak_cores).max().flatten();
    let disk = on_it().map(|run| Some(run.disk?.0)).sum::<Option<u64>>();
    let mean = |sum: u64| sum / u64::from(many.max(1));
    let mut work = Work::from_totals(wall.checked_div(many)?, CpuTime(mean(cpu)), peak)?;
    work.disk = disk.map(|sum| Bytes(mean(sum)));
    Some((work, catalogue.spec(machine)?))
}

/// Ranks the types of the step's region for what it should ask for.
pub(crate) fn offers(
    profile: &StepProfile,
    request: SizedRequest,
    home: &Region,
    (catalogue, speeds, policy): (&Catalogue, &Speeds, &Policy),
) -> Offers {
    let all = profile.by_time();
    let runs: Vec<&Run> = all.into_iter().filter(|run| run.tells(policy)).collect();
    let known = work(&runs, catalogue).zip(request.cores.zip(request.memory));
    let Some(((work, seen_on), (cores, memory))) = known else {
        return Offers::default();
    };
    let step = rank::Step {
        work: &work,
        seen_on,
        among_others: false,
        cores,
        memory,
        at_once: profile.at_once(),
        home,
        moved: None,
    };
    let on_demand = catalogue.types_in(home).map(|(spec, per_hour)| Offer {
        spec,
        region: home,
        market: Market::OnDemand,
        per_hour,
    });
    let current = on_demand.filter(|offer| offer.spec.current_generation);
    let ranking = rank::rank(&step, current, &limits(seen_on), speeds);
    let mut families = BTreeSet::new();
    let other = |ranked: &&Ranked<'_>| families.insert(Family::of(&ranked.offer.spec.name));
    let best = ranking.ranked.iter().filter(other).take(TOLD);
    Offers {
        best: best.map(offered).collect(),
        left_out: ranking
            .left_out
            .iter()
            .map(|(why, many)| (code(*why), u32::try_from(*many).unwrap_or(u32::MAX)))
            .collect(),
    }
}

/// Programs are known to exist only for what they were seen on.
fn limits(seen_on: &TypeSpec) -> Limits {
    Limits {
        architectures: BTreeSet::from([seen_on.architecture]),
        families: None,
        regions: None,
        local_disk: None,
        gpu: None,
        spot: false,
    }
}

fn offered(ranked: &Ranked<'_>) -> Offered {
    let micros = (ranked.usd * 1e6).round();
    Offered {
        instance_type: ranked.offer.spec.name.clone(),
        region: ranked.offer.region.clone(),
        per_hour: ranked.offer.per_hour,
        // Whole milliseconds: what lies below is no statement about a run.
        wall: Duration::from_millis(u64::try_from(ranked.wall.as_millis()).unwrap_or(u64::MAX)),
        usd_a_run: Usd::from_micros(micros as i64),
        runs_a_machine: ranked.runs_a_machine,
        held_up_by: match ranked.bound {
            rank::Bound::Work => HeldUpBy::Work,
            rank::Bound::Disk => HeldUpBy::Disk,
            rank::Bound::Network => HeldUpBy::Network,
        },
        basis: match ranked.basis {
            rank::Basis::SameFamily => Basis::Observed,
            rank::Basis::Learned => Basis::Learned,
            rank::Basis::Published => Basis::Published,
        },
    }
}

fn code(why: rank::Misfit) -> String {
    let code = match why {
        rank::Misfit::Cores => "cores",
        rank::Misfit::Memory => "memory",
        rank::Misfit::Architecture => "architecture",
        rank::Misfit::Gpu => "gpu",
        rank::Misfit::LocalDisk => "local_disk",
        rank::Misfit::Policy => "policy",
        rank::Misfit::Burstable => "burstable",
        rank::Misfit::Special => "special",
        rank::Misfit::SpeedUnknown => "speed_unknown",
        rank::Misfit::TransferUnknown => "transfer_unknown",
    };
    code.to_owned()
}

/// Learns how fast families are from steps that were seen on two of them.
pub(crate) fn learned<'a>(
    profiles: impl Iterator<Item = (&'a String, &'a StepProfile)>,
    catalogue: &Catalogue,
) -> Speeds {
    let mut by_name: BTreeMap<&String, Vec<&Run>> = BTreeMap::new();
    for (name, profile) in profiles {
        let well = profile.by_time().into_iter();
        let ended = well.filter(|run| run.end == crate::step::StepEnd::Exited(0));
        by_name.entry(name).or_default().extend(ended);
    }
    let mut observed = Vec::new();
    for runs in by_name.values() {
        let mut by_machine: BTreeMap<&InstanceType, Vec<&Run>> = BTreeMap::new();
        for run in runs {
            if let Some(machine) = &run.machine {
                by_machine.entry(machine).or_default().push(run);
            }
        }
        let seen: Vec<_> = by_machine
            .values()
            .filter_map(|r| work(r, catalogue))
            .collect();
        for pair in seen.windows(2) {
            observed.extend(apart(&pair[0], &pair[1]));
        }
    }
    Speeds::learned(&observed)
}

/// How much longer the same step took on another family than published facts say.
fn apart(one: &(Work, &TypeSpec), other: &(Work, &TypeSpec)) -> Option<Observed> {
    let (from, to) = (Family::of(&one.1.name), Family::of(&other.1.name));
    if from == to || one.1.architecture != other.1.architecture {
        return None;
    }
    let home = Region::new("us-east-1").ok()?;
    let step = rank::Step {
        work: &one.0,
        seen_on: one.1,
        among_others: false,
        cores: MilliCores(1),
        memory: Bytes(1),
        at_once: 1,
        home: &home,
        moved: None,
    };
    let offer = Offer {
        spec: other.1,
        region: &home,
        market: Market::OnDemand,
        per_hour: UsdPerHour::default(),
    };
    let ranking = rank::rank(&step, [offer], &limits(one.1), &Speeds::default());
    let predicted = ranking.ranked.first()?.wall.as_secs_f64();
    let took = other.0.wall().as_secs_f64();
    (predicted > 0.0 && took > 0.0).then(|| Observed {
        from,
        to,
        log_excess: (took / predicted).ln(),
    })
}
