//! Reads gzipped CSV files of a folder, with the file and line of each row.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

const ENDING: &str = ".csv.gz";

/// A file's name without its extension, and its rows.
pub(crate) type Named<T> = (String, Vec<T>);

/// All files of a folder by name.
///
/// # Errors
/// Names the file and line that cannot be read.
pub(crate) fn folder<T: DeserializeOwned>(folder: &Path) -> Result<Vec<Named<T>>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("failed to read the folder {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if let Some(name) = name.strip_suffix(ENDING) {
            files.push((name.to_owned(), rows(&path)?));
        }
    }
    ensure!(
        !files.is_empty(),
        "no file *{ENDING} in {}",
        folder.display()
    );
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}

fn rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let file = File::open(path)
        .with_context(|| format!("failed to read or write the file {}", path.display()))?;
    let mut reader = csv::Reader::from_reader(GzDecoder::new(BufReader::new(file)));
    let rows: Result<Vec<T>, csv::Error> = reader.deserialize().collect();
    rows.with_context(|| format!("failed to read or write the file {}", path.display()))
}
