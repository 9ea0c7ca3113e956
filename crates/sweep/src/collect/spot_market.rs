//! Spot prices, zones and reservations in the regions where something runs. AWS does not charge for
//! these calls, and most answers change seldom. Answers are therefore stored between sweeps and
//! requested seldom. If a later request is refused, the last answer counts until it is too old.

pub mod answer;
pub mod own_interruptions;
pub mod placement_scores;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::spot_advisor::Advisor;
use ebb_catalog::spot_terms::SpotTerms;
use ebb_cloud::ports::MarketSource;
use ebb_model::advice::group::GroupAdvice;
use ebb_model::advice::offer::Offers;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::spot_market::Markets;
use ebb_model::report::Report;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{InstanceType, Region};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::collect::account::{REGIONS_AT_ONCE, where_something_runs};
use crate::collect::spot_market::answer::{DAILY, SPOT_AGE, StoredAnswer};
use crate::collect::spot_market::own_interruptions::Own;
use crate::collect::spot_market::placement_scores::Scores;

/// Age at which a spot price no longer counts. Interruption bands, zones and reservations count for
/// ten times as long.
const SPOT_HOLDS: Duration = Duration::from_secs(24 * 3600);

const REST_HOLDS: Duration = Duration::from_secs(10 * 24 * 3600);

const ADVISOR: &str = "Spot Instance Advisor";

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Place {
    spot: StoredAnswer<BTreeMap<InstanceType, SpotTerms>>,
    zones: StoredAnswer<BTreeMap<InstanceType, BTreeSet<String>>>,
    reserved: StoredAnswer<Vec<Commitment>>,
}

/// The last answers about the spot market, zones and reservations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sold {
    places: BTreeMap<Region, Place>,
    advisor: StoredAnswer<Advisor>,
    scores: Scores,
    own: Own,
}

impl Sold {
    /// Requests what is due, and puts all answers that still count into the inventory.
    pub async fn refresh(
        &mut self,
        source: &dyn MarketSource,
        inventory: &mut Inventory,
        (catalogue, now): (&Catalogue, Timestamp),
    ) {
        self.own.watch(inventory, now);
        let matter = where_something_runs(inventory);
        self.places.retain(|region, _| matter.contains(region));
        if !matter.is_empty() {
            let ask = source.interruptions();
            self.advisor.renew(DAILY, now, ask).await;
        }
        for region in matter {
            self.places.entry(region).or_default();
        }
        let places = self.places.iter_mut();
        stream::iter(places)
            .for_each_concurrent(REGIONS_AT_ONCE, |(region, place)| {
                place.refresh(source, region, now)
            })
            .await;
        self.scores.refresh(source, now).await;
        inventory.markets = self.markets(inventory, (catalogue, now));
        inventory.gaps.extend(self.gaps());
    }

    /// Notes the spot recommendations of a report, so that the next refresh requests their
    /// placement scores. Whole environments come first, then steps.
    pub fn want(&mut self, report: &Report) {
        let environments = report.targets.environments.iter();
        let environments = environments.filter_map(GroupAdvice::spot_wish);
        let offers = report.steps.iter().map(|step| &step.offers);
        let steps = offers.filter_map(Offers::spot_wish);
        let wishes = environments
            .take(placement_scores::ENVIRONMENTS)
            .chain(steps);
        self.scores.want(wishes, report.at);
    }

    /// The answers that still count. Types that the catalogue does not know, or that AWS calls
    /// previous generation, are never recommended. Their prices are therefore included only if they
    /// are in use.
    fn markets(&self, inventory: &Inventory, (catalogue, now): (&Catalogue, Timestamp)) -> Markets {
        let in_use: BTreeSet<&InstanceType> = inventory
            .instances
            .values()
            .map(|instance| &instance.instance_type)
            .collect();
        let is_offered = |kind: &InstanceType| {
            let spec = catalogue.spec(kind);
            spec.is_some_and(|spec| spec.current_generation)
        };
        let is_wanted = |kind: &InstanceType| in_use.contains(kind) || is_offered(kind);
        let advisor = self.advisor.within(REST_HOLDS, now);
        let mut markets = Markets {
            scores: self.scores.current_scores(now).collect(),
            ..Markets::default()
        };
        if advisor.is_some() {
            markets.asked.bands = self.advisor.last.as_ref().map(|(at, _)| *at);
        }
        for (region, place) in &self.places {
            if let Some(spot) = place.spot.within(SPOT_HOLDS, now) {
                let offered = spot.iter().filter(|(kind, _)| is_wanted(kind));
                let spot = offered.map(|(kind, terms)| {
                    let band = advisor.and_then(|advisor| advisor.band(region, kind));
                    let terms = SpotTerms {
                        taken_back_ppm: band.and_then(|band| band.to_ppm),
                        taken_back_above_ppm: band
                            .filter(|band| band.to_ppm.is_none())
                            .map(|band| band.from_ppm),
                        own: self.own.interruptions_of(region, kind),
                        ..terms.clone()
                    };
                    (kind.clone(), terms)
                });
                markets.spot.insert(region.clone(), spot.collect());
                let answer = place.spot.last.as_ref();
                let at = answer.map(|(at, _)| (region.clone(), *at));
                markets.asked.spot.extend(at);
            }
            if let Some(zones) = place.zones.within(REST_HOLDS, now) {
                let offered = zones.iter().filter(|(kind, _)| is_wanted(kind));
                let zones = offered.map(|(kind, zones)| (kind.clone(), zones.clone()));
                markets.zones.insert(region.clone(), zones.collect());
            }
            let reserved = place.reserved.within(REST_HOLDS, now).into_iter().flatten();
            let lasts = |paid: &&Commitment| paid.until.is_none_or(|until| now < until);
            markets.commitments.extend(reserved.filter(lasts).cloned());
        }
        markets
    }

    fn gaps(&self) -> impl Iterator<Item = Gap> {
        let advisor = self.advisor.gap(|| ADVISOR.to_owned());
        let places = self.places.iter().flat_map(|(region, place)| {
            [
                place.spot.gap(|| format!("{region}: spot prices")),
                place
                    .zones
                    .gap(|| format!("{region}: zones of machine types")),
                place.reserved.gap(|| format!("{region}: reservations")),
            ]
        });
        places.chain([advisor]).flatten().chain(self.scores.gaps())
    }
}

impl Place {
    async fn refresh(&mut self, source: &dyn MarketSource, region: &Region, now: Timestamp) {
        futures::join!(
            self.spot.renew(SPOT_AGE, now, source.spot_prices(region)),
            self.zones.renew(DAILY, now, source.zones(region)),
            self.reserved.renew(DAILY, now, source.reserved(region)),
        );
    }
}
