//! Conversion of ranked types into offers of a report.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_model::advice::offer::{
    Assumed, Basis, HeldUpBy, Offered, Offers, PaidPrice, Reason, SpotRisk,
};
use ebb_model::advice::spot_wish::SPOT_TYPES;
use ebb_model::confidence::Level;
use ebb_model::cost::PriceBasis::ListPrice;
use ebb_model::inventory::instance;
use ebb_sizing::core_speed::Family;
use ebb_sizing::ranking::offer::{Market, Ranked};
use ebb_sizing::ranking::{Ranking, offer};
use ebb_sizing::spot_risk::Interruptions;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::Share;

use crate::advice::placement::current_price::Paid;
use crate::advice::placement::inputs::{MAX_OFFERS, MAX_SPOT_OFFERS, Placing, usd};

/// Relative difference below which two run times count as equal.
const MUCH: f64 = 0.05;

pub(crate) struct Teller<'a> {
    pub(crate) placing: &'a Placing<'a>,
    /// The current machine of the step.
    pub(crate) now: Option<Ranked<'a>>,
    /// Its cost is the part of the machine that the request takes.
    pub(crate) is_share: bool,
    /// Effective price of the current machine; `None` stands for the list price.
    pub(crate) paid: Option<Paid<'a>>,
    /// Interval between checkpoints; `None` if none is declared.
    pub(crate) checkpoint: Option<Duration>,
    /// Minimum number of tasks for high confidence in a run time.
    pub(crate) confident: u32,
}

impl Teller<'_> {
    pub(crate) fn offers(&self, ranking: &Ranking<'_>, home: &Region) -> Offers {
        let here = |ranked: &&Ranked<'_>| ranked.offer.region == home;
        let is_spot = |ranked: &&Ranked<'_>| ranked.offer.market != Market::OnDemand;
        let on_demand = |ranked: &&Ranked<'_>| here(ranked) && !is_spot(ranked);
        let best = self.each_of_another_family(ranking.ranked.iter().filter(on_demand));
        let best_usd = best.first().map(|offer| offer.usd_a_run);
        let cheaper = |ranked: &&Ranked<'_>| best_usd.is_none_or(|best| usd(ranked.usd) < best);
        let spot = ranking.ranked.iter().filter(here).filter(is_spot);
        // A step on spot stays on spot, even if on-demand costs less.
        let stays = self
            .paid
            .is_some_and(|paid| paid.market == instance::Market::Spot);
        let spot: Vec<Offered> = spot
            .filter(|ranked| stays || cheaper(ranked))
            .take(MAX_SPOT_OFFERS)
            .map(|ranked| self.tell(ranked))
            .collect();
        let elsewhere = ranking.ranked.iter().filter(|ranked| !here(ranked));
        Offers {
            elsewhere: self.each_of_another_family(elsewhere.filter(cheaper)),
            best,
            now: self.now.as_ref().map(|now| self.tell_now(now)),
            spot: match spot.len() >= SPOT_TYPES {
                true => spot,
                false => Vec::new(),
            },
            left_out: ranking
                .left_out
                .iter()
                .map(|(why, many)| {
                    let many = u32::try_from(*many).unwrap_or(u32::MAX);
                    (why.code().to_owned(), many)
                })
                .collect(),
            ..Offers::default()
        }
    }

    fn each_of_another_family<'a, 'o: 'a>(
        &self,
        ranked: impl Iterator<Item = &'a Ranked<'o>>,
    ) -> Vec<Offered> {
        let mut families = BTreeSet::new();
        let other =
            |ranked: &&Ranked<'_>| families.insert(Family::from_name(&ranked.offer.spec.name));
        let best = ranked.filter(other).take(MAX_OFFERS);
        best.map(|ranked| self.tell(ranked)).collect()
    }

    pub(crate) fn tell(&self, ranked: &Ranked<'_>) -> Offered {
        let basis = Basis::from(ranked.basis);
        Offered {
            instance_type: ranked.offer.spec.name.clone(),
            architecture: Some(ranked.offer.spec.architecture),
            vcpus: Some(ranked.offer.spec.vcpus),
            memory: Some(ranked.offer.spec.memory),
            region: ranked.offer.region.clone(),
            per_hour: ranked.offer.per_hour,
            // Whole milliseconds: a prediction is not more precise.
            wall: Duration::from_millis(u64::try_from(ranked.wall.as_millis()).unwrap_or(u64::MAX)),
            usd_a_run: usd(ranked.usd),
            runs_a_machine: ranked.runs_a_machine,
            held_up_by: match ranked.bound {
                offer::Bound::Work => HeldUpBy::Work,
                offer::Bound::Disk => HeldUpBy::Disk,
                offer::Bound::Network => HeldUpBy::Network,
            },
            basis,
            market: match ranked.offer.market {
                Market::OnDemand => instance::Market::OnDemand,
                Market::Spot(_) => instance::Market::Spot,
            },
            saves_a_run: self.known().map(|now| usd(now.usd) - usd(ranked.usd)),
            moving_usd_a_run: usd(ranked.moving),
            spot: self.spot_risk(ranked),
            reasons: self.reasons(ranked),
            assumed: assumed(ranked, self.checkpoint),
            confidence: match basis {
                Basis::Observed if ranked.samples >= self.confident => Level::High,
                Basis::Observed | Basis::Learned => Level::Medium,
                Basis::Published => Level::Low,
            },
            samples: ranked.samples,
            paid: None,
        }
    }

    /// The current machine, if its price is exact. A spot machine without a bill has only an upper
    /// bound.
    fn known(&self) -> Option<&Ranked<'_>> {
        let is_known = self.paid.is_none_or(|paid| paid.is_known());
        self.now.as_ref().filter(|_| is_known)
    }

    /// The current machine at its effective price, together with the list price.
    fn tell_now(&self, now: &Ranked<'_>) -> Offered {
        let mut current = self.tell(now);
        if self.is_share {
            current.assumed.retain(|one| *one != Assumed::RunsAtOnce);
            current.assumed.push(Assumed::RequestShare);
        }
        let Some(paid) = self.paid else {
            return current;
        };
        let mut assumed = current.assumed;
        assumed.retain(|one| *one != Assumed::ListPrice || paid.price.basis == ListPrice);
        Offered {
            market: paid.market,
            paid: Some(PaidPrice {
                basis: paid.price.basis,
                list_per_hour: paid.price.list,
            }),
            assumed,
            ..current
        }
    }

    fn spot_risk(&self, ranked: &Ranked<'_>) -> Option<SpotRisk> {
        let Market::Spot(often) = ranked.offer.market else {
            return None;
        };
        let hours = ranked.wall.as_secs_f64() / 3600.0;
        let per_hour = dollars(ranked.offer.per_hour) / f64::from(ranked.runs_a_machine);
        let every = self.checkpoint.map(|every| every.as_secs_f64() / 3600.0);
        let again = often.hours_to_end_from(hours, every) - hours;
        let list = (self.placing.catalogue)
            .on_demand(ranked.offer.region, &ranked.offer.spec.name)
            .map(dollars);
        let part = |list: f64| dollars(ranked.offer.per_hour) / list;
        Some(SpotRisk {
            interrupted: Share::from_ppm((often.chance_within(hours) * 1e6).round() as u32),
            redo_usd_a_run: usd(per_hour * again),
            // With checkpoints the cost of an hour does not depend on the length of a task.
            break_even: list
                .filter(|_| self.checkpoint.is_none())
                .and_then(|list| break_even(often, part(list))),
        })
    }

    fn reasons(&self, ranked: &Ranked<'_>) -> Vec<Reason> {
        let Some(now) = &self.now else {
            return Vec::new();
        };
        let (then, before) = (ranked.wall.as_secs_f64(), now.wall.as_secs_f64());
        let spec = |ranked: &Ranked<'_>| ranked.offer.spec.architecture;
        let held = [
            (
                self.known().is_some() && usd(ranked.usd) < usd(now.usd),
                Reason::Cheaper,
            ),
            (then < before * (1.0 - MUCH), Reason::Faster),
            (then > before * (1.0 + MUCH), Reason::Slower),
            (
                ranked.runs_a_machine > now.runs_a_machine,
                Reason::SharesMachine,
            ),
            (spec(ranked) != spec(now), Reason::OtherArchitecture),
            (ranked.offer.market != Market::OnDemand, Reason::Spot),
            (ranked.offer.region != now.offer.region, Reason::OtherRegion),
            (ranked.leaves_commitment, Reason::LeavesCommitment),
        ];
        let held = held.into_iter().filter(|(holds, _)| *holds);
        held.map(|(_, reason)| reason).collect()
    }
}

fn break_even(often: Interruptions, part: f64) -> Option<Duration> {
    let hours = often.break_even_hours(part)?;
    Duration::try_from_secs_f64((hours * 3600.0).round()).ok()
}

fn assumed(ranked: &Ranked<'_>, checkpoint: Option<Duration>) -> Vec<Assumed> {
    let spot = ranked.offer.market != Market::OnDemand;
    let spec = ranked.offer.spec;
    let all = [
        (!spot, Assumed::ListPrice),
        (ranked.runs_a_machine > 1, Assumed::RunsAtOnce),
        (
            ranked.basis == offer::Basis::Published,
            Assumed::PublishedSpeed,
        ),
        (spec.gpus.is_some(), Assumed::GpuNeeded),
        (spot && checkpoint.is_none(), Assumed::RestartsFromBegin),
        (spot && checkpoint.is_some(), Assumed::GoesOnFromCheckpoint),
        (spot, Assumed::InterruptionsAsBefore),
        (ranked.moving > 0.0, Assumed::TransferAtDearerPrice),
        (spec.ebs_baseline_mbps.is_none(), Assumed::DiskNoBound),
    ];
    let all = all.into_iter().filter(|(holds, _)| *holds);
    all.map(|(_, assumed)| assumed).collect()
}

pub(crate) fn dollars(price: UsdPerHour) -> f64 {
    price.0.micros() as f64 / 1e6
}
