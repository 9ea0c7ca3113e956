//! Prices, speeds and limits for the placement of a step.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::TypeSpec;
use ebb_model::advice::offer::{Offered, Offers};
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::inventory::instance;
use ebb_model::inventory::spot_market::Markets;
use ebb_model::policy::Policy;
use ebb_model::step_profile::{Run, StepProfile};
use ebb_sizing::cheapest_type::MachineSize;
use ebb_sizing::core_speed::{Family, Speeds};
use ebb_sizing::ranking;
use ebb_sizing::ranking::misfit::Misfit;
use ebb_sizing::ranking::offer::{Committed, Limits, Market, Offer, Ranked};
use ebb_sizing::ranking::{Ranking, offer};
use ebb_sizing::spot_risk::interruptions;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::units::Bytes;

use crate::advice::placement::current_price::Paid;
use crate::advice::placement::limits::limits;
use crate::advice::placement::offers::{Teller, dollars};
use crate::advice::placement::{StepConditions, TRIAL_MAY_TAKE, TRIAL_RUNS, runs_a_month};
use crate::facts::Facts;
use crate::step_history::by_step::{Profiles, StepHistory};
use crate::step_history::observed_work::{MeanWork, work_by_type};

/// Limit on reported offers, one for each family: the best, and alternatives in case its capacity
/// is unavailable.
pub(crate) const MAX_OFFERS: usize = 3;

/// Limit on reported spot types.
pub(crate) const MAX_SPOT_OFFERS: usize = 5;

/// Data for the offers of a step.
#[derive(Clone, Copy)]
pub(crate) struct Placing<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) speeds: &'a Speeds,
    pub(crate) policy: &'a Policy,
    pub(crate) markets: &'a Markets,
    /// For each commitment, the hourly list price of all machines that it could cover.
    pub(crate) demand: &'a [UsdPerHour],
    /// Executables that were observed on Arm.
    pub(crate) on_arm: &'a BTreeSet<String>,
}

/// Expected run time of a step in its own region.
pub(crate) struct AtHome<'a> {
    /// Mean of the observed run times.
    pub(crate) mean: Duration,
    /// Interval between checkpoints; `None` if none is declared.
    pub(crate) checkpoint: Option<Duration>,
    /// All suitable types and markets in its own region.
    pub(crate) ranked: Vec<Ranked<'a>>,
}

/// A step with all inputs for its offers.
pub(crate) struct StepInputs<'a> {
    pub(crate) work_by_type: &'a [MeanWork<'a>],
    pub(crate) now: &'a TypeSpec,
    request: (ebb_telemetry::units::MilliCores, Bytes),
    at_once: u32,
    pub(crate) home: &'a Region,
    moved: Option<Bytes>,
    /// Its present cost is its part of the machine: most tasks on the present type ran at the same
    /// time as tasks of other steps.
    shares_machine: bool,
}

impl<'a> Placing<'a> {
    pub(crate) fn new(facts: &Facts<'a>, profiles: &'a Profiles<'_>) -> Self {
        Self {
            catalogue: facts.catalogue,
            speeds: &profiles.speeds,
            policy: facts.policy,
            markets: &facts.inventory.markets,
            demand: &profiles.demand,
            on_arm: &profiles.on_arm,
        }
    }

    /// Ranks the types for a step in its own region, with `at_once` concurrent tasks; `None` if its
    /// work is unknown.
    pub(crate) fn at_home(
        &self,
        (profiled, at_once): (&StepHistory<'_>, u32),
        request: (ebb_telemetry::units::MilliCores, Bytes),
        home: &Region,
    ) -> Option<AtHome<'_>> {
        let all = profiled.profile.by_time();
        let tells: Vec<&Run> = all
            .iter()
            .copied()
            .filter(|r| r.tells(self.policy))
            .collect();
        // Failed and hung tasks occupy a machine too.
        let runs = if tells.is_empty() { all } else { tells };
        let work_by_type = work_by_type(&runs, self.catalogue);
        let newest = runs.iter().rev().find_map(|run| run.machine.as_ref())?;
        let walls = work_by_type.iter().map(|mean| mean.work.wall() * mean.runs);
        let step = StepInputs {
            work_by_type: &work_by_type,
            now: self.catalogue.spec(newest)?,
            request,
            at_once,
            home,
            moved: None,
            shares_machine: false,
        };
        let (limits, _) = limits(self, &step, (&profiled.tags(), Arm::from_history(profiled)));
        Some(AtHome {
            mean: (walls.sum::<Duration>())
                .checked_div(work_by_type.iter().map(|s| s.runs).sum())?,
            checkpoint: limits.checkpoint,
            ranked: self.rank(&step, &limits, None).ranked,
        })
    }

    /// Ranks all suitable types.
    pub(crate) fn offers(
        &self,
        profile: &StepProfile,
        (request, asks): (SizedRequest, SizedRequest),
        home: &Region,
        about: &StepConditions<'_>,
    ) -> Offers {
        let all = profile.by_time();
        let runs: Vec<&Run> = all.into_iter().filter(|r| r.tells(self.policy)).collect();
        let work_by_type = work_by_type(&runs, self.catalogue);
        let newest = runs.iter().rev().find_map(|run| run.machine.as_ref());
        let now = newest.and_then(|machine| self.catalogue.spec(machine));
        let known = now.zip(request.cores.zip(request.memory));
        let Some((now, request)) = known.filter(|_| !work_by_type.is_empty()) else {
            return Offers::default();
        };
        let measured_bytes = work_by_type
            .iter()
            .filter_map(|mean| mean.work.network)
            .max();
        let megabytes = self.policy.placement.moved_megabytes_a_run;
        let declared_bytes = (megabytes > 0).then(|| Bytes(megabytes.saturating_mul(1_000_000)));
        let step = StepInputs {
            work_by_type: &work_by_type,
            now,
            request,
            at_once: profile.at_once(),
            home,
            moved: measured_bytes.or(declared_bytes),
            // The GPUs of a task are no part of its request.
            shares_machine: now.gpus.is_none() && share_machines(&runs, &now.name),
        };
        let (limits, in_the_way_of_arm) = limits(self, &step, (about.tags, about.arm));
        let paid = about.paid.filter(|paid| *paid.on == now.name);
        let runs_on = self.runs_on_now(&step, asks, paid);
        let market = paid.map_or(instance::Market::OnDemand, |paid| paid.market);
        let commitment = self.commitment(home, now, market);
        let family = commitment.and_then(|paid| paid.family.as_deref().map(Family::named));
        let committed = commitment
            .zip(runs_on.as_ref())
            .map(|(paid, now)| Committed {
                usd_a_run: now.usd,
                region: paid.region.as_ref(),
                family: family.as_ref(),
            });
        let ranking = self.rank(&step, &limits, committed);
        let teller = Teller {
            placing: self,
            now: runs_on,
            is_share: step.shares_machine,
            paid,
            checkpoint: limits.checkpoint,
            confident: self.policy.sizing.confident_samples,
        };
        let mut offers = teller.offers(&ranking, home);
        offers.try_next = self.try_next(&teller, &ranking, (profile, home));
        offers.in_the_way_of_arm = in_the_way_of_arm;
        offers.scored(self.markets, profile.at_once());
        offers
    }

    fn rank<'s>(
        &'s self,
        step: &StepInputs<'_>,
        limits: &Limits,
        committed: Option<Committed<'_>>,
    ) -> Ranking<'s> {
        let of: Vec<offer::ObservedTasks<'_>> = step
            .work_by_type
            .iter()
            .map(MeanWork::observed_tasks)
            .collect();
        let (cores, memory) = step.request;
        let ranked = offer::Step {
            seen: &of,
            cores,
            memory,
            at_once: step.at_once,
            home: step.home,
            moved: step.moved,
            committed,
        };
        let mut unknown = 0;
        let offers = self.sold(step, limits, &mut unknown);
        let mut ranking = ranking::rank(&ranked, offers, limits, self.speeds);
        if unknown > 0 {
            ranking
                .left_out
                .insert(Misfit::InterruptionsUnknown, unknown);
        }
        ranking
    }

    /// Returns all current-generation types of the catalogue and the spot market. Spot types with
    /// an unknown interruption rate are left out and counted in `unknown`.
    fn sold<'s>(
        &'s self,
        step: &StepInputs<'_>,
        limits: &Limits,
        unknown: &mut usize,
    ) -> Vec<Offer<'s>> {
        let may_be = |region: &&Region| {
            let allowed = limits.regions.as_ref();
            *region == step.home
                || step.moved.is_some() && allowed.is_none_or(|all| all.contains(*region))
        };
        let home = self.catalogue.regions().find(|region| *region == step.home);
        let others = self
            .catalogue
            .regions()
            .filter(|region| *region != step.home);
        let mut sold = Vec::new();
        for region in home.into_iter().chain(others).filter(may_be) {
            let spot = self.markets.spot.get(region);
            let zones = self.markets.zones.get(region);
            for (spec, per_hour) in self.catalogue.types_in(region) {
                if !spec.current_generation {
                    continue;
                }
                let on_demand = Offer {
                    spec,
                    region,
                    market: Market::OnDemand,
                    per_hour,
                    zones: zones.and_then(|zones| zones.get(&spec.name)),
                };
                sold.push(on_demand);
                let Some(terms) = spot.and_then(|spot| spot.get(&spec.name)) else {
                    continue;
                };
                match interruptions(terms) {
                    Some(often) => sold.push(Offer {
                        market: Market::Spot(often),
                        per_hour: terms.per_hour,
                        ..on_demand
                    }),
                    None => *unknown += 1,
                }
            }
        }
        sold
    }

    /// Cost on its last machine type, with its current request.
    fn runs_on_now<'s>(
        &'s self,
        step: &StepInputs<'s>,
        asks: SizedRequest,
        paid: Option<Paid<'_>>,
    ) -> Option<Ranked<'s>> {
        let limits = Limits {
            architectures: BTreeSet::from([step.now.architecture]),
            gpu: step.now.gpus.clone(),
            ..Limits::default()
        };
        let (cores, memory) = step.request;
        let of: Vec<offer::ObservedTasks<'_>> = step
            .work_by_type
            .iter()
            .map(MeanWork::observed_tasks)
            .collect();
        let ranked = offer::Step {
            seen: &of,
            cores: asks.cores.unwrap_or(cores),
            memory: asks.memory.unwrap_or(memory),
            at_once: step.at_once,
            home: step.home,
            moved: None,
            committed: None,
        };
        let region = self
            .catalogue
            .regions()
            .find(|region| *region == step.home)?;
        let offer = Offer {
            spec: step.now,
            region,
            market: Market::OnDemand,
            per_hour: match paid {
                Some(paid) => paid.price.per_hour,
                None => self.catalogue.on_demand(region, &step.now.name)?,
            },
            zones: None,
        };
        let ranking = ranking::rank(&ranked, [offer], &limits, self.speeds);
        let mut now = ranking.ranked.first().copied()?;
        if step.shares_machine {
            let size = MachineSize::from_spec(step.now);
            let part = size.share_of_price(offer.per_hour, asks, 0)?;
            let hours = now.wall.as_secs_f64() / 3600.0;
            now.usd = dollars(part) * hours;
        }
        Some(now)
    }

    /// The cheapest type of its own region on which the step never ran. A trial of a few tasks must
    /// pay back within a month, even if they take longer than predicted.
    fn try_next(
        &self,
        teller: &Teller<'_>,
        ranking: &Ranking<'_>,
        (profile, home): (&StepProfile, &Region),
    ) -> Option<Offered> {
        let at_home = |ranked: &&Ranked<'_>| {
            ranked.offer.region == home && ranked.offer.market == Market::OnDemand
        };
        let observed = |ranked: &&Ranked<'_>| ranked.basis == offer::Basis::SameFamily;
        let known = ranking.ranked.iter().filter(at_home).find(observed);
        let known = known.map(|ranked| ranked.usd);
        let best_known = known.into_iter().chain(teller.now.map(|now| now.usd));
        let best_known = best_known.min_by(f64::total_cmp)?;
        let new = |ranked: &&Ranked<'_>| !observed(ranked);
        let trial = ranking.ranked.iter().filter(at_home).find(new)?;
        let a_month = runs_a_month(profile)?;
        let gain = (best_known - trial.usd) * a_month;
        let price = TRIAL_RUNS * (trial.usd * TRIAL_MAY_TAKE - best_known).max(0.0);
        let least = self.policy.overprovisioned.min_saving();
        let pays = gain > price && usd(gain - price) >= least && trial.usd < best_known;
        pays.then(|| teller.tell(trial))
    }
}

/// Whether most tasks on this type shared its machine with tasks of other steps.
fn share_machines(runs: &[&Run], on: &InstanceType) -> bool {
    let here = runs.iter().filter(|run| run.machine.as_ref() == Some(on));
    let known: Vec<bool> = here.filter_map(|run| run.shares_machine).collect();
    let shared = known.iter().filter(|shared| **shared).count();
    2 * shared > known.len()
}

pub(crate) fn usd(dollars: f64) -> Usd {
    Usd::from_micros((dollars * 1e6).round() as i64)
}

/// Properties of a step that decide whether it can run on Arm.
#[derive(Clone, Copy)]
pub(crate) struct Arm<'a> {
    /// Executables of the step; empty if unknown.
    pub(crate) tools: &'a [String],
    /// Whether the step runs from a container image.
    pub(crate) in_container: bool,
}

impl<'a> Arm<'a> {
    pub(crate) fn from_history(profiled: &'a StepHistory<'_>) -> Self {
        Self {
            tools: &profiled.tools,
            in_container: profiled.in_container(),
        }
    }
}
