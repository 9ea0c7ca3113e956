//! Reads the files of a run: the trace, the machine of each task, and the cost of each task in AWS
//! split cost allocation data.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::step::Requested;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::MilliCores;
use ebb_workflows::import::quantity;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;

const TRACE: &str = ".trace.txt";
const MACHINES: &str = ".machines.csv";
const SPLIT_COST: &str = ".split-cost.csv";

/// A task of a run.
#[derive(Debug, Clone)]
pub(super) struct BilledTask {
    pub(super) process: String,
    pub(super) window: Window,
    pub(super) reserved: Requested,
    pub(super) used: Requested,
    pub(super) machine: MachineKey,
    /// The estimate of the engine when the task ended; `None` if unknown.
    pub(super) estimated_usd: Option<f64>,
    pub(super) aws: AwsCost,
}

/// Tasks with the same key may share a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MachineKey {
    pub(super) machine_type: InstanceType,
    pub(super) zone: String,
    pub(super) price_model: String,
}

/// The cost of a task in the data of AWS.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct AwsCost {
    pub(super) used: f64,
    pub(super) unused: f64,
    /// Whether AWS charged nothing for a part of the task.
    pub(super) is_partly_free: bool,
}

/// The tasks of a run, and the number of tasks without one of the needed values.
#[derive(Debug)]
pub(super) struct RunFiles {
    pub(super) name: String,
    pub(super) tasks: Vec<BilledTask>,
    pub(super) left_out: usize,
}

#[derive(Deserialize)]
struct TraceRow {
    hash: String,
    process: String,
    start: String,
    complete: String,
    realtime: String,
    cpus: String,
    memory: String,
    #[serde(rename = "%cpu")]
    cpu_percent: String,
    peak_rss: String,
}

#[derive(Deserialize)]
struct MachineRow {
    hash: String,
    machine_type: InstanceType,
    price_model: String,
    zone: String,
    estimated_cost_usd: Option<f64>,
}

#[derive(Deserialize)]
struct SplitRow {
    task_hash: String,
    split_cost_usd: f64,
    unused_cost_usd: f64,
}

/// All runs of a folder that have the three files.
///
/// # Errors
/// Names the file that cannot be read.
pub(super) fn read_all(folder: &Path) -> Result<Vec<RunFiles>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("failed to read the folder {}", folder.display()))?;
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        files.insert(name.trim_end_matches(".gz").to_owned(), path);
    }
    let mut runs = Vec::new();
    for (file, trace) in &files {
        let Some(name) = file.strip_suffix(TRACE) else {
            continue;
        };
        let of_run = |ending| files.get(&format!("{name}{ending}"));
        if let Some((machines, split)) = of_run(MACHINES).zip(of_run(SPLIT_COST)) {
            let run = read_run(name, trace, machines, split);
            runs.push(run.with_context(|| format!("failed to read the run {name}"))?);
        }
    }
    ensure!(
        !runs.is_empty(),
        "no run in {} has the files NAME{TRACE}, NAME{MACHINES} and NAME{SPLIT_COST}",
        folder.display()
    );
    Ok(runs)
}

fn read_run(name: &str, trace: &Path, machines: &Path, split: &Path) -> Result<RunFiles> {
    let machines: Vec<MachineRow> = rows(machines, b',')?;
    let machines = machines.into_iter().map(|row| (plain(&row.hash), row));
    let machines: BTreeMap<String, MachineRow> = machines.collect();
    let costs = costs(&rows::<SplitRow>(split, b',')?);
    let trace: Vec<TraceRow> = rows(trace, b'\t')?;
    let all = trace.len();
    let tasks = trace.iter().filter_map(|row| {
        let hash = plain(&row.hash);
        // A task in the bill has the whole hash, and the trace has its begin.
        let (_, cost) = costs
            .range(hash.clone()..)
            .next()
            .filter(|(known, _)| known.starts_with(&hash))?;
        task(row, machines.get(&hash)?, *cost)
    });
    let tasks: Vec<BilledTask> = tasks.collect();
    Ok(RunFiles {
        name: name.to_owned(),
        left_out: all - tasks.len(),
        tasks,
    })
}

fn plain(hash: &str) -> String {
    hash.replace('/', "")
}

fn costs(rows: &[SplitRow]) -> BTreeMap<String, AwsCost> {
    let mut costs: BTreeMap<String, AwsCost> = BTreeMap::new();
    for row in rows {
        let cost = costs.entry(row.task_hash.clone()).or_default();
        cost.used += row.split_cost_usd;
        cost.unused += row.unused_cost_usd;
        cost.is_partly_free |= row.split_cost_usd == 0.0;
    }
    costs
}

fn task(row: &TraceRow, machine: &MachineRow, aws: AwsCost) -> Option<BilledTask> {
    let window = Window {
        from: quantity::time(&row.start)?,
        to: quantity::time(&row.complete)?,
    };
    let busy = quantity::percent(&row.cpu_percent).zip(quantity::spoken(&row.realtime));
    let wall = window.length().as_secs_f64();
    let busy = busy.filter(|_| wall > 0.0);
    let busy = busy.map(|(percent, real)| percent * 10.0 * real.as_secs_f64() / wall);
    Some(BilledTask {
        process: row.process.clone(),
        window,
        reserved: Requested {
            cores: quantity::cores(&row.cpus),
            memory: quantity::bytes(&row.memory),
        },
        used: Requested {
            // `as` saturates.
            cores: busy.map(|cores| MilliCores(cores.round() as u64)),
            memory: quantity::bytes(&row.peak_rss),
        },
        machine: MachineKey {
            machine_type: machine.machine_type.clone(),
            zone: machine.zone.clone(),
            price_model: machine.price_model.clone(),
        },
        estimated_usd: machine.estimated_cost_usd,
        aws,
    })
}

fn rows<T: DeserializeOwned>(path: &Path, delimiter: u8) -> Result<Vec<T>> {
    let context = || format!("failed to read the file {}", path.display());
    let file = File::open(path).with_context(context)?;
    let reader: Box<dyn Read> = match path.extension().is_some_and(|ending| ending == "gz") {
        true => Box::new(GzDecoder::new(file)),
        false => Box::new(file),
    };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .from_reader(reader);
    let rows: Result<Vec<T>, csv::Error> = reader.deserialize().collect();
    rows.with_context(context)
}
