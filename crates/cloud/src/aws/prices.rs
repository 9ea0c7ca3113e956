//! On-demand prices from AWS's Price List, and what machine types have from EC2. Neither
//! charges for answers.

mod types;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use aws_sdk_pricing::types::{Filter, FilterType};
use ebb_domain::catalogue::TypeSpec;
use ebb_domain::identity::{InstanceType, Region};
use ebb_domain::units::{Usd, UsdPerHour};
use serde_json::Value;

use super::AwsConfig;
use super::error::cloud_error;
use crate::permissions::GET_PRODUCTS;
use crate::ports::{CloudError, CloudResult, PriceSource, bounded};

/// The Price List answers for all regions, and in few of them.
///
/// Source: AWS General Reference, "AWS Price List endpoints and quotas".
const ANSWERS_IN: &str = "us-east-1";

const SERVICE: &str = "AmazonEC2";

/// More pages than this are a fault; a region has about ten, of 100 products each.
const MAX_PAGES: usize = 200;

/// Linux in shared tenancy, without software that is paid for, and not the unused part of
/// a reservation.
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
    /// As the account behind `config` may ask it.
    pub fn new(config: &AwsConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }
}

#[async_trait]
impl PriceSource for AwsPrices {
    async fn on_demand(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, UsdPerHour>> {
        let there = Region::new(ANSWERS_IN).expect("it is a region");
        let client = client!(aws_sdk_pricing, self.config, &there);
        let of_region = ("regionCode", region.as_str());
        let filters = WANTED
            .iter()
            .copied()
            .chain([of_region])
            .map(|(field, value)| {
                let filter = Filter::builder().r#type(FilterType::TermMatch);
                filter.field(field).value(value).build()
            });
        let filters: Result<Vec<_>, _> = filters.collect();
        let filters = filters.map_err(|error| failed(&error.to_string()))?;
        let call = client.get_products().service_code(SERVICE);
        let call = call.set_filters(Some(filters));
        let mut pages = call.into_paginator().send();
        let mut prices = BTreeMap::new();
        let mut read = 0;
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| cloud_error(GET_PRODUCTS, region.as_str(), &e))?;
            for product in page.price_list() {
                prices.extend(price(product, region)?);
            }
            read += 1;
            if read == MAX_PAGES {
                return Err(failed("the Price List has too many pages"));
            }
        }
        Ok(prices)
    }

    async fn types(
        &self,
        region: &Region,
        named: Option<&BTreeSet<String>>,
    ) -> CloudResult<Vec<TypeSpec>> {
        types::described(&client!(aws_sdk_ec2, self.config, region), named).await
    }
}

/// What an hour of a product costs; `None` for one that is not what was asked for, or is
/// free.
///
/// Source: Price List API reference, `GetProducts`, "PriceList", and AWS Billing user
/// guide, "Reading the service price list files".
fn price(product: &str, region: &Region) -> CloudResult<Option<(InstanceType, UsdPerHour)>> {
    let told: Value = serde_json::from_str(product)
        .map_err(|error| failed(&format!("a product is no JSON: {error}")))?;
    let has = &told["product"]["attributes"];
    let of_region = [("regionCode", region.as_str())];
    let is_wanted = |(key, value): (&str, &str)| has[key].as_str() == Some(value);
    if !WANTED.into_iter().chain(of_region).all(is_wanted) {
        return Ok(None);
    }
    let kind = has["instanceType"].as_str();
    let kind = kind.and_then(|kind| InstanceType::new(kind).ok());
    let terms = told["terms"]["OnDemand"].as_object().into_iter().flatten();
    let rates = terms.flat_map(|(_, term)| term["priceDimensions"].as_object());
    let mut hourly = rates.flatten().filter_map(|(_, rate)| {
        let usd = Usd::parse(rate["pricePerUnit"]["USD"].as_str()?)?;
        (rate["unit"].as_str() == Some("Hrs") && usd > Usd::ZERO).then_some(usd)
    });
    Ok(kind.zip(hourly.next().map(UsdPerHour)))
}

fn failed(message: &str) -> CloudError {
    CloudError::Failed {
        operation: GET_PRODUCTS.to_owned(),
        message: bounded(message),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn product(tenancy: &str, unit: &str, usd: &str) -> String {
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
        .to_string()
    }

    #[test]
    fn a_products_hourly_price_is_read_and_what_was_not_asked_for_is_none() {
        let check = |product: &str, expect: Option<i64>| {
            let region = Region::new("eu-west-1").expect("a region");
            let told = price(product, &region).expect("JSON");
            assert_eq!(told.map(|(_, usd)| usd.0.micros()), expect, "{product}");
        };
        check(&product("Shared", "Hrs", "0.1070000000"), Some(107_000));
        check(&product("Dedicated", "Hrs", "0.1134000000"), None);
        check(&product("Shared", "Hrs", "0.0000000000"), None);
        check(&product("Shared", "Quantity", "0.1"), None);
        check("{}", None);
        assert!(price("no JSON", &Region::new("eu-west-1").expect("a region")).is_err());
    }
}
