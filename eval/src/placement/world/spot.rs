//! The simulated spot market: published and true interruption rates.

use std::collections::BTreeMap;

use ebb_sizing::core_speed::Family;
use ebb_sizing::spot_risk::Interruptions;
use ebb_telemetry::identity::Region;
use fastrand::Rng;

use super::{between, spread};

/// Shares of machines interrupted in a month, for the advisor's five bands.
const BANDS: [f64; 5] = [0.025, 0.075, 0.125, 0.175, 0.25];

/// The spread of the true share around the band: a standard deviation of logarithms.
const BAND_SPREAD: f64 = 0.3;

#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) part_of_list: f64,
    pub(super) published_interruptions: Interruptions,
    pub(super) truth: Interruptions,
}

pub(super) fn spot(
    rng: &mut Rng,
    regions: &[Region],
    families: &BTreeMap<Family, f64>,
) -> BTreeMap<(Region, Family), Spot> {
    let mut all = BTreeMap::new();
    for region in regions {
        for family in families.keys() {
            let published_share = BANDS[rng.usize(..BANDS.len())];
            let truth = (published_share * spread(rng, BAND_SPREAD)).min(0.9);
            let part_of_list = between(rng, 0.3, 0.6);
            let (Some(published_interruptions), Some(truth)) = (
                Interruptions::from_monthly_share(published_share),
                Interruptions::from_monthly_share(truth),
            ) else {
                continue;
            };
            let spot = Spot {
                part_of_list,
                published_interruptions,
                truth,
            };
            all.insert((region.clone(), family.clone()), spot);
        }
    }
    all
}
