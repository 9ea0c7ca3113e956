//! The newest known list prices, with the specs of each type.

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::list_price::{ListPrice, PriceBasis};
use ebb_catalog::machine_type::{Architecture, TypeSpec};
use ebb_model::inventory::instance::Market;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::Bytes;
use serde::Serialize;

use crate::answer::{Paged, cut, json};
use crate::list::List;
use crate::problem::Problem;
use crate::query::Page;

#[derive(Serialize)]
struct Prices<'a> {
    schema: &'static str,
    /// The source and date of the prices.
    as_of: String,
    #[serde(flatten)]
    page: Paged<Price<'a>>,
}

#[derive(Serialize)]
struct Price<'a> {
    id: String,
    instance_type: &'a str,
    region: &'a Region,
    market: Market,
    usd_per_hour: UsdPerHour,
    basis: &'static str,
    vcpus: u32,
    memory: Bytes,
    architecture: &'static str,
    gpu: Option<&'a str>,
}

#[derive(Clone, Copy)]
struct Entry<'a> {
    spec: &'a TypeSpec,
    region: &'a Region,
    listed: ListPrice,
}

/// A page of the prices, by type and region.
pub(crate) fn list(page: &Page, catalogue: &Catalogue) -> Result<String, Problem> {
    let only = &page.only;
    let types = catalogue.types().iter().filter(|spec| {
        only.lets("instance_type", Some(spec.name.as_str()))
            && only.lets("family", Some(family(spec)))
    });
    let wanted = types.flat_map(|spec| {
        let regions = catalogue.regions();
        let regions = regions.filter(|region| only.lets("region", Some(region.as_str())));
        regions.filter_map(move |region| {
            Some(Entry {
                spec,
                region,
                listed: catalogue.list_price(region, &spec.name)?,
            })
        })
    });
    json(&Prices {
        schema: List::Prices.schema(),
        as_of: catalogue.sources(),
        page: cut(page, wanted.collect(), id)?.map(price),
    })
}

fn id(entry: &Entry<'_>) -> String {
    format!("{}/{}", entry.spec.name, entry.region)
}

/// The part of the name before the size.
fn family(spec: &TypeSpec) -> &str {
    let name = spec.name.as_str();
    name.split_once('.').map_or(name, |(family, _)| family)
}

fn price(entry: Entry<'_>) -> Price<'_> {
    let Entry {
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
            PriceBasis::Listed => "listed",
            PriceBasis::Unchecked => "unchecked",
            PriceBasis::FromFamily => "from_family",
            PriceBasis::Earlier => "earlier_list",
            PriceBasis::Told => "told",
        },
        vcpus: spec.vcpus,
        memory: spec.memory,
        architecture: match spec.architecture {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "arm64",
        },
        gpu: spec.gpus.as_ref().map(|gpus| gpus.name.as_str()),
    }
}
