//! Market data of machines: spot prices, the zones that offer a type, reservations, and the public
//! file of the Spot Instance Advisor. All requests are free.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{
    Filter, InstanceTypeOffering, LocationType, RecurringChargeFrequency, ReservedInstances,
    SpotPlacementScore, SpotPrice, TargetCapacityUnitType,
};
use ebb_catalog::spot_advisor::Advisor;
use ebb_catalog::spot_terms::SpotTerms;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::spot_market::SpotWish;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use jiff::Timestamp;

use super::config::AwsConfig;
use super::error::cloud_error;
use super::time::timestamp;
use crate::error_chain::reason;
use crate::http;
use crate::permissions::{
    DESCRIBE_INSTANCE_TYPE_OFFERINGS, DESCRIBE_RESERVED_INSTANCES, DESCRIBE_SPOT_PRICE_HISTORY,
    GET_SPOT_PLACEMENT_SCORES,
};
use crate::ports::{CloudError, CloudResult, MarketSource, bounded};

/// Maximum number of entries in one page.
const PAGE: i32 = 1_000;

/// Source: EC2 API reference, `SpotPrice`, "productDescription"; accounts from before 2013 receive
/// the second value.
const LINUX: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/// Source: EC2 API reference, `GetSpotPlacementScores`, "InstanceType.N".
const LEAST_TYPES: usize = 3;

/// The URL of the data of the Spot Instance Advisor's page.
pub const SPOT_ADVISOR: &str = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json";

/// Maximum size of the file, which currently has 1 MiB.
const MAX_ADVISOR_BYTES: usize = 16 << 20;
const ADVISOR_PATIENCE: Duration = Duration::from_secs(30);

/// Market data of the account of the credentials.
#[derive(Debug, Clone)]
pub struct AwsMarkets {
    config: AwsConfig,
    advisor: String,
}

impl AwsMarkets {
    /// For the account of `config`, with the advisor's file at `advisor`, which is [`SPOT_ADVISOR`]
    /// or a copy.
    pub fn new(config: &AwsConfig, advisor: &str) -> Self {
        Self {
            config: config.clone(),
            advisor: advisor.to_owned(),
        }
    }

    fn client(&self, region: &Region) -> Client {
        client!(aws_sdk_ec2, self.config, region)
    }
}

#[async_trait]
impl MarketSource for AwsMarkets {
    /// The present price of each type and zone, because start and end are both now.
    async fn spot_prices(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, SpotTerms>> {
        let now = DateTime::from_millis(Timestamp::now().as_millisecond());
        let call = self.client(region).describe_spot_price_history();
        let call = call.start_time(now).end_time(now);
        let call = call.set_product_descriptions(Some(LINUX.map(str::to_owned).to_vec()));
        let mut pages = call.into_paginator().page_size(PAGE).send();
        let mut prices = BTreeMap::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| cloud_error(DESCRIBE_SPOT_PRICE_HISTORY, "spot", &e))?;
            for spot_price in page.spot_price_history() {
                cheapest(spot_price, &mut prices);
            }
        }
        Ok(prices)
    }

    async fn zones(
        &self,
        region: &Region,
    ) -> CloudResult<BTreeMap<InstanceType, BTreeSet<String>>> {
        let call = self.client(region).describe_instance_type_offerings();
        let call = call.location_type(LocationType::AvailabilityZone);
        let mut pages = call.into_paginator().page_size(PAGE).send();
        let mut zones: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        while let Some(page) = pages.next().await {
            let page =
                page.map_err(|e| cloud_error(DESCRIBE_INSTANCE_TYPE_OFFERINGS, "types", &e))?;
            for (kind, zone) in page.instance_type_offerings().iter().filter_map(offered) {
                zones.entry(kind).or_default().insert(zone);
            }
        }
        Ok(zones)
    }

    async fn reserved(&self, region: &Region) -> CloudResult<Vec<Commitment>> {
        let active = Filter::builder().name("state").values("active").build();
        let call = self.client(region).describe_reserved_instances();
        let answer = call.filters(active).send().await;
        let answer =
            answer.map_err(|e| cloud_error(DESCRIBE_RESERVED_INSTANCES, "reservations", &e))?;
        let reservations = answer.reserved_instances().iter();
        Ok(reservations
            .filter_map(|reservation| commitment(reservation, region))
            .collect())
    }

    /// Queries the region itself and only for itself, so that the answer is one page. The score is
    /// not for a single zone, because a Batch environment has several.
    async fn spot_score(&self, wish: &SpotWish) -> CloudResult<Option<u8>> {
        let failed = |message: &str| CloudError::Failed {
            operation: GET_SPOT_PLACEMENT_SCORES.to_owned(),
            message: message.to_owned(),
        };
        if wish.types.len() < LEAST_TYPES {
            return Err(failed("the score of fewer than three types is always low"));
        }
        let machines = i32::try_from(wish.machines).map_err(|_| failed("too many machines"))?;
        let types = wish.types.iter().map(|kind| kind.as_str().to_owned());
        let call = self.client(&wish.region).get_spot_placement_scores();
        let call = call.set_instance_types(Some(types.collect()));
        let call = call
            .target_capacity(machines)
            .single_availability_zone(false);
        let call = call.target_capacity_unit_type(TargetCapacityUnitType::Units);
        let answer = call.region_names(wish.region.as_str()).send().await;
        let answer = answer.map_err(|e| cloud_error(GET_SPOT_PLACEMENT_SCORES, "spot", &e))?;
        Ok(score(answer.spot_placement_scores(), &wish.region))
    }

    async fn interruptions(&self) -> CloudResult<Advisor> {
        let failed = |message: String| CloudError::Failed {
            operation: "file of the Spot Instance Advisor".to_owned(),
            message: bounded(&message),
        };
        let read = http::get(&self.advisor, MAX_ADVISOR_BYTES, ADVISOR_PATIENCE);
        let bytes = read.await.map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|e| failed(e.to_string()))?;
        Advisor::parse(&text).map_err(|e| failed(reason(&e)))
    }
}

/// The score of the region; `None` if it is not from 1 to 10.
fn score(scores: &[SpotPlacementScore], region: &Region) -> Option<u8> {
    let mut scores = scores.iter();
    let here = scores.find(|one| one.region() == Some(region.as_str()))?;
    let score = here.score().and_then(|score| u8::try_from(score).ok());
    score.filter(|score| (1..=10).contains(score))
}

/// Keeps the price of the cheapest zone.
fn cheapest(spot_price: &SpotPrice, prices: &mut BTreeMap<InstanceType, SpotTerms>) {
    let system = spot_price
        .product_description()
        .map(|system| system.as_str());
    if !system.is_some_and(|system| LINUX.contains(&system)) {
        return;
    }
    let kind = spot_price.instance_type().map(|kind| kind.as_str());
    let kind = kind.and_then(|kind| InstanceType::new(kind).ok());
    let price = spot_price.spot_price().and_then(Usd::parse);
    let Some((kind, price)) = kind.zip(price.filter(|price| *price > Usd::ZERO)) else {
        return;
    };
    let terms = SpotTerms {
        per_hour: UsdPerHour(price),
        as_of: spot_price.timestamp().and_then(timestamp),
        taken_back_ppm: None,
        taken_back_above_ppm: None,
        own: None,
    };
    let kept = prices.entry(kind).or_insert_with(|| terms.clone());
    if terms.per_hour < kept.per_hour {
        *kept = terms;
    }
}

fn offered(offering: &InstanceTypeOffering) -> Option<(InstanceType, String)> {
    let kind = InstanceType::new(offering.instance_type()?.as_str()).ok()?;
    Some((kind, offering.location()?.to_owned()))
}

/// The hourly cost of each of its instances: the recurring charge, and the upfront payment divided
/// by the term. Reservations in a currency other than the dollar are left out.
///
/// Source: EC2 API reference, `ReservedInstances` (`fixedPrice`, `duration` in seconds,
/// `recurringCharges` by the hour).
fn commitment(reservation: &ReservedInstances, region: &Region) -> Option<Commitment> {
    if reservation
        .currency_code()
        .is_some_and(|code| code.as_str() != "USD")
    {
        return None;
    }
    // A reservation for another operating system does not cover Linux.
    let system = reservation
        .product_description()
        .map(|system| system.as_str());
    if system.is_some_and(|system| !LINUX.contains(&system)) {
        return None;
    }
    let kind = reservation.instance_type()?.as_str();
    let hourly = reservation.recurring_charges().iter().filter(|charge| {
        let frequency = charge.frequency();
        frequency.is_none_or(|often| *often == RecurringChargeFrequency::Hourly)
    });
    let hourly: f64 = hourly.filter_map(|charge| charge.amount()).sum();
    let hours = reservation.duration().filter(|seconds| *seconds > 0)? as f64 / 3_600.0;
    let ahead = f64::from(reservation.fixed_price().unwrap_or_default()) / hours;
    let count = f64::from(reservation.instance_count().unwrap_or(1));
    let per_hour = Usd::from_f64((hourly + ahead) * count);
    Some(Commitment {
        id: reservation.reserved_instances_id()?.to_owned(),
        region: Some(region.clone()),
        family: kind.split_once('.').map(|(family, _)| family.to_owned()),
        per_hour: UsdPerHour(per_hour.filter(|paid| *paid >= Usd::ZERO)?),
        until: reservation.end().and_then(timestamp),
        used: None,
    })
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::builders::{ReservedInstancesBuilder, SpotPriceBuilder};
    use aws_sdk_ec2::types::{
        InstanceType as Ec2InstanceType, RecurringCharge, RiProductDescription,
    };

    use super::*;

    fn spot(zone: &str, price: &str) -> SpotPriceBuilder {
        SpotPrice::builder()
            .instance_type(Ec2InstanceType::M5Large)
            .product_description(RiProductDescription::LinuxUnix)
            .availability_zone(zone)
            .spot_price(price)
            .timestamp(DateTime::from_secs(1_700_000_000))
    }

    #[test]
    fn a_type_has_the_price_of_its_cheapest_zone() {
        let check = |spot_prices: Vec<SpotPriceBuilder>, expect: Option<i64>| {
            let mut prices = BTreeMap::new();
            for spot_price in spot_prices {
                cheapest(&spot_price.build(), &mut prices);
            }
            let m5 = InstanceType::new("m5.large").expect("a type");
            let got = prices.get(&m5).map(|terms| terms.per_hour.0.micros());
            assert_eq!(got, expect);
        };
        let two = vec![spot("a", "0.040000"), spot("b", "0.035100")];
        check(two, Some(35_100));
        check(vec![spot("a", "0.0"), spot("b", "much")], None);
        let windows = RiProductDescription::Windows;
        check(vec![spot("a", "0.04").product_description(windows)], None);
        let older = "Linux/UNIX (Amazon VPC)".into();
        check(
            vec![spot("a", "0.04").product_description(older)],
            Some(40_000),
        );
    }

    #[test]
    fn a_region_has_its_own_placement_score() {
        let check = |region: &str, rating: i32, expect: Option<u8>| {
            let placement = SpotPlacementScore::builder().region(region).score(rating);
            let here = Region::new("eu-west-1").expect("a region");
            assert_eq!(score(&[placement.build()], &here), expect);
        };
        check("eu-west-1", 9, Some(9));
        check("eu-west-2", 9, None);
        check("eu-west-1", 0, None);
        check("eu-west-1", 11, None);
        check("eu-west-1", -1, None);
    }

    #[test]
    fn a_reservation_costs_what_is_paid_by_the_hour_and_ahead_for_each_instance() {
        let reservation = ReservedInstances::builder()
            .reserved_instances_id("ri-1")
            .instance_type(Ec2InstanceType::M5Large)
            .instance_count(3)
            .duration(31_536_000)
            .fixed_price(438.0)
            .recurring_charges(
                RecurringCharge::builder()
                    .frequency(RecurringChargeFrequency::Hourly)
                    .amount(0.01)
                    .build(),
            );
        let region = Region::new("eu-west-1").expect("a region");
        let check = |reservation: ReservedInstancesBuilder, expect: Option<i64>| {
            let paid = commitment(&reservation.build(), &region);
            let got = paid.map(|paid| (paid.family.unwrap_or_default(), paid.per_hour.0.micros()));
            assert_eq!(got, expect.map(|micros| ("m5".to_owned(), micros)));
        };
        check(reservation.clone(), Some(180_000));
        check(
            reservation.clone().set_recurring_charges(None),
            Some(150_000),
        );
        check(reservation.clone().currency_code("CNY".into()), None);
        let windows = RiProductDescription::Windows;
        check(reservation.clone().product_description(windows), None);
        check(reservation.set_duration(None), None);
    }
}
