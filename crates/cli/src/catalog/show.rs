//! The catalogue as a table or as JSON.

use anyhow::{Result, bail};
use ebb_catalog::catalog::Catalogue;
use ebb_catalog::list_price::PriceBasis;
use ebb_catalog::machine_type::{Architecture, TypeSpec};
use ebb_catalog::refreshed_prices::Refreshed;
use ebb_report::plain_table;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::units::Bytes;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use serde::Serialize;

use crate::args::{DoctorFormat, ShowArgs};

/// The region with the lowest prices and the most types.
const USUAL_REGION: &str = "us-east-1";

#[derive(Serialize)]
struct Shown<'a> {
    schema: &'static str,
    /// The source and time of the prices.
    as_of: String,
    /// Types that match but are not shown.
    left_out: usize,
    types: Vec<Type<'a>>,
}

#[derive(Serialize)]
struct Type<'a> {
    instance_type: &'a InstanceType,
    architecture: &'static str,
    vcpus: u32,
    cores: Option<u32>,
    memory: Bytes,
    processor: Option<&'a str>,
    clock_mhz: Option<u32>,
    gpus: Option<u32>,
    gpu: Option<&'a str>,
    gpu_memory: Option<Bytes>,
    network_baseline_mbps: Option<u32>,
    network_burst_mbps: Option<u32>,
    ebs_baseline_mbps: Option<u32>,
    ebs_burst_mbps: Option<u32>,
    local_disk: Option<Bytes>,
    burstable: bool,
    metal: bool,
    current_generation: bool,
    /// When EC2 described it; `None` for a built-in type.
    described_at: Option<Timestamp>,
    prices: Vec<Price<'a>>,
}

#[derive(Serialize)]
struct Price<'a> {
    region: &'a Region,
    #[serde(rename = "on_demand_usd_per_hour")]
    on_demand: UsdPerHour,
    basis: &'static str,
    /// The time of the price; `None` if it is unknown.
    as_of: Option<Timestamp>,
    /// When AWS returned the price; `None` for a built-in price.
    #[serde(rename = "told_at")]
    refreshed_at: Option<Timestamp>,
    /// The price in the cheapest zone; `None` without a refreshed price.
    #[serde(rename = "spot_usd_per_hour")]
    spot: Option<UsdPerHour>,
    /// The time of the spot price.
    spot_as_of: Option<Timestamp>,
    /// Spot machines interrupted in a month, in parts per million.
    taken_back_ppm: Option<u32>,
}

/// The result of the query as text.
pub(super) fn written(
    catalogue: &Catalogue,
    refreshed: &Refreshed,
    args: &ShowArgs,
    now: Timestamp,
) -> Result<String> {
    let regions: Vec<&Region> = match (&args.region, &args.name) {
        (Some(region), _) => catalogue.regions().filter(|one| *one == region).collect(),
        (None, Some(_)) => catalogue.regions().collect(),
        (None, None) => {
            let usual = catalogue.regions();
            usual.filter(|one| one.as_str() == USUAL_REGION).collect()
        }
    };
    if let (Some(region), true) = (&args.region, regions.is_empty()) {
        let known: Vec<&str> = catalogue.regions().map(Region::as_str).collect();
        bail!(
            "no prices for {region}\n  regions with prices: {}",
            known.join(", ")
        );
    }
    let mut types: Vec<Type<'_>> = match &args.name {
        Some(name) => vec![type_row(
            catalogue,
            refreshed,
            named(catalogue, name)?,
            &regions,
        )],
        None => {
            let fitting = catalogue.types().iter().filter(|spec| fits(spec, args));
            let all = fitting.map(|spec| type_row(catalogue, refreshed, spec, &regions));
            all.filter(|one| is_affordable(one, args)).collect()
        }
    };
    if let (Some(family), true) = (&args.family, types.is_empty()) {
        let mut all = catalogue.types().iter();
        if !all.any(|spec| is_of_family(spec.name.as_str(), family)) {
            bail!(
                "no family '{}' in the catalogue\n  a family is the part of a type before the dot, \
                 such as m5",
                family.escape_default()
            );
        }
    }
    types.sort_by_key(|one| {
        (
            one.prices.first().map(|price| price.on_demand),
            one.instance_type,
        )
    });
    let left_out = types.len().saturating_sub(args.limit);
    types.truncate(args.limit);
    let shown = Shown {
        schema: "ebb.catalog/2",
        as_of: catalogue.sources(),
        left_out,
        types,
    };
    Ok(match args.format {
        DoctorFormat::Json => serde_json::to_string_pretty(&shown)? + "\n",
        DoctorFormat::Table if args.name.is_some() => one(&shown, catalogue, now),
        DoctorFormat::Table => several(&shown, catalogue, now),
    })
}

fn named<'a>(catalogue: &'a Catalogue, name: &str) -> Result<&'a TypeSpec> {
    let types = catalogue.types();
    let is_it = |spec: &&TypeSpec| spec.name.as_str().eq_ignore_ascii_case(name);
    if let Some(spec) = types.iter().find(is_it) {
        return Ok(spec);
    }
    let family = name.split('.').next().unwrap_or_default();
    let near = types.iter().map(|spec| spec.name.as_str());
    let near: Vec<&str> = near
        .filter(|known| !family.is_empty() && is_of_family(known, family))
        .collect();
    let shown = name.escape_default();
    match near.is_empty() {
        true => bail!("no type '{shown}' in the catalogue\n  `ebb catalog show` lists all types"),
        false => bail!(
            "no type '{shown}' in the catalogue\n  types of its family: {}",
            near.join(", ")
        ),
    }
}

fn is_of_family(name: &str, family: &str) -> bool {
    let own = name.split('.').next();
    own.is_some_and(|own| own.eq_ignore_ascii_case(family))
}

fn fits(spec: &TypeSpec, args: &ShowArgs) -> bool {
    let gpu = |wanted: &String| {
        let gpus = spec.gpus.as_ref();
        gpus.is_some_and(|gpus| gpus.name.to_lowercase().contains(&wanted.to_lowercase()))
    };
    args.family
        .as_deref()
        .is_none_or(|wanted| is_of_family(spec.name.as_str(), wanted))
        && args
            .arch
            .is_none_or(|wanted| spec.architecture == wanted.into())
        && args.min_vcpus.is_none_or(|least| spec.vcpus >= least)
        && args
            .min_memory_gib
            .is_none_or(|least| spec.memory >= Bytes::gib(least))
        && args.gpu.as_ref().is_none_or(gpu)
}

fn is_affordable(one: &Type<'_>, args: &ShowArgs) -> bool {
    let mut prices = one.prices.iter();
    prices.any(|price| args.max_price.is_none_or(|most| price.on_demand <= most))
}

fn type_row<'a>(
    catalogue: &'a Catalogue,
    refreshed: &'a Refreshed,
    spec: &'a TypeSpec,
    regions: &[&'a Region],
) -> Type<'a> {
    let price = |region: &&'a Region| {
        let listed = catalogue.list_price(region, &spec.name)?;
        let is_refresh = listed.basis == PriceBasis::Refresh;
        let region_prices = refreshed.regions.get(*region);
        let spot = region_prices.and_then(|prices| prices.spot.get(&spec.name));
        Some(Price {
            region,
            on_demand: listed.usd_per_hour,
            basis: match listed.basis {
                PriceBasis::Listed => "listed",
                PriceBasis::Unchecked => "unchecked",
                PriceBasis::FromFamily => "from_family",
                PriceBasis::Earlier => "earlier_list",
                PriceBasis::Refresh => "refresh",
            },
            as_of: catalogue.price_as_of(region, &spec.name),
            refreshed_at: catalogue.refreshed_at(region).filter(|_| is_refresh),
            spot: spot.map(|spot| spot.per_hour),
            spot_as_of: spot.and_then(|spot| spot.as_of),
            taken_back_ppm: spot.and_then(|spot| spot.taken_back_ppm),
        })
    };
    let gpus = spec.gpus.as_ref();
    Type {
        instance_type: &spec.name,
        architecture: match spec.architecture {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "arm64",
        },
        vcpus: spec.vcpus,
        cores: spec.cores,
        memory: spec.memory,
        processor: spec.processor.as_deref(),
        clock_mhz: spec.clock_mhz,
        gpus: gpus.map(|gpus| gpus.count),
        gpu: gpus.map(|gpus| gpus.name.as_str()),
        gpu_memory: gpus.and_then(|gpus| gpus.memory),
        network_baseline_mbps: spec.network_baseline_mbps,
        network_burst_mbps: spec.network_burst_mbps,
        ebs_baseline_mbps: spec.ebs_baseline_mbps,
        ebs_burst_mbps: spec.ebs_burst_mbps,
        local_disk: spec.local_disk,
        burstable: spec.burstable,
        metal: spec.metal,
        current_generation: spec.current_generation,
        described_at: catalogue.described_at(&spec.name),
        prices: regions.iter().filter_map(price).collect(),
    }
}

/// The source and age of the built-in prices, then of the refreshed ones.
fn ages(catalogue: &Catalogue, now: Timestamp) -> String {
    let built_in = catalogue.day().and_then(|day| {
        let today = now.to_zoned(TimeZone::UTC).date();
        Some(today.since(day).ok()?.get_days())
    });
    let built_in = built_in.map_or(String::new(), |days| format!(" ({days} days old)"));
    let last_refresh = catalogue.last_refreshed().map(|at| {
        let soon = at.checked_add(48.hours()).is_ok_and(|later| now < later);
        let hours = now.duration_since(at).as_hours();
        match soon {
            true => format!("Last refresh {hours} hours ago.\n"),
            false => format!("Last refresh {} days ago.\n", hours / 24),
        }
    });
    let hint = "No refreshed prices are used. To get current prices from AWS, run `ebb catalog \
                refresh --file prices.json`,\nthen add `--file prices.json`. With a deployment, use \
                `--bucket NAME` in both commands.\n"
        .to_owned();
    format!(
        "Prices: {}{built_in}.\n{}",
        catalogue.as_of(),
        last_refresh.unwrap_or(hint)
    )
}

fn usd(price: UsdPerHour) -> String {
    price.0.max(Usd::ZERO).to_rounded(4)
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn gbit(baseline: Option<u32>, burst: Option<u32>) -> String {
    let gbit = |mbps: u32| f64::from(mbps) / 1_000.0;
    match (baseline, burst) {
        (Some(baseline), Some(burst)) if burst > baseline => {
            format!("{:.2} to {:.1} Gbit/s", gbit(baseline), gbit(burst))
        }
        (Some(mbps), _) | (None, Some(mbps)) => format!("{:.2} Gbit/s", gbit(mbps)),
        (None, None) => "unknown".to_owned(),
    }
}

/// The names and values of the properties of a type.
fn properties(spec: &Type<'_>) -> Vec<(&'static str, String)> {
    let gpu = spec.gpu.map(|name| {
        let memory = spec.gpu_memory.map(|bytes| format!(", {bytes} in total"));
        format!(
            "{} × {name}{}",
            spec.gpus.unwrap_or(1),
            memory.unwrap_or_default()
        )
    });
    let clock = spec
        .clock_mhz
        .map(|mhz| format!(" at {:.1} GHz", f64::from(mhz) / 1e3));
    let processor = format!(
        "{} {}{}",
        spec.processor.unwrap_or("unknown"),
        spec.architecture,
        clock.unwrap_or_default()
    );
    let network = gbit(spec.network_baseline_mbps, spec.network_burst_mbps);
    let disks = spec.local_disk.map(|bytes| bytes.to_string());
    let described = spec.described_at.map(|at| {
        let day = at.strftime("%Y-%m-%d");
        ("described", format!("by EC2 on {day}"))
    });
    let always = [
        ("vCPUs", spec.vcpus.to_string()),
        ("cores", or_dash(spec.cores)),
        ("memory", spec.memory.to_string()),
        ("processor", processor),
        ("GPUs", gpu.unwrap_or_else(|| "none".to_owned())),
        ("network", network),
        ("EBS", gbit(spec.ebs_baseline_mbps, spec.ebs_burst_mbps)),
        ("local disks", disks.unwrap_or_else(|| "none".to_owned())),
        ("kind", kind(spec)),
    ];
    always.into_iter().chain(described).collect()
}

fn kind(spec: &Type<'_>) -> String {
    let kinds = [
        (spec.burstable, "burstable"),
        (spec.metal, "bare metal"),
        (!spec.current_generation, "earlier generation"),
    ];
    let kinds = kinds.into_iter().filter(|(is, _)| *is);
    let kinds: Vec<&str> = kinds.map(|(_, word)| word).collect();
    match kinds.is_empty() {
        true => "current generation".to_owned(),
        false => kinds.join(", "),
    }
}

fn one(shown: &Shown<'_>, catalogue: &Catalogue, now: Timestamp) -> String {
    let mut out = String::new();
    for spec in &shown.types {
        out += &format!("{}\n", spec.instance_type);
        for (name, value) in properties(spec) {
            out += &format!("  {name:<12}{value}\n");
        }
        let rows = spec.prices.iter().map(|price| {
            let source = price
                .refreshed_at
                .map(|at| at.strftime("refresh of %F").to_string());
            [
                price.region.to_string(),
                usd(price.on_demand),
                or_dash(price.spot.map(usd)),
                source.unwrap_or_else(|| price.basis.replace('_', " ")),
            ]
        });
        out.push('\n');
        let header = ["region", "on demand", "spot", "source"];
        out += &plain_table::lines(&header, rows, &[1, 2]).join("\n");
        out.push('\n');
        if spec.prices.iter().any(|price| price.basis == "from_family") {
            out += "\nfrom family: the price of another size of the family, multiplied by the size, \
                    because the price list has none for this type.\n";
        }
    }
    out + "\n" + &ages(catalogue, now)
}

fn several(shown: &Shown<'_>, catalogue: &Catalogue, now: Timestamp) -> String {
    if shown.types.is_empty() {
        return "No type matches; remove a filter.\n".to_owned();
    }
    let header = [
        "type",
        "arch",
        "vCPUs",
        "memory",
        "GPUs",
        "on demand",
        "spot",
        "region",
    ];
    let rows = shown.types.iter().flat_map(|spec| {
        spec.prices.iter().map(move |price| {
            [
                spec.instance_type.to_string(),
                spec.architecture.to_owned(),
                spec.vcpus.to_string(),
                spec.memory.to_string(),
                spec.gpu.map_or("-".to_owned(), |name| {
                    format!("{} {name}", spec.gpus.unwrap_or(1))
                }),
                usd(price.on_demand),
                or_dash(price.spot.map(usd)),
                price.region.to_string(),
            ]
        })
    });
    let mut out = plain_table::lines(&header, rows, &[2, 3, 4, 5, 6]).join("\n") + "\n";
    if shown.left_out > 0 {
        out += &format!(
            "{} more types; --limit sets the number shown.\n",
            shown.left_out
        );
    }
    out + "\n" + &ages(catalogue, now)
}

#[cfg(test)]
mod tests;
