//! AWS spot placement scores for the offered spot machines.

use std::collections::BTreeSet;

use ebb_telemetry::identity::{InstanceType, Region};

use crate::advice::offer::Offers;
use crate::confidence::Level;
use crate::inventory::spot_market::{Markets, SpotScore, SpotWish};

/// Minimum number of spot types that are used together. With fewer types, capacity is often not
/// available.
///
/// Source: "Spot placement score", which is low for fewer than three types.
pub const SPOT_TYPES: usize = 3;

/// Maximum number of machines in a request for a score. AWS limits the target capacity of an
/// account by its recent use and its quota.
///
/// Source: EC2 user guide, "Spot placement score", "Target capacity limit".
const MOST_MACHINES: u32 = 1_024;

impl Offers {
    /// The offered spot machines as a request for a spot placement score; `None` when no spot
    /// machines are offered.
    pub fn spot_wish(&self) -> Option<SpotWish> {
        let types = self.spot.iter().map(|one| one.instance_type.clone());
        SpotWish::new(&self.spot.first()?.region, types, self.spot_machines)
    }

    /// Sets the number of machines and their placement score. A low score sets the confidence of
    /// the spot offers to low.
    pub fn scored(&mut self, markets: &Markets, at_once: u32) {
        let Some(a_machine) = self.spot.iter().map(|one| one.runs_a_machine.max(1)).min() else {
            return;
        };
        self.spot_machines = scored_as(at_once.div_ceil(a_machine));
        self.spot_score = self.spot_wish().and_then(|wish| wish.find_score(markets));
        if self.spot_score.as_ref().is_some_and(SpotScore::is_low) {
            for offer in &mut self.spot {
                offer.confidence = Level::Low;
            }
        }
    }
}

/// The number of machines in the request: a power of two.
fn scored_as(machines: u32) -> u32 {
    machines.clamp(1, MOST_MACHINES).next_power_of_two()
}

impl SpotWish {
    /// A request for so many machines of these types at once; `None` for fewer than [`SPOT_TYPES`]
    /// types. The number is rounded up to a power of two, so that the request stays the same from
    /// day to day. AWS limits the number of new requests.
    pub fn new(
        region: &Region,
        types: impl Iterator<Item = InstanceType>,
        machines: u32,
    ) -> Option<Self> {
        let types: BTreeSet<InstanceType> = types.collect();
        (types.len() >= SPOT_TYPES).then(|| Self {
            region: region.clone(),
            types,
            machines: scored_as(machines),
        })
    }

    /// The newest AWS score for these types, or else for most of them; `None` without a request, or
    /// if AWS refused it.
    pub fn find_score(&self, markets: &Markets) -> Option<SpotScore> {
        let scores = markets.scores.iter();
        let scores = scores.filter(|score| score.wish.answers(self));
        scores
            .max_by_key(|score| (score.wish.types == self.types, score.at))
            .cloned()
    }

    /// Whether a score for this wish is valid for another one: same region and number of machines,
    /// and at least [`SPOT_TYPES`] types in common. Spot prices change which types are cheapest,
    /// and each new set of types would need another request.
    pub fn answers(&self, other: &Self) -> bool {
        let same = self.types.intersection(&other.types).count();
        self.region == other.region && self.machines == other.machines && same >= SPOT_TYPES
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::advice::offer::{Basis, HeldUpBy, Offered};
    use crate::inventory::instance::Market;
    use ebb_telemetry::money::{Usd, UsdPerHour};

    fn kind(name: &str) -> InstanceType {
        InstanceType::new(name).expect("a type")
    }

    fn region() -> Region {
        Region::new("eu-central-1").expect("a region")
    }

    fn on_spot(name: &str) -> Offered {
        Offered {
            instance_type: kind(name),
            architecture: None,
            vcpus: None,
            memory: None,
            region: region(),
            per_hour: UsdPerHour::from_micros(1),
            wall: std::time::Duration::from_secs(1),
            usd_a_run: Usd::from_micros(1),
            runs_a_machine: 2,
            held_up_by: HeldUpBy::Work,
            basis: Basis::Observed,
            market: Market::Spot,
            saves_a_run: None,
            moving_usd_a_run: Usd::ZERO,
            spot: None,
            reasons: Vec::new(),
            assumed: Vec::new(),
            confidence: Level::High,
            samples: 9,
            paid: None,
        }
    }

    fn make_score(types: &[&str], machines: u32, score: u8) -> SpotScore {
        SpotScore {
            wish: SpotWish {
                region: region(),
                types: types.iter().map(|name| kind(name)).collect(),
                machines,
            },
            score,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_offer_carries_the_score_of_as_many_machines_of_mostly_the_same_types() {
        let types = ["c6i.large", "m6i.large", "r6i.large", "m6a.large"];
        let check = |scores: Vec<SpotScore>, expect: Option<u8>, level: Level| {
            let mut offers = Offers {
                spot: types.map(on_spot).into(),
                ..Offers::default()
            };
            let markets = Markets {
                scores,
                ..Markets::default()
            };
            // Eleven tasks, two on each machine: six machines, rounded up to eight.
            offers.scored(&markets, 11);
            assert_eq!(offers.spot_machines, 8);
            assert_eq!(offers.spot_score.map(|score| score.score), expect);
            assert!(offers.spot.iter().all(|one| one.confidence == level));
        };
        check(Vec::new(), None, Level::High);
        check(vec![make_score(&types, 8, 9)], Some(9), Level::High);
        check(vec![make_score(&types[..3], 8, 3)], Some(3), Level::Low);
        // An exact match of the types is preferred to a partial match.
        let both = vec![make_score(&types[..3], 8, 3), make_score(&types, 8, 9)];
        check(both, Some(9), Level::High);
        check(vec![make_score(&types[..2], 8, 3)], None, Level::High);
        check(vec![make_score(&types, 16, 3)], None, Level::High);
    }

    #[test]
    fn nothing_is_asked_of_fewer_than_three_types() {
        let mut offers = Offers {
            spot: vec![on_spot("c6i.large"), on_spot("m6i.large")],
            ..Offers::default()
        };
        offers.scored(&Markets::default(), 1);
        assert_eq!(offers.spot_wish(), None);
        offers = Offers::default();
        offers.scored(&Markets::default(), 1);
        assert_eq!((offers.spot_wish(), offers.spot_machines), (None, 0));
    }
}
