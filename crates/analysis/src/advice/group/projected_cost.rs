//! Projected cost of the tasks of a group on other machines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_model::advice::group::Fleet;
use ebb_model::advice::offer::Basis;
use ebb_model::advice::spot_wish::SPOT_TYPES;
use ebb_model::inventory::instance::Market;
use ebb_sizing::core_speed::Family;
use ebb_sizing::packing::{Wanted, pack};
use ebb_sizing::ranking::offer;
use ebb_sizing::ranking::offer::Ranked;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::Usd;

use crate::advice::group::observed_cost::ObservedCost;
use crate::advice::group::replayed_runs::ReplayGroup;
use crate::advice::placement::inputs::{MAX_OFFERS, MAX_SPOT_OFFERS, Placing};

/// Upper bound for the ratio of run times between types; it limits the arithmetic.
const MOST_LONGER: f64 = 1e3;

/// Number of types that are replayed. They are the cheapest types under the assumption of full
/// machines.
const REPLAYED: usize = 8;

pub(crate) struct Then<'t, 'a> {
    pub(crate) placing: &'t Placing<'t>,
    pub(crate) replay: &'t ReplayGroup<'t, 't, 'a>,
    pub(crate) observed: &'t ObservedCost<'a>,
    /// Correction factor for the cost of offers.
    pub(crate) factor: f64,
}

#[derive(Default)]
pub(crate) struct ProjectedFleets {
    pub(crate) on_demand: Vec<Fleet>,
    pub(crate) spot: Vec<Fleet>,
}

/// A type on which every step fits, with the run time of each step in the order of the steps.
struct Candidate<'a> {
    by_step: Vec<OnType<'a>>,
    /// Cost in dollars, if all machines were full.
    at_least: f64,
}

/// A step on a type.
struct OnType<'a> {
    ranked: Ranked<'a>,
    /// Ratio of the expected run time on this type to the observed run time.
    longer: f64,
    /// Hours between checkpoints; `None` if no checkpoints are declared.
    checkpoint: Option<f64>,
}

impl OnType<'_> {
    /// Ratio of the expected hours with spot interruptions to the hours without interruptions.
    fn again(&self) -> f64 {
        let hours = self.ranked.wall.as_secs_f64() / 3600.0;
        match self.ranked.offer.market {
            offer::Market::Spot(often) if hours > 0.0 => {
                often.hours_to_end_from(hours, self.checkpoint) / hours
            }
            _ => 1.0,
        }
    }
}

impl<'a> Then<'_, 'a> {
    /// The same type with the recommended requests.
    pub(crate) fn resized(&self) -> Option<Fleet> {
        let wanted = self.replay.wanted(|step| step.then, |at, _| self.wall(at));
        let offer = offer::Offer {
            spec: self.observed.base,
            region: &self.replay.group.region,
            market: offer::Market::OnDemand,
            per_hour: self.observed.base_per_hour?,
            zones: None,
        };
        let fleet = self.replayed(&wanted, offer, 1.0)?;
        Some(Fleet {
            market: self.observed.market,
            basis: Some(Basis::Observed),
            ..fleet
        })
    }

    pub(crate) fn offers(&self) -> ProjectedFleets {
        let candidates = self.candidates();
        let (on_demand, spot): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .partition(|one| one.offer().market == offer::Market::OnDemand);
        let mut families = BTreeSet::new();
        let mut on_demand = self.cheapest(on_demand);
        on_demand.retain(|fleet| families.insert(Family::from_name(&fleet.instance_type)));
        on_demand.truncate(MAX_OFFERS);
        let mut spot = self.cheapest(spot);
        let best = on_demand.first().map(|best| best.usd);
        // A group on spot stays on spot, even if on-demand costs less.
        let stays = self.observed.market == Market::Spot;
        spot.retain(|fleet| stays || best.is_none_or(|best| fleet.usd < best));
        spot.truncate(MAX_SPOT_OFFERS);
        if spot.len() < SPOT_TYPES {
            spot.clear();
        }
        ProjectedFleets { on_demand, spot }
    }

    fn cheapest(&self, mut candidates: Vec<Candidate<'_>>) -> Vec<Fleet> {
        candidates.sort_by(|a, b| {
            let name = |one: &Candidate<'_>| one.offer().spec.name.clone();
            (a.at_least.total_cmp(&b.at_least)).then_with(|| name(a).cmp(&name(b)))
        });
        candidates.truncate(REPLAYED);
        let mut fleets: Vec<Fleet> = candidates
            .iter()
            .filter_map(|candidate| self.fleet(candidate))
            .collect();
        fleets.sort_by(|a, b| (a.usd, &a.instance_type).cmp(&(b.usd, &b.instance_type)));
        fleets
    }

    fn candidates(&self) -> Vec<Candidate<'_>> {
        let mut by_type: BTreeMap<(&InstanceType, bool), Vec<OnType<'_>>> = BTreeMap::new();
        for (at, step) in self.replay.steps.iter().enumerate() {
            let home = &self.replay.group.region;
            let about = (step.profiled, self.replay.at_once);
            let there = step
                .then
                .and_then(|size| self.placing.at_home(about, size, home));
            let Some(there) = there else {
                return Vec::new();
            };
            for ranked in there.ranked {
                let spot = ranked.offer.market != offer::Market::OnDemand;
                let all = by_type.entry((&ranked.offer.spec.name, spot)).or_default();
                // A type that did not fit an earlier step has fewer entries.
                if all.len() == at {
                    let took = there.mean.as_secs_f64().max(1e-3);
                    let longer = ranked.wall.as_secs_f64() / took;
                    let checkpoint = there.checkpoint.map(|every| every.as_secs_f64() / 3600.0);
                    all.push(OnType {
                        ranked,
                        longer,
                        checkpoint,
                    });
                }
            }
        }
        let steps = self.replay.steps.len();
        let whole = by_type.into_values().filter(|all| all.len() == steps);
        whole
            .map(|by_step| Candidate {
                at_least: self.at_least(&by_step),
                by_step,
            })
            .collect()
    }

    /// Lower bound in dollars. Each task pays for its larger share of the machine, cores or memory.
    fn at_least(&self, by_step: &[OnType<'_>]) -> f64 {
        let steps = self.replay.steps.iter().zip(by_step);
        let each = steps.filter_map(|(step, on)| {
            let room = self.replay.room(on.ranked.offer.spec);
            let (cores, memory) = step.then?;
            let by_cores = cores.0 as f64 / room.cores.0 as f64;
            let part = by_cores.max(memory.0 as f64 / room.memory.0 as f64);
            let price = on.ranked.offer.per_hour.0.micros() as f64;
            Some(part * price * step.member.wall.as_secs_f64() * on.longer * on.again())
        });
        each.sum()
    }

    fn fleet(&self, candidate: &Candidate<'_>) -> Option<Fleet> {
        let wall = |at: usize, step: usize| {
            let longer = candidate.by_step.get(step).map_or(1.0, |on| on.longer);
            self.wall(at).mul_f64(longer.min(MOST_LONGER))
        };
        let wanted = self.replay.wanted(|step| step.then, wall);
        let offer = candidate.offer();
        // Interrupted tasks are paid for again; long tasks are interrupted more often.
        let all = self.replay.steps.iter().zip(&candidate.by_step);
        let (once, all) = all.fold((0.0, 0.0), |(once, all), (step, on)| {
            let seconds = step.member.wall.as_secs_f64() * on.longer;
            (once + seconds, all + seconds * on.again())
        });
        let again = if once > 0.0 { all / once } else { 1.0 };
        let fleet = self.replayed(&wanted, offer, again)?;
        let worst = candidate.by_step.iter().map(|on| on.ranked.basis).max();
        Some(Fleet {
            market: match offer.market {
                offer::Market::OnDemand => Market::OnDemand,
                offer::Market::Spot(_) => Market::Spot,
            },
            basis: worst.map(Basis::from),
            ..fleet
        })
    }

    fn replayed(&self, wanted: &[Wanted], offer: offer::Offer<'_>, again: f64) -> Option<Fleet> {
        let packed = pack(wanted, self.replay.room(offer.spec)).ok()?;
        let times = (self.factor * again).min(MOST_LONGER);
        let machine_time = packed.machine_time.mul_f64(times);
        Some(Fleet {
            instance_type: offer.spec.name.clone(),
            architecture: Some(offer.spec.architecture),
            market: Market::OnDemand,
            per_hour: offer.per_hour,
            machine_time,
            machines: packed.machines,
            usd: self.with_commitment(&offer, offer.per_hour.over(machine_time)),
            basis: None,
            together: self.replay.together(&packed),
        })
    }

    /// Adds the part of a commitment that is paid even if the tasks leave it unused.
    fn with_commitment(&self, offer: &offer::Offer<'_>, usd: Usd) -> Usd {
        let home = &self.replay.group.region;
        let (base, market) = (self.observed.base, self.observed.market);
        let Some(paid) = self.placing.commitment(home, base, market) else {
            return usd;
        };
        let family = paid.family.as_deref().map(Family::named);
        let committed = offer::Committed {
            usd_a_run: micros(self.observed.fleet.usd),
            region: paid.region.as_ref(),
            family: family.as_ref(),
        };
        Usd::from_micros(committed.with(micros(usd), offer).round() as i64)
    }

    fn wall(&self, at: usize) -> Duration {
        let run = self.replay.group.runs.get(at);
        run.map_or(Duration::ZERO, |run| run.run.wall())
    }
}

fn micros(usd: Usd) -> f64 {
    usd.micros() as f64
}

impl<'a> Candidate<'a> {
    /// Type and price are the same for every step.
    fn offer(&self) -> offer::Offer<'a> {
        self.by_step[0].ranked.offer
    }
}
