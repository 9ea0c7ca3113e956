//! Strict reader for CSV files of metrics. `ebb scan --metrics` skips invalid rows, which would
//! change a score here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ebb_model::metric_series::{MetricSample, MetricSeries};
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::units::Share;
use flate2::read::GzDecoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A row; an empty or missing field is unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MetricRow {
    /// RFC 3339, or seconds since 1970.
    pub(crate) timestamp: String,
    pub(crate) resource_id: String,
    #[serde(default)]
    pub(crate) cpu_pct: Option<f64>,
    #[serde(default)]
    pub(crate) memory_pct: Option<f64>,
    #[serde(default)]
    pub(crate) net_in_bytes: Option<f64>,
    #[serde(default)]
    pub(crate) net_out_bytes: Option<f64>,
    #[serde(default)]
    pub(crate) disk_read_bytes: Option<f64>,
    #[serde(default)]
    pub(crate) disk_write_bytes: Option<f64>,
    #[serde(default)]
    pub(crate) instance_type: Option<String>,
    #[serde(default)]
    pub(crate) region: Option<String>,
    #[serde(default)]
    pub(crate) simulated: Option<bool>,
}

/// The data of a machine in its file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    pub(crate) samples: BTreeMap<Timestamp, MetricSample>,
    pub(crate) instance_type: Option<InstanceType>,
    pub(crate) region: Option<Region>,
    pub(crate) is_simulated: bool,
}

/// Machines by id.
pub(crate) type Machines = BTreeMap<NodeId, Machine>;

/// Reads all files `*.csv` and `*.csv.gz` of a folder except the labels.
///
/// # Errors
/// Names the file and line that cannot be read.
pub(crate) fn read(folder: &Path) -> Result<Machines> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("failed to read the folder {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut machines = Machines::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let shown = || format!("failed to read or write the file {}", path.display());
        if name == super::labels::FILE {
            continue;
        }
        let file =
            || Ok::<_, anyhow::Error>(BufReader::new(File::open(&path).with_context(shown)?));
        if name.ends_with(".csv") {
            take(file()?, &mut machines).with_context(shown)?;
        } else if name.ends_with(".csv.gz") {
            take(GzDecoder::new(file()?), &mut machines).with_context(shown)?;
        }
    }
    ensure!(!machines.is_empty(), "no metrics in {}", folder.display());
    Ok(machines)
}

fn take(source: impl Read, machines: &mut Machines) -> Result<()> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(source);
    let header = reader.headers()?.clone();
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record)? {
        let line = record.position().map_or(0, csv::Position::line);
        let row: MetricRow = record.deserialize(Some(&header))?;
        row.take_into(machines)
            .with_context(|| format!("line {line}"))?;
    }
    Ok(())
}

impl MetricRow {
    pub(crate) fn take_into(&self, machines: &mut Machines) -> Result<()> {
        let id = NodeId::new(self.resource_id.as_str())?;
        let at = match self.timestamp.parse::<i64>() {
            Ok(seconds) => Timestamp::from_second(seconds)?,
            Err(_) => self.timestamp.parse()?,
        };
        let machine = machines.entry(id).or_default();
        if let Some(kind) = &self.instance_type {
            machine.instance_type = Some(InstanceType::new(kind.as_str())?);
        }
        if let Some(region) = &self.region {
            machine.region = Some(Region::new(region.as_str())?);
        }
        machine.is_simulated |= self.simulated == Some(true);
        let before = machine.samples.insert(at, self.sample()?);
        ensure!(
            before.is_none(),
            "{} has two rows of {at}",
            self.resource_id
        );
        Ok(())
    }

    fn sample(&self) -> Result<MetricSample> {
        let share = |percent: Option<f64>| {
            percent.map_or(Ok(None), |percent| {
                ensure!(
                    (0.0..=100.0).contains(&percent),
                    "{percent} is not a percentage"
                );
                Ok(Some(Share::from_ppm((percent * 10_000.0).round() as u32)))
            })
        };
        let sum = |a: Option<f64>, b: Option<f64>| Some((a? + b?) as u64);
        Ok(MetricSample {
            cpu: share(self.cpu_pct)?,
            memory: share(self.memory_pct)?,
            network_bytes: sum(self.net_in_bytes, self.net_out_bytes),
            disk_bytes: sum(self.disk_read_bytes, self.disk_write_bytes),
        })
    }
}

impl Machine {
    /// Its metrics up to a time.
    pub(crate) fn series_until(&self, at: Timestamp) -> MetricSeries {
        MetricSeries::from_samples(self.samples.range(..=at).map(|(at, sample)| (*at, *sample)))
    }
}
