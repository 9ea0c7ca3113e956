//! The machine types that steps would run on, as a compute environment or an Auto
//! Scaling group offers them: of one region and one architecture.

use std::collections::{BTreeMap, BTreeSet};

use ebb_domain::catalogue::{Architecture, Catalogue};
use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;

/// Types that one group may name.
///
/// Source: "Auto Scaling groups with multiple instance types", at most 40 overrides.
const MAX_TYPES: usize = 40;

/// Machine types to offer together.
pub(super) struct Pool<'a> {
    pub(super) region: &'a str,
    pub(super) architecture: Architecture,
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
        format!("tuned-{}-{architecture}", self.region)
    }

    /// What it rests on, in one line.
    pub(super) fn told_by(&self) -> String {
        let steps = if self.steps == 1 { "step" } else { "steps" };
        format!("{}: what {} {steps} would run on", self.name(), self.steps)
    }
}

/// All pools that steps have offers for. Architectures are kept apart, because one
/// compute environment or group starts one kind of image.
pub(super) fn pools(steps: &[StepAdvice]) -> Vec<Pool<'_>> {
    let mut pools: BTreeMap<(&str, Architecture), Pool<'_>> = BTreeMap::new();
    // Rank by rank, so that the bound cuts no step's best.
    let ranks = steps.iter().map(|s| s.offers.best.len()).max().unwrap_or(0);
    for rank in 0..ranks {
        for step in steps {
            let Some(offer) = step.offers.best.get(rank) else {
                continue;
            };
            let Some(spec) = Catalogue::built_in().spec(&offer.instance_type) else {
                continue;
            };
            let key = (offer.region.as_str(), spec.architecture);
            let pool = pools.entry(key).or_insert_with(|| Pool {
                region: key.0,
                architecture: key.1,
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
