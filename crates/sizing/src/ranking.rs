//! All offers for a step, ranked by the expected cost of a task.

pub mod estimate;
pub mod misfit;
pub mod offer;
pub mod price;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use ebb_telemetry::identity::InstanceType;

use crate::core_speed::Speeds;
use crate::ranking::misfit::Misfit;
use crate::ranking::offer::{Limits, Offer, Ranked, Step};

/// The result of ranking all offers.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking<'a> {
    /// The cheapest first; equal ones by price per hour, type and region.
    pub ranked: Vec<Ranked<'a>>,
    /// Number of offers that were left out, by reason.
    pub left_out: BTreeMap<Misfit, usize>,
}

/// Ranks offers by the expected cost of a task in dollars.
pub fn rank<'a>(
    step: &Step<'_>,
    offers: impl IntoIterator<Item = Offer<'a>>,
    limits: &Limits,
    speeds: &Speeds,
) -> Ranking<'a> {
    let mut estimates: HashMap<&InstanceType, Result<estimate::Estimate, Misfit>> = HashMap::new();
    let mut ranking = Ranking {
        ranked: Vec::new(),
        left_out: BTreeMap::new(),
    };
    for offer in offers {
        let estimate = estimates
            .entry(&offer.spec.name)
            .or_insert_with(|| estimate::Estimate::new(step, offer.spec, limits, speeds));
        let placed = estimate.and_then(|estimate| price::place(step, offer, limits, estimate));
        match placed {
            Ok(ranked) => ranking.ranked.push(ranked),
            Err(misfit) => *ranking.left_out.entry(misfit).or_default() += 1,
        }
    }
    ranking.ranked.sort_by(|a, b| {
        let (a_key, b_key) = (&a.offer.spec.name, &b.offer.spec.name);
        let by_name = || (a_key, a.offer.region).cmp(&(b_key, b.offer.region));
        // Among offers that a commitment makes equal, the cheapest per hour leaves most of the
        // commitment to others.
        let by_price = || a.offer.per_hour.cmp(&b.offer.per_hour);
        (a.usd.total_cmp(&b.usd))
            .then_with(by_price)
            .then_with(by_name)
    });
    ranking
}
