//! Snakemake's benchmark files: tab separated, one line a run, with the rule's name
//! only where `--benchmark-extended` was given.
//!
//! Source: "Benchmark rules", Snakemake's documentation.

use std::time::Duration;

use ebb_domain::step::{Requested, StepEnd};
use ebb_domain::units::{Bytes, CpuTime};
use serde_json::Value;

use super::quantity::{busy, cores, mebibytes, percent, plain_seconds};
use super::{BadLine, ImportError, Lines, Row, Told, names, rows};

pub(super) fn read(text: &str, file: &str) -> Result<Lines, ImportError> {
    let names = names(text, '\t')?;
    if !names.contains(&"s") {
        return Err(ImportError::NoField("s", "is it a file of benchmark:?"));
    }
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let lines = rows(text, '\t', &names).map(|row| (row.line, told(&row, stem)));
    Ok(lines.collect())
}

fn told(row: &Row<'_>, stem: &str) -> Result<Told, BadLine> {
    let wall = row.get("s", plain_seconds)?;
    let wall = wall.ok_or_else(|| row.bad("s", "it is missing"))?;
    // In per cent of a core, as psutil tells it.
    let load = row.get("mean_load", percent)?;
    let cpu = row.get("cpu_time", plain_seconds)?.map(nanos);
    let (read, written) = (row.get("io_in", mebibytes)?, row.get("io_out", mebibytes)?);
    Ok(Told {
        step: row.text("rule_name").unwrap_or(stem).to_owned(),
        key: row.line.to_string(),
        wall,
        // A benchmark is written only when the job ended well.
        end: Some(StepEnd::Exited(0)),
        cpu: cpu.or_else(|| load.map(|load| busy(wall, load))),
        peak: row.get("max_rss", mebibytes)?,
        disk: read.zip(written).map(|(a, b)| a.saturating_add(b)),
        input: row.get("input_size_mb", input)?,
        requested: Requested {
            cores: row.get("threads", cores)?,
            memory: row.get("resources", memory)?.flatten(),
        },
        ..Told::default()
    })
}

fn nanos(time: Duration) -> CpuTime {
    CpuTime(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// `{"file": 12.5, …}` in mebibytes, or a number of them.
fn input(text: &str) -> Option<Bytes> {
    if let Some(bytes) = mebibytes(text) {
        return Some(bytes);
    }
    let sizes: Value = serde_json::from_str(text).ok()?;
    let sizes = sizes.as_object()?.values().map(Value::as_f64);
    let mib: f64 = sizes.sum::<Option<f64>>()?;
    mebibytes(&mib.to_string())
}

/// `mem_mib`, or `mem_mb` in millions of bytes, of the resources as JSON; the inner
/// `None` where there is neither.
fn memory(text: &str) -> Option<Option<Bytes>> {
    let resources: Value = serde_json::from_str(text).ok()?;
    let of = |name: &str, by: u64| Some(Bytes(resources.get(name)?.as_u64()?.checked_mul(by)?));
    resources.as_object()?;
    Some(of("mem_mib", 1 << 20).or_else(|| of("mem_mb", 1_000_000)))
}
