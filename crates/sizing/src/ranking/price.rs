//! The cost of a task on an offer.

use std::time::Duration;

use ebb_telemetry::identity::Region;
use ebb_telemetry::units::Bytes;

use crate::ranking::estimate::Estimate;
use crate::ranking::misfit;
use crate::ranking::misfit::Misfit;
use crate::ranking::offer::{Limits, Market, Offer, Ranked, Step};

pub(crate) fn place<'a>(
    step: &Step<'_>,
    offer: Offer<'a>,
    limits: &Limits,
    estimate: Estimate,
) -> Result<Ranked<'a>, Misfit> {
    misfit::may_be_taken(&offer, limits)?;
    let hours = estimate.seconds / 3600.0;
    let machine_hours = match offer.market {
        Market::OnDemand => hours,
        Market::Spot(_) if !limits.spot => return Err(Misfit::Policy),
        Market::Spot(interruptions) => {
            let every = limits.checkpoint.map(|every| every.as_secs_f64() / 3600.0);
            interruptions.hours_to_end_from(hours, every)
        }
    };
    let moving = match offer.region == step.home {
        true => 0.0,
        false => transfer(step.home, offer.region, step.moved).ok_or(Misfit::TransferUnknown)?,
    };
    let per_hour = offer.per_hour.0.micros() as f64 / 1e6;
    let alone = per_hour * machine_hours / f64::from(estimate.runs) + moving;
    let usd = match step.committed.as_ref() {
        Some(paid) => paid.with(alone, &offer),
        None => alone,
    };
    Ok(Ranked {
        offer,
        wall: Duration::try_from_secs_f64(estimate.seconds).unwrap_or(Duration::MAX),
        runs_a_machine: estimate.runs,
        usd,
        moving,
        leaves_commitment: usd > alone,
        bound: estimate.bound,
        basis: estimate.basis,
        samples: estimate.samples,
    })
}

/// The cost in dollars of transferring a task's data between two regions. The price is that of the
/// more expensive direction, because the bytes of each direction are unknown. `None` when bytes or
/// price are unknown.
///
/// Source: "Amazon EC2 On-Demand Pricing", data transfer out to other regions: 0.02 USD a GB from
/// the United States, Canada and Europe.
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
