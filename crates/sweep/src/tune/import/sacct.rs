//! Slurm's accounting: `sacct --parsable2 --format=JobID,JobName,State,Elapsed,
//! TotalCPU,MaxRSS,ReqMem,AllocCPUS,Start,End`. A job's line says what it asked for,
//! the lines of its steps (`7.batch`, `7.0`) what they held.
//!
//! Source: "sacct", Slurm's manual.

use std::collections::BTreeMap;

use ebb_domain::step::{Requested, StepEnd};
use ebb_domain::units::{Bytes, CpuTime, MilliCores};

use super::quantity::{bytes, clock, cores, time};
use super::{BadLine, ImportError, Lines, Row, Told, names, rows};

pub(super) fn read(text: &str) -> Result<Lines, ImportError> {
    let names = names(text, '|')?;
    for name in ["JobID", "State", "Elapsed"] {
        if !names.contains(&name) {
            return Err(ImportError::NoField(name, "add it to sacct --format"));
        }
    }
    let mut peaks: BTreeMap<&str, Bytes> = BTreeMap::new();
    let mut lines: Lines = Vec::new();
    for row in rows(text, '|', &names) {
        let Some(id) = row.text("JobID") else {
            lines.push((row.line, Err(row.bad("JobID", "it is missing"))));
            continue;
        };
        match row.get("MaxRSS", bytes) {
            Ok(Some(peak)) => {
                // A job's steps run one after the other, unless it starts them at
                // once itself.
                let job = id.split('.').next().unwrap_or(id);
                let most = peaks.entry(job).or_insert(peak);
                *most = (*most).max(peak);
            }
            Ok(None) => {}
            Err(bad) => {
                lines.push((row.line, Err(bad)));
                continue;
            }
        }
        if !id.contains('.') {
            let told = told(&row, id);
            // One that still runs or waits says nothing yet.
            if let Some(told) = told.transpose() {
                lines.push((row.line, told));
            }
        }
    }
    for (_, told) in &mut lines {
        if let Ok(told) = told {
            told.peak = peaks.get(told.key.as_str()).copied();
        }
    }
    Ok(lines)
}

fn told(row: &Row<'_>, id: &str) -> Result<Option<Told>, BadLine> {
    let state = row.text("State");
    let state = state.ok_or_else(|| row.bad("State", "it is missing"))?;
    let end = match state.split_whitespace().next().unwrap_or(state) {
        "COMPLETED" => StepEnd::Exited(0),
        "OUT_OF_MEMORY" => StepEnd::OutOfMemory,
        "PENDING" | "RUNNING" | "SUSPENDED" | "REQUEUED" | "RESIZING" => return Ok(None),
        _ => StepEnd::Exited(u8::MAX),
    };
    let wall = row.get("Elapsed", clock)?;
    let wall = wall.ok_or_else(|| row.bad("Elapsed", "it is missing"))?;
    let asked = row.get("AllocCPUS", cores)?;
    let cpu = row.get("TotalCPU", clock)?;
    Ok(Some(Told {
        step: row.text("JobName").unwrap_or(id).to_owned(),
        key: id.to_owned(),
        started: row.get("Start", time)?,
        ended: row.get("End", time)?,
        wall,
        end: Some(end),
        cpu: cpu.map(|cpu| CpuTime(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX))),
        requested: Requested {
            cores: asked,
            memory: requested(row, asked)?,
        },
        ..Told::default()
    }))
}

/// `16G`; of earlier releases `4Gc` for each core and `16Gn` for each node.
fn requested(row: &Row<'_>, cores: Option<MilliCores>) -> Result<Option<Bytes>, BadLine> {
    let Some(text) = row.text("ReqMem") else {
        return Ok(None);
    };
    let bad = || {
        row.bad(
            "ReqMem",
            &format!("'{}' cannot be read", super::short(text)),
        )
    };
    let each = bytes(text.trim_end_matches(['c', 'n'])).ok_or_else(bad)?;
    Ok(match text.ends_with('c') {
        false => Some(each),
        true => cores.map(|cores| Bytes(each.0.saturating_mul(cores.0) / 1000)),
    })
}
