//! Speed of machine families, learned from steps that ran on two of them.

use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_model::step_profile::{Run, StepProfile};
use ebb_sizing::core_speed::{Family, Observed, Speeds};
use ebb_sizing::ranking::offer;
use ebb_sizing::ranking::offer::{Limits, Market, Offer};
use ebb_sizing::ranking::rank;
use ebb_sizing::run_time::{ObservedRunTime, Pair, Transfer};
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::step::StepEnd;
use ebb_telemetry::units::{Bytes, MilliCores};

use crate::step_history::observed_work::{MeanWork, work_by_type};

/// Limit on steps for a comparison of two families; more steps do not change the fitted line.
const MAX_PAIRS: usize = 500;

/// Observation of one step on two families.
struct Apart {
    observed: Observed,
    /// Prediction for the other family from published facts, and the observed time.
    pair: Pair,
}

/// Learns a speed factor for each family from all steps by name. With enough steps on two families,
/// it also fits how the ratio of run times depends on the length and parallelism of a step.
pub(crate) fn learned<'a>(
    profiles: impl Iterator<Item = (&'a String, &'a StepProfile)>,
    catalogue: &Catalogue,
) -> Speeds {
    let mut by_name: BTreeMap<&String, Vec<&Run>> = BTreeMap::new();
    for (name, profile) in profiles {
        let well = profile.by_time().into_iter();
        let ended = well.filter(|run| run.end == StepEnd::Exited(0));
        by_name.entry(name).or_default().extend(ended);
    }
    let mut observed = Vec::new();
    let mut pairs: BTreeMap<(Family, Family), Vec<Pair>> = BTreeMap::new();
    for runs in by_name.values() {
        let work_by_type = work_by_type(runs, catalogue);
        for (i, one) in work_by_type.iter().enumerate() {
            for (j, other) in work_by_type.iter().enumerate() {
                let Some(apart) = (i != j).then(|| apart(one, other)).flatten() else {
                    continue;
                };
                let families = (apart.observed.from.clone(), apart.observed.to.clone());
                let pairs = pairs.entry(families).or_default();
                if pairs.len() < MAX_PAIRS {
                    pairs.push(apart.pair);
                }
                // The reverse pair would add the same factor again.
                if i < j {
                    observed.push(apart.observed);
                }
            }
        }
    }
    let fitted = pairs
        .into_iter()
        .filter_map(|(families, pairs)| Some((families, Transfer::fit(&pairs)?)));
    Speeds::learned(&observed).with_transfers(fitted.collect())
}

/// Compares the run time of a step on another family with the prediction from published facts.
fn apart(one: &MeanWork<'_>, other: &MeanWork<'_>) -> Option<Apart> {
    let (from, to) = (
        Family::from_name(&one.on.name),
        Family::from_name(&other.on.name),
    );
    if from == to {
        return None;
    }
    let home = Region::new("us-east-1").ok()?;
    let on_both = [one.on.architecture, other.on.architecture];
    let limits = Limits {
        architectures: on_both.into_iter().collect(),
        gpu: other.on.gpus.clone(),
        ..Limits::default()
    };
    let predicted = predicted(one, other, (&home, &limits))?;
    let took = other.work.wall();
    if predicted <= 0.0 || took.is_zero() {
        return None;
    }
    let shared = |work: &MeanWork<'_>| f64::from(u8::from(work.among_others));
    Some(Apart {
        observed: Observed {
            from,
            to,
            log_excess: (took.as_secs_f64() / predicted).ln(),
            crowding: shared(other) - shared(one),
        },
        pair: Pair {
            here: ObservedRunTime::new(predicted, one.work.mean_cores()),
            there: took,
        },
    })
}

fn predicted(
    one: &MeanWork<'_>,
    other: &MeanWork<'_>,
    (home, limits): (&Region, &Limits),
) -> Option<f64> {
    let phases = one.work.phases.iter();
    let step = offer::Step {
        seen: &[one.observed_tasks()],
        // A step that keeps more cores busy than the other type has is still compared.
        cores: (phases.map(|phase| phase.cores).max()?)
            .min(MilliCores::cores(other.on.vcpus.into())),
        memory: Bytes(1),
        // Next to other tasks a task has no core of its own.
        at_once: if other.among_others { 2 } else { 1 },
        home,
        moved: None,
        committed: None,
    };
    let offer = Offer {
        spec: other.on,
        region: home,
        market: Market::OnDemand,
        per_hour: UsdPerHour::default(),
        zones: None,
    };
    let ranking = rank(&step, [offer], limits, &Speeds::default());
    Some(ranking.ranked.first()?.wall.as_secs_f64())
}
