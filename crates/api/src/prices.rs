//! The newest known list prices, with the specs of each type.

use axum::extract::State;
use ebb_catalog::list_price::{ListPrice, PriceBasis};
use ebb_catalog::machine_type::{Architecture, TypeSpec};
use ebb_model::inventory::instance::Market;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Paged};
use crate::extract::{Moment, Page, Query, Shared, passes};
use crate::problem::Problem;

/// Filters of prices.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceQuery {
    #[serde(flatten)]
    page: Page,
    /// Only in this region
    region: Option<String>,
    /// Only of this family, such as c7a
    family: Option<String>,
    /// Only of this machine type
    instance_type: Option<String>,
}

/// A page of the prices.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Prices<'a> {
    /// The name and version of the format.
    schema: &'static str,
    /// The source and date of the prices.
    as_of: String,
    #[serde(flatten)]
    page: Paged<Price<'a>>,
}

/// The price of a machine type in a region.
#[derive(Serialize, JsonSchema)]
struct Price<'a> {
    id: String,
    instance_type: &'a str,
    region: &'a Region,
    market: Market,
    usd_per_hour: UsdPerHour,
    basis: Basis,
    vcpus: u32,
    memory: Bytes,
    architecture: Architecture,
    gpu: Option<&'a str>,
}

/// The source of a price.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ListPriceBasis")]
enum Basis {
    /// The list of the built-in catalog.
    Listed,
    /// A list that no second source confirms.
    Unchecked,
    /// Derived from another size of the family.
    FromFamily,
    /// An earlier list.
    EarlierList,
    /// A refresh from AWS.
    Refresh,
}

#[derive(Clone, Copy)]
struct PricedType<'a> {
    spec: &'a TypeSpec,
    region: &'a Region,
    listed: ListPrice,
}

/// Lists the prices, by type and region.
pub(crate) async fn prices(
    Query(query): Query<PriceQuery>,
    State(store): Shared,
    moment: Moment,
) -> Result<Answer<Prices<'static>>, Problem> {
    let catalogue = store.catalogue(moment.now).await;
    let refreshed = catalogue.last_refreshed();
    let version = refreshed.map_or_else(|| "program".to_owned(), |at| at.as_second().to_string());
    let types = catalogue.types().iter().filter(|spec| {
        passes(query.instance_type.as_ref(), Some(spec.name.as_str()))
            && passes(query.family.as_ref(), Some(family(spec)))
    });
    let wanted = types.flat_map(|spec| {
        let regions = catalogue.regions();
        let regions = regions.filter(|region| passes(query.region.as_ref(), Some(region.as_str())));
        regions.filter_map(|region| {
            Some(PricedType {
                spec,
                region,
                listed: catalogue.list_price(region, &spec.name)?,
            })
        })
    });
    let prices = Prices {
        schema: "ebb.prices/2",
        as_of: catalogue.sources(),
        page: Paged::cut(&query.page, wanted.collect(), id)?.map(price),
    };
    Answer::json(&prices, &version)
}

fn id(entry: &PricedType<'_>) -> String {
    format!("{}/{}", entry.spec.name, entry.region)
}

/// The part of the name before the size.
fn family(spec: &TypeSpec) -> &str {
    let name = spec.name.as_str();
    name.split_once('.').map_or(name, |(family, _)| family)
}

fn price(entry: PricedType<'_>) -> Price<'_> {
    let PricedType {
        spec,
        region,
        listed,
    } = entry;
    Price {
        id: id(&entry),
        instance_type: spec.name.as_str(),
        region,
        market: Market::OnDemand,
        usd_per_hour: listed.usd_per_hour,
        basis: match listed.basis {
            PriceBasis::Listed => Basis::Listed,
            PriceBasis::Unchecked => Basis::Unchecked,
            PriceBasis::FromFamily => Basis::FromFamily,
            PriceBasis::Earlier => Basis::EarlierList,
            PriceBasis::Refresh => Basis::Refresh,
        },
        vcpus: spec.vcpus,
        memory: spec.memory,
        architecture: spec.architecture,
        gpu: spec.gpus.as_ref().map(|gpus| gpus.name.as_str()),
    }
}
