//! Placement in a simulated world whose true costs are known. All of it is SIMULATED.
//!
//! The world has properties that the estimator does not know. The speed of each family differs from
//! the published one. Each step runs better on the cores of one vendor. The second thread of a core
//! adds more for some steps than for others. Runs that share a machine slow each other down.
//! Interruptions differ from the rate of the band. Every observed run is noisy. All of this was
//! fixed before the estimator was run on it. If a step ran on two families, the estimator sees the
//! runs on both, as in a real account.

mod world;

use anyhow::{Result, ensure};
use ebb_sizing::ranking::offer::Ranked;
use serde::Serialize;

use crate::table;
use world::{Task, World};

/// Steps of a world.
pub(crate) const STEPS: usize = 300;

/// The difference to the best choice, over all steps of all worlds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Regret {
    method: &'static str,
    choice: Choice,
    simulated: bool,
    steps: usize,
    mean: f64,
    p50: f64,
    p95: f64,
    /// Steps for which the method found no suitable offer.
    no_answer: usize,
}

/// Scores all methods on `worlds` worlds, the first of them by `seed`.
///
/// # Errors
/// When there is no world.
pub(crate) fn score(seed: u64, worlds: u64, steps: usize) -> Result<Vec<Regret>> {
    ensure!(worlds > 0, "--worlds must be at least 1");
    let mut tallies = METHODS.map(|_| (Vec::new(), 0));
    for world in 0..worlds {
        let world = World::new(seed.wrapping_add(world), steps);
        for task in &world.tasks {
            let best = [
                world.best(task, world.offers()),
                world.best(task, world.on_demand_at_home()),
            ];
            for ((_, choice, choose), (regrets, none)) in METHODS.iter().zip(&mut tallies) {
                match choose(&world, task) {
                    Some(usd) => regrets.push(usd / best[*choice as usize] - 1.0),
                    None => *none += 1,
                }
            }
        }
    }
    let scored = METHODS.into_iter().zip(tallies);
    Ok(scored
        .map(|((method, choice, _), (all, none))| regret(method, choice, all, none))
        .collect())
}

fn regret(method: &'static str, choice: Choice, mut all: Vec<f64>, no_answer: usize) -> Regret {
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all.get((all.len() as f64 * share) as usize).copied();
    Regret {
        method,
        choice,
        simulated: true,
        steps: all.len(),
        mean: all.iter().sum::<f64>() / all.len().max(1) as f64,
        p50: at(0.5).unwrap_or(f64::NAN),
        p95: at(0.95).unwrap_or(f64::NAN),
        no_answer,
    }
}

/// The true cost of a run on the offer that a method chooses; `None` if it finds none.
type Method = fn(&World, &Task) -> Option<f64>;

/// The offers that a method chooses from, and that its choice is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Choice {
    /// All types in all regions, on demand and spot.
    Everything,
    /// All types in the region of the data, on demand.
    OnDemandAtHome,
}

const METHODS: [(&str, Choice, Method); 7] = [
    ("ebb", Choice::Everything, ebb),
    ("ebb", Choice::OnDemandAtHome, ebb_at_home),
    (
        "ebb, from the runs on one machine",
        Choice::OnDemandAtHome,
        ebb_from_one,
    ),
    ("no change", Choice::OnDemandAtHome, as_it_is),
    (
        "P99.5 + 20 %, cheapest fit",
        Choice::OnDemandAtHome,
        compute_optimizer,
    ),
    (
        "peak + 25 %, cheapest of C, M, R",
        Choice::OnDemandAtHome,
        health_omics,
    ),
    (
        "same family, one size down",
        Choice::OnDemandAtHome,
        one_size_down,
    ),
];

fn ebb(world: &World, task: &Task) -> Option<f64> {
    let limits = task.limits(true);
    let ranking = world.rank(task, world.offers(), &limits);
    Some(world.truth(task, &ranking.ranked.first()?.offer))
}

fn ebb_at_home(world: &World, task: &Task) -> Option<f64> {
    at_home(world, task, task)
}

/// As if the step had been observed on one family only; the speeds of families from other steps
/// stay known.
fn ebb_from_one(world: &World, task: &Task) -> Option<f64> {
    at_home(world, task, &task.known_from_one())
}

fn at_home(world: &World, task: &Task, known: &Task) -> Option<f64> {
    let ranking = world.rank(known, world.offers(), &task.limits(false));
    let here = |ranked: &&Ranked<'_>| ranked.offer.region == &world.home;
    Some(world.truth(task, &ranking.ranked.iter().find(here)?.offer))
}

fn as_it_is(world: &World, task: &Task) -> Option<f64> {
    let offer = world
        .on_demand_at_home()
        .find(|o| o.spec.name == task.observed_on.name)?;
    Some(world.truth(task, &offer))
}

/// AWS Compute Optimizer's defaults: the cheapest type with the 99.5th percentile of CPU and of
/// memory plus 20 %. Speeds, packing and spot are ignored.
fn compute_optimizer(world: &World, task: &Task) -> Option<f64> {
    cheapest_fit(world, task, 1.2, |_| true)
}

/// HealthOmics' Run Analyzer: the cheapest type of its families with the peak use plus 25 %.
fn health_omics(world: &World, task: &Task) -> Option<f64> {
    cheapest_fit(world, task, 1.25, |name| {
        [
            "c5.", "m5.", "r5.", "c6i.", "m6i.", "r6i.", "c7i.", "m7i.", "r7i.",
        ]
        .iter()
        .any(|family| name.starts_with(family))
    })
}

fn cheapest_fit(
    world: &World,
    task: &Task,
    headroom: f64,
    family: impl Fn(&str) -> bool,
) -> Option<f64> {
    let offer = world
        .on_demand_at_home()
        .filter(|offer| family(offer.spec.name.as_str()))
        .filter(|offer| task.runs_on(offer.spec))
        .filter(|offer| f64::from(offer.spec.vcpus) >= task.peak_cores * headroom)
        .filter(|offer| offer.spec.memory.0 as f64 >= task.memory.0 as f64 * headroom)
        .min_by_key(|offer| offer.per_hour)?;
    Some(world.truth(task, &offer))
}

fn one_size_down(world: &World, task: &Task) -> Option<f64> {
    let family = task.observed_on.name.as_str().split('.').next()?;
    let smaller = world
        .on_demand_at_home()
        .filter(|offer| offer.spec.name.as_str().split('.').next() == Some(family))
        .filter(|offer| offer.spec.vcpus < task.observed_on.vcpus && !offer.spec.metal)
        .filter(|offer| world.fits(task, offer.spec))
        .max_by_key(|offer| offer.spec.vcpus);
    match smaller {
        Some(offer) => Some(world.truth(task, &offer)),
        None => as_it_is(world, task),
    }
}

/// One table for each set of offers.
pub(crate) fn tables(regrets: &[Regret]) -> String {
    let mut text = String::from(
        "SIMULATED: placement in generated worlds with known costs. Regret: additional cost of a \
         run\ncompared with the cheapest placement.\n",
    );
    let choices = [
        (Choice::Everything, "All types, regions and markets"),
        (
            Choice::OnDemandAtHome,
            "All types on demand in the region of the data",
        ),
    ];
    let head = ["", "mean regret", "median", "p95", "steps", "no answer"];
    for (choice, title) in choices {
        let of_it = regrets.iter().filter(|regret| regret.choice == choice);
        let rows: Vec<Vec<String>> = of_it.map(Regret::row).collect();
        text.push_str(&format!("\n{title}\n{}", table::lines(&head, &rows)));
    }
    text
}

impl Regret {
    fn row(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        vec![
            self.method.to_owned(),
            percent(self.mean),
            percent(self.p50),
            percent(self.p95),
            self.steps.to_string(),
            self.no_answer.to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_sizing::ranking::offer::Basis;

    #[test]
    fn the_same_seed_gives_the_same_world_and_no_choice_beats_the_best() {
        let once = score(5, 1, 10).expect("a world");
        assert_eq!(once, score(5, 1, 10).expect("a world"));
        for regret in &once {
            assert!(regret.mean >= 0.0 && regret.p50 >= 0.0, "{regret:?}");
        }
    }

    #[test]
    fn a_step_that_was_seen_on_both_families_is_estimated_from_what_was_seen() {
        let world = World::new(1, 40);
        let task = &world.tasks[0];
        let ranking = world.rank(task, world.offers(), &task.limits(true));
        assert!(
            ranking
                .ranked
                .iter()
                .any(|ranked| ranked.basis == Basis::Learned)
        );
    }
}
