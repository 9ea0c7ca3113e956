//! The expected run time of a task on a type, from the types on which the step was observed.

use ebb_catalog::machine_type::TypeSpec;
use ebb_telemetry::units::Bytes;

use crate::cheapest_type::usable;
use crate::core_speed::{Family, Speeds};
use crate::ranking::misfit;
use crate::ranking::misfit::Misfit;
use crate::ranking::offer::{Basis, Bound, Limits, ObservedTasks, Step};
use crate::run_time;

/// The weight of an observation on a processor of the same vendor, relative to one of another
/// vendor. Vendors differ in the strengths of their cores.
const SAME_MAKER: f64 = 4.0;

/// The part of an estimate that does not depend on the region and the purchase option.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    pub(crate) seconds: f64,
    pub(crate) runs: u32,
    pub(crate) bound: Bound,
    pub(crate) basis: Basis,
    /// Number of tasks that it is based on.
    pub(crate) samples: u32,
}

/// The prediction for one machine from the tasks on another.
struct Predicted {
    seconds: f64,
    bound: Bound,
    basis: Basis,
    weight: f64,
    samples: u32,
}

impl Estimate {
    /// An estimate from the tasks on the same family, if there are any. Otherwise an estimate from
    /// all tasks, with a larger weight for processors of the same vendor. The mean is a geometric
    /// one.
    pub(crate) fn new(
        step: &Step<'_>,
        spec: &TypeSpec,
        limits: &Limits,
        speeds: &Speeds,
    ) -> Result<Self, Misfit> {
        misfit::fits(step, spec, limits)?;
        let runs = runs_a_machine(step, spec);
        let all = step.seen.iter();
        let mut predictions: Vec<Predicted> = all
            .filter_map(|tasks| Predicted::new(tasks, spec, runs, speeds))
            .collect();
        if predictions.iter().any(|one| one.basis == Basis::SameFamily) {
            predictions.retain(|one| one.basis == Basis::SameFamily);
        }
        let weight: f64 = predictions.iter().map(|one| one.weight).sum();
        let logs = predictions
            .iter()
            .map(|t| t.weight * t.seconds.max(1e-9).ln());
        let seconds = (logs.sum::<f64>() / weight).exp();
        let best = predictions
            .iter()
            .max_by(|a, b| a.weight.total_cmp(&b.weight));
        let best = best.ok_or(Misfit::SpeedUnknown)?;
        Ok(Self {
            seconds,
            runs,
            bound: best.bound,
            basis: best.basis,
            samples: predictions.iter().map(|one| one.samples).sum(),
        })
    }
}

impl Predicted {
    fn new(tasks: &ObservedTasks<'_>, spec: &TypeSpec, runs: u32, speeds: &Speeds) -> Option<Self> {
        let (from, to) = (
            Family::from_name(&tasks.on.name),
            Family::from_name(&spec.name),
        );
        let work = match speeds.transfer(&from, &to) {
            Some(transfer) => {
                let published = replayed(tasks, spec, runs, &Speeds::default())?;
                let here = run_time::ObservedRunTime::new(published, tasks.work.mean_cores());
                transfer.predict(&here).as_secs_f64()
            }
            None => replayed(tasks, spec, runs, speeds)?,
        };
        let needs = |bytes: Option<Bytes>, mbps: Option<u32>, runs: u32| {
            let mbps = mbps.filter(|mbps| *mbps > 0)?;
            Some(bytes?.0 as f64 * 8.0 * f64::from(runs) / (f64::from(mbps) * 1e6))
        };
        let disk = needs(tasks.work.disk, spec.ebs_baseline_mbps, runs);
        // A task that waits for its disk waits longer if the sustained bandwidth is lower.
        let grown = match tasks.work.disk_wait {
            Some(wait) if !wait.is_zero() => {
                let here = needs(tasks.work.disk, tasks.on.ebs_baseline_mbps, 1);
                disk.zip(here)
                    .map_or(0.0, |(there, here)| (there - here).max(0.0))
            }
            _ => 0.0,
        };
        let network = needs(tasks.work.network, spec.network_baseline_mbps, runs);
        let parts = [
            (Bound::Work, work + grown),
            (Bound::Disk, disk.unwrap_or(0.0)),
            (Bound::Network, network.unwrap_or(0.0)),
        ];
        let longest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (bound, seconds) = longest.unwrap_or((Bound::Work, work));
        Some(Self {
            seconds,
            bound,
            basis: basis(&from, &to, speeds),
            weight: match from.maker() == to.maker() {
                true => SAME_MAKER,
                false => 1.0,
            },
            samples: tasks.runs,
        })
    }
}

/// Seconds of the work alone, by the throughput of the cores of both machines.
fn replayed(tasks: &ObservedTasks<'_>, spec: &TypeSpec, runs: u32, speeds: &Speeds) -> Option<f64> {
    let from = speeds.cores(tasks.on)?;
    let cores = speeds.cores(spec)?;
    let from = match tasks.among_others {
        true => from.all_loaded(),
        false => from,
    };
    let share = f64::from(spec.vcpus) / f64::from(runs);
    let crowded = speeds.crowding(tasks.among_others, runs > 1);
    Some(tasks.work.replayed(&from, |busy| match runs {
        1 => cores.rate(busy) / crowded,
        _ => cores.rate_among_others(busy, share) / crowded,
    }))
}

fn basis(from: &Family, to: &Family, speeds: &Speeds) -> Basis {
    match from == to {
        true => Basis::SameFamily,
        false if speeds.is_learned(from) && speeds.is_learned(to) => Basis::Learned,
        false => Basis::Published,
    }
}

pub(crate) fn runs_a_machine(step: &Step<'_>, spec: &TypeSpec) -> u32 {
    let by_cores = u64::from(spec.vcpus) * 1000 / step.cores.0.max(1);
    let by_memory = usable(spec.memory).0 / step.memory.0.max(1);
    let runs = by_cores.min(by_memory).min(u64::from(step.at_once));
    u32::try_from(runs).unwrap_or(u32::MAX).max(1)
}
