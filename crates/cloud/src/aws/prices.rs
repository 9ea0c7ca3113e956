//! On-demand prices from AWS's Price List, and properties of machine types from EC2. All requests
//! are free.

mod fargate;
mod storage;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use aws_sdk_pricing::types::{Filter, FilterType};
use ebb_catalog::fargate_prices::FargatePrices;
use ebb_catalog::machine_type::TypeSpec;
use ebb_catalog::storage_prices::StoragePrices;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use serde_json::Value;

use super::config::AwsConfig;
use super::error::cloud_error;
use crate::permissions::GET_PRODUCTS;
use crate::ports::{CloudError, CloudResult, PriceSource, bounded};

/// The Price List covers all regions, but has endpoints in few regions.
///
/// Source: AWS General Reference, "AWS Price List endpoints and quotas".
const ANSWERS_IN: &str = "us-east-1";

const EC2: &str = "AmazonEC2";
const REGION: &str = "regionCode";

/// Maximum number of pages; a region has about ten, with 100 products each.
const MAX_PAGES: usize = 200;

/// Linux with shared tenancy, without paid software, and not the unused part of a reservation.
///
/// Source: AWS Price List, attributes of the products of `AmazonEC2`.
const WANTED: [(&str, &str); 4] = [
    ("operatingSystem", "Linux"),
    ("tenancy", "Shared"),
    ("preInstalledSw", "NA"),
    ("capacitystatus", "Used"),
];

/// AWS's Price List, and EC2's machine types.
#[derive(Debug, Clone)]
pub struct AwsPrices {
    config: AwsConfig,
}

impl AwsPrices {
    /// For the account of `config`.
    pub fn new(config: &AwsConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }
}

#[async_trait]
impl PriceSource for AwsPrices {
    async fn on_demand(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, UsdPerHour>> {
        let of_region = (REGION, region.as_str());
        let having: Vec<_> = WANTED.iter().copied().chain([of_region]).collect();
        let mut prices = BTreeMap::new();
        let take = |product: Value| prices.extend(price(&product, region));
        self.products((EC2, region), &having, take).await?;
        Ok(prices)
    }

    async fn fargate(&self, region: &Region) -> CloudResult<FargatePrices> {
        let having = [(REGION, region.as_str())];
        let mut all = Vec::new();
        let take = |product| all.push(product);
        self.products((fargate::SERVICE, region), &having, take)
            .await?;
        Ok(fargate::prices(&all))
    }

    async fn storage(&self, region: &Region) -> CloudResult<StoragePrices> {
        let of_region = (REGION, region.as_str());
        let families = storage::FAMILIES.map(|family| (EC2, ("productFamily", family)));
        let mut all = Vec::new();
        for (service, kind) in families
            .into_iter()
            .chain([(storage::VPC, storage::ADDRESSES)])
        {
            let take = |product| all.push(product);
            self.products((service, region), &[of_region, kind], take)
                .await?;
        }
        Ok(storage::prices(&all))
    }

    async fn types(
        &self,
        region: &Region,
        named: Option<&BTreeSet<String>>,
    ) -> CloudResult<Vec<TypeSpec>> {
        types::described(&client!(aws_sdk_ec2, self.config, region), named).await
    }
}

impl AwsPrices {
    /// Passes each product of a service with these attributes to `take`, page by page.
    async fn products(
        &self,
        (service, region): (&str, &Region),
        having: &[(&str, &str)],
        mut take: impl FnMut(Value) + Send,
    ) -> CloudResult<()> {
        let there = Region::new(ANSWERS_IN).expect("it is a region");
        let client = client!(aws_sdk_pricing, self.config, &there);
        let filters = having.iter().map(|(field, value)| {
            let filter = Filter::builder().r#type(FilterType::TermMatch);
            filter.field(*field).value(*value).build()
        });
        let filters: Result<Vec<_>, _> = filters.collect();
        let filters = filters.map_err(|error| failed(&error.to_string()))?;
        let call = client.get_products().service_code(service);
        let call = call.set_filters(Some(filters));
        let mut pages = call.into_paginator().send();
        let mut read = 0;
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| cloud_error(GET_PRODUCTS, region.as_str(), &e))?;
            for product in page.price_list() {
                let product = serde_json::from_str(product);
                let product = product.map_err(|error| failed(&format!("invalid JSON: {error}")))?;
                take(product);
            }
            read += 1;
            if read == MAX_PAGES {
                return Err(failed("too many pages"));
            }
        }
        Ok(())
    }
}

/// The hourly price of a machine type; `None` for a product that does not match or is free.
fn price(product: &Value, region: &Region) -> Option<(InstanceType, UsdPerHour)> {
    let has = &product["product"]["attributes"];
    let of_region = [(REGION, region.as_str())];
    let is_wanted = |(key, value): (&str, &str)| has[key].as_str() == Some(value);
    if !WANTED.into_iter().chain(of_region).all(is_wanted) {
        return None;
    }
    let kind = InstanceType::new(has["instanceType"].as_str()?).ok()?;
    Some((kind, usd(product, Some("Hrs"))?))
}

/// Whether a product has this usage type in its region: `EUW1-EBS:SnapshotUsage`, without the
/// prefix in us-east-1. With a further part between them, as in `EUW1-SpotUsage-Fargate-GB-Hours`,
/// it is another usage type.
fn is_usage(product: &Value, usage: &str) -> bool {
    let usage_type = product["product"]["attributes"]["usagetype"].as_str();
    let letters = usage_type.and_then(|text| text.strip_suffix(usage));
    letters.is_some_and(|letters| match letters.strip_suffix('-') {
        Some(region) => !region.contains('-'),
        None => letters.is_empty(),
    })
}

/// The on-demand price of a unit of a product; `None` if it is free, or has no price for this unit.
///
/// Source: Price List API reference, `GetProducts`, "PriceList", and AWS Billing user
/// guide, "Reading the service price list files".
fn usd(product: &Value, unit: Option<&str>) -> Option<UsdPerHour> {
    let terms = product["terms"]["OnDemand"].as_object().into_iter();
    let rates = terms
        .flatten()
        .flat_map(|(_, term)| term["priceDimensions"].as_object());
    let mut priced = rates.flatten().filter_map(|(_, rate)| {
        let usd = Usd::parse(rate["pricePerUnit"]["USD"].as_str()?)?;
        let is_it = unit.is_none_or(|unit| rate["unit"].as_str() == Some(unit));
        (is_it && usd > Usd::ZERO).then_some(UsdPerHour(usd))
    });
    priced.next()
}

fn failed(message: &str) -> CloudError {
    CloudError::Failed {
        operation: GET_PRODUCTS.to_owned(),
        message: bounded(message),
    }
}

#[cfg(test)]
mod testing {
    use serde_json::{Value, json};

    /// A product with a usage type, in the format of the Price List.
    pub(super) fn product(usage: &str, unit: &str, usd: &str) -> Value {
        let rate = json!({"unit": unit, "pricePerUnit": {"USD": usd}});
        json!({
            "product": {"attributes": {"usagetype": usage}},
            "terms": {"OnDemand": {"X": {"priceDimensions": {"X.Y": rate}}}},
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn product(tenancy: &str, unit: &str, usd: &str) -> Value {
        let rate = json!({"unit": unit, "pricePerUnit": {"USD": usd}, "beginRange": "0"});
        json!({
            "product": {"productFamily": "Compute Instance", "attributes": {
                "instanceType": "m5.large", "regionCode": "eu-west-1", "tenancy": tenancy,
                "operatingSystem": "Linux", "preInstalledSw": "NA", "capacitystatus": "Used",
            }},
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {"X.JRTCKXETXF": {
                "priceDimensions": {"X.JRTCKXETXF.6YS6EN2CT7": rate},
            }}},
        })
    }

    #[test]
    fn a_products_hourly_price_is_read_and_what_was_not_asked_for_is_none() {
        let check = |product: Value, expect: Option<i64>| {
            let region = Region::new("eu-west-1").expect("a region");
            let hourly = price(&product, &region);
            assert_eq!(hourly.map(|(_, usd)| usd.0.micros()), expect, "{product}");
        };
        check(product("Shared", "Hrs", "0.1070000000"), Some(107_000));
        check(product("Dedicated", "Hrs", "0.1134000000"), None);
        check(product("Shared", "Hrs", "0.0000000000"), None);
        check(product("Shared", "Quantity", "0.1"), None);
        check(json!({}), None);
    }
}
