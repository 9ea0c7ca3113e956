//! Reads the files of the catalogue. Every error contains the file and line.

use std::collections::BTreeMap;

use jiff::civil::Date;
use thiserror::Error;

use crate::list_price::{ListPrice, PriceBasis, Priced};
use crate::machine_type::{Architecture, Devices, Hypervisor, TypeSpec};
use ebb_telemetry::identity::{IdentityError, InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::units::Bytes;

const TYPES: &str = "types.csv";
const PRICES: &str = "prices.csv";

const TYPE_COLUMNS: [&str; 18] = [
    "type",
    "arch",
    "vcpus",
    "cores",
    "memory_mib",
    "clock_mhz",
    "gpus",
    "gpu_name",
    "gpu_memory_mib",
    "accelerators",
    "accelerator_name",
    "network_baseline_mbps",
    "network_burst_mbps",
    "ebs_baseline_mbps",
    "ebs_burst_mbps",
    "local_disk_gb",
    "processor",
    "traits",
];

/// Why a catalogue was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: not a line of the catalogue")]
pub struct CatalogueError {
    /// The file's name.
    pub file: &'static str,
    /// The line, counted from one.
    pub line: usize,
    /// The problem in that line.
    #[source]
    pub problem: Problem,
}

/// A problem in a line of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The file has no comment that names its source, or no header.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// This version does not support the header.
    #[error("the header is not '{}…'", .0)]
    Header(String),
    /// More or fewer fields than the header has.
    #[error("{found} fields, but the header has {expected}")]
    Fields {
        /// Fields in the header.
        expected: usize,
        /// Fields in this line.
        found: usize,
    },
    /// The value of a field is not valid.
    #[error("{column} '{field}' is not valid")]
    Field {
        /// The column's name.
        column: &'static str,
        /// The text of the field.
        field: String,
    },
    /// The name is not a valid type or region.
    #[error("invalid name")]
    Name(#[from] IdentityError),
    /// The type is a duplicate or sorts before the type above it.
    #[error("'{0}' is out of order")]
    Order(String),
    /// A type has a price but no specs.
    #[error("'{0}' has no specs")]
    NoSpecs(String),
    /// A price is zero or negative.
    #[error("'{0}' has a price that is not above zero")]
    NoPrice(String),
}

/// The types of `types.csv`, sorted by name.
pub(crate) fn types(text: &str) -> Result<Vec<TypeSpec>, CatalogueError> {
    let mut lines = table(TYPES, text)?;
    let (at, header) = lines.header;
    if !header.split(',').eq(TYPE_COLUMNS) {
        return Err(refused(TYPES, at, Problem::Header(TYPE_COLUMNS.join(","))));
    }
    let mut out: Vec<TypeSpec> = Vec::new();
    for (at, line) in lines.rows.by_ref() {
        let spec = type_spec(line).map_err(|p| refused(TYPES, at, p))?;
        if out.last().is_some_and(|above| above.name >= spec.name) {
            return Err(refused(TYPES, at, Problem::Order(spec.name.into())));
        }
        out.push(spec);
    }
    Ok(out)
}

/// The content of `prices.csv`.
pub(crate) struct Prices {
    /// The source of the prices with its date.
    pub(crate) source: String,
    /// The date of the earlier list of some prices; `None` if all are from the newest list.
    pub(crate) earlier: Option<Date>,
    /// Prices by region, sorted by type.
    pub(crate) by_region: BTreeMap<Region, Vec<Priced>>,
}

/// The prices of known types.
pub(crate) fn prices(text: &str, types: &[TypeSpec]) -> Result<Prices, CatalogueError> {
    let lines = table(PRICES, text)?;
    let (at, header) = lines.header;
    let names = header
        .strip_prefix("type,")
        .ok_or_else(|| refused(PRICES, at, Problem::Header("type,".to_owned())))?;
    let mut regions = names
        .split(',')
        .map(|name| Ok((Region::new(name)?, Vec::new())))
        .collect::<Result<Vec<_>, IdentityError>>()
        .map_err(|e| refused(PRICES, at, e.into()))?;
    let mut above = None;
    for (at, line) in lines.rows {
        price_row(line, types, &mut regions, &mut above).map_err(|p| refused(PRICES, at, p))?;
    }
    let earlier = text.lines().find_map(|line| line.strip_prefix("# < = "));
    Ok(Prices {
        source: lines.source.to_owned(),
        earlier: earlier.and_then(day_of),
        by_region: regions.into_iter().collect(),
    })
}

/// The date at the end of a source's description.
pub(crate) fn day_of(source: &str) -> Option<Date> {
    source.rsplit(' ').next()?.parse().ok()
}

struct Table<'a, R> {
    source: &'a str,
    header: (usize, &'a str),
    rows: R,
}

/// Splits a file into its first comment, its header and its rows with their lines.
fn table<'a>(
    file: &'static str,
    text: &'a str,
) -> Result<Table<'a, impl Iterator<Item = (usize, &'a str)>>, CatalogueError> {
    let missing = |what| refused(file, 1, Problem::Missing(what));
    let source = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# "))
        .ok_or_else(|| missing("a first line '# source'"))?;
    let numbered = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    let mut rows = numbered.filter(|(_, line)| !line.starts_with('#'));
    let header = rows.next().ok_or_else(|| missing("a header"))?;
    Ok(Table {
        source,
        header,
        rows,
    })
}

/// The fields of a row, without an allocation.
fn split_fields<const N: usize>(line: &str) -> Result<[&str; N], Problem> {
    let mut fields = [""; N];
    let mut found = 0;
    for field in line.split(',') {
        if let Some(place) = fields.get_mut(found) {
            *place = field;
        }
        found += 1;
    }
    match found == N {
        true => Ok(fields),
        false => Err(Problem::Fields { expected: N, found }),
    }
}

fn type_spec(line: &str) -> Result<TypeSpec, Problem> {
    let [
        name,
        arch,
        vcpus,
        cores,
        memory,
        clock,
        gpus,
        gpu_name,
        gpu_memory,
        accelerators,
        accelerator_name,
        network,
        network_burst,
        ebs,
        ebs_burst,
        disk,
        processor,
        traits,
    ]: [&str; TYPE_COLUMNS.len()] = split_fields(line)?;
    let traits = Traits::read(traits)?;
    Ok(TypeSpec {
        name: InstanceType::new(name)?,
        vcpus: required("vcpus", vcpus)?,
        cores: number("cores", cores)?,
        memory: Bytes::mib(u64::from(required("memory_mib", memory)?)),
        architecture: architecture(arch)?,
        clock_mhz: number("clock_mhz", clock)?,
        gpus: devices(
            number("gpus", gpus)?,
            gpu_name,
            number("gpu_memory_mib", gpu_memory)?,
        ),
        accelerators: devices(
            number("accelerators", accelerators)?,
            accelerator_name,
            None,
        ),
        network_baseline_mbps: number("network_baseline_mbps", network)?,
        network_burst_mbps: number("network_burst_mbps", network_burst)?,
        ebs_baseline_mbps: number("ebs_baseline_mbps", ebs)?,
        ebs_burst_mbps: number("ebs_burst_mbps", ebs_burst)?,
        // Disk sizes are in powers of ten.
        local_disk: number("local_disk_gb", disk)?.map(|gb| Bytes(u64::from(gb) * 1_000_000_000)),
        processor: (!processor.is_empty()).then(|| processor.to_owned()),
        burstable: traits.burstable,
        metal: traits.metal,
        current_generation: traits.current,
        spot: traits.spot,
        hypervisor: traits.hypervisor,
    })
}

#[derive(Default)]
struct Traits {
    burstable: bool,
    current: bool,
    metal: bool,
    spot: bool,
    hypervisor: Option<Hypervisor>,
}

impl Traits {
    fn read(text: &str) -> Result<Self, Problem> {
        let mut traits = Self::default();
        for word in text.split_ascii_whitespace() {
            match word {
                "burstable" => traits.burstable = true,
                "current" => traits.current = true,
                "metal" => traits.metal = true,
                "spot" => traits.spot = true,
                "nitro" => traits.hypervisor = Some(Hypervisor::Nitro),
                "xen" => traits.hypervisor = Some(Hypervisor::Xen),
                _ => return Err(unreadable("traits", text)),
            }
        }
        Ok(traits)
    }
}

fn architecture(text: &str) -> Result<Architecture, Problem> {
    match text {
        "x86_64" => Ok(Architecture::X86_64),
        "arm64" => Ok(Architecture::Arm64),
        _ => Err(unreadable("arch", text)),
    }
}

fn devices(count: Option<u32>, name: &str, memory_mib: Option<u32>) -> Option<Devices> {
    Some(Devices {
        count: count?,
        name: name.to_owned(),
        memory: memory_mib.map(|mib| Bytes::mib(u64::from(mib))),
    })
}

fn number(column: &'static str, text: &str) -> Result<Option<u32>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.parse().map_err(|_| unreadable(column, text))?;
    Ok(Some(parsed))
}

fn required(column: &'static str, text: &str) -> Result<u32, Problem> {
    number(column, text)?.ok_or_else(|| unreadable(column, text))
}

fn price_row(
    line: &str,
    types: &[TypeSpec],
    regions: &mut [(Region, Vec<Priced>)],
    above: &mut Option<usize>,
) -> Result<(), Problem> {
    let mut fields = line.split(',');
    let name = fields.next().unwrap_or_default();
    let type_index = types
        .binary_search_by(|t| t.name.as_str().cmp(name))
        .map_err(|_| Problem::NoSpecs(name.to_owned()))?;
    if above.is_some_and(|a| a >= type_index) {
        return Err(Problem::Order(name.to_owned()));
    }
    *above = Some(type_index);
    let found = fields.clone().count();
    if found != regions.len() {
        return Err(Problem::Fields {
            expected: regions.len() + 1,
            found: found + 1,
        });
    }
    for ((_, priced), field) in regions.iter_mut().zip(fields) {
        if field.is_empty() {
            continue;
        }
        let price = list_price(field)?;
        if price.usd_per_hour <= UsdPerHour(Usd::ZERO) {
            return Err(Problem::NoPrice(name.to_owned()));
        }
        priced.push(Priced { type_index, price });
    }
    Ok(())
}

fn list_price(field: &str) -> Result<ListPrice, Problem> {
    let (text, basis) = if let Some(text) = field.strip_suffix('~') {
        (text, PriceBasis::FromFamily)
    } else if let Some(text) = field.strip_suffix('<') {
        (text, PriceBasis::Earlier)
    } else if let Some(text) = field.strip_suffix('?') {
        (text, PriceBasis::Unchecked)
    } else {
        (field, PriceBasis::Listed)
    };
    let usd = Usd::parse(text).ok_or_else(|| unreadable("price", field))?;
    Ok(ListPrice {
        usd_per_hour: UsdPerHour(usd),
        basis,
    })
}

fn unreadable(column: &'static str, field: &str) -> Problem {
    Problem::Field {
        column,
        field: field.escape_default().to_string(),
    }
}

fn refused(file: &'static str, line: usize, problem: Problem) -> CatalogueError {
    CatalogueError {
        file,
        line,
        problem,
    }
}
