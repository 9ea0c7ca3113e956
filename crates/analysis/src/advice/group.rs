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
use crate::advice::group::replayed_runs::ReplayGroup;
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
    let replay = ReplayGroup::at(facts, group);
    let mut advice = replay.advise_group()?;
    advice.list_as_of = facts.catalogue.prices_as_of(&advice.region);
    advice.refused = fleets(facts, profiles, (&replay, room), &mut advice).err();
    let large_retries = large_retries(facts, &advice);
    advice.assumed.extend(large_retries);
    Some(advice)
}

/// Why there is no offer for the steps of a group.
fn why_no_type_fits(advice: &GroupAdvice) -> String {
    match advice.is_on_spot() {
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
    (replay, room): (&ReplayGroup<'_, '_, '_>, &mut usize),
    advice: &mut GroupAdvice,
) -> Result<(), String> {
    let unknown = replay
        .steps
        .iter()
        .find(|s| s.now.is_none() || s.then.is_none());
    if let Some(step) = unknown {
        return Err(format!(
            "the cores and memory that {} requests or needs are unknown",
            step.member.step
        ));
    }
    let observed = ObservedCost::new(facts, replay)?;
    advice.now = Some(observed.fleet.clone());
    if observed.is_bound {
        advice.assumed.push(GroupAdvice::BOUND.to_owned());
    }
    if replay.steps.len() > *room {
        return Err("it has more steps than the report can hold offers for".to_owned());
    }
    *room -= replay.steps.len();
    let factor = observed.by_replayed(replay);
    advice.seen_by_replayed_ppm = factor.map(|factor| (factor * 1e6).round() as u32);
    let placing = Placing::new(facts, profiles);
    let then = Then {
        placing: &placing,
        replay,
        observed: &observed,
        factor: factor.unwrap_or(1.0),
    };
    advice.resized = then.resized();
    let offers = then.offers();
    (advice.offers, advice.spot) = (offers.on_demand, offers.spot);
    let markets = &facts.inventory.markets;
    advice.spot_score = advice.spot_wish().and_then(|wish| wish.find_score(markets));
    advice.confidence = confidence(advice, factor);
    let Some(best) = advice.offered().first() else {
        return Err(why_no_type_fits(advice));
    };
    let saved = observed.paid.map(|paid| paid - best.usd);
    let close = factor.is_some_and(|factor| (1.0 / FAR_OFF..=FAR_OFF).contains(&factor));
    match (saved, close) {
        (None, _) => Err("the effective price of its machines is unknown".to_owned()),
        (_, false) => Err(
            "simulated machine hours differ too much from the observed ones for an estimate of the \
             saving"
                .to_owned(),
        ),
        (Some(saved), true) => {
            advice.saving_a_month = Some(a_month(
                saved,
                Window {
                    from: advice.from,
                    to: facts.now,
                },
            ));
            Ok(())
        }
    }
}

/// Steps whose retry gets the present request, which a recommended type does not hold. Such a retry
/// waits forever in an environment of these types alone.
fn large_retries(facts: &Facts<'_>, advice: &GroupAdvice) -> Option<String> {
    let types = advice.offered().iter().map(|fleet| &fleet.instance_type);
    let memory = types.filter_map(|name| Some(usable(facts.catalogue.spec(name)?.memory)));
    let least = memory.min()?;
    let steps = advice.steps.iter().filter_map(|step| {
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
fn confidence(advice: &GroupAdvice, factor: Option<f64>) -> Level {
    if advice.spot_score.as_ref().is_some_and(SpotScore::is_low) {
        return Level::Low;
    }
    let by_time = match advice.offered().first().and_then(|best| best.basis) {
        Some(Basis::Observed) => Level::High,
        Some(Basis::Learned) => Level::Medium,
        Some(Basis::Published) | None => Level::Low,
    };
    let by_replay = match factor {
        Some(factor) if (0.8..=1.25).contains(&factor) => Level::High,
        Some(factor) if (1.0 / FAR_OFF..=FAR_OFF).contains(&factor) => Level::Medium,
        _ => Level::Low,
    };
    let by_samples = match advice.steps.iter().all(|step| step.samples_needed == 0) {
        true => Level::High,
        false => Level::Medium,
    };
    by_time.min(by_replay).min(by_samples)
}
