//! Compares the built-in list prices of us-east-1 with a table of another day. It also tests the
//! reader of the Spot Instance Advisor's file on the whole file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use ebb_catalog::catalog::Catalogue;
use ebb_catalog::list_price::PriceBasis;
use ebb_catalog::machine_type::TypeSpec;
use ebb_catalog::spot_advisor::Advisor;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};

use crate::table;

const LIST: &str = "ec2-on-demand-us-east-1.csv";
const ADVISOR: &str = "spot-advisor-data.json.gz";
const REGION: &str = "us-east-1";

/// Larger differences, in per cent, are explained.
const TOLERATED: f64 = 1.0;

/// Premiums of dedicated tenancy, as `scripts/catalogue` measured them.
const PREMIUM: std::ops::RangeInclusive<f64> = 1.04..=1.12;

#[derive(Deserialize)]
struct PriceRow {
    instance_type: InstanceType,
    usd_per_hour: String,
}

/// Why two prices of a type differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Why {
    /// The other price is that of dedicated tenancy: it exceeds the price of a type in its family
    /// with the same vCPUs by the premium. Our price equals the price of that type.
    TheirsIsDedicated,
    /// Our price is higher by that premium, and our list has no price to detect it.
    OursIsDedicated,
    /// Our price is higher by another ratio: the price fell after the day of our list.
    FellSince,
    /// Our price is lower by another ratio: the price rose after the day of our list.
    RoseSince,
}

impl Why {
    fn words(self) -> &'static str {
        match self {
            Self::TheirsIsDedicated => "the other table has the price of dedicated tenancy",
            Self::OursIsDedicated => "our price is of dedicated tenancy without a label",
            Self::FellSince => "the price fell after the date of our list",
            Self::RoseSince => "the price rose after the date of our list",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Differs {
    instance_type: String,
    ours: UsdPerHour,
    theirs: UsdPerHour,
    percent: f64,
    basis: &'static str,
    why: Why,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PriceComparison {
    source: String,
    ours: usize,
    theirs: usize,
    in_both: usize,
    alike: usize,
    differ: Vec<Differs>,
    /// Types that only the other table has: unknown types, and types with known specs but without a
    /// price.
    without_specs: usize,
    without_price: usize,
    advisor_regions: usize,
    advisor_types: usize,
    advisor_unread: usize,
    /// The number of types in the advisor's file by band.
    advisor_bands: BTreeMap<String, usize>,
}

/// Compares the built-in data with the tables of a folder.
///
/// # Errors
/// Names the file that is not valid.
pub(crate) fn compare(folder: &Path) -> Result<Vec<PriceComparison>> {
    let theirs = theirs(&folder.join(LIST))?;
    let advisor = advisor(&folder.join(ADVISOR))?;
    let catalogue = Catalogue::built_in();
    let region = Region::new(REGION)?;
    let known = |name: &InstanceType| catalogue.list_price(&region, name);
    let mut differ = Vec::new();
    let mut alike = 0;
    for (name, price) in &theirs {
        let Some(listed) = known(name) else { continue };
        let (ours, their) = (micros(listed.usd_per_hour), micros(*price));
        let percent = (ours / their - 1.0) * 100.0;
        if percent.abs() <= TOLERATED {
            alike += 1;
            continue;
        }
        differ.push(Differs {
            instance_type: name.to_string(),
            ours: listed.usd_per_hour,
            theirs: *price,
            percent,
            basis: match listed.basis {
                PriceBasis::Listed => "listed",
                PriceBasis::Unchecked => "unchecked",
                PriceBasis::FromFamily => "derived",
                PriceBasis::Earlier => "earlier list",
                PriceBasis::Refresh => "refresh",
            },
            why: why(catalogue.spec(name), ours, their, &theirs),
        });
    }
    differ.sort_by(|a, b| (a.why, &a.instance_type).cmp(&(b.why, &b.instance_type)));
    let only = |has_specs| {
        let unknown = theirs.keys().filter(|name| known(name).is_none());
        unknown
            .filter(|name| catalogue.spec(name).is_some() == has_specs)
            .count()
    };
    Ok(vec![PriceComparison {
        source: catalogue.as_of().to_owned(),
        ours: catalogue.types_in(&region).count(),
        theirs: theirs.len(),
        in_both: alike + differ.len(),
        alike,
        differ,
        without_specs: only(false),
        without_price: only(true),
        advisor_regions: advisor.bands.len(),
        advisor_types: advisor.bands.values().map(BTreeMap::len).sum(),
        advisor_unread: advisor.unread,
        advisor_bands: bands(&advisor),
    }])
}

fn why(
    spec: Option<&TypeSpec>,
    ours: f64,
    their: f64,
    theirs: &BTreeMap<InstanceType, UsdPerHour>,
) -> Why {
    let family = |name: &InstanceType| name.as_str().split('.').next().map(str::to_owned);
    let is_twin = |spec: &TypeSpec, other: &InstanceType| {
        let of_other = Catalogue::built_in().spec(other);
        *other != spec.name
            && family(other) == family(&spec.name)
            && of_other.is_some_and(|other| other.vcpus == spec.vcpus)
    };
    let cheaper_twin = spec.is_some_and(|spec| {
        let mut twins = theirs.iter().filter(|(other, _)| is_twin(spec, other));
        twins.any(|(_, price)| (micros(*price) / ours - 1.0).abs() <= TOLERATED / 100.0)
    });
    match ours / their {
        less if less < 1.0 && PREMIUM.contains(&less.recip()) && cheaper_twin => {
            Why::TheirsIsDedicated
        }
        more if PREMIUM.contains(&more) => Why::OursIsDedicated,
        more if more > 1.0 => Why::FellSince,
        _ => Why::RoseSince,
    }
}

fn micros(price: UsdPerHour) -> f64 {
    price.0.micros() as f64
}

fn theirs(path: &Path) -> Result<BTreeMap<InstanceType, UsdPerHour>> {
    let about = || format!("failed to read or write the file {}", path.display());
    let file = File::open(path).with_context(about)?;
    let rows = csv::Reader::from_reader(BufReader::new(file)).into_deserialize::<PriceRow>();
    let price = |row: Result<PriceRow, csv::Error>| {
        let row = row.with_context(about)?;
        let usd = Usd::parse(&row.usd_per_hour).filter(|usd| *usd > Usd::ZERO);
        let usd =
            usd.with_context(|| format!("{}: no price for {}", about(), row.instance_type))?;
        Ok((row.instance_type, UsdPerHour(usd)))
    };
    rows.map(price).collect()
}

fn advisor(path: &Path) -> Result<Advisor> {
    let about = || format!("failed to read or write the file {}", path.display());
    let file = File::open(path).with_context(about)?;
    let mut text = String::new();
    let mut unpacked = GzDecoder::new(BufReader::new(file));
    unpacked.read_to_string(&mut text).with_context(about)?;
    Advisor::parse(&text).with_context(about)
}

fn bands(advisor: &Advisor) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for band in advisor.bands.values().flat_map(BTreeMap::values) {
        let label = match band.to_ppm {
            Some(to) => format!("{:2} to {:2} %", band.from_ppm / 10_000, to / 10_000),
            None => format!("{:2} % and more", band.from_ppm / 10_000),
        };
        *counted.entry(label).or_default() += 1;
    }
    counted
}

/// The results as tables.
pub(crate) fn tables(results: &[PriceComparison]) -> String {
    let mut out = String::new();
    for compared in results {
        let rows: Vec<Vec<String>> = compared.differ.iter().map(row).collect();
        let head = ["type", "built in", "other table", "differs", "basis", "why"];
        out.push_str(&format!(
            "Built-in list prices of {REGION} ({}): {} types.\nOther table: {} types. In both: {}; \
             {} within {TOLERATED} %, {} not.\nOnly in the other table: {} types without \
             specifications here, {} types without a price here (newer than our list, or with a \
             price of zero).\n\n{}\n",
            compared.source,
            compared.ours,
            compared.theirs,
            compared.in_both,
            compared.alike,
            compared.differ.len(),
            compared.without_specs,
            compared.without_price,
            table::lines(&head, &rows),
        ));
        out.push_str(&format!(
            "Spot Instance Advisor: {} types in {} regions; {} invalid names.\n",
            compared.advisor_types, compared.advisor_regions, compared.advisor_unread
        ));
        for (band, types) in &compared.advisor_bands {
            out.push_str(&format!(
                "  interrupted in a month: {band:<14} {types:>6} types\n"
            ));
        }
    }
    out
}

fn row(differs: &Differs) -> Vec<String> {
    vec![
        differs.instance_type.clone(),
        differs.ours.to_string(),
        differs.theirs.to_string(),
        format!("{:+.1} %", differs.percent),
        differs.basis.to_owned(),
        differs.why.words().to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_explained_by_what_the_tables_themselves_show() {
        let name = |name: &str| InstanceType::new(name).expect("a type");
        let check = |of: &str, ours: f64, their: i64, twin: Option<(&str, i64)>, expect: Why| {
            let mut theirs = BTreeMap::from([(name(of), UsdPerHour::from_micros(their))]);
            theirs.extend(twin.map(|(of, usd)| (name(of), UsdPerHour::from_micros(usd))));
            let spec = Catalogue::built_in().spec(&name(of));
            assert_eq!(why(spec, ours, their as f64, &theirs), expect, "{of}");
        };
        let large = Some(("c6g.16xlarge", 2_176_000));
        check(
            "c6g.metal",
            2_176_000.0,
            2_306_600,
            large,
            Why::TheirsIsDedicated,
        );
        check("c6g.metal", 2_176_000.0, 2_306_600, None, Why::RoseSince);
        check(
            "vt1.24xlarge",
            5_720_000.0,
            5_200_000,
            None,
            Why::OursIsDedicated,
        );
        check(
            "p5.48xlarge",
            98_320_000.0,
            55_040_000,
            None,
            Why::FellSince,
        );
    }
}
