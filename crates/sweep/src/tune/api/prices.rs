//! List prices of the catalogue in the program, with what each type has.

use std::sync::LazyLock;

use ebb_domain::catalogue::{Architecture, Catalogue, ListPrice, PriceBasis, TypeSpec};
use ebb_domain::fleet::Market;
use ebb_domain::identity::Region;
use ebb_domain::units::{Bytes, UsdPerHour};
use serde::Serialize;

use super::body::{Paged, cut, json};
use super::list::List;
use super::problem::Problem;
use super::route::Page;

#[derive(Serialize)]
struct Prices {
    schema: &'static str,
    /// Where the prices come from and of which day.
    as_of: &'static str,
    #[serde(flatten)]
    page: Paged<Price>,
}

#[derive(Serialize)]
struct Price {
    id: String,
    instance_type: &'static str,
    region: &'static Region,
    market: Market,
    usd_per_hour: UsdPerHour,
    basis: &'static str,
    vcpus: u32,
    memory: Bytes,
    architecture: &'static str,
    gpu: Option<&'static str>,
}

/// All of them, by type and region, which takes a while to sort.
static ALL: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let catalogue = Catalogue::built_in();
    let of = |region| {
        let types = catalogue.types_in(region);
        types.filter_map(move |(spec, _)| {
            let listed = catalogue.list_price(region, &spec.name)?;
            Some(Entry {
                spec,
                region,
                listed,
            })
        })
    };
    let mut all: Vec<_> = catalogue.regions().flat_map(of).collect();
    all.sort_by(|a, b| (&a.spec.name, a.region).cmp(&(&b.spec.name, b.region)));
    all
});

#[derive(Clone, Copy)]
struct Entry {
    spec: &'static TypeSpec,
    region: &'static Region,
    listed: ListPrice,
}

/// A page of them.
pub(super) fn list(page: &Page) -> Result<String, Problem> {
    let wanted = ALL.iter().filter(|entry| {
        page.only.lets("region", Some(entry.region.as_str()))
            && page
                .only
                .lets("instance_type", Some(entry.spec.name.as_str()))
            && page.only.lets("family", Some(family(entry.spec)))
    });
    json(&Prices {
        schema: List::Prices.schema(),
        as_of: Catalogue::built_in().as_of(),
        page: cut(page, wanted.collect(), |entry| id(entry))?.map(price),
    })
}

fn id(entry: &Entry) -> String {
    format!("{}/{}", entry.spec.name, entry.region)
}

/// What stands before the size.
fn family(spec: &TypeSpec) -> &str {
    let name = spec.name.as_str();
    name.split_once('.').map_or(name, |(family, _)| family)
}

fn price(entry: &Entry) -> Price {
    let Entry {
        spec,
        region,
        listed,
    } = *entry;
    Price {
        id: id(entry),
        instance_type: spec.name.as_str(),
        region,
        market: Market::OnDemand,
        usd_per_hour: listed.usd_per_hour,
        basis: match listed.basis {
            PriceBasis::Listed => "listed",
            PriceBasis::Unchecked => "unchecked",
            PriceBasis::FromFamily => "from_family",
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
