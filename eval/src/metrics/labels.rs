//! The true use of a machine, and which findings about it are right.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ebb_model::finding_kind::FindingKind;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The file of labels in a folder.
pub(crate) const FILE: &str = "labels.csv";

/// The use of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Label {
    Dead,
    Forgotten,
    Office,
    Nightly,
    Weekly,
    MonthEnd,
    Always,
    Bursty,
    Hourly,
    Irregular,
    Network,
    Cache,
    Oversized,
    Undersized,
    InUse,
}

/// How a finding of one kind about a machine is scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Right; without the finding it counts as missed.
    Yes,
    /// Neither right nor wrong.
    Either,
    /// Wrong.
    No,
}

impl Label {
    pub(crate) const ALL: [Self; 15] = [
        Self::Dead,
        Self::Forgotten,
        Self::Office,
        Self::Nightly,
        Self::Weekly,
        Self::MonthEnd,
        Self::Always,
        Self::Bursty,
        Self::Hourly,
        Self::Irregular,
        Self::Network,
        Self::Cache,
        Self::Oversized,
        Self::Undersized,
        Self::InUse,
    ];

    /// Its name in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Forgotten => "forgotten",
            Self::Office => "office",
            Self::Nightly => "nightly",
            Self::Weekly => "weekly",
            Self::MonthEnd => "month_end",
            Self::Always => "always",
            Self::Bursty => "bursty",
            Self::Hourly => "hourly",
            Self::Irregular => "irregular",
            Self::Network => "network",
            Self::Cache => "cache",
            Self::Oversized => "oversized",
            Self::Undersized => "undersized",
            Self::InUse => "in_use",
        }
    }

    /// The score of a finding of this kind about it.
    fn wants(self, kind: FindingKind) -> Wanted {
        use ebb_model::finding_kind::FindingKind as Kind;
        let right = match self {
            Self::Dead | Self::Forgotten => Some(Kind::IdleNode),
            Self::Office | Self::Nightly => Some(Kind::OffHoursNode),
            Self::Oversized => Some(Kind::OverprovisionedNode),
            Self::Undersized => Some(Kind::UnderprovisionedNode),
            _ => None,
        };
        if right == Some(kind) {
            return Wanted::Yes;
        }
        let size = [
            Kind::UnderutilizedNode,
            Kind::OverprovisionedNode,
            Kind::UnderprovisionedNode,
        ];
        let is_of_size = size.contains(&kind);
        let may_be = match self {
            Self::Dead | Self::Forgotten | Self::Undersized => false,
            Self::Oversized => kind == Kind::UnderutilizedNode,
            Self::Weekly | Self::InUse => is_of_size || kind == Kind::OffHoursNode,
            Self::Always => is_of_size && kind != Kind::UnderutilizedNode,
            _ => is_of_size,
        };
        match may_be {
            true => Wanted::Either,
            false => Wanted::No,
        }
    }
}

/// A row of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LabelRow {
    pub(crate) resource_id: String,
    pub(crate) label: Label,
    /// When a forgotten machine was used last.
    #[serde(default)]
    pub(crate) from: Option<Timestamp>,
}

impl LabelRow {
    /// The score of a finding of this kind at a time.
    pub(crate) fn wants(&self, kind: FindingKind, at: Timestamp) -> Wanted {
        match self.from.is_some_and(|from| from > at) {
            // The file does not contain the use before that.
            true if kind == FindingKind::IdleNode => Wanted::No,
            true => Wanted::Either,
            false => self.label.wants(kind),
        }
    }
}

/// Reads the labels by machine.
///
/// # Errors
/// Names the invalid line.
pub(crate) fn read(folder: &Path) -> Result<BTreeMap<String, LabelRow>> {
    let path = folder.join(FILE);
    let shown = || format!("failed to read or write the file {}", path.display());
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_path(&path)
        .with_context(shown)?;
    let mut labels = BTreeMap::new();
    for row in reader.deserialize() {
        let row: LabelRow = row.with_context(shown)?;
        let is_forgotten = row.label == Label::Forgotten;
        ensure!(
            is_forgotten == row.from.is_some(),
            "{}: {}: 'from' is allowed only for the label 'forgotten'",
            path.display(),
            row.resource_id
        );
        labels.insert(row.resource_id.clone(), row);
    }
    ensure!(!labels.is_empty(), "no label in {}", path.display());
    Ok(labels)
}
