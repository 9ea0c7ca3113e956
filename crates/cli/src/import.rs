//! `ebb import`: advice from files of workflow systems, for people without a probe.

use std::path::Path;

use anyhow::{Context, Result, bail};
use ebb_sweep::tune::import::{Imported, Kind};

use crate::args::{ImportArgs, ImportKind};
use crate::output::Outcome;
use crate::tune;

pub(crate) fn run(args: &ImportArgs) -> Result<Outcome> {
    let mut imported = Imported::default();
    for path in &args.files {
        one(&mut imported, path, args.kind)?;
    }
    if imported.skipped > 0 {
        eprintln!(
            "ebb: {} lines were skipped and {} runs read",
            imported.skipped, imported.runs
        );
    }
    if imported.runs == 0 {
        bail!("no run could be read");
    }
    tune::write(&imported.advice(args.input), &args.form)?;
    Ok(Outcome::Done)
}

/// Reads one file; what it skipped is told with the file's name.
fn one(imported: &mut Imported, path: &Path, kind: Option<ImportKind>) -> Result<()> {
    let text = tune::read_text(path)?;
    let kind = match kind {
        Some(ImportKind::Nextflow) => Kind::Nextflow,
        Some(ImportKind::Snakemake) => Kind::Snakemake,
        Some(ImportKind::Sacct) => Kind::Sacct,
        None => Kind::of(&text).with_context(|| {
            format!(
                "{}:1: neither a trace of Nextflow nor a benchmark of Snakemake nor output of \
                 sacct: say which with --kind",
                path.display()
            )
        })?,
    };
    let told = imported.bad.len();
    let name = path.display().to_string();
    imported
        .read(kind, &name, &text)
        .map_err(|error| anyhow::anyhow!("{name}:{error}"))?;
    for bad in &imported.bad[told..] {
        eprintln!("ebb: {name}:{bad}");
    }
    Ok(())
}
