//! Nextflow's trace: tab separated, amounts for people or, with `trace.raw`, in
//! bytes and milliseconds.
//!
//! Source: "Tracing & visualisation", Nextflow's documentation.

use ebb_domain::step::{Requested, StepEnd};

use super::quantity::{busy, bytes, cores, percent, spoken, time};
use super::{BadLine, ImportError, Lines, Row, Told, names, rows};

/// What ends a process that has too little memory: SIGKILL.
const KILLED: u8 = 137;

pub(super) fn read(text: &str) -> Result<Lines, ImportError> {
    let names = names(text, '\t')?;
    let has = |name: &str| names.contains(&name);
    if !has("process") && !has("name") {
        return Err(ImportError::NoField("name", "add it to trace.fields"));
    }
    if !has("realtime") && !has("duration") {
        return Err(ImportError::NoField("realtime", "add it to trace.fields"));
    }
    let lines = rows(text, '\t', &names).map(|row| (row.line, told(&row)));
    Ok(lines.collect())
}

fn told(row: &Row<'_>) -> Result<Told, BadLine> {
    let name = row.text("process").or_else(|| {
        // `PROCESS (tag)`.
        let name = row.text("name")?;
        Some(name.split_once(" (").map_or(name, |(process, _)| process))
    });
    let name = name.ok_or_else(|| row.bad("name", "it is missing"))?;
    let wall = match row.get("realtime", spoken)? {
        Some(wall) => Some(wall),
        None => row.get("duration", spoken)?,
    };
    let wall = wall.ok_or_else(|| row.bad("realtime", "it is missing"))?;
    let peak = match row.get("peak_rss", bytes)? {
        Some(peak) => Some(peak),
        None => row.get("rss", bytes)?,
    };
    let (read, written) = (
        row.get("read_bytes", bytes)?,
        row.get("write_bytes", bytes)?,
    );
    let id = row.text("hash").or_else(|| row.text("task_id"));
    Ok(Told {
        step: name.to_owned(),
        key: id.map_or_else(|| row.line.to_string(), str::to_owned),
        started: row.get("start", time)?,
        ended: row.get("complete", time)?,
        wall,
        end: Some(end(row)?),
        cpu: row.get("%cpu", percent)?.map(|percent| busy(wall, percent)),
        peak,
        disk: read.zip(written).map(|(a, b)| a.saturating_add(b)),
        // All that it read, from the page cache too; `read_bytes` only what came
        // from a disk.
        input: row.get("rchar", bytes)?.or(read),
        requested: Requested {
            cores: row.get("cpus", cores)?,
            memory: row.get("memory", bytes)?,
        },
    })
}

fn end(row: &Row<'_>) -> Result<StepEnd, BadLine> {
    let status: fn(&str) -> Option<u8> = |text| text.parse::<i64>().ok()?.try_into().ok();
    // Nextflow writes 2147483647 where no status was found.
    let exit = match row.text("exit") {
        Some("2147483647") => None,
        _ => row.get("exit", status)?,
    };
    Ok(match (row.text("status"), exit) {
        (_, Some(KILLED)) => StepEnd::OutOfMemory,
        (Some("COMPLETED" | "CACHED") | None, exit) => StepEnd::Exited(exit.unwrap_or(0)),
        (Some(_), Some(exit)) if exit > 0 => StepEnd::Exited(exit),
        // It failed or was ended with the rest, whatever its own status was.
        (Some(_), _) => StepEnd::Exited(u8::MAX),
    })
}
