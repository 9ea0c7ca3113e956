//! Cost of all steps of a pipeline or an environment together, estimated by a replay of their
//! tasks.

pub mod members;
pub mod observed_cost;
pub mod projected_cost;
pub mod replayed_runs;

use ebb_model::advice::group::GroupAdvice;
use ebb_model::advice::offer::Basis;
use ebb_model::advice::spot_wish::SPOT_TYPES;
use ebb_model::confidence::Level;
use ebb_model::inventory::spot_market::SpotScore;
use ebb_sizing::cheapest_type::usable;
use ebb_telemetry::money::Usd;
use ebb_telemetry::time::Window;

use crate::advice::group::members::Group;
use crate::advice::group::observed_cost::ObservedCost;
use crate::advice::group::projected_cost::Then;
use crate::advice::group::replayed_runs::Looked;
use crate::advice::placement::inputs::Placing;
use crate::facts::Facts;
use crate::step_history::by_step::Profiles;

/// Limit for the error factor of a replay. Beyond it the replay does not match the platform, and no
/// saving is reported.
const FAR_OFF: f64 = 2.0;

/// Number of named steps of an assumption.
const NAMED_STEPS: usize = 5;

/// Advises on a group; `None` for a group without tasks. `room` is the number of further steps for
/// which offers may be computed.
pub(crate) fn advise(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    group: &Group<'_, '_>,
    room: &mut usize,
) -> Option<GroupAdvice> {
    let looked = Looked::at(facts, group);
    let mut told = looked.advise_group()?;
    told.list_as_of = facts.catalogue.prices_as_of(&told.region);
    told.refused = fleets(facts, profiles, (&looked, room), &mut told).err();
    let large_retries = large_retries(facts, &told);
    told.assumed.extend(large_retries);
    Some(told)
}

/// Why there is no offer for the steps of a group.
fn why_no_type_fits(told: &GroupAdvice) -> String {
    match told.is_on_spot() {
        true => format!(
            "it runs on spot, and fewer than {SPOT_TYPES} instance types that fit all of its \
             steps have a known spot price"
        ),
        false => "no known instance type fits all of its steps".to_owned(),
    }
}

/// Fills in the observed and the recommended machines. The error is the reason why advice is
/// missing.
fn fleets(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    (looked, room): (&Looked<'_, '_, '_>, &mut usize),
    told: &mut GroupAdvice,
) -> Result<(), String> {
    let unknown = looked
        .steps
        .iter()
        .find(|s| s.now.is_none() || s.then.is_none());
    if let Some(step) = unknown {
        return Err(format!(
            "the cores and memory that {} requests or needs are unknown",
            step.member.step
        ));
    }
    let seen = ObservedCost::of(facts, looked)?;
    told.now = Some(seen.fleet.clone());
    if seen.is_bound {
        told.assumed.push(GroupAdvice::BOUND.to_owned());
    }
    if looked.steps.len() > *room {
        return Err("it has more steps than the report can hold offers for".to_owned());
    }
    *room -= looked.steps.len();
    let factor = seen.by_replayed(looked);
    told.seen_by_replayed_ppm = factor.map(|factor| (factor * 1e6).round() as u32);
    let placing = Placing::of(facts, profiles);
    let then = Then {
        placing: &placing,
        looked,
        seen: &seen,
        factor: factor.unwrap_or(1.0),
    };
    told.resized = then.resized();
    let offers = then.offers();
    (told.offers, told.spot) = (offers.on_demand, offers.spot);
    let markets = &facts.inventory.markets;
    told.spot_score = told.spot_wish().and_then(|wish| wish.find_score(markets));
    told.confidence = confidence(told, factor);
    let Some(best) = told.offered().first() else {
        return Err(why_no_type_fits(told));
    };
    let saved = seen.paid.map(|paid| paid - best.usd);
    let close = factor.is_some_and(|factor| (1.0 / FAR_OFF..=FAR_OFF).contains(&factor));
    match (saved, close) {
        (None, _) => Err("the effective price of its machines is unknown".to_owned()),
        (_, false) => Err(
            "simulated machine hours differ too much from the observed ones for an estimate of the \
             saving"
                .to_owned(),
        ),
        (Some(saved), true) => {
            told.saving_a_month = Some(a_month(
                saved,
                Window {
                    from: told.from,
                    to: facts.now,
                },
            ));
            Ok(())
        }
    }
}

/// Steps whose retry gets the present request, which a recommended type does not hold. Such a retry
/// waits forever in an environment of these types alone.
fn large_retries(facts: &Facts<'_>, told: &GroupAdvice) -> Option<String> {
    let types = told.offered().iter().map(|fleet| &fleet.instance_type);
    let memory = types.filter_map(|name| Some(usable(facts.catalogue.spec(name)?.memory)));
    let least = memory.min()?;
    let steps = told.steps.iter().filter_map(|step| {
        let retried_with = step.asks.memory.filter(|memory| *memory > least)?;
        Some(format!("{} with {retried_with}", step.step))
    });
    let steps: Vec<String> = steps.take(NAMED_STEPS).collect();
    (!steps.is_empty()).then(|| {
        format!(
            "an environment with larger machines exists for retries with the present memory ({})",
            steps.join(", ")
        )
    })
}

/// Saving in a month, if the tasks of the group recur at the observed rate.
fn a_month(saved: Usd, known: Window) -> Usd {
    Usd::from_micros((saved.micros() as f64 * known.times_a_month()).round() as i64)
}

/// Confidence from the basis of the run times, the error of the replay, the risk of each step and
/// the spot placement score of AWS.
fn confidence(told: &GroupAdvice, factor: Option<f64>) -> Level {
    if told.spot_score.as_ref().is_some_and(SpotScore::is_low) {
        return Level::Low;
    }
    let by_time = match told.offered().first().and_then(|best| best.basis) {
        Some(Basis::Observed) => Level::High,
        Some(Basis::Learned) => Level::Medium,
        Some(Basis::Published) | None => Level::Low,
    };
    let by_replay = match factor {
        Some(factor) if (0.8..=1.25).contains(&factor) => Level::High,
        Some(factor) if (1.0 / FAR_OFF..=FAR_OFF).contains(&factor) => Level::Medium,
        _ => Level::Low,
    };
    let by_samples = match told.steps.iter().all(|step| step.samples_needed == 0) {
        true => Level::High,
        false => Level::Medium,
    };
    by_time.min(by_replay).min(by_samples)
}
