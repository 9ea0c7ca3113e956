//! Chooses the files of a bill in the listing of a place.
//!
//! AWS Data Exports writes `NAME/data/BILLING_PERIOD=2026-10/` with one or more files, and
//! `NAME/metadata/BILLING_PERIOD=2026-10/NAME-Manifest.json` after all of them. If it does not
//! overwrite, each refresh has a folder of its own in both. Other exports are files in one folder.
//!
//! Source: AWS Data Exports, "Understanding export delivery".

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::text_file::bad_lines::shown;
use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::Value;

use super::sums::DayRange;
use crate::ports::Listed;

/// The endings of data files.
const CSV: [&str; 2] = [".csv", ".csv.gz"];
const PARQUET: &str = ".parquet";

const PERIOD: &str = "billing_period=";
const MANIFEST: &str = "manifest.json";

/// The form of a data file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileForm {
    Csv,
    Parquet,
}

/// A month, such as `2026-10`.
pub(super) type Month = String;

/// Files of one billing period that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PeriodFiles {
    /// `None` for a folder without periods.
    pub(super) month: Option<Month>,
    /// The newest manifest of the period.
    pub(super) manifest: Option<Listed>,
    pub(super) files: Vec<Listed>,
}

impl PeriodFiles {
    /// When the last file was written.
    pub(super) fn delivered_at(&self) -> Option<Timestamp> {
        self.files.iter().map(|file| file.modified_at).max()
    }

    /// Whether a file is newer than the manifest, which is written last. The export is not finished.
    pub(super) fn is_unfinished(&self) -> bool {
        let manifest = self.manifest.as_ref().map(|manifest| manifest.modified_at);
        manifest.is_some_and(|at| self.delivered_at().is_some_and(|delivered| delivered > at))
    }

    /// Keeps the files that the manifest names.
    pub(super) fn select(&mut self, manifest: &[u8]) -> Result<(), PlaceProblem> {
        let key = self.manifest.as_ref().map_or("", |manifest| &manifest.key);
        let unusable = |why: &str| PlaceProblem::Manifest {
            key: key.to_owned(),
            why: why.to_owned(),
        };
        let manifest: Value =
            serde_json::from_slice(manifest).map_err(|error| unusable(&error.to_string()))?;
        let named = data_files(&manifest);
        if named.is_empty() {
            return Err(unusable("it names no data file"));
        }
        let is_named = |file: &Listed| {
            let rest = |path: &&str| path.strip_suffix(file.key.as_str()).map(str::to_owned);
            let mut before = named.iter().filter_map(rest);
            before.any(|before| before.is_empty() || before.ends_with('/'))
        };
        self.files.retain(is_named);
        match self.files.len() == named.len() {
            true => Ok(()),
            false => Err(unusable(&format!(
                "{} of its {} data files are missing",
                named.len().saturating_sub(self.files.len()),
                named.len()
            ))),
        }
    }
}

/// Why a place or a part of it is not the place of one bill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlaceProblem {
    #[error("no file with the ending .csv, .csv.gz or .parquet")]
    Empty,
    #[error("{} exports: {}; name the folder of one of them", .0.len(), .0.join(", "))]
    SeveralExports(Vec<String>),
    #[error(
        "data files in {} folders: {}; name one of them, or store each month in a folder such as \
         BILLING_PERIOD=2026-10", .0.len(), .0.join(", ")
    )]
    SeveralFolders(Vec<String>),
    #[error("the manifest {key} cannot be used: {why}; wait for the next delivery of the export")]
    Manifest { key: String, why: String },
}

/// The form of a file; `None` if it has no data.
pub(super) fn form(key: &str) -> Option<FileForm> {
    let key = key.to_ascii_lowercase();
    if CSV.iter().any(|ending| key.ends_with(ending)) {
        return Some(FileForm::Csv);
    }
    key.ends_with(PARQUET).then_some(FileForm::Parquet)
}

/// The parts of a key: what is before the folder of the period, the period, and what is after it.
fn in_period(key: &str) -> Option<(&str, Month, &str)> {
    let mut begin = 0;
    for part in key.split('/') {
        let end = begin + part.len();
        let is_period = part
            .get(..PERIOD.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(PERIOD));
        if is_period && let Some(after) = key.get(end + 1..) {
            let month = part[PERIOD.len()..].to_owned();
            return Some((key[..begin].trim_end_matches('/'), month, after));
        }
        begin = end + 1;
    }
    None
}

/// When the export wrote a file: the time in the name of its folder, if it keeps each refresh in a
/// folder such as `2026-10-20T08:00:00.000Z-0a1b`. A copy of the file has a later time.
fn written_at(after: &str, modified_at: Timestamp) -> Timestamp {
    let in_name = || {
        let (folder, _) = after.split_once('/')?;
        let end = folder.find('Z')? + 1;
        folder[..end].parse::<Timestamp>().ok()
    };
    in_name().map_or(modified_at, |at| at.min(modified_at))
}

/// The files of each month that has some of these days, or of a folder without months.
pub(super) fn choose(
    listed: Vec<Listed>,
    days: DayRange,
) -> Result<Vec<PeriodFiles>, PlaceProblem> {
    let mut data: BTreeMap<(String, Month), Vec<(Listed, String)>> = BTreeMap::new();
    let mut manifests: BTreeMap<(String, Month), Listed> = BTreeMap::new();
    let mut others = Vec::new();
    for mut file in listed {
        let has_data = form(&file.key).is_some();
        let Some((before, month, after)) = in_period(&file.key) else {
            others.extend(has_data.then_some(file));
            continue;
        };
        let (root, is_metadata) = root(before);
        let of = (root.to_owned(), month);
        file.modified_at = written_at(after, file.modified_at);
        if has_data && !is_metadata {
            let folder = after
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder)
                .to_owned();
            data.entry(of).or_default().push((file, folder));
        } else if after.to_ascii_lowercase().ends_with(MANIFEST) {
            let newest = manifests.entry(of).or_insert_with(|| file.clone());
            if newest.modified_at < file.modified_at {
                *newest = file;
            }
        }
    }
    let roots: BTreeSet<&String> = data.keys().map(|(root, _)| root).collect();
    if roots.len() > 1 {
        return Err(PlaceProblem::SeveralExports(names(roots)));
    }
    if data.is_empty() {
        return without_periods(others);
    }
    let is_wanted = |month: &Month| {
        let first: Option<Date> = format!("{month}-01").parse().ok();
        let last = first.map(Date::last_of_month);
        first
            .zip(last)
            .is_some_and(|(first, last)| first < days.end && days.first <= last)
    };
    let wanted = data.into_iter().filter(|((_, month), _)| is_wanted(month));
    let periods = wanted.map(|(of, files)| {
        let manifest = manifests.remove(&of);
        PeriodFiles {
            month: Some(of.1),
            files: newest_of(files, manifest.is_some()),
            manifest,
        }
    });
    Ok(periods.collect())
}

/// The folder of an export, and whether a folder before a period is that of its metadata.
fn root(before: &str) -> (&str, bool) {
    let (parent, name) = before.rsplit_once('/').unwrap_or(("", before));
    match name {
        "data" => (parent, false),
        "metadata" => (parent, true),
        _ => (before, false),
    }
}

/// The files of a period that a manifest can name. Without a manifest, those of the newest folder.
fn newest_of(files: Vec<(Listed, String)>, has_manifest: bool) -> Vec<Listed> {
    let newest = files.iter().max_by_key(|(file, _)| file.modified_at);
    let newest = newest.map(|(_, folder)| folder.clone()).unwrap_or_default();
    let files = files.into_iter();
    let chosen = files.filter(|(_, folder)| has_manifest || *folder == newest);
    chosen.map(|(file, _)| file).collect()
}

fn without_periods(files: Vec<Listed>) -> Result<Vec<PeriodFiles>, PlaceProblem> {
    let folders = files.iter();
    let folders = folders.map(|file| file.key.rsplit_once('/').map_or("", |(folder, _)| folder));
    let folders: BTreeSet<String> = folders.map(str::to_owned).collect();
    match folders.len() {
        0 => Err(PlaceProblem::Empty),
        1 => Ok(vec![PeriodFiles {
            month: None,
            manifest: None,
            files,
        }]),
        _ => Err(PlaceProblem::SeveralFolders(names(&folders))),
    }
}

/// The first names, for a message.
fn names<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    const NAMED: usize = 5;
    let shown = |name: &String| match name.as_str() {
        "" => "this folder".to_owned(),
        name => shown(name),
    };
    let names = names.into_iter().map(shown);
    names.take(NAMED).collect()
}

/// The paths of data files in a manifest: each text with the ending of one, except in the list of
/// additional files. The documents of AWS name the list but not its key.
fn data_files(manifest: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut open = vec![manifest];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if form(text).is_some() => drop(found.insert(text.as_str())),
            Value::Array(values) => open.extend(values),
            Value::Object(values) => {
                let values = values.iter();
                open.extend(
                    values
                        .filter(|(key, _)| !key.to_ascii_lowercase().starts_with("additional"))
                        .map(|(_, value)| value),
                );
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
