//! The machine types that steps would run on, as a compute environment or an Auto
//! Scaling group offers them: of one region, one architecture and one market.

use std::collections::{BTreeMap, BTreeSet};

use ebb_domain::catalogue::{Architecture, Catalogue};
use ebb_domain::fleet::Market;
use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::profile::place::Offered;

/// Types that one group may name.
///
/// Source: "Auto Scaling groups with multiple instance types", at most 40 overrides.
const MAX_TYPES: usize = 40;

/// Machine types to offer together.
pub(super) struct Pool<'a> {
    pub(super) region: &'a str,
    pub(super) architecture: Architecture,
    pub(super) market: Market,
    /// The cheapest of each step first, then what stands in for it.
    pub(super) types: Vec<&'a str>,
    /// What those steps were seen on.
    pub(super) now: BTreeSet<&'a str>,
    pub(super) steps: usize,
    pub(super) origin: Origin,
}

impl Pool<'_> {
    /// A name for what holds it.
    pub(super) fn name(&self) -> String {
        let architecture = match self.architecture {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "arm64",
        };
        let spot = if self.is_spot() { "-spot" } else { "" };
        format!("tuned-{}-{architecture}{spot}", self.region)
    }

    pub(super) fn is_spot(&self) -> bool {
        self.market == Market::Spot
    }

    /// What it rests on, in one line.
    pub(super) fn told_by(&self) -> String {
        let steps = if self.steps == 1 { "step" } else { "steps" };
        format!("{}: what {} {steps} would run on", self.name(), self.steps)
    }
}

/// All pools that steps have offers for: on spot those of steps for which that is
/// cheaper with its interruptions counted, else on demand. Architectures are kept apart,
/// because one compute environment or group starts one kind of image.
pub(super) fn pools(steps: &[StepAdvice]) -> Vec<Pool<'_>> {
    let mut pools: BTreeMap<(&str, Architecture, Market), Pool<'_>> = BTreeMap::new();
    // Rank by rank, so that the bound cuts no step's best.
    let ranks = steps.iter().map(|step| offers(step).len()).max();
    for rank in 0..ranks.unwrap_or(0) {
        for step in steps {
            let Some(offer) = offers(step).get(rank) else {
                continue;
            };
            let Some(architecture) = architecture_of(offer) else {
                continue;
            };
            let key = (offer.region.as_str(), architecture, offer.market);
            let pool = pools.entry(key).or_insert_with(|| Pool {
                region: key.0,
                architecture: key.1,
                market: key.2,
                types: Vec::new(),
                now: BTreeSet::new(),
                steps: 0,
                origin: Origin::Measured,
            });
            let name = offer.instance_type.as_str();
            if !pool.types.contains(&name) && pool.types.len() < MAX_TYPES {
                pool.types.push(name);
            }
            if rank == 0 {
                pool.steps += 1;
                pool.origin = pool.origin.max(step.origin);
                pool.now.extend(step.machines.iter().map(|m| m.as_str()));
            }
        }
    }
    pools.into_values().collect()
}

/// Advice of before it said so names built-in types only.
fn architecture_of(offer: &Offered) -> Option<Architecture> {
    let built_in = || Catalogue::built_in().spec(&offer.instance_type);
    offer
        .architecture
        .or_else(|| Some(built_in()?.architecture))
}

/// Spot types are told where they are cheaper, and to be used together.
fn offers(step: &StepAdvice) -> &[Offered] {
    match step.offers.spot.is_empty() {
        true => &step.offers.best,
        false => &step.offers.spot,
    }
}
